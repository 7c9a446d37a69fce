"""Tool health: how reliable tools are, when they broke, and which ones are never used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll.errors import InvalidInput
from toolroll.learning.beta import quantile
from toolroll.registry.analytics.window import Window, elements, events, json_fields, pairs, weighted
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.statistics import LEVELS, RATES, SEED, SUCCEEDED
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

_RATE = (0.05, 0.97)  # least and greatest success rate that is assumed of a tool
_TOLD = frozenset({"succeeded", "failed", "wanted_succeeded", "wanted_failed"})  # whether a call worked
_RECOVERED = 3  # successes in a row after which a broken tool works again

_arms, _outcomes, _tools = tables.arm_statistics, tables.outcomes, tables.tools


@dataclass(frozen=True, slots=True)
class Arm:
    """A tool's reliability in a context.

    Attributes:
        org, tool: the organisation and the tool.
        level: "everywhere", "page", "context", or "seed" for the counts of the profile `learned`.
        context_key: the page, or tier:page:category; "" for everywhere.
        mean, low, high: posterior mean of its success, and the equal-tailed 95 % interval.
        successes, failures, calls, expected: decayed sums at this time.
        shown, called, succeeded: numbers of events, which never decay.
        updated_at: the time of the last change.
    """

    org: str
    tool: str
    level: str
    context_key: str
    mean: float
    low: float
    high: float
    successes: float
    failures: float
    calls: float
    expected: float
    shown: int
    called: int
    succeeded: int
    updated_at: datetime

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return json_fields(self)


def arms(
    database: Database,
    window: Window,
    now: datetime,
    *,
    level: str = "everywhere",
    tool: str | None = None,
    limit: int = 100,
) -> tuple[Arm, ...]:
    """The arms that changed within the window, those with the most evidence first."""
    if level not in LEVELS:
        raise InvalidInput(f"level: is {level!r:.80}, must be one of {', '.join(LEVELS)}")
    query = sa.select(_arms).where(*window.of(_arms, "updated_at"), _arms.c.level == level)
    if tool is not None:
        query = query.where(_arms.c.tool == tool)
    query = query.order_by(_arms.c.called.desc(), _arms.c.shown.desc(), _arms.c.org, _arms.c.tool,
                           _arms.c.context_key).limit(limit)  # fmt: skip
    with database.reading() as connection:
        rows = connection.execute(query).all()
    is_plain = level == SEED  # the profile `learned`: Beta(1, 1), no decay
    left = np.array([
        1.0
        if is_plain
        else 0.5 ** (max(0.0, (now - row.updated_at).total_seconds()) / RATES.reliability_half_s)
        for row in rows
    ])  # fmt: skip
    mean, strength = (0.5, 2.0) if is_plain else (RATES.prior_mean, RATES.prior_strength)
    alpha = mean * strength + left * np.array([row.successes for row in rows])
    beta = (1 - mean) * strength + left * np.array([row.failures for row in rows])
    low, high = (quantile(share, alpha, beta).tolist() for share in (0.025, 0.975))
    found = []
    for at, row in enumerate(rows):
        share = float(left[at])
        found.append(
            Arm(
                row.org,
                row.tool,
                row.level,
                row.context_key,
                float(alpha[at] / (alpha[at] + beta[at])),
                low[at],
                high[at],
                share * row.successes,
                share * row.failures,
                share * row.calls,
                share * row.expected,
                row.shown,
                row.called,
                row.succeeded,
                row.updated_at,
            )
        )
    return tuple(found)


def unused(database: Database, window: Window, shown_often: int = 50) -> dict[str, Any]:
    """Active tools that were never selected, and those that were shown often and never called.

    An organisation's tool counts in that organisation's events only, a platform tool in all events.
    shown_often: how many events without a call make a tool appear in the result.
    """
    dialect, columns = database.dialect, events.c
    element, pair = elements(dialect, columns.selected), pairs(dialect, columns.called)
    shown_query = (
        sa.select(columns.org, element.c.value.label("tool"), weighted().label("events"))
        .select_from(events, element)
        .where(*window.of(events))
        .group_by(columns.org, element.c.value)
    )
    called_query = (
        sa.select(columns.org, pair.c.key.label("tool"))
        .select_from(events, pair)
        .where(*window.of(events))
        .distinct()
    )
    there = sa.select(
        _tools.c.org, _tools.c.name, _tools.c.toolkit, _tools.c.pinned, _tools.c.created_at
    ).where(
        _tools.c.deleted_at.is_(None),
        _tools.c.status == "active",
        _tools.c.approved_version.is_not(None),
    )
    if window.org is not None:
        there = there.where(_tools.c.org.in_({"", window.org}))
    with database.reading() as connection:
        shown: dict[tuple[str, str], float] = {}
        for row in connection.execute(shown_query):
            for org in {row.org, ""}:
                shown[org, row.tool] = shown.get((org, row.tool), 0) + row.events
        called = {(org, row.tool) for row in connection.execute(called_query) for org in (row.org, "")}
        known = connection.execute(there.order_by(_tools.c.org, _tools.c.name)).all()
        asked = connection.execute(sa.select(weighted()).where(*window.of(events))).scalar() or 0
    return {
        **window.to_dict(),
        "events": round(asked),
        "tools": len(known),
        "never_selected": [
            {"org": row.org, "name": row.name, "toolkit": row.toolkit, "since": row.created_at.isoformat()}
            for row in known
            if (row.org, row.name) not in shown
        ],
        "never_called": sorted(
            (
                {
                    "org": row.org,
                    "name": row.name,
                    "toolkit": row.toolkit,
                    "shown": round(shown[row.org, row.name]),
                }
                for row in known
                if shown.get((row.org, row.name), 0) >= shown_often and (row.org, row.name) not in called
            ),
            key=lambda tool: (-int(tool["shown"]), tool["name"]),
        ),
    }


@dataclass(frozen=True, slots=True)
class Break:
    """A tool that stopped working.

    Attributes:
        org, tool: where, and which.
        worked: how often it was believed to work until then.
        first_failure, alarm: when the failures began that told of it, and when there were enough of them.
        failures, successes: since the first of them.
        reporters: how many people's outcomes these are; the application itself counts as one.
        back: when it had worked three times in a row again; None while it has not.
    """

    org: str
    tool: str
    worked: float
    first_failure: datetime
    alarm: datetime
    failures: int
    successes: int
    reporters: int
    back: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return json_fields(self)


def broken(database: Database, window: Window, warm_up: int = 10_000) -> tuple[Break, ...]:
    """Tools that broke within the window, the latest first.

    The detector is a cumulative sum of the evidence, outcome by outcome, that a tool's success rate fell to
    `RATES.alarm_ratio` of what it was. Selection runs it for each context; here it runs over all contexts
    together, and may alarm a call or two earlier or later. warm_up: how many rows of outcomes before the
    window are read to learn the success rates.

    Source: Page, "Continuous Inspection Schemes", Biometrika 41, 1954.
    """
    detectors: dict[tuple[str, str], _Detector] = {}
    found: list[_Detector] = []
    for org, tool, worked, reporter, at in _verdicts(database, window, warm_up):
        watch = detectors.setdefault((org, tool), _Detector(org, tool))
        if watch.update(worked, reporter, at):
            found.append(watch)
            detectors[org, tool] = _Detector(org, tool, watch)
    breaks = [watch.to_break() for watch in found]
    if window.since is not None:
        breaks = [each for each in breaks if each.alarm >= window.since]
    return tuple(sorted(breaks, key=lambda each: (each.alarm, each.tool), reverse=True))


def _verdicts(
    database: Database, window: Window, warm_up: int
) -> Iterator[tuple[str, str, bool, str, datetime]]:
    """First reports of success or failure, in the order in which they counted."""
    query = (
        sa.select(_outcomes.c.org, _outcomes.c.reporter, _outcomes.c.at, _outcomes.c.details)
        .where(_outcomes.c.voided_at.is_(None))
        .order_by(_outcomes.c.org, _outcomes.c.seq)
    )
    if window.org is not None:
        query = query.where(_outcomes.c.org == window.org)
    if window.until is not None:
        query = query.where(_outcomes.c.at < window.until)
    with database.reading() as connection:
        if window.since is not None:
            begun = sa.select(_outcomes.c.org, sa.func.min(_outcomes.c.seq)).where(
                _outcomes.c.at >= window.since
            )
            firsts = connection.execute(begun.group_by(_outcomes.c.org)).all()
            if not firsts:
                return
            query = query.where(
                sa.or_(
                    *(
                        sa.and_(_outcomes.c.org == org, _outcomes.c.seq >= first - warm_up)
                        for org, first in firsts
                        if window.org in (None, org)
                    )
                )
            )
        read = EntryReader(connection)
        for rows in connection.execution_options(yield_per=2_000).execute(query).partitions():
            for row, (entries, _) in zip(rows, read(row.details for row in rows), strict=True):
                for entry in entries:
                    if entry.before is None and entry.weight > 0 and entry.after in _TOLD:
                        yield row.org, entry.tool.name, entry.after in SUCCEEDED, row.reporter, row.at


class _Detector:
    """The detector of one tool of one organisation, from one break to the next."""

    def __init__(self, org: str, tool: str, last: _Detector | None = None) -> None:
        self.org, self.tool = org, tool
        self._last = last  # the break before; successes may end it
        self._successes = self._failures = 0
        self._sum = 0.0
        self._run: list[tuple[bool, str, datetime]] = []  # since the sum was last 0
        self.back: datetime | None = None
        self._in_a_row = 0

    def update(self, worked: bool, reporter: str, at: datetime) -> bool:
        """Adds one outcome; whether it raises the alarm."""
        if self._last is not None and self._last.back is None:
            self._in_a_row = self._in_a_row + 1 if worked else 0
            if self._in_a_row == _RECOVERED:
                self._last.back = at
            return False
        rate = self._rate()
        broken = RATES.alarm_ratio * rate
        evidence = math.log(broken / rate) if worked else math.log((1 - broken) / (1 - rate))
        self._sum = max(0.0, self._sum + evidence)
        if self._sum:
            self._run.append((worked, reporter, at))
        else:
            for was_success, _, _ in (*self._run, (worked, reporter, at)):
                self._successes += was_success
                self._failures += not was_success
            self._run.clear()
        reporters = {each for _, each, _ in self._run}
        return self._sum >= RATES.alarm_nats and (len(reporters) > 1 or "" in reporters)

    def _rate(self) -> float:
        a = RATES.prior_mean * RATES.prior_strength + self._successes
        b = (1 - RATES.prior_mean) * RATES.prior_strength + self._failures
        return min(max(a / (a + b), _RATE[0]), _RATE[1])

    def to_break(self) -> Break:
        """The break, after the alarm."""
        successes = sum(worked for worked, _, _ in self._run)
        return Break(
            self.org,
            self.tool,
            self._rate(),
            next(at for worked, _, at in self._run if not worked),
            self._run[-1][2],
            len(self._run) - successes,
            successes,
            len({reporter for _, reporter, _ in self._run}),
            self.back,
        )
