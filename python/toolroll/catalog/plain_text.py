"""Removes parts of a description that are not for people: markup, addresses and encoded data.

Descriptions of generated tools are HTML or Markdown. Retrieval would take "strong" and "href" as words, and
one picture in base64 as a hundred of them. Only the searched texts change; a model is sent the original
description.
"""

from __future__ import annotations

import html
import re

from toolroll._core import is_plain

# Elements of text alone: "<resource-group>" in a description is a placeholder, which says something.
_ELEMENT = re.compile(
    r"</?(?:a|abbr|b|blockquote|body|br|caption|code|dd|div|dl|dt|em|font|h[1-6]|head|hr|html|i|img|important"
    r"|kbd|li|note|ol|p|pre|s|small|span|strong|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul|var)"
    r"(?:\s[^<>]{0,500})?/?>",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\([^()\s]{1,500}\)")  # [text](address)
_MARKS = re.compile(r"[*_`~]{2,}|`|^[ \t]*(?:#+|[*+-])[ \t]", re.MULTILINE)
_ADDRESS = re.compile(r"\b(?:https?://|data:[a-z])\S+")
_MARKED = ("`", "**", "__", "~~", "\n", "# ")  # without one of these nothing is marked
_LONGEST_WORD = 60
_LONG_WORD = re.compile(rf"[A-Za-z0-9+/=_-]{{{_LONGEST_WORD},}}")
_DIGIT = re.compile("[0-9]")


def plain_text(text: str) -> str:
    """The text without HTML elements, Markdown, addresses and encoded data. O(characters)."""
    if is_plain(text):  # nearly every text: asked in one pass
        return text
    if "<" in text:
        text = _ELEMENT.sub(" ", text)
    if "&" in text:
        text = html.unescape(text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "://" in text or "data:" in text:
        text = _ADDRESS.sub(" ", text)
    if any(mark in text for mark in _MARKED):
        text = _MARKS.sub(" ", text)
    return without_encoded_data(text)


def without_encoded_data(text: str) -> str:
    """The text without long words with digits, such as base64."""
    if len(text) < _LONGEST_WORD or max(map(len, text.split()), default=0) < _LONGEST_WORD:
        return text
    return _LONG_WORD.sub(lambda found: " " if _DIGIT.search(found.group()) else found.group(), text)
