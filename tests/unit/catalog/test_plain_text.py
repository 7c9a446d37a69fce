"""Texts of tools without markup and encoded data."""

from __future__ import annotations

import base64

from tests.table import each_row
from toolroll import Tool
from toolroll.catalog.plain_text import plain_text
from toolroll.catalog.tool_text import ToolText, description_text, example_texts

PICTURE = base64.b64encode(bytes(range(256))).decode()


@each_row(
    ("written", "plain"),
    [
        (
            "<p>Sends a <b>mail</b>.<br/>See <a href='x'>more</a> &amp; on.</p>",
            "Sends a mail . See more & on.",
        ),
        ("## Mail\n- **Sends** a `mail`\n- [more](https://example.org/x?y)", "Mail Sends a mail more"),
        ("See https://example.org/a/b and data:image/png;base64,AAAA then", "See and then"),
        (f"Takes {PICTURE} as a picture", "Takes as a picture"),
        (
            "Needs <resource-group> and a_name_of_two, 2 * 3",
            "Needs <resource-group> and a_name_of_two, 2 * 3",
        ),
        ("a" * 100, "a" * 100),
        ("", ""),
    ],
)
def test_markup_addresses_and_encoded_data_are_removed(written, plain):
    assert plain_text(written).split() == plain.split()


def test_a_tool_is_searched_by_its_plain_texts_and_keeps_its_description():
    schema = {"properties": {"to": {"description": "<b>who</b> gets it"}}}
    tool = Tool("send", "<p>Sends <i>mail</i></p>", schema, examples=(f"send {PICTURE} to Anna", PICTURE))
    assert description_text(tool).split() == ["send:", "Sends", "mail"]
    assert ToolText.of(tool).parameters.split() == ["to", "who", "gets", "it"]
    assert [text.split() for text in example_texts(tool)] == [["send", "to", "Anna"]]
    assert tool.description == "<p>Sends <i>mail</i></p>"


def test_long_markup_leaves_the_words_behind_it():
    assert description_text(Tool("a", f"<p {'x' * 400}>" * 5 + "word")).split() == ["a:", "word"]
