"""Printing: results on standard output, notes and progress on standard error."""

from __future__ import annotations

import json
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from toolroll.formats.foreign_text import escaped

_USER = re.compile(r"(://[^\s/@:]*):\S*@")
_SHOWN_OF_RUN = 300
_LONG_RUN = re.compile(rf"\S{{{2 * _SHOWN_OF_RUN},}}")
_OPTION = re.compile(r"(password=)[^\s&]+", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with `***` for the passwords of the URLs in it."""
    return _OPTION.sub(r"\1***", _USER.sub(r"\1:***@", text))


def print_json(value: object) -> None:
    """Prints one JSON value. NaN is an error, since JSON has none."""
    print(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def print_result(as_json: bool, value: object, text: str) -> None:
    """Prints the result of a command, as a JSON value or as a line of text."""
    if as_json:
        print_json(value)
    else:
        print(one_line(text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows below the names of their columns. None is printed as a dash."""
    lines = [tuple(columns), *(tuple(map(_cell, row)) for row in rows)]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None else " ".join(one_line(str(value)).split())  # two spaces end a cell


def print_list(
    as_json: bool,
    key: str,
    items: Iterable[Any],
    columns: str,
    also: Mapping[str, object] | None = None,
    **computed: Callable[[Any], object],
) -> None:
    """Prints items as the JSON object {**also, key: items}, or as a table.

    items: dicts, or values with `to_dict`. columns: the headings; a column shows the field of its name, or
    of the name after "=", or the result of the function of that name.
    """
    if as_json:
        print_json(
            {**(also or {}), key: [item if isinstance(item, dict) else item.to_dict() for item in items]}
        )
        return
    pairs = [column.partition("=")[::2] for column in columns.split()]
    getters = [
        computed.get(field or heading.lower()) or _getter(field or heading.lower())
        for heading, field in pairs
    ]
    headings = [heading.replace("_", " ") for heading, _ in pairs]
    print_table(headings, ([_cell_value(get(item)) for get in getters] for item in items))


def _getter(field: str) -> Callable[[Any], object]:
    return lambda item: item[field] if isinstance(item, dict) else getattr(item, field)


_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def _cell_value(value: Any) -> object:
    """A field as a cell shows it."""
    if value in ("", None, (), []):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    return text[:19].replace("T", " ") if _ISO_TIME.match(text) or isinstance(value, datetime) else text


def print_fields(fields: Mapping[str, object]) -> None:
    """Prints a field a line, without the empty ones. Further lines of a text are indented."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", (), [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = printable(text).split("\n")
        print(f"{name.replace('_', ' '):{width}}  {first}")
        for line in rest:
            print(f"{'':{width}}  {line}")


def printable(text: str) -> str:
    r"""Escapes control characters and invisible ones (\x1b, \u202e), except line ends.

    Names and descriptions come from plugins, and must not rewrite the screen of their reviewer.
    """
    return "\n".join(map(escaped, text.split("\n")))


def one_line(text: str, longest: int | None = None) -> str:
    """The printable text on one line, cut to at most `longest` characters."""
    text = printable(" ".join(text.split("\n")))
    return text if longest is None or len(text) <= longest else f"{text[: longest - 1]}…"


def remark(text: str) -> str:
    """The text on one line, for standard error. Long input without a space is cut."""
    return one_line(_LONG_RUN.sub(lambda run: f"{run[0][:_SHOWN_OF_RUN]}…", text))


def note(text: str) -> None:
    """Prints a remark on standard error, on one line."""
    print(remark(text), file=sys.stderr)


def _width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


class Progress:
    """A line of progress on a terminal, cleared at the end. Without a terminal it prints nothing.

    between_s: the least time between two texts, so that output does not slow a measurement.
    """

    def __init__(self, between_s: float = 0.0) -> None:
        self.shows = sys.stderr.isatty()
        self._between_s, self._next, self._last = between_s, 0.0, ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def __call__(self, text: str) -> None:
        """Shows the text in place of the one before."""
        if self.shows and text != self._last and (now := time.monotonic()) >= self._next:
            self._next, self._last = now + self._between_s, text
            print(f"\r\033[K{one_line(text)}", end="", file=sys.stderr, flush=True)

    def counter(self, of: str) -> Callable[[int, int], None] | None:
        """A function that shows a count of finished items; None without a terminal."""
        return (lambda done, total: self(f"{of} {done:,}/{total:,}")) if self.shows else None
