"""Brings events and outcomes into the store, each outcome exactly once.

A batch is one transaction: events, outcomes, what is counted from them, and the gist that each event's row
has. Writers of one organisation take turns at its row in `learning_state`, which numbers its outcomes, so
their numbers have no gaps and commit in their order. What of a report is new is decided under that lock,
against all that was said of its event before: a batch that is drained again, since nobody knows whether it
was committed, adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll.errors import InvalidInput
from toolroll.learning.deduplication import Settled, closing_weight, deduplicate, most_a_day
from toolroll.learning.effects import EFFECTS
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.registry.events import statistics
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import (
    Counted,
    Received,
    by_event,
    counted,
    instant,
    normal,
    seconds,
    settled_by,
    summary,
)
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing, insert_in_batches, upsert
from toolroll.registry.store.database import CHANNEL, Database
from toolroll.registry.store.gil import GilYielder

CLOSES_AFTER_S = 600.0  # an event that has partial reports alone
_MOST_DUE = 200
_SOME = 32  # rows that are written at a time: more would hold up selections meanwhile


@dataclass(slots=True)
class Drained:
    """What came of a batch.

    Attributes:
        events: rows of events that were written.
        outcomes: rows of outcomes that were written.
        repeated: reports that said nothing new.
        refused: reports that cannot be counted, and why.
        seqs: organisation → the number of its last outcome, of those that the batch was about.
    """

    events: int = 0
    outcomes: int = 0
    repeated: int = 0
    refused: list[tuple[Received, InvalidInput]] = field(default_factory=list)
    seqs: dict[str, int] = field(default_factory=dict)


def drain(
    database: Database,
    events: Sequence[Mapping[str, Any]],
    reports: Sequence[Received],
    *,
    window_s: float = LIFETIME_S,
    now: float | None = None,
    known: statistics.Known | None = None,
) -> Drained:
    """Writes a batch, whole or not at all.

    events: rows of `selection_events`. window_s: for how long after an event what is said of it counts;
    later it is kept and weighs nothing. now: seconds since the epoch, to close events that have had partial
    reports for long enough; None to leave them. known: what this process has counted before.

    Raises:
        StoreUnavailable: nothing was written, or nobody knows; drain the batch again.
        InvalidInput, Conflict: a value in it cannot be kept; nothing was written.
    """
    with database.recording() as connection:
        if now is not None:
            reports = [*reports, *_due(connection, now)]
        if not events and not reports:
            return Drained()
        known = known or statistics.Known()
        batch = _Batch(connection, window_s, known)
        done = batch.run(events, reports)
    for org, (state, cells) in batch.counted.items():
        known.keep(org, state, cells)
    return done


def is_due(database: Database, now: float) -> bool:
    """Whether an event that was left open has to be closed.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    table = tables.open_events
    with database.reading() as connection:
        query = sa.select(table.c.event_id).where(table.c.closes_at <= instant(now)).limit(1)
        return connection.execute(query).first() is not None


def _due(connection: sa.Connection, now: float) -> list[Received]:
    """Final reports that nobody will send, for events that were left open."""
    table = tables.open_events
    query = (
        sa.select(table).where(table.c.closes_at <= instant(now)).order_by(table.c.closes_at).limit(_MOST_DUE)
    )
    return [
        Received(Exposure.from_record(row.exposure), Report(row.event_id, ()), seconds(row.closes_at))
        for row in connection.execute(query)
    ]


