from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.core.caseless import caseless
from toolroll import _core

# The tables are of Unicode 15.1; what this interpreter's older one does not assign has no oracle.
CHARACTERS = [
    chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"
]
TRICKY = "aAbBＡａ１＿iIıİßſŉǰΐᾳᾴςσΣéÉe\u0301\u0323\u0307\u0345\u0344\u3099かハ가각\u1100\u1161\u11a8ﬁﬃŁК\u0306Å\u212b\U0001d160日 .\U0001f600\ufe0f\u200d\u0958\ufb2c\U00011099\U000110ba"
texts = st.text(st.sampled_from(TRICKY), max_size=12) | st.text(st.sampled_from(CHARACTERS), max_size=12)


def replaced(text: str) -> str:
    return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)


def test_every_code_point_folds_as_unicode_says() -> None:
    assert [c for c in CHARACTERS if _core.fold(c) != caseless(c)] == []


@given(texts)
def test_every_text_folds_as_unicode_says(text: str) -> None:
    assert _core.fold(text) == caseless(text)


@given(texts)
def test_case_and_composition_make_no_difference(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert _core.fold(unicodedata.normalize(form, text)) == _core.fold(text)
        assert _core.fold(_core.fold(text)) == _core.fold(text)


def test_folding_is_full() -> None:
    assert _core.fold("Straße ﬁx İ ΣΑΣ") == "strasse fix i̇ σασ"


def test_conjoining_jamo_become_the_syllables_that_keyboards_write() -> None:
    assert _core.fold(unicodedata.normalize("NFD", "날씨 값")) == "날씨 값"


@each_row("length", range(20))
def test_ascii_folds_in_words_of_eight_wherever_they_end(length: int) -> None:
    for last in ("", "é", "É", "\u0301", "가", "\ufffd", "\U0001f600"):
        for behind in ("", "Z", "ZZZZZZZZ["):
            text = ("@AZ[`az{" * 3)[:length] + last + behind
            assert _core.fold(text) == caseless(text)


@given(st.binary(max_size=24) | st.lists(st.sampled_from([bytes([b]) for b in b"\x00\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xff"])).map(b"".join))  # fmt: skip
def test_invalid_utf8_decodes_as_python_replaces_it(data: bytes) -> None:
    assert _core.decode(data) == data.decode("utf-8", "replace")


@given(st.text(st.characters() | st.sampled_from("\ud800\udfffA")))
def test_a_lone_surrogate_is_a_replacement_character(text: str) -> None:
    assert _core.fold(text) == _core.fold(replaced(text))


@given(texts, st.data())
def test_offsets_of_matches_lead_back_to_the_characters_they_come_from(
    text: str, data: st.DataObject
) -> None:
    folded = _core.fold(text)
    begin = data.draw(st.integers(0, len(folded)))
    end = data.draw(st.integers(begin, min(len(folded), begin + 3)))
    found = folded[begin:end]
    if found and _core.fold(found) == found:
        matches = _core.Automaton([found], ["substring"]).matches(text)
        assert len(matches) > 0
        for _, start, stop in matches:
            assert found in caseless(text[start:stop])


def test_a_long_run_of_marks_folds_in_good_time() -> None:
    n = 200_000  # unicodedata takes quadratic time for this
    assert _core.fold("A" + "\u0301\u0323" * n) == "\u1ea1" + "\u0323" * (n - 1) + "\u0301" * n


LATIN, FOREIGN, NO_LETTERS = "aZéßŁẞǼ", "жщ가日かไعאλἀ", " 1.!_\u0301\ufe0f\U0001f600\ud800"


@given(st.text(st.sampled_from(LATIN + FOREIGN + NO_LETTERS), max_size=12))
def test_the_latin_share_is_that_of_the_letters(text: str) -> None:
    latin, foreign = (sum(c in kind for c in text) for kind in (LATIN, FOREIGN))
    assert _core.latin_share(text) == (latin / (latin + foreign) if latin + foreign else 1)


def test_letters_of_the_latin_blocks_are_latin_and_those_of_other_scripts_are_not() -> None:
    for c in CHARACTERS:
        if unicodedata.category(c)[0] != "L":
            continue
        if "LATIN" not in unicodedata.name(c, ""):  # but for µ, ª and º, which stand among them
            assert _core.latin_share(c) == (c in "µªº"), c
        elif ord(c) < 0x250 or 0x1E00 <= ord(c) < 0x1F00:
            assert _core.latin_share(c) == 1, c


def test_a_text_without_letters_is_as_latin_as_english() -> None:
    for text in ("", "12:30", "?!", "\u0301", "\U0001f600 \ufe0f"):
        assert _core.latin_share(text) == 1
