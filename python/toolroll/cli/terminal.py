"""What a command writes: results on standard output, progress on standard error while a person looks."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence


def print_json(value: object) -> None:
    """Prints one JSON value; NaN is none and would be an error."""
    print(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows under the names of their columns. The last column may be of any length."""
    lines = [tuple(columns), *(tuple(one_line(str(cell)) for cell in row) for row in rows)]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def print_fields(fields: Mapping[str, object]) -> None:
    """Prints a field a line, those that have a value; of several lines those after the first are indented."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", (), [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = printable(text).split("\n")
        print(f"{name.replace('_', ' '):{width}}  {first}")
        for line in rest:
            print(f"{'':{width}}  {line}")


def printable(text: str) -> str:
    r"""The text with what a terminal would act on, or not show, escaped (\x1b, \u202e); lines stay lines.

    A name or description comes from a plugin, and must not be able to rewrite what its reviewer reads.
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter == "\n" or letter.isprintable()
        else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in text
    )


def one_line(text: str, longest: int | None = None) -> str:
    """The same on one line, and no longer than that."""
    text = printable(" ".join(text.split("\n")))
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def note(text: str) -> None:
    """Says something beside the result, on one line."""
    print(one_line(text), file=sys.stderr)


def _width(text: str) -> int:
    """Places that a terminal gives it."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


class Progress:
    """One line that is written over, and gone at the end. Writes nothing where nobody looks."""

    def __init__(self) -> None:
        self.shows = sys.stderr.isatty()
        self._last = ""

    def __call__(self, text: str) -> None:
        """Shows the text in place of what was there."""
        if self.shows and text != self._last:
            self._last = text
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leaves the line empty."""
        if self._last:
            self._last = ""
            print("\r\033[K", end="", file=sys.stderr, flush=True)
