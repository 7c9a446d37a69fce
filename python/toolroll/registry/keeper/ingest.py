"""Writes events and outcomes to the store, each outcome exactly once.

A batch is one transaction: events, outcomes, the folded rows, and the summary in each event's row. The lease
allows one writer at a time, so an organisation's outcomes get consecutive numbers in the order of their
commits. A report adds only its difference from all earlier reports on its event. So a batch can be
repeated when its commit is uncertain.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll.learning.deduplication import EventState, closing_weight, deduplicate, most_a_day
from toolroll.learning.effects import EFFECTS
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.model.errors import InvalidInput
from toolroll.registry.events import hours, learned_rows
from toolroll.registry.events.details import EntryReader, event_vector, packed_event, tools_of
from toolroll.registry.events.logged_tools import LoggedTool, ToolNumbers
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import (
    OutcomeRow,
    ReceivedReport,
    as_stored,
    by_event,
    check_steps,
    instant,
    outcome_row,
    outcome_rows,
    seconds,
    state_after,
    summary,
)
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing, insert_in_batches, merge, update
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import read_rows
from toolroll.runtime.gil import GilYielder, batches

CLOSES_AFTER_S = 600.0  # an event that has only partial reports
_MOST_DUE = 200
_KEYS = 128  # keys in one query
_MARGIN = timedelta(seconds=1)  # around the times of a batch

_log = logging.getLogger("toolroll")


@dataclass(slots=True)
class IngestResult:
    """The result of a batch.

    Attributes:
        events, outcomes: the numbers of new rows.
        repeated: reports without a change.
        refused: invalid reports, with the reason.
    """

    events: int = 0
    outcomes: int = 0
    repeated: int = 0
    refused: list[tuple[ReceivedReport, InvalidInput]] = field(default_factory=list)


def ingest_in(
    connection: sa.Connection,
    events: Sequence[Mapping[str, Any]],
    reports: Sequence[ReceivedReport],
    *,
    window_s: float = LIFETIME_S,
    now: float | None = None,
    numbers: ToolNumbers | None = None,
) -> IngestResult:
    """Writes a batch within the transaction of the only writer.

    events: from `event_row`. window_s: how long after an event reports change the statistics; later reports
        are only stored. now: seconds since the epoch, to close events with old partial reports; None leaves
        them open. numbers: the cache from earlier batches; discard it if the transaction fails.

    Raises:
        StoreUnavailable: roll back, and write the batch again.
        InvalidInput, Conflict: a value cannot be stored. Roll back, and write the batch without it.
    """
    if now is not None:
        reports = [*reports, *_due(connection, now)]
    if not events and not reports:
        return IngestResult()
    return _Batch(connection, window_s, numbers or ToolNumbers()).run(events, reports)


def is_due(database: Database, now: float) -> bool:
    """Whether an open event has to be closed. Raises StoreUnavailable."""
    table = tables.open_events
    with database.reading() as connection:
        query = sa.select(table.c.event_id).where(table.c.closes_at <= instant(now)).limit(1)
        return connection.execute(query).first() is not None


def _due(connection: sa.Connection, now: float) -> list[ReceivedReport]:
    """Final reports that close open events whose time is over."""
    table = tables.open_events
    order, reports = (table.c.closes_at,), []
    for row in read_rows(
        connection, list(table.c), table.c.closes_at <= instant(now), order_by=order, limit=_MOST_DUE
    ):
        try:
            report = ReceivedReport.from_bytes(row["record"])
            instant(report.exposure.at)
            reports.append(report)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            _log.warning("outcomes: an open event is damaged and stays open: %s", error)
    return reports


def _tools_in(events: Iterable[Mapping[str, Any]], reports: Iterable[ReceivedReport]) -> Iterator[LoggedTool]:
    """The tools that need a number."""
    yielder = GilYielder()
    for event in events:
        yielder()
        yield from tools_of(event)
    for received in reports:
        yield from map(LoggedTool.of, (*received.exposure.shown, *received.report.found))


class _Batch:
    """One transaction."""

    def __init__(self, connection: sa.Connection, window_s: float, numbers: ToolNumbers) -> None:
        self._connection, self._window_s, self._numbers = connection, window_s, numbers
        self._result, self._yield_gil = IngestResult(), GilYielder()
        self._seqs: dict[str, int] = {}
        self._orgs: dict[str, str] = {}  # event → organisation
        self._settled: dict[str, EventState] = {}  # event → all that was reported on it
        self._steps: Counter[str] = Counter()  # event → rows of outcomes
        self._added: dict[str, list[OutcomeRow]] = defaultdict(list)
        self._open: dict[str, ReceivedReport] = {}
        self._within: tuple[Collection[str], datetime, datetime]  # organisations and times of the events

    def run(self, events: Sequence[Mapping[str, Any]], reports: Sequence[ReceivedReport]) -> IngestResult:
        reports = list(map(self._normal, reports))
        orgs = {event["org"] for event in events} | {report.exposure.org for report in reports}
        self._seqs = _seqs(self._connection, orgs)
        numbers = self._numbers.of(self._connection, _tools_in(events, reports))
        ids = {event["event_id"] for event in events} | {report.exposure.event_id for report in reports}
        times = [event["at"] for event in events] + [instant(report.exposure.at) for report in reports]
        self._within = orgs, min(times) - _MARGIN, max(times) + _MARGIN
        packed = (packed_event(event, numbers) for event in events)
        add_missing(self._connection, tables.selection_events, packed)
        self._result.events = len(events)
        before = self._outcomes_of(ids)
        for event_id, rows in before.items():
            self._settled[event_id] = state_after(rows)
            self._steps[event_id] = len(rows)
            self._orgs[event_id] = rows[0].exposure.org
        reports = self._with_vectors(reports, before)
        limits = _ReporterLimits(self._connection, reports)
        for report in reports:
            self._yield_gil()
            self._count(report, limits)
        for org, rows in sorted(self._added.items()):
            insert_in_batches(self._connection, tables.outcomes, (row.to_row(numbers) for row in rows))
            learned_rows.add(self._connection, org, rows)
        limits.write(self._connection)
        self._keep_open()
        changed = {row.exposure.event_id: row.received_at for rows in self._added.values() for row in rows}
        for event in events:  # a report may come before its event
            if event["event_id"] in before:
                changed.setdefault(event["event_id"], before[event["event_id"]][-1].received_at)
        self._summarise(changed)
        self._mark_hours(events)
        return self._result

    def _here(self, table: sa.Table) -> list[sa.ColumnElement[bool]]:
        """Restricts a query to the batch's organisations and times, so PostgreSQL skips other partitions."""
        orgs, begin, end = self._within
        return [table.c.org.in_(sorted(orgs)), table.c.at >= begin, table.c.at <= end]

    def _normal(self, report: ReceivedReport) -> ReceivedReport:
        self._yield_gil()
        return replace(report, exposure=as_stored(report.exposure))

    def _count(self, received: ReceivedReport, limits: _ReporterLimits) -> None:
        exposure = received.exposure
        event_id, org = exposure.event_id, exposure.org
        is_late = received.at - exposure.at > self._window_s
        before = self._settled.get(event_id, EventState())
        tools = list[str]()  # of this report, if they have weight

        def weight(tool: str) -> float:
            if is_late or not limits.has_room(exposure, tool, received.at):
                return 0.0
            tools.append(tool)
            return 1.0

        try:
            if self._orgs.setdefault(event_id, org) != org:
                raise InvalidInput(f"event {event_id}: belongs to another organisation")
            step = deduplicate(exposure, before, received.report, weight, is_late=is_late, at=received.at)
            if step.is_new and not step.closes:  # an event closes once
                check_steps(exposure, self._steps[event_id])
        except InvalidInput as error:
            self._result.refused.append((received, error))
            return
        self._settled[event_id] = step.settled
        if not step.is_new:
            self._result.repeated += 1
            return
        closing = 0.0 if is_late else closing_weight(step, weight)
        limits.count(exposure, tools, received.at)
        self._seqs[org] += 1
        self._steps[event_id] += 1
        row = outcome_row(self._seqs[org], self._steps[event_id], exposure, step, closing, received.at)
        self._added[org].append(row)
        self._result.outcomes += 1
        self._open.setdefault(event_id, received)

    def _outcomes_of(self, event_ids: Iterable[str]) -> Mapping[str, list[OutcomeRow]]:
        table, read = tables.outcomes, EntryReader(self._connection)
        found: list[OutcomeRow] = []
        for some in batches(sorted(event_ids), _KEYS):
            query = sa.select(table).where(table.c.event_id.in_(some), *self._here(table))
            found += outcome_rows(read, self._connection.execute(query).all())
        return by_event(found)

    def _with_vectors(
        self, reports: Sequence[ReceivedReport], before: Mapping[str, list[OutcomeRow]]
    ) -> list[ReceivedReport]:
        """The reports, each with its event's vector.

        A report by receipt has no vector, but its event's row has one. If an earlier report was counted
        without the vector, later ones are, too: a correction must not subtract more than was added.
        """
        lacking = sorted({report.exposure.event_id for report in reports if report.exposure.vector is None})
        stored: dict[str, tuple[Any, str]] = {}
        table = tables.selection_events
        for some in batches(lacking, _KEYS):
            query = sa.select(table.c.event_id, table.c.details, table.c.space).where(
                table.c.event_id.in_(some), *self._here(table)
            )
            for row in self._connection.execute(query):
                vector = event_vector(row.details)
                if vector is not None:
                    stored[row.event_id] = np.frombuffer(vector, "<f2"), row.space
        known: dict[str, tuple[Any, str]] = {}
        for event_id, rows in before.items():
            for outcome in rows:
                if any(EFFECTS[change.after].pull for change in outcome.changes):
                    known[event_id] = outcome.exposure.vector, outcome.exposure.space
                    break
        out = []
        for report in reports:
            exposure = report.exposure
            own = exposure.vector, exposure.space
            if own[0] is None:
                own = stored.get(exposure.event_id, own)
            used, space = known.setdefault(exposure.event_id, own)
            if used is not exposure.vector or space != exposure.space:
                report = replace(report, exposure=replace(exposure, vector=used, space=space))
            out.append(report)
            self._yield_gil()
        return out

    def _keep_open(self) -> None:
        table = tables.open_events
        closed = [event_id for event_id in self._open if self._settled[event_id].closed]
        for some in batches(sorted(closed), _KEYS):
            self._connection.execute(
                sa.delete(table).where(table.c.org.in_(sorted(self._within[0])), table.c.event_id.in_(some))
            )
        rows = []
        for event_id, one in self._open.items():
            if not self._settled[event_id].closed:
                closes_at = instant(one.at + CLOSES_AFTER_S)
                due = ReceivedReport(one.exposure, Report(event_id, ()), seconds(closes_at)).to_bytes()
                place = {"event_id": event_id, "org": one.exposure.org}
                rows.append({**place, "closes_at": closes_at, "record": due})
        add_missing(self._connection, table, rows)

    def _summarise(self, changed: Mapping[str, float]) -> None:
        """Writes the summaries of events."""
        rows = (
            {
                "org": self._orgs[event_id],
                "event_id": event_id,
                **summary(self._settled[event_id]),
                "recorded_at": instant(at),
            }
            for event_id, at in changed.items()
        )
        update(self._connection, tables.selection_events, rows)

    def _mark_hours(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Marks the hours of new and changed events."""
        places = [(event["org"], event["at"]) for event in events]
        for exposure in (row.exposure for rows in self._added.values() for row in rows):
            at = instant(exposure.at)
            places += [(exposure.org, at - _MARGIN), (exposure.org, at + _MARGIN)]
        hours.mark(self._connection, places)


def _seqs(connection: sa.Connection, orgs: Iterable[str]) -> dict[str, int]:
    """The number of each organisation's last outcome; 0 for none."""
    table, wanted = tables.learning_state, sorted(set(orgs))
    add_missing(connection, table, [{"org": org, "seq": 0, "epoch": 0} for org in wanted])
    query = sa.select(table.c.org, table.c.seq).where(table.c.org.in_(wanted))
    return {org: seq for org, seq in connection.execute(query)}


class _ReporterLimits:
    """Counts each reporter's reports by tool and day, and limits them."""

    def __init__(self, connection: sa.Connection, reports: Sequence[ReceivedReport]) -> None:
        self._counts: Counter[tuple[str, str, str, date]] = Counter()
        self._changed: set[tuple[str, str, str, date]] = set()
        who = {(report.exposure.org, report.exposure.reporter) for report in reports}
        who = {(org, reporter) for org, reporter in who if reporter}
        if not who:
            return
        table, yielder = tables.reporter_counts, GilYielder()
        first = min(_day(report.at) for report in reports)
        orgs = sorted({org for org, _ in who})
        for some in batches(sorted({reporter for _, reporter in who}), _KEYS):
            query = sa.select(table).where(
                table.c.org.in_(orgs), table.c.reporter.in_(some), table.c.day >= first
            )
            for row in connection.execute(query):
                self._counts[row.org, row.tool, row.reporter, row.day] = row.counted
                yielder()

    def has_room(self, exposure: Exposure, tool: str, at: float) -> bool:
        """Whether one more report on the tool counts on that day."""
        if not exposure.reporter:
            return True
        return self._counts[exposure.org, tool, exposure.reporter, _day(at)] < most_a_day(tool)

    def count(self, exposure: Exposure, tools: Iterable[str], at: float) -> None:
        """Counts a report on these tools."""
        if exposure.reporter:
            keys = [(exposure.org, tool, exposure.reporter, _day(at)) for tool in tools]
            self._counts.update(keys)
            self._changed.update(keys)

    def write(self, connection: sa.Connection) -> None:
        """Stores the changed counts."""
        rows = [
            {"org": org, "tool": tool, "reporter": reporter, "day": day, "counted": self._counts[key]}
            for key in sorted(self._changed)
            for org, tool, reporter, day in (key,)
        ]
        merge(connection, tables.reporter_counts, rows)


def _day(at: float) -> date:
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=at)).date()
