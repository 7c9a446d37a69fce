"""What an argument may be: each turns its text into a value, or says what is allowed."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from toolroll.errors import InvalidInput

PROVIDERS = ("openai", "anthropic", "gemini", "mcp")  # written out: --help loads nothing


def count(text: str) -> int:
    """A whole number of at least 0."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number}: must be at least 0")
    return number


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0: must be at least 1")
    return number


def sizes(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1, separated by commas."""
    return tuple(positive(part) for part in text.split(","))


def ascending(text: str) -> tuple[int, ...]:
    """The same, each above the one before it."""
    numbers = sizes(text)
    if list(numbers) != sorted(set(numbers)):
        raise argparse.ArgumentTypeError(f"{text}: must be ascending, each number once")
    return numbers


def seconds(text: str) -> float:
    """A time above 0 and of at most ten minutes."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of seconds") from None
    if not 0 < number <= 600:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0 and at most 600")
    return number


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span(text: str) -> timedelta:
    """A length of time: 30m, 12h, 7d, 2w."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number and m, h, d or w, such as 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def instant(text: str) -> datetime:
    """A time in UTC: 2026-03-01, 2026-03-01T12:00, one with another zone, or how long ago (7d)."""
    if re.fullmatch(r"\d+[a-z]", text):
        try:
            return datetime.now(timezone.utc) - span(text)
        except OverflowError:
            raise argparse.ArgumentTypeError(f"{text!r}: is before all time") from None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))  # which Python 3.10 cannot read
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be a date (2026-03-01), a time (2026-03-01T12:00) or how long ago (7d)"
        ) from None
    return found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)


def names(text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r}: must be names, separated by commas")
    if len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"{text}: names one twice")
    return found


def strict_json(text: str) -> object:
    """The value of a JSON text in which no key is given twice: the last would win, and nobody be told.

    Raises ValueError and RecursionError.
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise argparse.ArgumentTypeError(f"key {twice!r:.80}: is given twice in one object")
    return found


def assignment(text: str) -> tuple[str, object]:
    """NAME=VALUE; see `value_of` for how the value is read."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=VALUE")
    return name, value_of(value, strict_json)


def add_set(parser: argparse.ArgumentParser, of: str) -> None:
    """Declares `--set`, for parameters of a profile."""
    parser.add_argument(
        "--set",
        type=assignment,
        action="append",
        default=[],
        metavar="PARAM=VALUE",
        help=f"change a parameter of {of}; repeatable",
    )


def set_by(options: argparse.Namespace) -> dict[str, object]:
    """What `add_set` declared, by name.

    Raises:
        InvalidInput: one is given twice.
    """
    changes: dict[str, object] = {}
    for name, value in options.set:
        if name in changes:
            raise InvalidInput(f"--set {name}: is given twice")
        changes[name] = value
    return changes


_WORDS: dict[str, object] = {"on": True, "off": False, "none": None, "inf": float("inf")}


def value_of(text: str, read: Callable[[str], object] = json.loads) -> object:
    """JSON is read as such (7, 0.5, null, ["search"]), so are on, off, none and inf; all else is text.

    read: reads JSON; what is none makes it raise ValueError or RecursionError.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return read(text)
    except (ValueError, RecursionError):
        return text
