"""The unigram cutter, compared with trying every way to cut a word."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.core.caseless import caseless
from toolroll import _core

BEGINNING = "\u2581"
PIECES = {
    "▁": -3.0, "▁a": -4.0, "a": -5.0, "b": -5.0, "ab": -6.5, "▁ab": -6.5, "ba": -6.0, "abab": -11.0, "c": -7.0,
    "▁é": -6.0, "ss": -6.0, "s": -4.0, "▁показать": -9.0, "▁по": -5.0, "казать": -7.0, "显示": -6.0, "显": -8.0,
    "示": -8.0, "我": -4.0, "的": -4.0, "我的": -7.0, "カ": -5.0, "ガ": -5.0, "▁가": -5.0, "나": -5.0,
    "▁가나": -8.0,
}  # fmt: skip
IDS = {piece: at for at, piece in enumerate(PIECES)}
UNIGRAM = _core.Unigram([*PIECES], np.array([*PIECES.values()], np.float32))
UNKNOWN = min(PIECES.values()) - 10
MOST_BYTES, LONGEST_RUN = 16384, 128


def cut(text: str) -> list[str]:
    return [[*PIECES][at] for at in UNIGRAM.encode(text)]


def is_unspaced(character: str) -> bool:
    return unicodedata.name(character, "").startswith(("CJK UNIFIED", "HIRAGANA", "KATAKANA"))


def words(text: str) -> list[str]:
    """Runs of letters, each with the mark of a beginning if its script has spaces."""
    folded = caseless(text)
    runs: list[str] = []
    kind = ""
    for character in folded:
        is_letter = character.isalpha() or unicodedata.category(character).startswith("M")
        own = "" if not is_letter else "unspaced" if is_unspaced(character) else "spaced"
        if own and own == kind and len(runs[-1]) < LONGEST_RUN:
            runs[-1] += character
        elif own:
            starts = own != kind
            runs.append((BEGINNING if own == "spaced" and starts else "") + character)
        kind = own
    return runs


def oracle(word: str) -> list[int]:
    """The best of all ways, by score, then by the length of the last piece, of the last but one, …"""

    @cache
    def best(end: int) -> tuple[float, tuple[int, ...], tuple[str, ...]]:
        if end == 0:
            return 0.0, (), ()
        ways = []
        for size in range(1, end + 1):
            piece = word[end - size : end]
            if piece in PIECES or size == 1:
                score, sizes, before = best(end - size)
                ways.append((score + PIECES.get(piece, UNKNOWN), (size, *sizes), (*before, piece)))
        return max(ways, key=lambda way: way[:2])

    return [IDS[piece] for piece in best(len(word))[2] if piece in IDS]


LETTERS = [*"aAbBcsSßéÉ ,.-_1", "e\u0301", "показать", *"казать", "显示", *"显示我的不カ", "가", "나", "가나"]


@given(st.lists(st.sampled_from(LETTERS), max_size=40).map("".join))
def test_a_text_has_the_pieces_of_its_best_cuts(text: str) -> None:
    assert UNIGRAM.encode(text).tolist() == [piece for word in words(text) for piece in oracle(word)]


@given(st.text(max_size=200), st.integers(1, 5))
def test_any_text_is_cut_and_a_limit_gives_the_first_pieces(text: str, limit: int) -> None:
    every = UNIGRAM.encode(text)
    assert ((every >= 0) & (every < UNIGRAM.size)).all()
    assert UNIGRAM.encode(text, limit).tolist() == every[:limit].tolist()


@each_row(
    ("text", "pieces"),
    [
        ("显示我的", ["显示", "我的"]),
        ("Показать", ["▁показать"]),
        ("показать显示показать", ["▁показать", "显示", "▁показать"]),
        ("ａｂ", ["▁ab"]),  # full width
        ("ｶﾞ", ["ガ"]),  # half width, with its mark
        ("ガ", ["ガ"]),  # decomposed
        ("É", ["▁é"]),
        ("ß", ["▁", "ss"]),
        ("a1b_c", ["▁a", "▁", "b", "▁", "c"]),
        ("显\ud800示", ["显", "示"]),
        ("😀 \u0e01 ∑ 42", []),
    ],
)
def test_width_case_and_composition_do_not_matter_and_other_characters_part_words(
    text: str, pieces: list[str]
) -> None:
    assert cut(text) == [piece for piece in pieces if piece in IDS]


def test_a_hostile_text_is_read_in_part_and_at_once() -> None:
    for unit in ("a", "显", "показать", "e\u0301", "ａ", "\u0301", "ab "):
        some = UNIGRAM.encode(unit * 1_000_000)
        assert len(some) <= MOST_BYTES
        assert UNIGRAM.encode(unit * 1_000_000, 7).tolist() == some[:7].tolist()


def test_only_the_first_bytes_are_read_and_no_character_is_cut() -> None:
    assert len(UNIGRAM.encode("示" * 6000)) == MOST_BYTES // 3
    assert UNIGRAM.encode(" " * MOST_BYTES + "显示").tolist() == []


@each_row(
    ("pieces", "scores", "message"),
    [
        (["a", "a"], [0, 0], "piece 1, 'a', is empty or occurs twice"),
        (["a", ""], [0, 0], "piece 1, '', is empty or occurs twice"),
        (["a"], [0, 0], "scores: has 2 numbers, must have 1"),
        (["a"], [np.nan], "not finite"),
    ],
)
def test_wrong_vocabularies_are_refused(pieces: list[str], scores: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core.Unigram(pieces, np.array(scores, np.float32))


def test_a_cutter_without_pieces_finds_none() -> None:
    assert _core.Unigram([], np.zeros(0, np.float32)).encode("показать").tolist() == []
