"""Text without invisible characters, for names and for lines that a model reads."""

from __future__ import annotations

import re
from collections.abc import Callable

# str.isprintable() rejects controls, marks of direction, tags, separators and surrogates. The rest of what is
# invisible: Default_Ignorable code points outside category Cf, and the blank Braille cell.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ASCII = bytes(range(0x80))
_FEW = 8  # characters that are replaced one by one, which takes less time


def is_visible(text: str) -> bool:
    """Whether every character of the text is visible. A space is visible."""
    if not text.isprintable() or text.isascii():
        return text.isprintable()
    rest = text.encode().translate(None, _ASCII).decode()  # only a small rest of a long text is searched
    return _INVISIBLE.search(rest) is None


def is_blank(text: str) -> bool:
    """Whether no character of the text is visible."""
    if text.isascii() and text.isprintable():
        return not text or text.isspace()
    return not any(is_visible(letter) and not letter.isspace() for letter in text)


def without_invisible(text: str) -> str:
    """The text with a space for each invisible character, including line ends and tabs."""
    return replaced(text, lambda letter: " ")


def replaced(text: str, by: Callable[[str], str]) -> str:
    """The text with a visible replacement for each invisible character."""
    if is_visible(text):
        return text
    changes = {
        letter: by(letter) for letter in set(text) if not letter.isprintable() or _INVISIBLE.match(letter)
    }
    if len(changes) > _FEW:
        return text.translate({ord(letter): other for letter, other in changes.items()})
    for letter, other in changes.items():
        text = text.replace(letter, other)
    return text


def one_line(text: str, longest: int) -> str:
    """The text on one line, without invisible characters, cut to `longest` characters.

    A second call changes nothing.
    """
    text = " ".join(text[: 4 * longest].split())
    if not is_visible(text):
        text = " ".join(without_invisible(text).split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
