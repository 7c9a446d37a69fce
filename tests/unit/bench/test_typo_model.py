"""Typos that are made on purpose."""

from __future__ import annotations

from bench.quality.typo_model import KINDS, mistyped
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row


@given(st.text(max_size=60), st.integers(0, 9), st.sampled_from(KINDS))
def test_a_message_without_long_words_stays(text, seed, kind):
    short = " ".join(word[:3] for word in text.split() if word.isascii())
    assert mistyped(short, seed, kinds=[kind]) == short


@given(st.lists(st.text("abcdefgh", min_size=4, max_size=9), min_size=2, max_size=6), st.integers(0, 9))
def test_two_words_get_one_wrong_letter_each(words, seed):
    typos = mistyped(" ".join(words), seed).split(" ")
    wrong = [sum(a != b for a, b in zip(x, y, strict=True)) for x, y in zip(words, typos, strict=True)]
    assert sorted(wrong) == [0] * (len(words) - 2) + [1, 1]


@each_row(("kind", "longer"), [("wrong", 0), ("missing", -1), ("added", 1), ("swapped", 0)])
def test_each_kind_changes_one_word_by_its_length(kind, longer):
    typo = mistyped("weather", 1, words=1, kinds=[kind])
    assert typo != "weather"
    assert len(typo) == len("weather") + longer
    assert kind != "swapped" or sorted(typo) == sorted("weather")


def test_a_typo_is_a_function_of_message_and_seed():
    message = "what is the weather forecast for tomorrow"
    assert mistyped(message, 1) == mistyped(message, 1)
    assert len({mistyped(message, seed) for seed in range(20)}) > 10
