"""The sums of a window's events: stored sums, and for changed hours sums computed from the events.

Reports begin and end with whole hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window
from toolroll.registry.events.hour_selects import (
    DAY,
    HOUR,
    SELECTS,
    UNIT,
    day_in_sql,
    day_of,
    hour_in_sql,
    hour_of,
)
from toolroll.registry.events.hours import A_DAY, AN_HOUR, is_changed
from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import items

_ROUNDING = 1e-9  # sums of weights are rounded
_RANGES = 100  # hours, or days, that are read by a condition each; of more, by one for all

_sums, _events = tables.selection_sums, tables.selection_events
_Times = list[tuple[datetime | None, datetime | None]]  # begins and ends


def whole_hours(window: Window) -> Window:
    """The window from the beginning of its first hour to the end of its last."""
    since, until = window.since, window.until
    if until is not None and (end := hour_of(until)) != until:
        until = end + AN_HOUR
    return Window(window.org, None if since is None else hour_of(since), until)


class WindowSums:
    """The rows of the tables of sums, for the hours of a window."""

    def __init__(self, connection: sa.Connection, window: Window, *, by_hour: bool = False) -> None:
        """Reads the marks of changed hours, in one transaction with `of`. by_hour: reads no sums of days."""
        self._dialect, self._window = connection.dialect.name, whole_hours(window)
        since, until = self._window.since, self._window.until
        self._days = since and first_whole_day(since), until and day_of(until)
        self._has_days = not by_hour and not (since and until and first_whole_day(since) >= day_of(until))
        mine = [] if window.org is None else [_sums.c.org == window.org]
        begin, end = since and day_of(since), until and first_whole_day(until)
        changed = [*mine, *_within(_sums.c.at, [(begin, end)]), is_changed()]
        self._changed = sa.select(_sums.c.org, _sums.c.at).where(*changed)
        self._changed_days = sa.select(_sums.c.org, day_in_sql(self._dialect, _sums.c.at)).where(*changed)
        of = self._changed.subquery()
        found = connection.execute(sa.select(of.c.at).distinct().order_by(of.c.at)).scalars()
        self._live = _ranges(found, AN_HOUR)
        self._live_days = _ranges(sorted({day_of(at) for at, _ in self._live if at}), A_DAY)

    def of(self, table: sa.Table) -> sa.Subquery:
        """The rows of one of the tables."""
        stored = sa.select(table).where(*self._of_stored(table))
        if table is _sums:
            stored = stored.where(_sums.c.logged > 0)
        if not self._live:
            return stored.subquery()
        at = _events.c.at
        place = sa.tuple_(_events.c.org, hour_in_sql(self._dialect, at))
        events = [*self._window.of(_events), *_within(at, self._live), place.in_(self._changed)]
        return sa.union_all(stored, SELECTS[table](self._dialect, events)).subquery()

    def _of_stored(self, table: sa.Table) -> Sequence[sa.ColumnElement[bool]]:
        """Selects stored sums: of whole days, and of single hours around and between them."""
        at, window = table.c.at, self._window
        mine = [] if window.org is None else [table.c.org == window.org]
        an_hour: sa.ColumnElement[bool] = table.c.hours == HOUR
        if self._live:
            place = sa.tuple_(table.c.org, at)
            an_hour = sa.and_(an_hour, sa.or_(at < self._live[0][0], place.not_in(self._changed)))
        if not self._has_days:
            return [*mine, an_hour, *_within(at, [(window.since, window.until)])]
        first, last = self._days
        edges = [*([(window.since, first)] if first else []), *([(last, window.until)] if last else [])]
        a_day = sa.and_(table.c.hours == DAY, *_within(at, [(first, last)]))
        if not self._live:
            return [*mine, sa.or_(a_day, sa.and_(an_hour, *_within(at, edges)) if edges else sa.false())]
        place = sa.tuple_(table.c.org, day_in_sql(self._dialect, at))
        is_changed_day = sa.and_(*_within(at, self._live_days), place.in_(self._changed_days))
        a_day = sa.and_(a_day, sa.or_(at < self._live_days[0][0], place.not_in(self._changed_days)))
        instead = sa.and_(an_hour, *_within(at, [(first, last)]), is_changed_day)
        return [*mine, sa.or_(a_day, instead, *([sa.and_(an_hour, *_within(at, edges))] if edges else []))]


def first_whole_day(at: datetime) -> datetime:
    """The first day that begins at this time or later."""
    day = day_of(at)
    return day if day == at else day + A_DAY


def _ranges(begins: Iterable[datetime], length: timedelta) -> _Times:
    """The condition for these times; a single range if there are many."""
    found: _Times = [(begin, begin + length) for begin in begins]
    return found if len(found) <= _RANGES else [(found[0][0], found[-1][1])]


def _within(at: sa.ColumnElement[datetime], times: _Times) -> list[sa.ColumnElement[bool]]:
    """The condition for times within any of these ranges."""
    ands = []
    for since, until in times:
        ends = [*([at >= since] if since else []), *([at < until] if until else [])]
        ands.append(sa.and_(sa.true(), *ends))
    return [sa.or_(*ands)]


def bucket_at(buckets: Iterable[tuple[int, float]], share: float) -> int | None:
    """The bucket of a quantile by nearest rank; None for no buckets. buckets: (bucket, count), ascending."""
    buckets = list(buckets)
    number, rank = math.fsum(count for _, count in buckets), 0.0
    for bucket, count in buckets:
        rank += count
        if number and rank >= share * number * (1 - _ROUNDING):
            return bucket
    return None


def total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The sum of a column, in its own unit."""
    return sa.func.sum(sa.cast(column, sa.Double)) / UNIT


def degraded_parts(connection: sa.Connection, sums: WindowSums) -> Sequence[Any]:
    """Failed parts, the most frequent first: part, selections, first, last."""
    columns = sums.of(tables.selection_sums).c
    alike = (
        sa.select(
            columns.degraded,
            total(columns.selections).label("selections"),
            sa.func.min(columns.first_at).label("first"),
            sa.func.max(columns.last_at).label("last"),
        )
        .where(columns.degraded != "[]")
        .group_by(columns.degraded)
        .subquery()
    )
    of = sa.cast(alike.c.degraded, sa.JSON) if connection.dialect.name == "postgresql" else alike.c.degraded
    part = items(connection.dialect.name, of).c.value.label("part")
    selections = sa.func.sum(alike.c.selections).label("selections")
    ends = (sa.func.min(alike.c.first).label("first"), sa.func.max(alike.c.last).label("last"))
    query = sa.select(part, selections, *ends).select_from(alike).group_by(part)
    return connection.execute(query.order_by(sa.desc("selections"), part)).all()
