"""Types of options and arguments: each reads a text, or names the allowed values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import click

COUNT, POSITIVE = click.IntRange(min=0), click.IntRange(min=1)


class Number(click.FloatRange):
    """A number within limits; unlike click's own it is never NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Reads the number."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


SHARE = Number(min=0, max=1, min_open=True, max_open=True)
SECONDS = Number(min=0, max=600, min_open=True)


def sizes(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1, separated by commas."""
    return tuple(POSITIVE(part) for part in text.split(","))


def ascending(text: str) -> tuple[int, ...]:
    """Whole numbers in ascending order, each once."""
    numbers = sizes(text)
    if list(numbers) != sorted(set(numbers)):
        raise click.BadParameter(f"{text}: must be ascending, each number once")
    return numbers


def names(text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise click.BadParameter(f"{text!r}: must be names, separated by commas")
    if len(set(found)) != len(found):
        raise click.BadParameter(f"{text}: names one twice")
    return found


def provider(text: str) -> str:
    """The name of a provider, ours or an installed package's."""
    from toolroll.formats.providers import provider_of

    try:
        return provider_of(text).name
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """A length of time: 30s, 30m, 12h, 7d, 2w."""
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if match is None:
        raise click.BadParameter(f"{text!r}: must be a number and s, m, h, d or w, such as 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def timestamp(text: str) -> datetime:
    """A time in UTC: 2026-03-01, 2026-03-01T12:00, one with another zone, or how long ago (7d)."""
    if re.fullmatch(r"\d+[a-z]", text):
        try:
            return datetime.now(timezone.utc) - duration(text)
        except OverflowError:
            raise click.BadParameter(f"{text!r}: is too long ago") from None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not read the Z
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: must be a date (2026-03-01), a time (2026-03-01T12:00) or how long ago (7d)"
        ) from None
    return found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)


def strict_json(text: str) -> object:
    """The value of a JSON text. A repeated key is wrong: JSON readers silently keep its last value.

    Raises ValueError and RecursionError.
    """
    return json.loads(text, object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise click.BadParameter(f"key {key!r:.80}: is given twice in one object")
        found[key] = value
    return found


def condition(text: str) -> dict[str, Any]:
    """The condition of a rule: a JSON object."""
    try:
        value = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"must be JSON ({error})") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f'{text!r:.80}: must be a JSON object, such as {{"role": "admin"}}')
    return value


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r:.200}: must be {form}")
    return name, value


def assignment(text: str) -> tuple[str, object]:
    """NAME=VALUE, for a parameter of a profile; `parameter_value` reads the value."""
    name, value = _split(text, "NAME=VALUE")
    return name, parameter_value(value, strict_json)


def variant(text: str) -> tuple[str, float]:
    """PROFILE=SHARE."""
    name, share = _split(text, "PROFILE=SHARE")
    return name, float(SHARE(share))


_JSON_FIELDS = frozenset(
    [
        *("parameters", "returns", "annotations", "icons", "meta", "execution", "execution_config"),
        *("tags", "examples", "public", "pinned", "pin_weight"),
    ]
)


def field(text: str) -> tuple[str, object]:
    """FIELD=VALUE, for a field of a tool: JSON where the field does not hold text, else the text as it is."""
    name, value = _split(text, "FIELD=VALUE")
    if name not in _JSON_FIELDS:
        return name, value
    try:
        return name, strict_json(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{name}: must be JSON ({error})") from None


def once_each(
    context: click.Context, option: click.Parameter, pairs: tuple[tuple[str, object], ...]
) -> dict[str, object]:
    """The pairs of a repeatable option as a dict; a name given twice is wrong. A callback of the option."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise click.BadParameter(f"{option.opts[0]} {name}: is given twice", context, option)
        found[name] = value
    return found


_WORDS: dict[str, object] = {"on": True, "off": False, "none": None, "inf": float("inf")}


def parameter_value(text: str, read: Callable[[str], object] = json.loads) -> object:
    """The value of a profile's parameter: on, off, none, inf, JSON (7, 0.5, null, ["search"]) or else text.

    read: reads JSON; raises ValueError or RecursionError for other text.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return read(text)
    except (ValueError, RecursionError):
        return text
