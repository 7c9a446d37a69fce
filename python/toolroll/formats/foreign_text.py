"""Makes the text of others safe to write: it cannot leave its entry.

Names, descriptions, parameters, enums, defaults and errors come from tools' authors and from MCP servers. A
model, or a person at a terminal, reads structure in our text: a line is an entry, a heading begins a tool, a
comma ends a name. A line break in a description would begin an entry of a tool that does not exist, perhaps
in the name of another server. So each text passes through one of these functions; `fill` puts texts together:

| function | for | promises |
| --- | --- | --- |
| `line_text` | text behind other text on its line | stays on this line |
| `own_line` | text with a line of its own | begins no heading, list, fence, comment or HTML |
| `name_text` | a name among others, or before a colon | has visible ends, and can be read back |
| `title_text` | a name that has a line or a column to itself | has visible ends, and can be read back |
| `code_text` | a name in backticks | has visible ends, and can be read back |
| `json_line`, `visible_json` | values | JSON on one line, equal to the value |
| `paragraphs` | an error of several lines | nothing in it is invisible |
| `escaped` | text on a terminal | no control of the terminal |

They return no invisible character, and no line end but the "\n" of `paragraphs`. Ordinary text stays the
same, byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import Any

from toolroll.formats.visible_text import is_visible, one_line, replaced, without_invisible

_BARE = re.compile(r"@?[\w-](?:[\w.:/@+$-]*[\w-])?")
# What makes a line of Markdown more than a paragraph, also in a numbered item. A link's definition is hidden.
_BEGINS = re.compile(
    r"(?:\d{1,9}[.)] +)?(?:[#>]|[-+*](?: |$)|(?:[-*_=] *){2,}$|`{3}|~{3}|<[!/?A-Za-z]|\[[^\]]*\]:|\\)"
)
_COMMENT = "<!--"
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Encoded(str):
    """A text on one line of visible characters that stays in its entry. This file makes all of them."""

    __slots__ = ()


def fill(template: str, *parts: Encoded) -> Encoded:
    """The template, our own text on one line, with the parts for its `%s`.

    Raises:
        TypeError: a part is not encoded.
    """
    for part in parts:
        if type(part) is not Encoded:
            raise TypeError(f"{part!r:.80} is not encoded: take a function of toolroll.formats.foreign_text")
    return Encoded(template % parts)


def line_text(text: str, longest: int | None = None) -> Encoded:
    """The text on one line, behind other text. Comments of HTML do not begin in it.

    longest: characters; None for no limit. A text without invisible characters stays the same.
    """
    if longest is not None or not is_visible(text):
        text = one_line(text, len(text) + 1 if longest is None else longest)
    return Encoded(text.replace(_COMMENT, "<\\!--"))


def own_line(text: str, longest: int | None = None) -> Encoded:
    """The text as a line of its own: a backslash before it keeps it from beginning a block of Markdown."""
    encoded = line_text(text.lstrip(), longest)
    return Encoded(f"\\{encoded}") if _BEGINS.match(encoded) else encoded


def name_text(text: str) -> Encoded:
    """A name among others: a JSON string, unless it has only letters, digits and signs inside words."""
    return Encoded(text) if _BARE.fullmatch(text) and is_visible(text) else json_line(text)


def title_text(text: str) -> Encoded:
    """A name alone on a line or in a column: a JSON string, unless it is words with single spaces."""
    if _is_plain(text) and "  " not in text:
        return Encoded(text)
    return Encoded(json_line(text).replace("  ", " \\u0020"))


def code_text(text: str) -> Encoded:
    """A name in backticks; as a JSON string, if it contains a backtick or an invisible character."""
    if (text.isascii() and text.isidentifier()) or (_is_plain(text) and "`" not in text):
        return Encoded(f"`{text}`")
    inner = json_line(text).replace("`", "\\u0060")
    return Encoded(f"`{inner}`")


def _is_plain(text: str) -> bool:
    """Whether the text is no JSON string and has visible ends."""
    has_ends = text[:1] not in ("", " ", '"') and text[-1] != " "
    return has_ends and is_visible(text) and _COMMENT not in text


def json_line(value: Any) -> Encoded:
    """A value as JSON without spaces: reading it gives the value again.

    Raises:
        TypeError, ValueError, RecursionError: it is no value of JSON.
    """
    return visible_json(_JSON(value))


def visible_json(text: str) -> Encoded:
    """JSON on one line, with escapes for invisible characters: reading it gives the same value.

    text: JSON as `json.dumps` writes it, without line ends.
    """
    return Encoded(replaced(text, lambda c: json.dumps(c)[1:-1]).replace(_COMMENT, "\\u003c!--"))


def paragraphs(text: str, longest: int) -> str:
    """The text with its lines, without invisible characters, cut to `longest` characters."""
    text = text[:longest]
    return text if is_visible(text) else "\n".join(map(without_invisible, text.splitlines()))


def escaped(text: str) -> str:
    r"""The text with escapes for invisible characters (\x1b, \u202e, \n)."""
    return replaced(text, lambda c: c.encode("unicode_escape", "backslashreplace").decode())
