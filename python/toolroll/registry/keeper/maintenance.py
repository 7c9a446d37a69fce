"""Maintains stored events and outcomes: voids outcomes, rebuilds statistics, deletes old events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCLASS

from toolroll.model.errors import InvalidInput, quoted
from toolroll.registry.events import hours, learned_rows, lease
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.fold import outcomes_of
from toolroll.registry.events.hour_selects import hour_of
from toolroll.registry.store import bulk_insert, partitions, tables
from toolroll.registry.store.database import CHANNEL, OUTCOMES, Database, checked_text
from toolroll.registry.store.revision import revision_in
from toolroll.registry.store.row_reader import Row, read_rows
from toolroll.runtime.gil import batches

_READ = 500  # outcomes that are decoded at once
_SOME = 5_000  # events that one transaction deletes
_LOGS = (tables.selection_events, tables.outcomes, tables.logged_tools)
HOURS_S = 400 * 86_400.0  # how long the sums of hours are kept, if events are pruned at all
_INSTANT = timedelta(microseconds=1)
_DAYS_COUNTED = 3  # how long the counts of reporters are kept


@dataclass(frozen=True, slots=True)
class OutcomeFilter:
    """Selects outcomes of an organisation; None matches all.

    Attributes:
        event: outcomes of the event with this id.
        reporter: outcomes of this reporter's events.
        tool: outcomes of events with a report on this tool.
        since, until: outcomes of events in this time.
    """

    event: str | None = None
    reporter: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("event", "reporter", "tool"):
            value = getattr(self, name)
            if value is not None:
                checked_text(value, name)
        for name in ("since", "until"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
                raise InvalidInput(f"{name}: is {quoted(value)}, must be a datetime with its time zone")
        if all(getattr(self, name) is None for name in self.__slots__):
            raise InvalidInput("forget: say which outcomes to void: by event, reporter, tool or time")


def forget(
    database: Database,
    org: str,
    matching: OutcomeFilter,
    *,
    actor: str,
    reason: str = "",
) -> int:
    """Voids outcomes, whole events at a time: they stay in the store but no longer count.

    The same transaction folds the remaining outcomes again. New reports on these events have no weight.
    Returns the number of events.

    Raises:
        StoreUnavailable: nothing was changed.
    """
    checked_text(org, "org")
    checked_text(actor, "actor")
    checked_text(reason, "reason")
    table, now = tables.outcomes, datetime.now(timezone.utc)
    with database.recording() as connection:
        lease.lock(connection)
        events = _events(connection, org, matching)
        if not events:
            return 0
        for some in batches(events, 500):
            here = (table.c.org == org) & table.c.event_id.in_(some) & table.c.voided_at.is_(None)
            connection.execute(sa.update(table).where(here).values(voided_at=now))
        learned_rows.refold(connection, org, outcomes_of(connection, org))
        revision = revision_in(connection)
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
            connection.execute(sa.select(sa.func.pg_notify(CHANNEL, OUTCOMES)))
        return len(events)


def _events(connection: sa.Connection, org: str, matching: OutcomeFilter) -> list[str]:
    table = tables.outcomes
    where: list[sa.ColumnElement[bool]] = [table.c.org == org, table.c.voided_at.is_(None)]
    if matching.event is not None:
        where.append(table.c.event_id == matching.event)
    if matching.reporter is not None:
        where.append(table.c.reporter == matching.reporter)
    if matching.since is not None:
        where.append(table.c.at >= matching.since)
    if matching.until is not None:
        where.append(table.c.at <= matching.until)
    columns = (table.c.org, table.c.seq, table.c.event_id, table.c.details)
    rows: list[Row] = list(read_rows(connection, columns, *where))
    if matching.tool is not None:
        reader = EntryReader(connection)
        found = list[Row]()
        for some in batches(rows, _READ):
            found += _tools_of(reader, some)
        rows = [row for row in found if matching.tool in row["tools"]]
    return sorted({row["event_id"] for row in rows})


def _tools_of(reader: EntryReader, rows: Sequence[Row]) -> list[Row]:
    """The rows, each with the names of its reported tools."""
    read = reader(row["details"] for row in rows)
    return [
        {**row, "tools": {entry.tool.name for entry in entries if entry.after is not None}}
        for row, (entries, _) in zip(rows, read, strict=True)
    ]


def rebuild(database: Database, orgs: Iterable[str] | None = None) -> dict[str, int]:
    """Rebuilds the statistics from the outcomes, organisation by organisation.

    Returns organisation → the number of rows that differed from the outcomes: 0 without damage.
    """
    state = tables.learning_state
    with database.reading() as connection:
        rows = list(read_rows(connection, list(state.c)))
    known = sorted(row["org"] for row in rows)
    wrong: dict[str, int] = {}
    for org in known if orgs is None else sorted(set(orgs) & set(known)):
        with database.recording() as connection:
            lease.lock(connection)
            wrong[org] = learned_rows.refold(connection, org, outcomes_of(connection, org))
    return wrong


def prune(
    database: Database,
    *,
    events_s: float | None = None,
    hours_s: float | None = None,
    org: str | None = None,
    now: datetime | None = None,
) -> int:
    """Deletes old events, sums and counts of reporters. Outcomes stay. Returns the number of deleted events.

    events_s, hours_s: the greatest age of an event, and of a sum, in seconds; None keeps all. org: deletes
        only this organisation's.

    Raises:
        StoreUnavailable: some of them may be deleted.
    """
    for age in (events_s, hours_s):
        if age is not None and not age >= 0:
            raise InvalidInput(f"prune: the age is {quoted(age)}, must be seconds of at least 0")
    now, gone = now or datetime.now(timezone.utc), 0
    if events_s is not None and org is None and database.dialect == "postgresql":
        gone += drop_old_months(database, now - timedelta(seconds=events_s))
    while events_s is not None:
        some = delete_old_events(database, now - timedelta(seconds=events_s), _SOME, org, now=now)
        gone += some
        if some < _SOME:
            break
    if hours_s is not None:
        delete_old_hours(database, now - timedelta(seconds=hours_s), org)
    delete_old_counts(database, now)
    return gone


def delete_old_events(
    database: Database, before: datetime, most: int, org: str | None = None, *, now: datetime | None = None
) -> int:
    """Deletes at most `most` older events, the oldest first, after their hours were summed. Returns how many.

    now: its hour is not summed; None for the present time. One short transaction that waits for no locked
        row, so the keeper and commands may run at once.
    """
    return _delete_old(database, tables.selection_events, before, most, org, now)


def _delete_old(
    database: Database,
    table: Any,
    before: datetime,
    most: int,
    org: str | None = None,
    now: datetime | None = None,
) -> int:
    old = sa.select(table.c.org, table.c.event_id).where(table.c.at < before)
    if org is not None:
        old = old.where(table.c.org == org)
    with database.reading() as connection:  # most often there are none, and writers need not be held up
        if connection.execute(old.limit(1)).first() is None:
            return 0
    whole = min(hour_of(before - _INSTANT) + hours.AN_HOUR, hour_of(now or datetime.now(timezone.utc)))

    def delete(connection: sa.Connection) -> int:
        # a locked event is being deleted by another process, or a late report changes it
        query = old.order_by(table.c.at).limit(most).with_for_update(skip_locked=True)
        keys = [tuple(row) for row in connection.execute(query)]
        for some in batches(keys, 500):
            place = sa.tuple_(table.c.org, table.c.event_id)
            connection.execute(sa.delete(table).where(place.in_(some), table.c.at < before))
        return len(keys)

    return _once_summed(database, whole, org, delete)


def _once_summed(
    database: Database, before: datetime, org: str | None, delete: Callable[[sa.Connection], int]
) -> int:
    """Deletes events before this time in a transaction, once all their hours are summed."""
    while True:
        with database.recording() as connection:
            if hours.freeze(connection, before, org):
                return delete(connection)
            hours.sum_before(connection, before, org)


def drop_old_months(database: Database, before: datetime) -> int:
    """Drops PostgreSQL's tables of months that ended before this time, and creates tables of the next months.

    Returns the number of dropped events. One transaction, which waits for a lock for half a second at most.

    Raises:
        StoreUnavailable: the tables are locked; try again later.
    """
    table = tables.selection_events
    with database.reading() as connection:
        is_old = any(end <= before for _, end in partitions.months(connection, table))
        ends = [partitions.covered_until(connection, each) for each in partitions.BY_MONTH]
    ahead = datetime.now(timezone.utc) + timedelta(days=28 * partitions.AHEAD)
    if any(end is None or end < ahead for end in ends):
        with database.recording() as connection:
            partitions.make_ahead(connection, datetime.now(timezone.utc))
    if not is_old:
        return 0

    def drop(connection: sa.Connection) -> int:
        return partitions.drop_before(connection, table, before)

    return _once_summed(database, partitions.month_of(before), None, drop)


def delete_stray_events(database: Database, before: datetime, most: int) -> int:
    """Deletes at most `most` older events of PostgreSQL's default partition. Returns how many."""
    return _delete_old(database, partitions.default_of(tables.selection_events), before, most)


