"""Keeps the sums of events by hour, which reports read.

The keeper sums an hour after its end (`sum_changed`), and again after one of its events changed. A
transaction that writes or changes an event marks its hour (`mark`); reports read a marked hour, such as the
running one, from its events. Sums outlive their events: hours before a deletion are never summed again
(`freeze`). A day without marked hours also has daily sums, so reports on long times read fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolroll.registry.events.hour_selects import DAY, HOUR, SELECTS, day_of, days_of, hour_of
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import merge

AN_HOUR, A_DAY = timedelta(hours=1), timedelta(days=1)
SETTLED_AFTER = timedelta(minutes=10)  # most outcomes of an hour's last events have arrived by then
_EVENTS, _HOURS = 10_000, 200  # the most that one step sums, in some 0.2 s

_sums, _events = tables.selection_sums, tables.selection_events
_registry, _learning = tables.registry_state, tables.learning_state


def mark(connection: sa.Connection, events: Iterable[tuple[str, datetime]]) -> None:
    """Marks the hours of new or changed events. events: the organisation and time of each event."""
    places = sorted({(org, hour_of(at)) for org, at in events})
    keys = dict.fromkeys(("profile", "experiment", "variant", "degraded"), "")
    numbers = {column.name: 0 for column in _sums.c if isinstance(column.type, sa.BigInteger)}
    rows = (
        {"org": org, "hours": HOUR, "at": at, **keys, **numbers, "first_at": at, "last_at": at}
        for org, at in places
    )
    merge(connection, _sums, rows)


def is_changed(sums: Any = _sums) -> sa.ColumnElement[bool]:
    """The condition for marks whose hour must be read from its events."""
    mine, every = _learning.c.events_since, _registry.c.events_since
    of_org = sa.exists().where(_learning.c.org == sums.c.org, mine > sums.c.at)
    of_all = sa.exists().where(every > sums.c.at)
    return sa.and_(sums.c.logged == sa.literal_column("0"), ~of_org, ~of_all)


class _Hour(NamedTuple):
    org: str
    at: datetime
    position: datetime  # up to when its events are summed

    @property
    def end(self) -> datetime:
        return self.at + AN_HOUR


def sum_changed(connection: sa.Connection, now: datetime) -> bool:
    """`sum_before`, for all hours old enough that their outcomes rarely change."""
    return sum_before(connection, now - SETTLED_AFTER)


def sum_before(connection: sa.Connection, end: datetime, org: str | None = None) -> bool:
    """Sums some marked hours before this time, the oldest first. Returns whether more are left.

    Takes some tenths of a second. A large hour takes several calls.
    """
    mine = [] if org is None else [_sums.c.org == org]
    over = [*mine, _sums.c.logged == sa.literal_column("0"), _sums.c.at <= end - AN_HOUR]
    query = (
        sa.select(_sums.c.org, _sums.c.at, _sums.c.last_at, is_changed())
        .where(*over)
        .order_by(_sums.c.at, _sums.c.org)
        .limit(_HOURS)
        .with_for_update(skip_locked=True)  # another process sums it, or its events are changing
    )
    found, left = connection.execute(query).all(), _EVENTS
    for name, at, position, is_kept in found:
        hour = _Hour(name, at, position)
        if is_kept:
            left -= _sum(connection, hour, left)
        else:
            _unmark(connection, hour)
        if left <= 0:
            return True
    return len(found) == _HOURS


def _sum(connection: sa.Connection, hour: _Hour, most: int) -> int:
    """Adds about `most` events of an hour to its sums. Returns their number."""
    within = [_events.c.org == hour.org, _events.c.at >= hour.position, _events.c.at < hour.end]
    times = sa.select(_events.c.at).where(*within).order_by(_events.c.at)
    end = connection.execute(times.where(_events.c.at > hour.position).limit(1).offset(most)).scalar()
    count = most + 1
    if end is None:
        end = hour.end
        count = connection.execute(
            sa.select(sa.func.count()).select_from(_events).where(*within)
        ).scalar_one()
    for table in SELECTS:
        if hour.position == hour.at:
            gone = sa.delete(table).where(*_of_hour(table, hour))
            connection.execute(gone if table is not _sums else gone.where(_sums.c.logged > 0))
        part = {"of": hour.org, "since": hour.position, "until": end}
        connection.execute(_adding(connection.dialect.name, table), part)
    if end == hour.end:
        _unmark(connection, hour)
    else:
        connection.execute(sa.update(_sums).where(*_mark_of(hour)).values(last_at=end))
    return count


def _mark_of(hour: _Hour) -> list[sa.ColumnElement[bool]]:
    return [*_of_hour(_sums, hour), _sums.c.logged == sa.literal_column("0")]


def _of_hour(table: sa.Table, hour: _Hour) -> list[sa.ColumnElement[bool]]:
    return [table.c.org == hour.org, table.c.hours == HOUR, table.c.at == hour.at]


def _unmark(connection: sa.Connection, hour: _Hour) -> None:
    """Deletes an hour's mark, and sums its day if no other hour of it has a mark."""
    connection.execute(sa.delete(_sums).where(*_mark_of(hour)))
    day = day_of(hour.at)

    def within(table: sa.Table) -> list[sa.ColumnElement[bool]]:
        return [table.c.org == hour.org, table.c.at >= day, table.c.at < day + A_DAY]

    if connection.execute(sa.select(_sums.c.at).where(*within(_sums), is_changed()).limit(1)).first():
        return
    counts = _sums.c.logged > 0
    for table in SELECTS:
        its = [table.c.org == hour.org, table.c.hours == DAY, table.c.at == day]
        connection.execute(sa.delete(table).where(*its))
        rows = days_of(
            table, [*within(table), *([counts] if table is _sums else [])], sa.literal(day, tables.Instant())
        )
        connection.execute(sa.insert(table).from_select([column.name for column in table.c], rows))


