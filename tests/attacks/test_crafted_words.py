"""Crafted words: a list of tools whose words were chosen so that they meet in one part of a hash table.

While the hash began with its published number, a list with 48,000 such words (430 kB, found in a tenth of a second)
took 36 times the processor time of one with others, and the ratio grew with the number of words.
"""

from __future__ import annotations

import time

import numpy as np

from tests.attacks import bounded
from toolroll import Tool, Toolroll

WORDS = bounded(48_000, 200_000)
SHARE = 16  # of the table, in which the crafted words are
LETTERS = np.frombuffer(b"bcdfghjklmnpqrtv", np.uint8)  # nothing to stem


def words(count: int) -> np.ndarray:
    """Distinct words: bytes, eight a row."""
    numbers = np.arange(count, dtype=np.uint64)
    return np.stack([LETTERS[(numbers >> np.uint64(4 * i)) & np.uint64(15)] for i in range(8)], axis=1)


def slots(letters: np.ndarray) -> np.ndarray:
    """FNV-1a as it is published, mixed as in string_table.hpp."""
    state = np.full(len(letters), 0xCBF29CE484222325, np.uint64)
    for i in range(letters.shape[1]):
        state = (state ^ letters[:, i]) * np.uint64(0x100000001B3)
    return (state ^ (state >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


def crafted(count: int) -> list[str]:
    found = words(SHARE * count * 9 // 8)
    mask = np.uint64((1 << (2 * count).bit_length()) - 1)
    near = (slots(found) & mask) < mask // np.uint64(SHARE)
    return [bytes(word).decode() for word in found[near][:count]]


def others(count: int) -> list[str]:
    chosen = words(SHARE * count * 9 // 8)[::SHARE]
    return [bytes(word).decode() for word in chosen[:count]]


def cpu_s(vocabulary: list[str]) -> float:
    """Processor time for a Toolroll over tools with these words."""
    tools = [Tool(f"t{i}", " ".join(vocabulary[i : i + 100])) for i in range(0, len(vocabulary), 100)]
    began = time.process_time()
    with Toolroll.from_tools(tools):
        return time.process_time() - began


def test_nobody_can_choose_words_that_are_expensive_to_look_up():
    bad, good = crafted(WORDS), others(WORDS)
    assert len(set(bad)) == len(set(good)) == WORDS
    ratio = min(cpu_s(bad) for _ in range(2)) / min(cpu_s(good) for _ in range(2))
    assert ratio < 3
