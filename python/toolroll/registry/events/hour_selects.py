"""Sums of events by hour: one SELECT … GROUP BY for each table of sums.

The keeper stores the rows of past hours; reports compute the same rows from the events of other hours. All
numbers are integers, so that the order of additions does not matter.

If only a `share` of the selections was logged, an event counts as 1 / `share`. All sums but `logged` are in
thousandths. Durations are counted in the buckets of `bucket_of`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, TypeAlias

import sqlalchemy as sa

from toolroll.learning.outcomes import CALLED, FAILED, SUCCEEDED, WANTED
from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import items, pairs

# The outcomes of an event, the most important one of its tools'; "unused" if no tool was called.
OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused")
# Outcomes with a known reward: 1 if the called tool succeeded, else 0, also if nothing was called.
ANSWERED = ("succeeded", "failed", "corrected", "wanted", "unused")
HOUR, DAY = 1, 24  # `hours` of a sum
UNIT = 1_000  # sums are of thousandths
UNTIMED = -1_000_000  # the bucket of a tool's numbers other than durations
LATENCY_STEPS = 64  # buckets in an octave: a quantile is at most 0.8 % off
DURATION_STEPS = 8  # of durations, which each tool has: at most 6.3 % off
_OCTAVES = range(-9, 42)  # of times: up to some 10^12
_SHORTEST = 1e-3
_GREATEST_WEIGHT = 10**12  # so that no share, however small, makes a number too large to be stored

_events, _experiments = tables.selection_events, tables.experiments

Number: TypeAlias = sa.ColumnElement[Any]
# (dialect, conditions on events) → the rows of one table of sums.
HourSelect: TypeAlias = Callable[[str, Sequence[sa.ColumnElement[bool]]], sa.Select[Any]]


def hour_of(at: datetime) -> datetime:
    """The UTC hour of a time."""
    return at.astimezone(timezone.utc).replace(minute=0, second=0, microsecond=0)


def day_of(at: datetime) -> datetime:
    """The UTC day of a time."""
    return hour_of(at).replace(hour=0)


def hour_in_sql(dialect: str, at: sa.ColumnElement[datetime], unit: str = "hour") -> Number:
    """SQL for the beginning of a time's hour, or of another unit ("day")."""
    if dialect == "postgresql":
        return sa.func.date_trunc(unit, at, "UTC", type_=tables.Instant())
    form = "%Y-%m-%d %H:00:00.000000" if unit == "hour" else "%Y-%m-%d 00:00:00.000000"
    return sa.func.strftime(form, at, type_=tables.Instant())


def day_in_sql(dialect: str, at: sa.ColumnElement[datetime]) -> Number:
    """SQL for the day of a time."""
    return hour_in_sql(dialect, at, "day")


@lru_cache(maxsize=8)
def bucket_of(dialect: str, time: str, steps: int) -> Number:
    """The bucket of a duration: each octave has `steps` buckets of equal width. Needs no logarithm.

    time: a number in SQL. Durations below the shortest share its bucket; durations above the last octave
        share its last bucket.
    """
    least = _OCTAVES[0] * steps + int(math.ldexp(_SHORTEST, -_OCTAVES[0]) * 2 * steps) - steps

    def within(begin: int, end: int) -> str:
        """The bucket of a duration in the octaves from `begin` to `end`."""
        if begin < end:
            middle = (begin + end) // 2
            rest = within(begin, middle), within(middle + 1, end)
            return f"CASE WHEN {time} < {2.0**middle!r} THEN {rest[0]} ELSE {rest[1]} END"
        step = f"{time} * {2 * steps * 2.0**-end!r} - {steps}.0"
        if dialect == "postgresql":
            step = f"floor({step})"  # SQLite's cast leaves out the fraction, PostgreSQL's rounds
        return f"{end * steps} + CAST({step} AS BIGINT)"

    last = _OCTAVES[-1]
    return sa.literal_column(
        f"CASE WHEN {time} < {_SHORTEST!r} THEN {least} WHEN {time} < {2.0**last!r} "
        f"THEN {within(_OCTAVES[0], last)} ELSE {last * steps + steps - 1} END",
        sa.BigInteger,
    )


