"""Sums of events for each organisation and hour, so that reports need not read the events.

`ingest` adds an event's share in the transaction that writes the event, and corrects it in the transaction
that changes the event. So the sums are always those of the events that were ever written; they stay when old
events are deleted. All numbers are integers: the order of additions does not matter, and `rebuild` makes the
same numbers from the events.

Each number is kept twice: for its hour, and for its day, which reports on long times read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa

from toolroll._gil import GilYielder, batches
from toolroll.learning.experiment_counts import ANSWERED
from toolroll.learning.experiments import Unit
from toolroll.learning.selection_figures import OUTCOMES
from toolroll.registry.events.rows import CALLED, SUCCEEDED
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import accumulate
from toolroll.registry.store.row_reader import Row, read_rows

UNIT = 1_000  # numbers are thousandths: an event that sampling kept stands for a fraction of selections
HOUR, DAY = 1, 24  # `hours` of a cell
FAILED: frozenset[Any] = frozenset({"failed", "wanted_failed"})
_HITS: frozenset[Any] = frozenset({"succeeded", "failed", "called"})
_MOST_WEIGHT = 10**12  # so that no share, however small, makes a number too large to be stored
_STEPS = 64  # buckets of the latency in an octave: a quantile is at most 0.8 % off
DURATION_STEPS = 8  # of durations, which each tool has: at most 6.3 % off
_SOME = 100  # keys in one query

TABLES = (
    tables.selection_rollups,
    tables.tool_rollups,
    tables.latency_rollups,
    tables.degraded_rollups,
    tables.duration_rollups,
)
_events, _units, _experiments = tables.selection_events, tables.experiment_units, tables.experiments
# All of an event that its share in the sums depends on.
COLUMNS = tuple(
    _events.c[name]
    for name in (
        *("event_id", "org", "at", "reporter", "session", "page", "profile", "experiment", "variant"),
        *("share", "latency_us"),
        *("tokens_selected", "tokens_total", "selected", "degraded", "called", "outcome", "durations_ms"),
    )
)

Key: TypeAlias = tuple[Any, ...]  # the primary key of a cell
# Experiment → what it gives a variant, and when it began: its earlier events are not its own.
UnitKinds: TypeAlias = Mapping[str, tuple[Unit, datetime]]


class _Span(NamedTuple):
    """The first and the last event of a cell."""

    first: datetime
    last: datetime


class _Cells:
    """Cells of one table: key → its numbers, in the order of the table's columns."""

    def __init__(self, table: sa.Table) -> None:
        self.table = table
        self.keys = [column.name for column in table.primary_key]
        names = [column.name for column in table.c if column.name not in self.keys]
        self.numbers = [name for name in names if not name.endswith("_at")]
        self.has_times = len(self.numbers) < len(names)
        self.is_by_hour = "hours" in self.keys
        self.cells: dict[Key, list[int]] = {}
        self.spans: dict[Key, _Span] = {}

    def add(self, key: Key, numbers: Iterable[int], at: datetime, sign: int) -> None:
        cell = self.cells.get(key)
        if cell is None:
            self.cells[key] = [sign * number for number in numbers]
            self.spans[key] = _Span(at, at)
            return
        for place, number in enumerate(numbers):
            cell[place] += sign * number
        if self.has_times:
            self._stretch(key, _Span(at, at))

    def _stretch(self, key: Key, more: _Span) -> None:
        first, last = self.spans[key]
        if more.first < first or more.last > last:
            self.spans[key] = _Span(min(first, more.first), max(last, more.last))

    def merge(self, other: _Cells) -> None:
        """Adds the cells of another one, without their times."""
        for key, numbers in other.cells.items():
            known = self.cells.get(key, [0] * len(numbers))
            self.cells[key] = [a + b for a, b in zip(known, numbers, strict=True)]

    def with_days(self) -> _Cells:
        """The same with the cells of the days, of cells of hours."""
        if not self.is_by_hour:
            return self
        found = _Cells(self.table)
        for key, numbers in self.cells.items():
            org, _, hour, *rest = key
            for one in (key, (org, DAY, day_of(hour), *rest)):
                span = self.spans[key]
                if one in found.cells:
                    found.cells[one] = [a + b for a, b in zip(found.cells[one], numbers, strict=True)]
                    found._stretch(one, span)
                else:
                    found.cells[one], found.spans[one] = list(numbers), span
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of cells in which something changes, in the order of their keys."""
        for key in sorted(self.cells):
            numbers = self.cells[key]
            if any(numbers):
                row = {
                    **dict(zip(self.keys, key, strict=True)),
                    **dict(zip(self.numbers, numbers, strict=True)),
                }
                if self.has_times:
                    row["first_at"], row["last_at"] = self.spans[key]
                yield row


class Rollups:
    """What events add to the sums."""

    def __init__(self, kinds: UnitKinds) -> None:
        """Nothing yet. kinds: of the experiments in the events, as far as they are known."""
        self._kinds, self.units = kinds, _Cells(_units)
        self._cells = tuple(map(_Cells, TABLES))
        self._selections, self._tools, self._latencies, self._degraded, self._durations = self._cells

    def change(self, before: Row | None, after: Row) -> None:
        """Adds an event; or, of one that was added before, what has changed. Both have `COLUMNS`."""
        if before is not None:
            if all(before[name] == after[name] for name in ("share", "called", "outcome", "durations_ms")):
                return
            self._add(before, -1)
        self._add(after, 1)

    def _add(self, event: Row, sign: int) -> None:
        weight = min(round(UNIT / event["share"]), _MOST_WEIGHT)
        org, at = event["org"], event["at"]
        place = org, HOUR, hour_of(at)
        page, selected = event["page"], event["selected"]
        of_outcomes = [weight if event["outcome"] == name else 0 for name in OUTCOMES]
        numbers = (
            1,
            weight,
            *of_outcomes,
            round(event["latency_us"] * weight),
            event["tokens_selected"] * weight,
            event["tokens_total"] * weight,
            len(selected) * weight,
        )
        method = event["profile"], event["experiment"], event["variant"]
        self._selections.add((*place, page, *method), numbers, at, sign)
        self._latencies.add((*place, bucket_of(event["latency_us"])), (weight,), at, sign)
        for part in event["degraded"]:
            self._degraded.add((*place, part), (weight,), at, sign)
        for tool in selected:
            self._tools.add((*place, page, tool), (weight, 0, 0, 0, 0, 0, 0), at, sign)
        for tool, kind in (event["called"] or {}).items():
            of_call = (
                0,
                weight,
                weight * (kind in CALLED),
                weight * (kind in SUCCEEDED),
                weight * (kind in FAILED),
                weight * (kind != "corrected"),
                weight * (kind in _HITS or (kind == "meant" and tool in selected)),
            )
            self._tools.add((*place, page, tool), of_call, at, sign)
        for tool, duration_ms in (event["durations_ms"] or {}).items():
            bucket = bucket_of(duration_ms, DURATION_STEPS)
            self._durations.add((*place, tool, bucket), (weight, round(duration_ms * weight)), at, sign)
        if (known := self._kinds.get(event["experiment"])) is not None and at >= known[1]:
            self._add_unit(event, known[0], weight, sign)

    def _add_unit(self, event: Row, kind: Unit, weight: int, sign: int) -> None:
        whose: str = event[{"user": "reporter", "session": "session", "org": "org"}[kind]]
        unit = blake2b(whose.encode(), digest_size=16).hexdigest()
        is_answered = event["outcome"] in ANSWERED
        numbers = (0 if is_answered else weight, is_answered, event["outcome"] == "succeeded")
        key = event["org"], event["experiment"], unit, event["variant"]
        self.units.add(key, map(int, numbers), event["at"], sign)

    def write(self, connection: sa.Connection) -> None:
        """Adds them to the tables."""
        for cells in (*self._cells, self.units):
            accumulate(connection, cells.table, cells.with_days().rows())

    def cells(self) -> dict[str, dict[Key, tuple[Any, ...]]]:
        """Table → key → all other columns of its row."""
        found: dict[str, dict[Key, tuple[Any, ...]]] = {}
        for of in self._cells:
            rows = {tuple(row[name] for name in of.keys): row for row in of.with_days().rows()}
            found[of.table.name] = {key: _rest(of.table, row) for key, row in rows.items()}
        return found


def _rest(table: sa.Table, row: Row) -> tuple[Any, ...]:
    return tuple(row[column.name] for column in table.c if not column.primary_key)


def hour_of(at: datetime) -> datetime:
    """The hour that a time is in, in UTC."""
    return at.astimezone(timezone.utc).replace(minute=0, second=0, microsecond=0)


def day_of(at: datetime) -> datetime:
    """The day that a time is in, in UTC."""
    return hour_of(at).replace(hour=0)


def first_whole_day(at: datetime) -> datetime:
    """The first day that begins at this time or later."""
    day = day_of(at)
    return day if day == at else day + timedelta(days=1)


def bucket_of(time: float, steps: int = _STEPS) -> int:
    """The bucket of a time: the same on every machine, since no logarithm is taken.

    steps: buckets in an octave, `_STEPS` for latencies.
    """
    mantissa, exponent = math.frexp(max(time, 1e-3))
    return exponent * steps + int((mantissa - 0.5) * 2 * steps)


def latency_of(bucket: int) -> float:
    """The middle of a bucket of latencies, in microseconds."""
    return _middle_of(bucket, _STEPS)


def duration_of(bucket: int) -> float:
    """The middle of a bucket of durations, in milliseconds."""
    return _middle_of(bucket, DURATION_STEPS)


def _middle_of(bucket: int, steps: int) -> float:
    exponent, step = divmod(bucket, steps)
    return math.ldexp(0.5 + (step + 0.5) / (2 * steps), exponent)


def stored(
    connection: sa.Connection, event_ids: Iterable[str], where: Sequence[sa.ColumnElement[bool]]
) -> dict[str, Row]:
    """Event → its `COLUMNS`, of those that meet the conditions."""
    found: dict[str, Row] = {}
    for some in batches(sorted(event_ids), _SOME):
        for row in read_rows(connection, COLUMNS, _events.c.event_id.in_(some), *where):
            found[row["event_id"]] = row
    return found


# Again from the events.


def rebuild(connection: sa.Connection, org: str) -> int:
    """Replaces an organisation's sums by those of its events; returns how many differed.

    The sums of days whose events may have been deleted stay. The caller holds the organisation's lock.
    """
    kept = begin = kept_since(connection, org)
    wrong, units = 0, _Cells(_units)
    for day, rollups in _rolled_up(connection, org, begin):
        wrong += _clear(connection, org, begin, day) + _replace(connection, org, day, rollups)
        units.merge(rollups.units)
        begin = day + timedelta(days=1)
    return wrong + _clear(connection, org, begin, None) + _replace_units(connection, org, kept, units)


def _rolled_up(
    connection: sa.Connection, org: str, begin: datetime | None
) -> Iterator[tuple[datetime, Rollups]]:
    """Each day with events that can be read, and its sums."""
    kinds = unit_kinds(connection)
    while True:
        later = [_events.c.org == org, *([] if begin is None else [_events.c.at >= begin])]
        rows = read_rows(connection, (_events.c.at,), *later, order_by=(_events.c.at,), limit=1)
        (first,) = [*rows] or (None,)
        if first is None:
            return
        day = day_of(first["at"])
        begin, rollups, yielder = day + timedelta(days=1), Rollups(kinds), GilYielder()
        within = [_events.c.org == org, _events.c.at >= day, _events.c.at < begin]
        for row in list(read_rows(connection, COLUMNS, *within)):
            rollups.change(None, row)
            yielder()
        yield day, rollups


def _clear(connection: sa.Connection, org: str, begin: datetime | None, end: datetime | None) -> int:
    """Deletes an organisation's sums of days without events; returns the number of rows."""
    return sum(
        connection.execute(sa.delete(table).where(*_within(table, org, begin, end))).rowcount
        for table in TABLES
    )


