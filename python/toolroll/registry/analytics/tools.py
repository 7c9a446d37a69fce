"""Tool health: how reliable tools are, when they broke, and which ones are never used."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from toolroll._core import Learned
from toolroll.errors import InvalidInput
from toolroll.learning.beta import interval
from toolroll.learning.effects import deltas
from toolroll.registry.analytics.rollup_reader import Conditions, over_rollups, total, whole_hours
from toolroll.registry.analytics.window import Window, json_fields
from toolroll.registry.events.fold import outcomes_of
from toolroll.registry.events.rows import OutcomeRow, instant
from toolroll.registry.events.statistics import LEVELS, RATES, SEED
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

_CHUNK = 2_000  # outcomes in one fold

_arms, _outcomes, _tools = tables.arm_statistics, tables.outcomes, tables.tools
_calls, _selections = tables.tool_rollups, tables.selection_rollups


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
    where = [*window.of(_arms, "updated_at"), _arms.c.level == level]
    if tool is not None:
        where.append(_arms.c.tool == tool)
    order = (_arms.c.called.desc(), _arms.c.shown.desc(), _arms.c.org, _arms.c.tool, _arms.c.context_key)
    with database.reading() as connection:
        rows = connection.execute(sa.select(_arms).where(*where).order_by(*order).limit(limit)).all()
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
    low, high = (end.tolist() for end in interval(0.95, alpha, beta))
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


def unused(
    database: Database,
    window: Window,
    shown_often: int = 50,
    platform: Container[str] | None = None,
) -> dict[str, Any]:
    """Active tools that were never selected, and those that were shown often and never called.

    An organisation's tool counts in that organisation's events only, a platform tool in all events.
    The window's first and last hour count as a whole. shown_often: how many events without a call make a
    tool appear in the result. platform: names of the
    platform's tools that count; None for all.
    """
    there = [
        _tools.c.deleted_at.is_(None),
        _tools.c.status == "active",
        _tools.c.approved_version.is_not(None),
    ]
    if window.org is not None:
        there.append(_tools.c.org.in_({"", window.org}))
    of_tools = (_tools.c.org, _tools.c.name, _tools.c.toolkit, _tools.c.pinned, _tools.c.created_at)
    with database.reading() as connection:
        shown, called = over_rollups(connection, _calls, window, _shown_and_called)
        asked = over_rollups(connection, _selections, window, _asked)
        order = (_tools.c.org, _tools.c.name)
        rows = connection.execute(sa.select(*of_tools).where(*there).order_by(*order)).all()
    known = [row for row in rows if row.org or platform is None or row.name in platform]
    return {
        **whole_hours(window).to_dict(),
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


def _shown_and_called(
    connection: sa.Connection, where: Conditions
) -> tuple[dict[tuple[str, str], float], set[tuple[str, str]]]:
    """(organisation, tool) → in how many events it was shown; and those that were called."""
    columns = _calls.c
    query = (
        sa.select(
            columns.org,
            columns.tool,
            total(columns.selected).label("selected"),
            sa.func.max(columns.reported).label("reported"),
        )
        .where(*where)
        .group_by(columns.org, columns.tool)
    )
    shown: dict[tuple[str, str], float] = {}
    called: set[tuple[str, str]] = set()
    for row in connection.execute(query):
        for key in {(row.org, row.tool), ("", row.tool)}:
            if row.selected:
                shown[key] = shown.get(key, 0) + row.selected
            if row.reported:
                called.add(key)
    return shown, called


def _asked(connection: sa.Connection, where: Conditions) -> float:
    """The number of selections."""
    return connection.execute(sa.select(total(_selections.c.selections)).where(*where)).scalar() or 0.0


@dataclass(frozen=True, slots=True)
class Break:
    """A tool that stopped working, or never worked.

    Attributes:
        org, tool: where, and which.
        worked: how often it was believed to work until then.
        first_failure, alarm: the first failure of those that raised the alarm, and the last.
        failures, successes: from the first failure to the alarm.
        reporters: how many people's outcomes these are; the application itself counts as one.
        back: when a probe worked, so that selections show the tool again; None while they do not.
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

    The outcomes go through the change detector of `toolroll._core.Learned`, as those that selections read do.
    So a tool without `back` is a tool that selections hide.

    warm_up: how many rows of outcomes before the window are read. Selections know the older ones, too: with
    more of them, an alarm may be a call or two earlier or later there.
    """
    breaks: list[Break] = []
    with database.reading() as connection:
        for org, begin in _beginnings(connection, window, warm_up):
            log = BreakLog(org)
            outcomes = (
                outcome
                for outcome in outcomes_of(connection, org, begin)
                if window.until is None or outcome.exposure.at < window.until.timestamp()
            )
            learned = Learned(0, RATES)
            while some := list(islice(outcomes, _CHUNK)):
                learned = log.add(learned, some)
            breaks += log.breaks
    if window.since is not None:
        breaks = [each for each in breaks if each.alarm >= window.since]
    return tuple(sorted(breaks, key=lambda each: (each.alarm, each.tool), reverse=True))


def _beginnings(connection: sa.Connection, window: Window, warm_up: int) -> list[tuple[str, int]]:
    """Each organisation with outcomes in the window, and the number of its last outcome that is not read."""
    where = Window(window.org, window.since).of(_outcomes)
    first = sa.select(_outcomes.c.org, sa.func.min(_outcomes.c.seq).label("first")).group_by(_outcomes.c.org)
    rows = connection.execute(first.where(*where).order_by(_outcomes.c.org))
    return [(row.org, max(0, row.first - 1 - warm_up)) for row in rows]


class _Said(NamedTuple):
    """One outcome of a tool."""

    tool: str
    worked: bool
    reporter: str
    at: datetime
    believed: float


class BreakLog:
    """The breaks of one organisation's tools, in the order in which its outcomes count."""

    def __init__(self, org: str) -> None:
        self._org = org
        self.breaks: list[Break] = []
        self._hidden: dict[str, int] = {}  # tool → the place of its break
        self._run: dict[str, list[_Said]] = {}  # tool → its outcomes since there is evidence of a break

    def add(self, learned: Learned, outcomes: Sequence[OutcomeRow]) -> Learned:
        """Adds outcomes to `learned`, and what its detector found in them to `breaks`."""
        parts, said = [], list[tuple[str, OutcomeRow]]()
        for outcome in outcomes:
            part = deltas(outcome.exposure, outcome.changes)
            names = {change.tool.key.arm: change.tool.name for change in outcome.changes}
            parts.append(part)
            said += [(names[int(arm)], outcome) for arm in part["arm"]]
        rows = np.concatenate(parts)
        learned, seen = learned.fold_observed(rows)
        columns = (rows["verdict"].tolist(), seen["mean"].tolist(), seen["evidence"].tolist(),
                   seen["change"].tolist())  # fmt: skip
        for (tool, outcome), verdict, believed, evidence, change in zip(said, *columns, strict=True):
            if verdict:
                at = instant(outcome.exposure.at)
                self._see(_Said(tool, verdict > 0, outcome.exposure.reporter, at, believed), evidence, change)
        return learned

    def _see(self, said: _Said, evidence: float, change: float) -> None:
        tool = said.tool
        if tool in self._hidden:
            if change > 0:
                place = self._hidden.pop(tool)
                self.breaks[place] = replace(self.breaks[place], back=said.at)
            return
        run = self._run.setdefault(tool, [])
        run.append(said)
        if change < 0:
            self._hidden[tool] = len(self.breaks)
            self.breaks.append(self._break_of(run))
        if not evidence or change:
            run.clear()

    def _break_of(self, run: Sequence[_Said]) -> Break:
        successes = sum(said.worked for said in run)
        return Break(
            self._org,
            run[0].tool,
            run[0].believed,
            next(said.at for said in run if not said.worked),
            run[-1].at,
            len(run) - successes,
            successes,
            len({said.reporter for said in run}),
            None,
        )
