"""Events and reports as bytes, on their way from a host to the keeper."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from toolroll.learning.exposure import pack_tools, unpack_tools
from toolroll.registry.events.candidate_columns import CandidateColumns, FloatColumn
from toolroll.registry.events.rows import ReceivedReport, instant, seconds

Event: TypeAlias = dict[str, Any]  # as `event_row` makes it

_EVENT = b"E"  # the first byte of an event; a report begins with a brace
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


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
    """What `event_to_bytes` or `ReceivedReport.to_bytes` made bytes of.

    Raises KeyError, TypeError or ValueError for any other bytes.
    """
    if data[:1] != _EVENT:
        return ReceivedReport.from_bytes(data)
    row: Event = json.loads(data[1:])
    names, keys, *numbers = row["candidates"]
    shown, packed = row["shown"]
    return {
        **row,
        "at": instant(row["at"]),
        "candidates": CandidateColumns(names, _bytes(keys), *map(_column, numbers)),
        "shown": list(unpack_tools(shown, _bytes(packed))),
        "vector": None if row["vector"] is None else _bytes(row["vector"]),
    }


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _column(of: list[str] | None) -> FloatColumn | None:
    return None if of is None else np.frombuffer(_bytes(of[1]), of[0])