def _within(
    table: sa.Table, org: str, begin: datetime | None, end: datetime | None
) -> list[sa.ColumnElement[bool]]:
    times = [] if begin is None else [table.c.at >= begin]
    return [table.c.org == org, *times, *([] if end is None else [table.c.at < end])]


def _replace(connection: sa.Connection, org: str, day: datetime, rollups: Rollups) -> int:
    """Replaces the sums of one day, if one of them is wrong; returns how many are."""
    wrong, expected = 0, rollups.cells()
    for table in TABLES:
        found: dict[Key, tuple[Any, ...]] = {}
        for row in read_rows(connection, list(table.c), *_within(table, org, day, day + timedelta(days=1))):
            if any(isinstance(value, int) and value for value in _rest(table, row)):
                # else what it had has moved to another cell, such as a duration that was revised
                found[tuple(row[column.name] for column in table.primary_key)] = _rest(table, row)
        cells = expected[table.name]
        wrong += sum(found.get(key) != cells.get(key) for key in found.keys() | cells.keys())
    if wrong:
        _clear(connection, org, day, day + timedelta(days=1))
        rollups.write(connection)
    return wrong


def _replace_units(connection: sa.Connection, org: str, kept: datetime | None, units: _Cells) -> int:
    """Replaces the units of experiments whose events are all there, if one is wrong; returns how many are.

    Units of an experiment that has lost events stay, if it has some. kept: since when no event was deleted.
    """
    there = sa.exists().where(_units.c.org == org, _units.c.experiment == _experiments.c.name)
    is_whole = sa.true() if kept is None else sa.or_(_experiments.c.begun_at >= kept, ~there)
    names = sorted(connection.scalars(sa.select(_experiments.c.name).where(is_whole)))
    mine = [_units.c.org == org, _units.c.experiment.in_(names)]
    found: dict[Key, tuple[Any, ...]] = {}
    wrong = 0
    for row in read_rows(connection, list(_units.c), *mine):
        if any(numbers := _rest(_units, row)):
            found[tuple(row[name] for name in units.keys)] = numbers
    units.cells = {key: numbers for key, numbers in units.cells.items() if key[1] in names}
    cells = {key: tuple(numbers) for key, numbers in units.cells.items()}
    wrong += sum(found.get(key) != cells.get(key) for key in found.keys() | cells.keys())
    if wrong:
        connection.execute(sa.delete(_units).where(*mine))
        accumulate(connection, _units, units.rows())
    return wrong