def middle_of(bucket: int, steps: int) -> float:
    """The middle of a bucket, in the unit of the durations."""
    octave, step = divmod(bucket, steps)
    return math.ldexp(0.5 + (step + 0.5) / (2 * steps), octave)


def _whole(value: Number) -> Number:
    return sa.cast(value, sa.BigInteger)


# Literals: a parameter in a grouped expression would not equal itself.


def _integer(number: int) -> Number:
    return sa.literal_column(str(number), sa.BigInteger)


def _real(number: float) -> Number:
    return sa.literal_column(repr(float(number)), sa.Double)


def _one_of(column: Number, words: Iterable[str]) -> sa.ColumnElement[bool]:
    return column.in_([sa.literal_column(f"'{word}'") for word in sorted(words)])


def _weight() -> Number:
    """The number of selections, in thousandths, for which an event counts."""
    share = _events.c.share
    greatest = (share < _real(UNIT / _GREATEST_WEIGHT), _integer(_GREATEST_WEIGHT))
    return sa.case(greatest, else_=_whole(sa.func.round(_real(UNIT) / share)))


def _if(condition: sa.ColumnElement[bool], number: Number) -> Number:
    return sa.case((condition, number), else_=_integer(0))


def _grouped(rows: sa.Subquery, table: sa.Table, sums: Mapping[str, Number]) -> sa.Select[Any]:
    """Rows of these sums, grouped by a table's key, in the order of its columns."""
    keys = {column.name: rows.c[column.name] for column in table.primary_key if column.name != "hours"}
    columns = {**keys, **sums, "hours": _integer(HOUR)}
    return sa.select(*(columns[column.name].label(column.name) for column in table.c)).group_by(
        *keys.values()
    )


def _summed(rows: sa.Subquery, table: sa.Table) -> dict[str, Number]:
    names = [column.name for column in table.c if not column.primary_key and column.name in rows.c]
    return {name: sa.func.sum(rows.c[name]) for name in names}


