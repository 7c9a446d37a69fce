"""Maintenance of stored events and outcomes: voids outcomes, rebuilds statistics, deletes old events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCLASS

from toolroll.errors import InvalidInput, quoted
from toolroll.registry.events import statistics
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.fold import outcomes_of
from toolroll.registry.events.ingest import lock
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import CHANNEL, Database, words
from toolroll.registry.store.gil import batches

_READ = 500  # outcomes that are decoded at once
_SOME = 5_000  # events that one transaction deletes
_LOGS = (tables.selection_events, tables.outcomes, tables.logged_tools)
_DAYS_COUNTED = 3  # how long the counts of reporters are kept


@dataclass(frozen=True, slots=True)
class OutcomeFilter:
    """Selects outcomes of an organisation; None matches all.

    Attributes:
        event_id: outcomes of this event.
        reporter: outcomes of this reporter's events.
        tool: outcomes of events with a report on this tool.
        since, until: outcomes of events at this time.
    """

    event_id: str | None = None
    reporter: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("event_id", "reporter", "tool"):
            value = getattr(self, name)
            if value is not None:
                words(value, name)
        for name in ("since", "until"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
                raise InvalidInput(f"{name}: is {quoted(value)}, must be a datetime with its time zone")
        if all(getattr(self, name) is None for name in self.__slots__):
            raise InvalidInput("forget: say which outcomes to void: by event, reporter, tool or time")


def forget(database: Database, org: str, matching: OutcomeFilter, *, actor: str, reason: str = "") -> int:
    """Voids outcomes, whole events at a time: they stay in the store and no longer count.

    The same transaction rebuilds the organisation's statistics; processes that follow it fold its outcomes
    from the start. New reports on these events have no weight.

    Returns:
        The number of events.

    Raises:
        StoreUnavailable: nothing was changed.
    """
    words(org, "org")
    words(actor, "actor")
    words(reason, "reason")
    table, now = tables.outcomes, datetime.now(timezone.utc)
    with database.recording() as connection:
        _, epoch = lock(connection, [org])[org]
        events = _events(connection, org, matching)
        if not events:
            return 0
        for some in batches(events, 500):
            here = (table.c.org == org) & table.c.event_id.in_(some) & table.c.voided_at.is_(None)
            connection.execute(sa.update(table).where(here).values(voided_at=now))
        statistics.rebuild(connection, org, outcomes_of(connection, org))
        state = tables.learning_state
        connection.execute(sa.update(state).where(state.c.org == org).values(epoch=epoch + 1))
        checkpoints = tables.learned_checkpoints
        connection.execute(sa.delete(checkpoints).where(checkpoints.c.org == org))
        revision = connection.execute(sa.select(tables.registry_state.c.revision)).scalar_one()
        details = {
            "events": len(events),
            "which": {
                name: value.isoformat() if isinstance(value, datetime) else value
                for name in matching.__slots__
                if (value := getattr(matching, name)) is not None
            },
        }
        line = {
            "revision": revision,
            "org": org,
            "at": now,
            "actor": actor,
            "action": "outcomes.forget",
            "subject": "outcomes",
            "reason": reason,
            "details": details,
        }
        bulk_insert.insert(connection, tables.changes, [line])
        if database.dialect == "postgresql":
            connection.execute(sa.select(sa.func.pg_notify(CHANNEL, "outcomes")))
        return len(events)


def _events(connection: sa.Connection, org: str, matching: OutcomeFilter) -> list[str]:
    table = tables.outcomes
    query = sa.select(table.c.event_id, table.c.details).where(
        table.c.org == org, table.c.voided_at.is_(None)
    )
    if matching.event_id is not None:
        query = query.where(table.c.event_id == matching.event_id)
    if matching.reporter is not None:
        query = query.where(table.c.reporter == matching.reporter)
    if matching.since is not None:
        query = query.where(table.c.at >= matching.since)
    if matching.until is not None:
        query = query.where(table.c.at <= matching.until)
    if matching.tool is None:
        return sorted(set(connection.execute(query).scalars()))
    read, found = EntryReader(connection), set[str]()
    for some in batches(connection.execute(query).all(), _READ):
        for row, (entries, _) in zip(some, read(row.details for row in some), strict=True):
            if any(entry.tool.name == matching.tool and entry.after is not None for entry in entries):
                found.add(row.event_id)
    return sorted(found)


def rebuild(database: Database, orgs: Iterable[str] | None = None) -> dict[str, int]:
    """Rebuilds the statistics from the outcomes, organisation by organisation.

    Returns:
        Organisation → how many rows of the table differed from the outcomes; only damage makes it more than
        0.
    """
    with database.reading() as connection:
        known = sorted(connection.execute(sa.select(tables.learning_state.c.org)).scalars())
    wrong: dict[str, int] = {}
    for org in known if orgs is None else sorted(set(orgs) & set(known)):
        with database.recording() as connection:
            lock(connection, [org])
            before = statistics.everything(connection, org)
            after = statistics.rebuild(connection, org, outcomes_of(connection, org))
            wrong[org] = sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())
    return wrong


def prune(
    database: Database, *, events_s: float | None = None, org: str | None = None, now: datetime | None = None
) -> int:
    """Deletes old events, and counts of reporters that no longer matter. Outcomes stay.

    events_s: how old an event may be, in seconds; None keeps all. org: only this organisation's events.

    Returns:
        The number of deleted events.

    Raises:
        StoreUnavailable: some of them may be deleted.
    """
    if events_s is not None and not events_s >= 0:
        raise InvalidInput(f"prune: the age is {quoted(events_s)}, must be seconds of at least 0")
    now = now or datetime.now(timezone.utc)
    gone = 0
    while events_s is not None:
        some = delete_old_events(database, now - timedelta(seconds=events_s), _SOME, org)
        gone += some
        if some < _SOME:
            break
    delete_old_counts(database, now)
    return gone


def delete_old_events(database: Database, before: datetime, most: int, org: str | None = None) -> int:
    """Deletes at most so many events that are older than this, the oldest first. Returns how many.

    One short transaction, which waits for no other writer's rows: any number of processes may do it at once.
    """
    table = tables.selection_events
    old = sa.select(table.c.event_id).where(table.c.at < before)
    if org is not None:
        old = old.where(table.c.org == org)
    with database.reading() as connection:  # most often there are none, and writers need not be held up
        if connection.execute(old.limit(1)).first() is None:
            return 0
    with database.recording() as connection:
        # a locked event is being deleted by another process, or a late report changes it
        query = old.order_by(table.c.at).limit(most).with_for_update(skip_locked=True)
        ids = connection.execute(query).scalars().all()
        for some in batches(ids, 500):
            connection.execute(sa.delete(table).where(table.c.event_id.in_(some)))
    return len(ids)


def delete_old_counts(database: Database, now: datetime) -> None:
    """Deletes counts of reporters that no longer limit anything."""
    day = (now - timedelta(days=_DAYS_COUNTED)).date()
    counts = tables.reporter_counts
    old = counts.c.day < day
    with database.reading() as connection:
        if connection.execute(sa.select(counts.c.day).where(old).limit(1)).first() is None:
            return
    with database.recording() as connection:
        connection.execute(sa.delete(counts).where(old))


def stored_bytes(database: Database) -> int:
    """The bytes of events and outcomes on PostgreSQL; on SQLite those of the whole file.

    Cheap on both. SQLite's includes pages that deleted rows have left and later rows will fill.
    """
    with database.reading() as connection:
        if database.dialect == "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        sizes = [sa.func.pg_total_relation_size(sa.cast(sa.literal(table.name), REGCLASS)) for table in _LOGS]
        return sum(map(int, connection.execute(sa.select(*sizes)).one()))