def unit_kinds(connection: sa.Connection, names: Collection[str] | None = None) -> UnitKinds:
    """What experiments give a variant, and since when. names: of these ones; None for all."""
    if names is not None and not names:
        return {}
    where = [] if names is None else [_experiments.c.name.in_(sorted(names))]
    columns = (_experiments.c.name, _experiments.c.unit, _experiments.c.begun_at)
    rows = read_rows(connection, columns, *where)
    return {row["name"]: (row["unit"], row["begun_at"]) for row in rows}


def missing(connection: sa.Connection, now: datetime) -> int:
    """How many events of the last week, up to this hour, are not in the sums; `rebuild` adds them.

    A process of a version without sums writes such events, as long as it runs beside newer ones.
    """
    begin = first_whole_day(now - timedelta(days=7))
    mine = sa.select(sa.func.max(tables.learning_state.c.events_since)).scalar_subquery()
    for deleted in connection.execute(sa.select(tables.registry_state.c.events_since, mine)).one():
        begin = begin if deleted is None else max(begin, deleted)
    counted = tables.selection_rollups
    logged = sa.select(sa.func.sum(counted.c.logged)).where(
        counted.c.hours == HOUR, counted.c.at >= begin, counted.c.at < hour_of(now)
    )
    there = sa.select(sa.func.count()).where(_events.c.at >= begin, _events.c.at < hour_of(now))
    return int(connection.scalar(there) or 0) - int(connection.scalar(logged) or 0)


