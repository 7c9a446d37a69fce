"""Converts events and reports to bytes, which a host sends to the keeper."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import sqlalchemy as sa

from toolroll.learning.exposure import pack_tools, unpack_tools
from toolroll.registry.events.columns import CandidateColumns, FloatColumn
from toolroll.registry.events.rows import ReceivedReport, instant, seconds
from toolroll.registry.store import tables
from toolroll.registry.store.database import checked_text

Event: TypeAlias = dict[str, Any]  # as `event_row` makes it

_EVENT = b"E"  # the first byte of an event; a report begins with a brace
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_LONGEST = 512  # characters of a name or a word: the sums of hours have some of them in one key
_MOST = 10**12  # of a number: the sums of many must fit into 64 bits
_PLAIN = tuple(
    (column.name, column.type.python_type, column.nullable)
    for column in tables.selection_events.c
    if isinstance(column.type, (sa.String, sa.Integer, sa.Float))
)


def event_to_bytes(row: Mapping[str, Any]) -> bytes:
    """An event of `event_row`: JSON, its columns of numbers packed."""
    candidates, shown, vector = row["candidates"], row["shown"], row["vector"]
    plain = {
        **row,
        "at": seconds(row["at"]),
        "candidates": [
            list(candidates.names),
            _text(candidates.keys),
            *(
                None if column is None else [column.dtype.str, _text(column.tobytes())]
                for column in candidates.numbers
            ),
        ],
        "shown": [[tool.name for tool in shown], _text(pack_tools(shown))],
        "vector": None if vector is None else _text(vector),
    }
    return _EVENT + _ENCODE(plain).encode()


def from_bytes(data: bytes) -> ReceivedReport | Event:
    """Reverses `event_to_bytes` and `ReceivedReport.to_bytes`.

    Any process with access to the inbox may write these bytes, so they are read as JSON and numbers only.
    Raises KeyError, TypeError, ValueError, OverflowError or RecursionError for other bytes.
    """
    if data[:1] != _EVENT:
        received = ReceivedReport.from_bytes(data)
        checked_text(received.exposure.org, "org")
        for tool in (*received.exposure.shown, *received.report.found):
            checked_text(tool.name, "a tool", _LONGEST)
        return received
    row: Event = json.loads(data[1:])
    _check(row)
    names, keys, *numbers = row["candidates"]
    shown, packed = row["shown"]
    return {
        **row,
        **dict.fromkeys(("called", "outcome", "durations_ms", "recorded_at")),  # reports fill them
        "at": instant(row["at"]),
        "candidates": CandidateColumns(names, _bytes(keys), *map(_column, numbers)),
        "shown": list(unpack_tools(shown, _bytes(packed))),
        "vector": None if row["vector"] is None else _bytes(row["vector"]),
    }


def _check(row: Event) -> None:
    """Raises TypeError or ValueError if a column cannot hold its value."""
    checked_text(row["org"], "org")
    for name in row["selected"]:
        checked_text(name, "a tool", _LONGEST)
    for name, kind, may_lack in _PLAIN:
        value = row.get(name)
        if value is None:
            if not may_lack:
                raise ValueError(f"has no {name}")
        elif kind is str:
            if name not in ("org", "message", "space"):
                checked_text(value, name, _LONGEST)
            elif type(value) is not str:
                raise TypeError(f"{name} is {value!r:.80}, must be text")
        elif type(value) is not int and (kind is int or type(value) is not float):
            raise TypeError(f"{name} is {value!r:.80}, must be a number")
        elif name != "seed" and not abs(value) <= _MOST:
            raise ValueError(f"{name} is {value!r:.80}, must be at most {_MOST:,}")


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _column(of: list[str] | None) -> FloatColumn | None:
    return None if of is None else np.frombuffer(_bytes(of[1]), of[0])
