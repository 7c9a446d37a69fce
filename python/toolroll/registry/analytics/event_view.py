"""Shows events: a list without the users' text, or one event with its outcomes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from toolroll.errors import InvalidInput, NotFound
from toolroll.registry.analytics.window import Window, events, json_value, pairs
from toolroll.registry.events.details import EntryReader, EventReader
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, words

MOST = 1_000  # events in one answer
_LISTED = (
    *("event_id", "org", "at", "session", "page", "tier", "category", "profile", "experiment", "variant"),
    *("selected", "called", "outcome", "latency_us", "confidence", "degraded"),
)
_REPORT = ("seq", "step", "received_at", "reporter", "details", "closes", "voided_at")


def list_events(
    database: Database,
    window: Window,
    *,
    outcome: str | None = None,
    tool: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Events of the window, newest first, without the users' text.

    outcome: only events with this outcome; "unknown" for events without one. tool: only events in which this
        tool was called.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit: is {limit}, must be from 1 to {MOST:,}")
    query = sa.select(*(events.c[name] for name in _LISTED)).where(*window.of(events))
    if outcome is not None:
        column = events.c.outcome
        query = query.where(column.is_(None) if outcome == "unknown" else column == outcome)
    if tool is not None:
        pair = pairs(database.dialect, events.c.called)
        query = query.where(
            sa.exists(sa.select(1).select_from(pair).where(pair.c.key == tool)).correlate(events)
        )
    query = query.order_by(events.c.at.desc(), events.c.event_id).limit(limit)
    with database.reading() as connection:
        return [_plain(row) for row in connection.execute(query).mappings()]


def find_event(database: Database, event_id: str, org: str | None = None) -> dict[str, Any]:
    """One event with its rows of outcomes.

    org: the organisation that the event must belong to; None for any.

    Raises:
        NotFound: there is no such event.
    """
    words(event_id, "event", 200)
    table = tables.outcomes
    with database.reading() as connection:
        row = connection.execute(sa.select(events).where(events.c.event_id == event_id)).first()
        if row is None or (org is not None and row.org != org):
            raise NotFound(
                f"event {event_id!r:.80}: is not in the store; it may have been pruned, left out by "
                "sampling, or not be there yet"
            )
        event = vars(EventReader(connection)([row])[0])
        event["shown"] = [tool.to_record() for tool in event["shown"]]
        reports = connection.execute(
            sa.select(*(table.c[name] for name in _REPORT))
            .where(table.c.event_id == event_id)
            .order_by(table.c.step)
        ).all()
        read = EntryReader(connection)(report.details for report in reports)
        outcomes = []
        for report, (entries, _) in zip(reports, read, strict=True):
            fields = {**report._mapping, "entries": [entry.to_record() for entry in entries]}
            del fields["details"]
            outcomes.append(_plain(fields))
    return {**_plain(event), "outcomes": outcomes}


def _plain(row: Any) -> dict[str, Any]:
    """For JSON."""
    return {name: json_value(value) for name, value in row.items()}
