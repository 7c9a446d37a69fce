"""Text without characters that no reader sees, for names and for lines that are read by a model."""

from __future__ import annotations

import re

# str.isprintable() rejects controls, marks of direction, tags, separators and surrogates. The rest of what is
# invisible: Default_Ignorable code points outside category Cf, and the blank Braille cell.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def is_visible(text: str) -> bool:
    """Whether a reader sees every character of the text. A space counts as seen."""
    return text.isprintable() and (text.isascii() or _INVISIBLE.search(text) is None)


def is_blank(text: str) -> bool:
    """Whether a reader sees nothing of the text."""
    if text.isascii() and text.isprintable():
        return not text or text.isspace()
    return not any(is_visible(letter) and not letter.isspace() for letter in text)


def one_line(text: str, longest: int) -> str:
    """The text on one line, without what cannot be seen, cut to so many characters.

    The result of a result is the same.
    """
    text = text[: 4 * longest]
    if not is_visible(text):
        text = _INVISIBLE.sub(" ", "".join(letter if letter.isprintable() else " " for letter in text))
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
