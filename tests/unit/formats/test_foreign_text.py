"""What each function that writes text of others promises, for any text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.formats.foreign_text import (
    code_text,
    escaped,
    fill,
    json_line,
    line_text,
    name_text,
    own_line,
    paragraphs,
    title_text,
)
from toolroll.formats.visible_text import is_visible

TEXTS = st.text() | st.lists(
    st.sampled_from(("\n", "\x85", "\u2028", "\u200b", "\U000e0041", "\ud800", " ", "`", "'", '"', "\\", "<!--", "#", "a")), max_size=6
).map("".join)  # fmt: skip


@given(TEXTS)
def test_everything_is_one_line_of_visible_characters_without_a_comment(text):
    for write in (line_text, own_line, name_text, title_text, code_text, json_line):
        written = write(text)
        assert is_visible(written) and "<!--" not in written and len(written.splitlines()) <= 1


@given(TEXTS.filter(bool))
def test_names_can_be_read_back(text):
    for written in (name_text(text), title_text(text), code_text(text)[1:-1]):
        assert (json.loads(written) if written[0] == '"' else written) == text


@given(TEXTS, TEXTS)
def test_a_name_ends_where_it_ends(text, other):
    assert re.fullmatch(r'"([^"\\]|\\.)*"|[\w.:/@+$-]+', name_text(text))
    assert "`" not in code_text(text)[1:-1] and "  " not in title_text(text)
    found, end = json.JSONDecoder().raw_decode(f"{json_line([text])}{other}")
    assert found == [text] and end == len(json_line([text]))


@each_row(
    "text",
    ["send_mail", "Sends mail. Use it for `x`: [a], (b) and ```c```.", "[mail] Sends.", "**Bold** text", "日本語", "-5 is a number"],
)  # fmt: skip
def test_ordinary_text_stays_as_it_is(text):
    assert (
        line_text(text)
        == own_line(text)
        == title_text(text)
        == escaped(text)
        == paragraphs(text, 100)
        == text
    )


@each_row("name", ["send_mail", "mail.send", "ns:tool", "@a/b", "a-", "날씨"])
def test_an_ordinary_name_stays_as_it_is(name):
    assert name_text(name) == name and code_text(name) == f"`{name}`"


@each_row(
    "text",
    ["# a", "##a", "- a", "* a", "+ a", "> a", "```", "~~~", "---", "***", "<div>", "[a]: b", "1. # a", "2) - a", " # a"],
)  # fmt: skip
def test_a_line_of_its_own_begins_no_block_of_markdown(text):
    assert own_line(text).startswith("\\")


def test_only_encoded_text_is_put_together():
    assert fill("- %s: %s", name_text("a"), line_text("100 %s\n")) == "- a: 100 %s"
    with pytest.raises(TypeError, match=r"'a\\n' is not encoded"):
        fill("- %s", "a\n")


def test_paragraphs_keep_their_lines_and_nothing_that_is_not_seen():
    assert paragraphs("a\r\n  b\u2028c\x1b[2J\u200b\td", 100) == "a\n  b\nc [2J  d"
    assert paragraphs("abc", 2) == "ab"