# Deleted events.


def kept_since(connection: sa.Connection, org: str) -> datetime | None:
    """The first day all of whose events are still there; None if no event was ever deleted."""
    state, mine = tables.registry_state, tables.learning_state
    found = list[datetime]()
    for column, where in ((state.c.events_since, sa.true()), (mine.c.events_since, mine.c.org == org)):
        for row in read_rows(connection, (column,), where):
            if row["events_since"] is not None:
                found.append(row["events_since"])
    return max(found, default=None)


def note_deletion(connection: sa.Connection, before: datetime, org: str | None) -> None:
    """Says that events before this time are being deleted, of one organisation or of all."""
    state = tables.registry_state if org is None else tables.learning_state
    day = first_whole_day(before)
    column = state.c.events_since
    where = sa.or_(column.is_(None), column < day)
    if org is not None:
        where = sa.and_(state.c.org == org, where)
    connection.execute(sa.update(state).where(where).values(events_since=day))


def are_older(connection: sa.Connection, before: datetime, org: str | None = None) -> bool:
    """Whether there are sums of days that ended before this time."""
    table = tables.selection_rollups  # each event is in it
    query = sa.select(table.c.hours).where(*_old(table, before, org)).limit(1)
    return connection.execute(query).first() is not None


def delete_old(connection: sa.Connection, before: datetime, org: str | None = None) -> None:
    """Deletes the sums of days that ended before this time."""
    for table in TABLES:
        connection.execute(sa.delete(table).where(*_old(table, before, org)))


def _old(table: sa.Table, before: datetime, org: str | None) -> list[sa.ColumnElement[bool]]:
    mine = [] if org is None else [table.c.org == org]
    return [*mine, table.c.hours.in_((HOUR, DAY)), table.c.at < day_of(before)]  # both, for the index
