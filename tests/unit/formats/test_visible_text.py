"""Every code point there is, through everything that cleans text."""

from __future__ import annotations

import json
import sys
import unicodedata
from dataclasses import dataclass
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll import _core
from toolroll.catalog.message_text import LONGEST, Reader
from toolroll.embedders.checks import clean
from toolroll.formats.visible_text import is_visible, one_line
from toolroll.registry.editing.flags import _hidden_at

BETWEEN = "b a"  # every code point stands between two letters


@dataclass(frozen=True)
class Unicode:
    """All code points by the tables of Python and of the flags.

    Attributes:
        ignorable: shown as nothing, whatever their category.
        hidden: these, and what has no shape or is not assigned.
        text: all of them, each between two letters.
    """

    category: dict[str, str]
    ignorable: set[str]
    hidden: set[str]
    text: str


@pytest.fixture(scope="module")
def unicode() -> Unicode:
    tables = json.loads(
        resources.files("toolroll.registry.editing").joinpath("unicode_tables.json").read_text()
    )
    ignorable = {chr(c) for first, last in tables["ignorable"] for c in range(first, last + 1)}
    category = {chr(c): unicodedata.category(chr(c)) for c in range(sys.maxunicode + 1)}
    assert len(category) == 1_114_112
    hidden = {c for c, name in category.items() if name in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")}
    return Unicode(category, ignorable, ignorable | hidden, BETWEEN.join(category))


def readable_in_parts(text: str) -> str:
    """All of it as a reader reads it: of a long message it reads the beginning and the end."""
    reader = Reader(None, clauses=False)
    return "".join(reader.read(text[at : at + LONGEST]).text for at in range(0, len(text), LONGEST))


@pytest.mark.slow
def test_a_line_holds_no_hidden_character_whichever_of_1_114_112_stands_in_the_text(unicode):
    line = one_line(unicode.text, len(unicode.text))
    assert unicode.hidden.isdisjoint(line) and is_visible(line)
    assert one_line(line, len(line)) == line
    seen = "".join(" " if c in unicode.hidden or unicode.category[c] == "Zs" else c for c in unicode.text)
    assert line == " ".join(seen.split())  # every other character is there, in its place


@pytest.mark.slow
def test_a_name_may_hold_what_is_seen_and_no_more_of_1_114_112_characters(unicode):
    visible = {c for c in unicode.category if is_visible(c)}
    assert visible == {
        c for c in unicode.category if c not in unicode.hidden and unicode.category[c] != "Zs"
    } | {" "}


@given(st.text(), st.integers(1, 40))
def test_a_line_of_a_line_is_the_same_wherever_it_is_cut(text, longest):
    line = one_line(text, longest)
    assert len(line) <= longest and one_line(line, longest) == line


@pytest.mark.slow
@pytest.mark.parametrize("cleaned", [clean, readable_in_parts, _core.fold])
def test_cleaned_text_is_valid_and_stays_as_it_is_for_every_code_point(cleaned, unicode):
    text = cleaned(unicode.text)
    text.encode()
    assert cleaned(text) == text


@pytest.mark.slow
def test_every_hidden_character_of_a_description_is_found_for_its_reviewers(unicode):
    found = {unicode.text[at] for at in _hidden_at(unicode.text, is_name=False)}
    controls = {c for c in unicode.category if unicode.category[c] == "Cc"} - {"\t", "\n"}
    assert found == unicode.ignorable | controls