def _of_hours(dialect: str, where: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    count = sa.func.json_array_length
    rows = (
        sa.select(
            _events.c.org,
            hour_in_sql(dialect, _events.c.at).label("at"),
            *(_events.c[name] for name in ("profile", "experiment", "variant", "outcome")),
            (sa.cast if dialect == "postgresql" else sa.type_coerce)(_events.c.degraded, sa.Text).label(
                "degraded"
            ),
            _weight().label("weight"),
            *(_events.c[name] for name in ("latency_us", "tokens_selected", "tokens_total")),
            count(_events.c.selected).label("tools"),
            _events.c.at.label("event_at"),
        )
        .where(*where)
        .subquery()
    )
    weight = rows.c.weight
    sums: dict[str, Number] = {"logged": sa.func.count(), "selections": sa.func.sum(weight)}
    for name in OUTCOMES:
        sums[name] = sa.func.sum(_if(_one_of(rows.c.outcome, [name]), weight))
    sums["latency_us"] = sa.func.sum(_whole(sa.func.round(rows.c.latency_us * weight)))
    for name in ("tokens_selected", "tokens_total", "tools"):
        sums[name] = sa.func.sum(rows.c[name] * weight)
    sums["first_at"], sums["last_at"] = sa.func.min(rows.c.event_at), sa.func.max(rows.c.event_at)
    return _grouped(rows, tables.selection_sums, sums)


def _of_latencies(dialect: str, where: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    rows = (
        sa.select(
            _events.c.org,
            hour_in_sql(dialect, _events.c.at).label("at"),
            bucket_of(dialect, f"{_events.name}.latency_us", LATENCY_STEPS).label("bucket"),
            _weight().label("selections"),
        )
        .where(*where)
        .subquery()
    )
    return _grouped(rows, tables.latency_sums, _summed(rows, tables.latency_sums))


def _of_tools(dialect: str, where: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    weight, table = _weight(), tables.tool_sums
    numbers = [column.name for column in table.c if not column.primary_key]

    def rows(page: Any, tool: Any, bucket: Any, counts: Mapping[str, Number]) -> sa.Select[Any]:
        return sa.select(
            _events.c.org,
            hour_in_sql(dialect, _events.c.at).label("at"),
            page.label("page"),
            tool.label("tool"),
            bucket.label("bucket"),
            *(counts.get(name, _integer(0)).label(name) for name in numbers),
        ).where(*where)

    untimed, page = _integer(UNTIMED), _events.c.page
    shown = items(dialect, _events.c.selected)
    of_shown = rows(page, shown.c.value, untimed, {"selected": weight})
    call, item = pairs(dialect, _events.c.called), items(dialect, _events.c.selected)
    kind = call.c.value
    was_shown = sa.exists(
        sa.select(1).select_from(item).where(item.c.value == call.c.key).correlate(_events, call)
    )
    of_called = rows(
        page,
        call.c.key,
        untimed,
        {
            "reported": weight,
            "called": _if(_one_of(kind, CALLED), weight),
            "succeeded": _if(_one_of(kind, SUCCEEDED), weight),
            "failed": _if(_one_of(kind, FAILED), weight),
            "needed": _if(sa.not_(_one_of(kind, ["corrected"])), weight),
            "hits": sa.case(
                (_one_of(kind, WANTED), weight),
                (sa.and_(_one_of(kind, ["meant"]), was_shown), weight),
                else_=_integer(0),
            ),
        },
    )
    timed = pairs(dialect, _events.c.durations_ms, "timed")
    duration = sa.literal_column(
        "CAST(timed.value AS DOUBLE PRECISION)" if dialect == "postgresql" else "timed.value", sa.Double
    )
    of_timed = rows(
        sa.literal_column("''"),  # reports tell durations by tool, not by page
        timed.c.key,
        bucket_of(dialect, duration.name, DURATION_STEPS),
        {"timed": weight, "duration_ms": _whole(sa.func.round(duration * weight))},
    )
    every = sa.union_all(of_shown, of_called, of_timed).subquery()
    return _grouped(every, table, _summed(every, table))


def _of_units(dialect: str, where: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    is_its = sa.and_(_experiments.c.name == _events.c.experiment, _events.c.at >= _experiments.c.begun_at)
    rows = (
        sa.select(
            _events.c.org,
            hour_in_sql(dialect, _events.c.at).label("at"),
            *(_events.c[name] for name in ("experiment", "unit", "variant", "outcome")),
            _weight().label("weight"),
        )
        .select_from(_events.join(_experiments, is_its))
        .where(_events.c.experiment != "", *where)
        .subquery()
    )
    one, is_known = _integer(1), _one_of(rows.c.outcome, ANSWERED)
    sums = {
        "unknown": sa.case((is_known, _integer(0)), else_=rows.c.weight),
        "answered": _if(is_known, one),
        "succeeded": _if(_one_of(rows.c.outcome, ["succeeded"]), one),
    }
    summed = {name: sa.func.sum(number) for name, number in sums.items()}
    return _grouped(rows, tables.unit_sums, summed)


def days_of(table: sa.Table, where: Sequence[sa.ColumnElement[bool]], day: Number) -> sa.Select[Any]:
    """The sums of a day, from the sums of its hours. day: its begin."""
    kept = {column.name: column for column in table.primary_key}
    columns: dict[str, Number] = {**kept, "hours": _integer(DAY), "at": day}
    for column in table.c:
        if not column.primary_key:
            ends = {"first_at": sa.func.min(column), "last_at": sa.func.max(column)}
            columns[column.name] = ends.get(column.name, sa.func.sum(column))
    keys = [column for name, column in kept.items() if name not in ("hours", "at")]
    named = (columns[column.name].label(column.name) for column in table.c)
    return sa.select(*named).where(table.c.hours == _integer(HOUR), *where).group_by(*keys)


SELECTS: Mapping[sa.Table, HourSelect] = {
    tables.selection_sums: _of_hours,
    tables.latency_sums: _of_latencies,
    tables.tool_sums: _of_tools,
    tables.unit_sums: _of_units,
}
