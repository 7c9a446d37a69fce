"""Exports events to a Parquet file; memory holds one group of rows.

Needs pyarrow (extra `parquet`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from toolroll.registry.analytics.window import Window, events
from toolroll.registry.events.details import read_events
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.runtime.extras import needs_extra
from toolroll.runtime.files import replacing

with needs_extra("events", "parquet"):
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP = 10_000  # rows written at once

_CANDIDATE = pa.struct(
    [("name", pa.string())] + [(name, pa.float64()) for name in ("score", "mean", "sd", "show", "propensity")]
)
_SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("org", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("reporter", pa.string()),
        ("session", pa.string()),
        ("page", pa.string()),
        ("tier", pa.string()),
        ("category", pa.string()),
        ("selected", pa.list_(pa.string())),
        ("candidates", pa.list_(_CANDIDATE)),
        ("propensity_error", pa.float64()),
        ("called", pa.map_(pa.string(), pa.string())),
        ("outcome", pa.string()),
        ("recorded_at", pa.timestamp("us", "UTC")),
        ("profile", pa.string()),
        ("experiment", pa.string()),
        ("variant", pa.string()),
        ("seed", pa.int64()),
        ("confidence", pa.float64()),
        ("latency_us", pa.float64()),
        ("tokens_selected", pa.int64()),
        ("tokens_total", pa.int64()),
        ("catalog_revision", pa.string()),
        ("registry_revision", pa.int64()),
        ("learned_revision", pa.int64()),
        ("degraded", pa.list_(pa.string())),
        ("space", pa.string()),
        ("share", pa.float64()),
        ("durations_ms", pa.map_(pa.string(), pa.float64())),
    ]
)
_JSON = ("context", "limits")  # columns of text
_MESSAGE = [pa.field(name, pa.string()) for name in ("message", "message_form", *_JSON)]
_VECTOR = pa.field("vector", pa.binary())  # float16, little-endian


def export(
    database: Database,
    window: Window,
    file: str | os.PathLike[str],
    *,
    messages: bool = False,
    vectors: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Writes the events of the window, oldest first. Returns how many.

    The file appears whole or not at all. messages, vectors: whether to include the stored messages with
    context, and the vectors.

    Raises:
        InvalidInput: the file cannot be written.
    """
    schema = event_schema(messages, vectors)
    written = 0
    with replacing(file) as fresh, pq.ParquetWriter(fresh, schema, compression="zstd") as writer:
        for rows in _groups(database, window):
            for table in tables_of(rows, schema):
                writer.write_table(table, row_group_size=GROUP)
                written += len(table)
            if progress is not None:
                progress(written)
    return written


def event_schema(messages: bool, vectors: bool) -> Any:
    """The columns of an event. messages: includes the data to decide the event again."""
    schema = _SCHEMA
    for wanted in (_MESSAGE if messages else []) + ([_VECTOR] if vectors else []):
        schema = schema.append(wanted)
    return schema


def _groups(database: Database, window: Window) -> Iterator[Sequence[SimpleNamespace]]:
    order = (events.c.at, events.c.event_id)
    with database.reading() as connection:
        yield from read_events(connection, window.of(events), order, GROUP)


def tables_of(rows: Sequence[SimpleNamespace], schema: Any) -> Iterator[Any]:
    """The rows as one table, or as several if one is too large for pyarrow."""
    try:
        yield _table(rows, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if len(rows) == 1:
            raise
        middle = len(rows) // 2
        for part in (rows[:middle], rows[middle:]):
            yield from tables_of(part, schema)


def _table(rows: Sequence[Any], schema: Any) -> Any:
    """Builds the table column by column, since a dictionary for each candidate would take too long."""
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    made = []
    for field in schema:
        values = columns[field.name]
        if pa.types.is_map(field.type):
            values = [None if said is None else list(said.items()) for said in values]
        elif field.name in _JSON:
            values = list(map(tables.json_text, values))
        made.append(_candidates(values) if field.name == "candidates" else pa.array(values, field.type))
    return pa.Table.from_arrays(made, schema=schema)


def _candidates(lists: Sequence[Sequence[Sequence[Any]]]) -> Any:
    width = len(_CANDIDATE)
    flat = [each for candidates in lists for each in candidates]
    columns = list(zip(*flat, strict=True))[:width] if flat else [()] * width
    fields = [pa.array(column, field.type) for column, field in zip(columns, _CANDIDATE, strict=True)]
    structs = pa.StructArray.from_arrays(fields, fields=list(_CANDIDATE))
    offsets = accumulate((len(candidates) for candidates in lists), initial=0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)
