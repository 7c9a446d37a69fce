"""Shows events: a list without the users' text, or one event with its outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput, NotFound
from toolroll.registry.analytics.window import Window, events
from toolroll.registry.events.details import EntryReader, read_event
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, checked_text
from toolroll.registry.store.json_values import as_json
from toolroll.registry.store.row_reader import Row, pairs, read_rows

MOST = 1_000  # events in one answer
_LISTED = (
    *("event_id", "org", "at", "session", "page", "tier", "category", "profile", "experiment", "variant"),
    *("selected", "called", "outcome", "durations_ms", "latency_us", "confidence", "degraded"),
)
_REPORT = ("seq", "step", "received_at", "reporter", "closes", "voided_at", "durations_ms")


def list_events(
    database: Database,
    window: Window,
    *,
    outcome: str | None = None,
    tool: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Events of the window, newest first, without users' texts.

    outcome: only events with this outcome; "unknown" for events without one. tool: only events that called
        it.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit: is {limit}, must be from 1 to {MOST:,}")
    where = list(window.of(events))
    if outcome is not None:
        column = events.c.outcome
        where.append(column.is_(None) if outcome == "unknown" else column == outcome)
    if tool is not None:
        pair = pairs(database.dialect, events.c.called)
        where.append(sa.exists(sa.select(1).select_from(pair).where(pair.c.key == tool)).correlate(events))
    columns = [events.c[name] for name in _LISTED]
    order = (events.c.at.desc(), events.c.event_id)
    with database.reading() as connection:
        rows = read_rows(connection, columns, *where, order_by=order, limit=limit)
        return [as_json(row) for row in rows]


def find_event(database: Database, event_id: str, org: str | None = None) -> dict[str, Any]:
    """One event with its rows of outcomes. org: its organisation; None for any. Raises NotFound."""
    checked_text(event_id, "event", 200)
    table = tables.outcomes
    with database.reading() as connection:
        found = read_event(connection, event_id, org)
        if found is None or (org is not None and found.org != org):
            raise NotFound(
                f"event {event_id!r:.80}: is not in the store; it may have been pruned, left out by "
                "sampling, or not be there yet"
            )
        event = vars(found)
        event["shown"] = [tool.to_record() for tool in event["shown"]]
        columns = [table.c.org, *(table.c[name] for name in _REPORT), table.c.details]
        where = (table.c.org == found.org, table.c.event_id == event_id)
        rows = read_rows(connection, columns, *where, order_by=(table.c.step,))
        outcomes = _outcomes(EntryReader(connection), list(rows))
    return {**as_json(event), "outcomes": outcomes}


def _outcomes(reader: EntryReader, rows: Sequence[Row]) -> list[dict[str, Any]]:
    found = []
    for row, (entries, _) in zip(rows, reader(row["details"] for row in rows), strict=True):
        fields = {name: row[name] for name in _REPORT}
        found.append(as_json({**fields, "entries": [entry.to_record() for entry in entries]}))
    return found
