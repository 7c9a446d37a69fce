"""Strict JSON out of a model's answer: what another reader might take for something else is refused.

Refused are a key given twice, NaN, infinite numbers, and integers so long that reading them takes
quadratic time.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DIGITS = 400  # of an integer: more than any double has


class NotJson(ValueError):
    """The text is not strict JSON.

    Attributes:
        position: of the first character that doesn't fit.
    """

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.position = position


def read(text: str) -> Any:
    """The value of a whole text. Raises NotJson."""
    start = len(text) - len(text.lstrip())
    value, end = read_at(text, start)
    if text[end:].strip():
        raise NotJson("something follows the value", end)
    return value


def read_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises NotJson."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from error
    except _Refused as error:
        raise NotJson(str(error), start) from error
    except RecursionError as error:
        raise NotJson("nested too deeply", start) from error


class _Refused(ValueError):
    """The decoder met what strict JSON has no place for."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Refused("a key is given twice in one object")
    return members


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Refused(f"{digits:.20} is too large")
    return value


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"a number has {len(digits)} digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise _Refused(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
)