def delete_old_hours(database: Database, before: datetime, org: str | None = None) -> None:
    """Deletes the sums of days that ended before this time."""
    with database.reading() as connection:
        if not hours.are_older(connection, before, org):
            return
    with database.recording() as connection:
        hours.delete_old(connection, before, org)


def delete_old_counts(database: Database, now: datetime) -> None:
    """Deletes counts of reporters that are too old to limit reports."""
    day = (now - timedelta(days=_DAYS_COUNTED)).date()
    counts = tables.reporter_counts
    old = counts.c.day < day
    with database.reading() as connection:
        if connection.execute(sa.select(counts.c.day).where(old).limit(1)).first() is None:
            return
    with database.recording() as connection:
        connection.execute(sa.delete(counts).where(old))


def stored_bytes(database: Database) -> int:
    """The bytes of events and outcomes on PostgreSQL; of the whole file on SQLite, with its free pages."""
    with database.reading() as connection:
        if database.dialect == "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        names = [sa.cast(sa.literal(table.name), REGCLASS) for table in _LOGS]
        parts = sa.union(
            *(sa.select(sa.func.pg_partition_tree(name).table_valued("relid").c.relid) for name in names),
            *(sa.select(name) for name in names),
        ).subquery()
        size = sa.func.sum(sa.func.pg_total_relation_size(parts.c[0]))
        return int(connection.execute(sa.select(size)).scalar_one())