@lru_cache(maxsize=2 * len(SELECTS))
def _adding(dialect: str, table: sa.Table) -> Any:
    """INSERT … SELECT of an organisation's events between two times; adds to the rows of earlier calls."""
    is_postgresql = dialect == "postgresql"
    rows = SELECTS[table](
        dialect,
        [
            _events.c.org == sa.bindparam("of"),
            _events.c.at >= sa.bindparam("since"),
            _events.c.at < sa.bindparam("until"),
        ],
    )
    statement: Any = (postgresql if is_postgresql else sqlite).insert(table)
    statement = statement.from_select([column.name for column in table.c], rows)
    least, most = (sa.func.least, sa.func.greatest) if is_postgresql else (sa.func.min, sa.func.max)
    sums = {}
    for column in table.c:
        if not column.primary_key:
            added = statement.excluded[column.name]
            ends = {"first_at": least(column, added), "last_at": most(column, added)}
            sums[column.name] = ends.get(column.name, column + added)
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=sums)


# Deleted events.


def freeze(connection: sa.Connection, before: datetime, org: str | None = None) -> bool:
    """Forbids new sums of hours before this time, so that their events can be deleted.

    Returns whether all these hours are summed; if not, nothing changes. before: the begin of an hour.
    """
    mine = [] if org is None else [_sums.c.org == org]
    if connection.execute(sa.select(_sums.c.org).where(*mine, is_changed(), _sums.c.at < before)).first():
        return False
    state = _registry if org is None else _learning
    where = sa.or_(state.c.events_since.is_(None), state.c.events_since < before)
    if org is not None:
        where = sa.and_(state.c.org == org, where)
    connection.execute(sa.update(state).where(where).values(events_since=before))
    return True


def are_older(connection: sa.Connection, before: datetime, org: str | None = None) -> bool:
    """Whether there are sums of days that ended before this time."""
    return (
        connection.execute(sa.select(_sums.c.at).where(*_old(_sums, before, org)).limit(1)).first()
        is not None
    )


def delete_old(connection: sa.Connection, before: datetime, org: str | None = None) -> None:
    """Deletes the sums of days that ended before this time. Sums of experiments stay."""
    for table in (tables.selection_sums, tables.latency_sums, tables.tool_sums):
        connection.execute(sa.delete(table).where(*_old(table, before, org)))


def _old(table: sa.Table, before: datetime, org: str | None) -> list[sa.ColumnElement[bool]]:
    mine = [] if org is None else [table.c.org == org]
    return [*mine, table.c.hours.in_((HOUR, DAY)), table.c.at < day_of(before)]  # both, for the index