class _Batch:
    """One transaction."""

    def __init__(self, connection: sa.Connection, window_s: float, known: statistics.Known) -> None:
        self._connection, self._window_s, self._known = connection, window_s, known
        self.counted: dict[str, tuple[tuple[int, int], dict[statistics.Key, statistics.Cell]]] = {}
        self._done, self._breath = Drained(), GilYielder()

    def run(self, events: Sequence[Mapping[str, Any]], reports: Sequence[Received]) -> Drained:
        reports = list(map(self._normal, reports))
        orgs = {event["org"] for event in events} | {report.exposure.org for report in reports}
        seqs = lock(self._connection, orgs)
        first = dict(seqs)
        add_missing(self._connection, tables.selection_events, events)
        self._done.events = len(events)
        ids = {event["event_id"] for event in events} | {report.exposure.event_id for report in reports}
        before = self._outcomes_of(ids)
        reports = self._with_vectors(reports, before)
        caps = _Caps(self._connection, reports)
        settled = {event_id: settled_by(rows) for event_id, rows in before.items()}
        added: dict[str, list[Counted]] = {}
        steps = Counter({event_id: len(rows) for event_id, rows in before.items()})
        left_open: dict[str, Received] = {}
        known_org = {event_id: rows[0].exposure.org for event_id, rows in before.items()}
        for report in reports:
            self._breath()
            self._count(report, settled, caps, steps, seqs, added, left_open, known_org)
        for org, rows in sorted(added.items()):
            insert_in_batches(self._connection, tables.outcomes, (row.to_row() for row in rows))
            cells = self._known.take(org, first[org])
            statistics.add(self._connection, org, rows, cells)
            self.counted[org] = seqs[org], cells
        caps.write(self._connection)
        self._keep_open(left_open, settled)
        changed = {row.exposure.event_id: row.received_at for rows in added.values() for row in rows}
        for event in events:  # what was said of it came first
            if event["event_id"] in before:
                changed.setdefault(event["event_id"], before[event["event_id"]][-1].received_at)
        self._summarise(changed, settled)
        self._advance(seqs, added)
        self._done.seqs = {org: seq for org, (seq, _) in seqs.items()}
        return self._done

    def _normal(self, report: Received) -> Received:
        self._breath()
        return replace(report, exposure=normal(report.exposure))

    def _count(
        self,
        received: Received,
        settled: dict[str, Settled],
        caps: _Caps,
        steps: Counter[str],
        seqs: dict[str, tuple[int, int]],
        added: dict[str, list[Counted]],
        left_open: dict[str, Received],
        known_org: dict[str, str],
    ) -> None:
        exposure = received.exposure
        event_id, org = exposure.event_id, exposure.org
        is_late = received.at - exposure.at > self._window_s
        before = settled.get(event_id, Settled())
        ask = caps.of(exposure, received.at, is_late)
        try:
            if known_org.setdefault(event_id, org) != org:
                raise InvalidInput(f"event {event_id}: is another organisation's")
            step = deduplicate(exposure, before, received.report, ask.weight)
        except InvalidInput as error:
            self._done.refused.append((received, error))
            return
        settled[event_id] = step.settled
        if not step.is_new:
            self._done.repeated += 1
            return
        weight = 0.0 if is_late else closing_weight(step, ask.weight)
        ask.keep()
        seq, epoch = seqs[org]
        seqs[org] = seq + 1, epoch
        steps[event_id] += 1
        row = counted(seq + 1, steps[event_id], exposure, step, weight, received.at)
        added.setdefault(org, []).append(row)
        self._done.outcomes += 1
        left_open.setdefault(event_id, received)

    def _outcomes_of(self, event_ids: Iterable[str]) -> Mapping[str, list[Counted]]:
        table = tables.outcomes
        query = sa.select(table).where(table.c.event_id.in_(sorted(event_ids)))
        found = []
        for row in self._connection.execute(query):
            found.append(Counted.of(row))
            self._breath()
        return by_event(found)

    def _with_vectors(
        self, reports: Sequence[Received], before: Mapping[str, list[Counted]]
    ) -> list[Received]:
        """The reports, each with the vector that its event counts with.

        One that came by a receipt has none: the event's row does. An event that has pulled a tool without a
        vector keeps having none, or taking that back would take back what was never there.
        """
        lacking = sorted({report.exposure.event_id for report in reports if report.exposure.vector is None})
        stored: dict[str, tuple[Any, str]] = {}
        if lacking:
            table = tables.selection_events
            query = sa.select(table.c.event_id, table.c.vector, table.c.space).where(
                table.c.event_id.in_(lacking), table.c.vector.is_not(None)
            )
            stored = {
                row.event_id: (np.frombuffer(row.vector, "<f2"), row.space)
                for row in self._connection.execute(query)
            }
        known: dict[str, tuple[Any, str]] = {}
        for event_id, rows in before.items():
            pulled = [row for row in rows if any(EFFECTS[change.after].pull for change in row.changes)]
            if pulled:
                known[event_id] = pulled[0].exposure.vector, pulled[0].exposure.space
        out = []
        for report in reports:
            exposure = report.exposure
            own = exposure.vector, exposure.space
            if own[0] is None:
                own = stored.get(exposure.event_id, own)
            vector, space = known.setdefault(exposure.event_id, own)
            out.append(replace(report, exposure=replace(exposure, vector=vector, space=space)))
        return out

    def _keep_open(self, received: Mapping[str, Received], settled: Mapping[str, Settled]) -> None:
        table = tables.open_events
        closed = [event_id for event_id in received if settled[event_id].closed]
        if closed:
            self._connection.execute(sa.delete(table).where(table.c.event_id.in_(sorted(closed))))
        rows = [
            {
                "event_id": event_id,
                "org": one.exposure.org,
                "closes_at": instant(one.at + CLOSES_AFTER_S),
                "exposure": one.exposure.to_record(),
            }
            for event_id, one in received.items()
            if not settled[event_id].closed
        ]
        add_missing(self._connection, table, rows)

    def _summarise(self, changed: Mapping[str, float], settled: Mapping[str, Settled]) -> None:
        table = tables.selection_events
        rows = []
        for event_id, at in changed.items():
            called, outcome = summary(settled[event_id])
            rows.append({"of": event_id, "called": called, "outcome": outcome, "recorded_at": instant(at)})
        if rows:
            update = sa.update(table).where(table.c.event_id == sa.bindparam("of"))
            for start in range(0, len(rows), _SOME):
                self._connection.execute(update, rows[start : start + _SOME])
                self._breath()

    def _advance(self, seqs: Mapping[str, tuple[int, int]], added: Mapping[str, list[Counted]]) -> None:
        if not added:
            return
        table = tables.learning_state
        rows = [{"of": org, "seq": seqs[org][0]} for org in sorted(added)]
        update = sa.update(table).where(table.c.org == sa.bindparam("of"))
        self._connection.execute(update, rows)
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(sa.select(sa.func.pg_notify(CHANNEL, "outcomes")))


