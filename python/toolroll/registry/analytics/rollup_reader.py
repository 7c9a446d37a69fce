"""Reads the sums of events that `events.rollups` keeps: reports on any time read a row for each day or hour.

Reports begin and end with whole hours: the first hour and the last one count as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window
from toolroll.registry.events.rollups import DAY, HOUR, UNIT, day_of, first_whole_day, hour_of

T = TypeVar("T")
Conditions: TypeAlias = "Sequence[sa.ColumnElement[bool]]"

_ROUNDING = 1e-9  # sums of weights are rounded


def whole_hours(window: Window) -> Window:
    """The window from the beginning of its first hour to the end of its last."""
    since, until = window.since, window.until
    if until is not None and (end := hour_of(until)) != until:
        until = end + timedelta(hours=1)
    return Window(window.org, None if since is None else hour_of(since), until)


def over_rollups(
    connection: sa.Connection,
    table: sa.Table,
    window: Window,
    report: Callable[[sa.Connection, Conditions], T],
    *,
    by_hour: bool = False,
) -> T:
    """What a report makes of the sums of a window.

    report: gets the conditions on `table`. Within it, the cells of days stand for whole days.
    by_hour: reads only cells of hours.
    """
    where = _cells(table, whole_hours(window), by_hour)
    return report(connection, where)


def _cells(table: sa.Table, window: Window, by_hour: bool) -> Conditions:
    hours, at = table.c.hours, table.c.at
    mine = [] if window.org is None else [table.c.org == window.org]
    if by_hour:
        return [hours == HOUR, *window.of(table)]
    since = None if window.since is None else first_whole_day(window.since)
    until = None if window.until is None else day_of(window.until)
    if since is not None and until is not None and since >= until:  # within a day, or two
        return [hours == HOUR, *window.of(table)]
    days = Window(None, since, until).of(table)
    edges = []
    if window.since is not None and since is not None and window.since < since:
        edges.append(sa.and_(hours == HOUR, at >= window.since, at < since))
    if window.until is not None and until is not None and until < window.until:
        edges.append(sa.and_(hours == HOUR, at >= until, at < window.until))
    return [*mine, sa.or_(sa.and_(hours == DAY, *days), *edges)]


def bucket_at(buckets: Sequence[tuple[int, float]], share: float) -> int | None:
    """The bucket of a quantile by nearest rank; None without any.

    buckets: bucket → its number, in ascending order.
    """
    number, rank = math.fsum(count for _, count in buckets), 0.0
    for bucket, count in buckets:
        rank += count
        if number and rank >= share * number * (1 - _ROUNDING):
            return bucket
    return None


def total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The sum of a column, in selections, calls or whatever it counts."""
    return sa.func.sum(sa.cast(column, sa.Double)) / UNIT
