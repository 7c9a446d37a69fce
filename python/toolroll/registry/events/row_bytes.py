"""Rows of events as bytes: while they wait, and on their way to the process that writes them.

They cost little to make, and the garbage collector does not look at them.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import Any

import numpy as np

from toolroll.learning.exposure import pack_tools, unpack_tools
from toolroll.registry.events.candidate_columns import CandidateColumns, FloatColumn
from toolroll.registry.events.rows import instant, seconds

_FORM = 2  # without references to equal objects: they take longer to find than to write again


def to_bytes(row: Mapping[str, Any]) -> bytes:
    """A row of `event_row`; `from_bytes` reverses it, in this process or in one that it has started."""
    candidates, shown = row["candidates"], row["shown"]
    return marshal.dumps(
        {
            **row,
            "at": seconds(row["at"]),
            "candidates": (candidates.names, candidates.keys, [*map(_of_column, candidates.numbers)]),
            "shown": ([tool.name for tool in shown], pack_tools(shown)),
        },
        _FORM,
    )


def from_bytes(data: bytes) -> dict[str, Any]:
    """Reverses `to_bytes`."""
    row: dict[str, Any] = marshal.loads(data)
    names, keys, numbers = row["candidates"]
    return {
        **row,
        "at": instant(row["at"]),
        "candidates": CandidateColumns(names, keys, *map(_column, numbers)),
        "shown": list(unpack_tools(*row["shown"])),
    }


def _of_column(column: FloatColumn | None) -> tuple[str, bytes] | None:
    return None if column is None else (column.dtype.str, column.tobytes())


def _column(of: tuple[str, bytes] | None) -> FloatColumn | None:
    return None if of is None else np.frombuffer(of[1], of[0])
