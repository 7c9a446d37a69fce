"""Cutting into pieces, beside an oracle that tries every way to write a word."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.embedders.unigram import SPACE, Unigram

PIECES = [
    "<s>",
    "<unk>",
    SPACE,
    "a",
    "b",
    "ab",
    "ba",
    SPACE + "a",
    SPACE + "ab",
    "aba",
    SPACE + "b",
    "비",
    "가",
]
SCORES = [0.0, 0.0, -4.0, -3.1, -3.3, -4.2, -5.9, -2.7, -6.6, -6.1, -7.3, -5.0, -5.2]
UNKNOWN = 1
MODEL = Unigram(
    PIECES,
    SCORES,
    unknown=UNKNOWN,
    controls=frozenset((0, 1)),
    rewritten={ord("\t"): " ", ord("Ａ"): "a", 7: ""},
)


def likeliest(word: str) -> float:
    """The best sum of scores over all ways to cut the word; a single character may be unknown."""
    scores = dict(zip(PIECES[2:], SCORES[2:], strict=True))
    best = -float("inf")
    for cuts in range(len(word)):
        for at in combinations(range(1, len(word)), cuts):
            parts = [word[i:j] for i, j in zip((0, *at), (*at, len(word)), strict=True)]
            if all(part in scores or len(part) == 1 for part in parts):
                best = max(best, sum(scores.get(part, min(SCORES) - 10) for part in parts))
    return best


@given(st.text("abx비", max_size=7))
def test_the_pieces_are_the_likeliest_way_to_write_the_word(word: str) -> None:
    ids = MODEL.encode(word, 50)
    found = sum(min(SCORES) - 10 if i == UNKNOWN else SCORES[i] for i in ids)
    assert found == pytest.approx(likeliest(SPACE + word) if word else 0)


@given(st.text("abx 비\t", max_size=12), st.integers(1, 6))
def test_a_limit_cuts_the_end_off_and_changes_nothing_before_it(text: str, most: int) -> None:
    assert MODEL.encode(text, most) == MODEL.encode(text, 100)[:most]


def test_words_are_cut_where_spaces_are() -> None:
    assert MODEL.encode("a b", 9) == MODEL.encode("a", 9) + MODEL.encode("b", 9)


def test_spaces_at_the_ends_and_beside_each_other_do_not_count() -> None:
    assert MODEL.encode("  ab \t  ba ", 9) == MODEL.encode("ab ba", 9)


def test_characters_are_rewritten_before_anything_else() -> None:
    assert MODEL.encode("Ａ\x07b", 9) == MODEL.encode("ab", 9)


def test_nothing_is_cut_into_nothing() -> None:
    assert MODEL.encode("", 9) == MODEL.encode(" \t\x07", 9) == []


def test_a_control_piece_in_a_text_is_only_its_characters() -> None:
    assert 0 not in MODEL.encode("<s>", 9)


def test_an_unknown_character_is_one_piece() -> None:
    assert MODEL.encode("xx", 9)[-2:] == [UNKNOWN, UNKNOWN]
