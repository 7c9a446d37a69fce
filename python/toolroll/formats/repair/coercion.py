"""Reads a value as another type, or as one of the values that a schema lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from toolroll.formats.repair.validation import Schema, enumeration, is_kind, kinds_of, same
from toolroll.formats.strict_json import MAX_DIGITS, NotJson, read

Coercion = Literal["boolean", "number", "null", "text", "object", "array"]

_BOOLEANS = {"true": True, "false": False}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")  # as JSON writes it
_NOTHING = (None, None)


def coerce(value: Any, parts: list[Schema]) -> tuple[Coercion | None, Any]:
    """The new type and value of a value whose type is not allowed; None if it has no other reading.

    All `parts` must hold, so only types that all of them allow count.
    """
    kinds: frozenset[str] | None = None
    for part in parts:
        named = kinds_of(part.get("type"))
        if named is not None:
            kinds = named if kinds is None else _common(kinds, named)
    if not kinds or is_kind(value, list(kinds)):
        return _NOTHING
    if isinstance(value, str):
        return _from_text(value, kinds)
    if "string" in kinds and (written := _written(value)) is not None:
        return "text", written
    return _NOTHING


def respell(value: Any, parts: list[Schema]) -> tuple[Literal["spelling"] | None, Any]:
    """The only listed value that a value can mean: text that differs in case, or a number as text."""
    lists = [listed for part in parts if (listed := enumeration(part)) is not None]
    if not lists or any(same(value, one) for one in lists[0]):
        return _NOTHING
    meant = [one for one in lists[0] if _stands_for(value, one)]
    if not meant or not all(same(meant[0], one) for one in meant):
        return _NOTHING
    if not all(any(same(meant[0], one) for one in listed) for listed in lists):
        return _NOTHING
    return "spelling", meant[0]


def _stands_for(value: Any, listed: Any) -> bool:
    if isinstance(value, str):
        if isinstance(listed, str):
            return value.strip().casefold() == listed.strip().casefold()
        if isinstance(listed, bool):
            return _BOOLEANS.get(value.strip().casefold()) is listed
        if isinstance(listed, (int, float)):
            number = _number(value)
            return number is not None and number == listed
        return listed is None and value.strip() == "null"
    return isinstance(listed, str) and listed == _written(value)


def _from_text(text: str, kinds: frozenset[str]) -> tuple[Coercion | None, Any]:
    bare = text.strip()
    if "boolean" in kinds and (truth := _BOOLEANS.get(bare.casefold())) is not None:
        return "boolean", truth
    if kinds & {"integer", "number"} and (number := _number(bare)) is not None:
        if "number" in kinds:
            return "number", number
        exact = Decimal(bare)  # where a double would round
        if exact == int(exact):
            return "number", int(exact)
    if "null" in kinds and bare == "null":
        return "null", None
    if kinds & {"object", "array"} and bare[:1] in ("{", "["):
        try:
            value = read(bare)
        except NotJson:
            return _NOTHING
        if isinstance(value, Mapping) and "object" in kinds:
            return "object", value
        if isinstance(value, list) and "array" in kinds:
            return "array", value
    return _NOTHING


def _written(value: object) -> str | None:
    """A whole number as text; None for anything else, and for a number that takes long to write."""
    return str(value) if type(value) is int and value.bit_length() < 3 * MAX_DIGITS else None


def _number(text: str) -> int | float | None:
    """The number that JSON would parse; None for any other text, and for a number beyond a double."""
    text = text.strip()
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    return number if abs(number) != float("inf") else None


def _common(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    """The types in both; a whole number is a number too."""
    both = left & right
    if "integer" in left | right and {"integer", "number"} & left and {"integer", "number"} & right:
        both |= {"integer"}
    return both