def lock(connection: sa.Connection, orgs: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Takes the organisations' turns, in one order for all who do; (seq, epoch) of each."""
    table = tables.learning_state
    wanted = sorted(set(orgs))
    add_missing(connection, table, [{"org": org, "seq": 0, "epoch": 0} for org in wanted])
    query = sa.select(table).where(table.c.org.in_(wanted)).order_by(table.c.org).with_for_update()
    return {row.org: (row.seq, row.epoch) for row in connection.execute(query)}


class _Caps:
    """How much of each reporter has counted for each tool, by day; there is a limit."""

    def __init__(self, connection: sa.Connection, reports: Sequence[Received]) -> None:
        self._counts: Counter[tuple[str, str, str, date]] = Counter()
        self._changed: set[tuple[str, str, str, date]] = set()
        who = {(report.exposure.org, report.exposure.reporter) for report in reports}
        who = {(org, reporter) for org, reporter in who if reporter}
        if not who:
            return
        table = tables.reporter_counts
        first = min(_day(report.at) for report in reports)
        query = sa.select(table).where(
            table.c.org.in_(sorted({org for org, _ in who})),
            table.c.reporter.in_(sorted({reporter for _, reporter in who})),
            table.c.day >= first,
        )
        for row in connection.execute(query):
            self._counts[row.org, row.tool, row.reporter, row.day] = row.counted

    def of(self, exposure: Exposure, at: float, is_late: bool) -> _Asking:
        """Weighs one report."""
        return _Asking(self, exposure.org, exposure.reporter, _day(at), is_late)

    def write(self, connection: sa.Connection) -> None:
        """Keeps what has counted."""
        rows = [
            {"org": org, "tool": tool, "reporter": reporter, "day": day, "counted": self._counts[key]}
            for key in sorted(self._changed)
            for org, tool, reporter, day in (key,)
        ]
        upsert(connection, tables.reporter_counts, rows)


class _Asking:
    """What one report may count; nothing is kept of a report that turns out to be refused."""

    def __init__(self, caps: _Caps, org: str, reporter: str, day: date, is_late: bool) -> None:
        self._caps, self._org, self._reporter, self._day = caps, org, reporter, day
        self._is_late, self._asked = is_late, list[str]()

    def weight(self, tool: str) -> float:
        if self._is_late:
            return 0.0
        if not self._reporter:
            return 1.0
        count = self._caps._counts[self._org, tool, self._reporter, self._day]
        if count >= most_a_day(tool):
            return 0.0
        self._asked.append(tool)
        return 1.0

    def keep(self) -> None:
        for tool in self._asked:
            key = self._org, tool, self._reporter, self._day
            self._caps._counts[key] += 1
            self._caps._changed.add(key)


def _day(at: float) -> date:
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=at)).date()
