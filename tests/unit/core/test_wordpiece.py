"""BERT's uncased WordPiece, compared with its definition in Python."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import _core

LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789", "漢", "字", "é", "ᄀ", "ᅡ", "가", "ß", "σ", "я", "и"]
PIECES = ["[PAD]", "[UNK]", "[SEP]", *LETTERS, *".,!?'-_[]", "un", "want", "wanted", "weather", "forecast"]
VOCABULARY = [*PIECES, *(f"##{p}" for p in [*LETTERS[:20], "able", "ed", "ing", "ᅡ", "и"])]
IDS = {piece: i for i, piece in enumerate(VOCABULARY)}
WORDPIECE = _core.WordPiece(VOCABULARY)


def normalised(text: str) -> str:
    """Clean, space out ideographs, take accents off, lower."""
    out = []
    for c in text:
        if c in "\t\n\r" or unicodedata.category(c) in ("Zs", "Zl", "Zp"):
            out.append(" ")
        elif c != "�" and unicodedata.category(c)[0] != "C":
            out.append(f" {c} " if 0x4E00 <= ord(c) <= 0x9FFF else c)
    bare = (c for c in unicodedata.normalize("NFD", "".join(out)) if unicodedata.category(c) != "Mn")
    return "".join(c.lower() for c in bare)


def is_punctuation(c: str) -> bool:
    return unicodedata.category(c)[0] == "P" or (c.isascii() and not c.isalnum() and not c.isspace())


def oracle(text: str) -> list[int]:
    spaced = "".join(f" {c} " if is_punctuation(c) else c for c in normalised(text))
    ids = []
    for word in spaced.split(" "):
        found, begin = [], 0
        while begin < len(word):
            ends = range(len(word), begin, -1)
            start = "##" if begin else ""
            end = next((e for e in ends if start + word[begin:e] in IDS), None)
            if end is None or len(word) > 100:
                found = [IDS["[UNK]"]]
                break
            found.append(IDS[start + word[begin:end]])
            begin = end
        ids += found
    return ids


# Characters that Unicode gave out before 2015: oracle and tokeniser may follow different versions of it.
ASSORTED = [
    *"abcunwant eding.,!?'-_[]#ABC\t\n\r\x00\x1f\x7f",
    *"漢字éÉßẞσςΣяйЙİıﬁ가각힣ああが。、«»¿…—\u00a0\u2028\u200b\u0301\ufffd😀𝒜豈",
]


@given(st.text(alphabet=ASSORTED, max_size=60))
def test_pieces_are_those_of_the_definition(text: str) -> None:
    assert WORDPIECE.encode(text).tolist() == oracle(text)


@each_row(
    ("text", "pieces"),
    [
        ("unplanted", ["un", "##p", "##l", "##a", "##n", "##t", "##ed"]),
        ("Weather-forecast!", ["weather", "-", "forecast", "!"]),
        ("WÉATHER weáther", ["weather", "weather"]),
        ("漢字a漢", ["漢", "字", "a", "漢"]),
        ("가", ["ᄀ", "##ᅡ"]),  # decomposed, as all Hangul is
        ("й", ["и"]),
        ("we\u200bather wea\x00ther", ["weather", "weather"]),
        ("[SEP]", ["[", "s", "##e", "##p", "]"]),  # text cannot bring a special token in
        ("zebra☃ a", ["[UNK]", "a"]),
        ("", []),
    ],
)
def test_examples(text: str, pieces: list[str]) -> None:
    assert [VOCABULARY[i] for i in WORDPIECE.encode(text)] == pieces


def test_a_word_of_more_than_a_hundred_characters_is_unknown() -> None:
    assert WORDPIECE.encode("a" * 100).tolist() == [IDS["a"], *[IDS["##a"]] * 99]
    assert WORDPIECE.encode("a" * 101).tolist() == [IDS["[UNK]"]]
    assert WORDPIECE.encode("漢" * 101).tolist() == [IDS["漢"]] * 101
    assert WORDPIECE.encode("é" * 100).size == 100  # counted without the accents


@given(st.text(), st.integers(1, 8))
def test_a_limit_keeps_the_first_tokens(text: str, limit: int) -> None:
    assert WORDPIECE.encode(text, limit).tolist() == WORDPIECE.encode(text).tolist()[:limit]


def test_ids_are_int32_and_a_megabyte_is_fine() -> None:
    ids = WORDPIECE.encode("weather " * 131_072)
    assert ids.dtype == np.int32
    assert ids.tolist() == [IDS["weather"]] * 131_072


def test_the_bytes_of_a_vocabulary_give_the_pieces_of_its_lines() -> None:
    read = _core.WordPiece("\n".join([*VOCABULARY, ""]).encode())
    assert read.size == WORDPIECE.size
    for text in ("unbelievable weather", "zigbee 天気 é", "".join(VOCABULARY[-40:])):
        assert read.encode(text).tolist() == WORDPIECE.encode(text).tolist()


def test_a_vocabulary_without_unk_or_with_a_piece_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no \[UNK\]"):
        _core.WordPiece(["a", "b"])
    with pytest.raises(ValueError, match="piece 2, 'a', occurs twice"):
        _core.WordPiece(["[UNK]", "a", "a"])
    assert _core.WordPiece(["[UNK]", "a", "##a"]).size == 3
