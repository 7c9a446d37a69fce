"""The random stream is the published generator, a pure function, and looks random along every axis.

Statistical tests have fixed seeds. Each p-value is compared with ALARM: all of them together
alarm for a sound generator with probability below 5e-4.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll import _core

ALARM = 1e-5
WORD = st.integers(0, 2**64 - 1)


def bits(seed: int, key: int, counter: int, n: int) -> np.ndarray:
    return np.asarray(_core.stream_bits(seed, key, counter, n))


def philox(seed: int, key: int, block: int) -> list[int]:
    """Philox4x32-10 as its paper writes it down."""
    mask = 2**32 - 1
    x = [key & mask, key >> 32, block & mask, block >> 32]
    k = [seed & mask, seed >> 32]
    for _ in range(10):
        product0, product1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(product1 >> 32) ^ x[1] ^ k[0], product1 & mask, (product0 >> 32) ^ x[3] ^ k[1], product0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return x


def p_of_normal(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def p_of_chi_square(counts: np.ndarray) -> float:
    """By Wilson and Hilferty's cube root, good to a few percent of p at 255 degrees and more."""
    degrees = counts.size - 1
    expected = counts.sum() / counts.size
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    spread = 2 / (9 * degrees)
    return p_of_normal(((chi_square / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


# (counter, key, output) from kat_vectors of the authors' Random123, as 64-bit numbers, low word first.
KNOWN = [
    (0x0, 0x0, 0x0, [0xE169C58D6627E8D5, 0x9B00DBD8BC57AC4C]),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, [0x41C83B0E408F276D, 0x6D5451FDA20BC7C6]),
    (0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E, [0x94FDCCEBD16CFE09, 0x24126EA15001E420]),
]


@pytest.mark.parametrize(("seed", "key", "block", "expected"), KNOWN)
def test_the_generator_gives_the_published_known_answers(
    seed: int, key: int, block: int, expected: list[int]
) -> None:
    words = philox(seed, key, block)
    assert [words[0] | words[1] << 32, words[2] | words[3] << 32] == expected
    if block < 2**63:  # the counter counts half blocks: the upper half is out of its reach
        assert bits(seed, key, 2 * block, 2).tolist() == expected


@given(seed=WORD, key=WORD, counter=WORD, n=st.integers(0, 9))
def test_numbers_are_the_papers_for_every_seed_key_and_counter(
    seed: int, key: int, counter: int, n: int
) -> None:
    numbers = bits(seed, key, counter, n).tolist()
    for i, number in enumerate(numbers):
        at = (counter + i) % 2**64
        words = philox(seed, key, at // 2)
        half = words[2:] if at % 2 else words[:2]
        assert number == half[0] | half[1] << 32


@given(seed=WORD, key=WORD, counter=st.integers(0, 2**63), skipped=st.integers(0, 50))
def test_a_number_does_not_depend_on_where_reading_began(
    seed: int, key: int, counter: int, skipped: int
) -> None:
    assert (
        bits(seed, key, counter, 60)[skipped:].tolist()
        == bits(seed, key, counter + skipped, 60 - skipped).tolist()
    )


def along(axis: str, n: int) -> np.ndarray:
    """One number from each of n neighbours in seed, key or counter, the other two fixed."""
    if axis == "counter":
        return bits(11, 5, 0, n)
    if axis == "key":
        return np.concatenate([bits(11, key, 3, 1) for key in range(n)])
    return np.concatenate([bits(seed, 5, 3, 1) for seed in range(n)])


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["counter", "key", "seed"])
@pytest.mark.parametrize("shift", [0, 24, 56])
def test_bytes_are_equally_frequent_along_every_axis(axis: str, shift: int) -> None:
    values = (along(axis, 100_000) >> np.uint64(shift)).astype(np.uint8)
    assert p_of_chi_square(np.bincount(values, minlength=256)) > ALARM


@pytest.mark.parametrize("axis", ["counter", "key", "seed"])
def test_neighbours_are_uncorrelated_along_every_axis(axis: str) -> None:
    uniform = (along(axis, 100_000) >> np.uint64(12)) * 2.0**-52 - 0.5
    for lag in (1, 2, 8):
        pairs = uniform[:-lag] * uniform[lag:] * 12  # variance 1 / n under independence
        assert p_of_normal(float(pairs.mean()) * math.sqrt(pairs.size)) > ALARM


@pytest.mark.parametrize("axis", ["counter", "key", "seed"])
def test_half_of_the_bits_differ_between_neighbours(axis: str) -> None:
    numbers = along(axis, 20_000)
    differing = np.unpackbits((numbers[:-1] ^ numbers[1:]).view(np.uint8)).reshape(-1, 64)
    n = differing.shape[0]
    z = (differing.sum(axis=0) - n / 2) / math.sqrt(n / 4)  # for each of 64 bit positions
    assert p_of_normal(float(np.abs(z).max())) > ALARM / 64
