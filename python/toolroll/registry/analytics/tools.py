"""Tool health: reliability, breaks, and unused tools."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll._core import LearningRates
from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.beta import interval
from toolroll.registry.analytics.window import Window
from toolroll.registry.analytics.window_sums import WindowSums, total, whole_hours
from toolroll.registry.events.breaks import Break
from toolroll.registry.events.learned_rows import arm_statistics as _arms
from toolroll.registry.events.row_fold import BREAK, LEVELS, PLAIN
from toolroll.registry.events.rows import instant, seconds
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

RATES = LearningRates()
_tools = tables.tools


@dataclass(frozen=True, slots=True)
class Arm(JsonRecord):
    """A tool's reliability in a context.

    Attributes:
        level: "everywhere", "page", "context", or "plain" for the profile `learned`, without calls and
            expected calls.
        context_key: the page, or tier:page:category; "" for everywhere.
        mean, low, high: posterior mean of its success, and the equal-tailed 95 % interval.
        successes, failures, calls, expected: decayed sums, as selections read them; all observations before a
            break count as one.
        shown, called, succeeded: numbers of events, without decay.
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


def arms(
    database: Database,
    window: Window,
    now: datetime,
    *,
    level: str = "everywhere",
    tool: str | None = None,
    limit: int = 100,
) -> tuple[Arm, ...]:
    """The arms that changed within the window, the most called ones first."""
    if level not in LEVELS:
        raise InvalidInput(f"level: is {level!r:.80}, must be one of {', '.join(LEVELS)}")
    where = [*window.of(_arms, "updated_at"), _arms.c.level == level]
    if tool is not None:
        where.append(_arms.c.tool == tool)
    order = (_arms.c.called.desc(), _arms.c.shown.desc(), _arms.c.org, _arms.c.tool, _arms.c.context_key)
    with database.reading() as connection:
        rows = connection.execute(sa.select(_arms).where(*where).order_by(*order).limit(limit)).all()
    is_plain = level == PLAIN  # the profile `learned`: Beta(1, 1), no decay
    left = np.array([1.0 if is_plain else _left(row.at, now, RATES.reliability_half_s) for row in rows])
    mean, strength = (0.5, 2.0) if is_plain else (RATES.prior_mean, RATES.prior_strength)
    successes, failures = (
        left * np.array([getattr(row, name) for row in rows]) for name in ("successes", "failures")
    )
    alpha, beta = mean * strength + successes, (1 - mean) * strength + failures
    low, high = (end.tolist() for end in interval(0.95, alpha, beta))
    found = []
    for at, row in enumerate(rows):
        wanted = _left(row.wanted_at, now, RATES.lift_half_s)
        posterior = float(alpha[at] / (alpha[at] + beta[at])), low[at], high[at]
        sums = float(successes[at]), float(failures[at]), wanted * row.calls, wanted * row.expected
        counts = row.shown, row.called, row.succeeded, row.updated_at
        found.append(Arm(row.org, row.tool, row.level, row.context_key, *posterior, *sums, *counts))
    return tuple(found)


def _left(at: float | None, now: datetime, half_s: float) -> float:
    """The share of a sum that is left after decay until now."""
    return 1.0 if at is None else 0.5 ** (max(0.0, seconds(now) - at) / half_s)


def unused(
    database: Database,
    window: Window,
    shown_often: int = 50,
    platform: Container[str] | None = None,
) -> dict[str, Any]:
    """Active tools that were never selected, and tools that were shown often and never called.

    Counts whole hours: the own events for an organisation's tool, all events for a platform tool.
    shown_often: the least number of events without a call. platform: names of the platform's tools to
            check; None for all.
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
        sums = WindowSums(connection, window)
        shown, called = _shown_and_called(connection, sums)
        asked = (
            connection.execute(sa.select(total(sums.of(tables.selection_sums).c.selections))).scalar() or 0
        )
        order = (_tools.c.org, _tools.c.name)
        rows = connection.execute(sa.select(*of_tools).where(*there).order_by(*order)).all()
    known = [row for row in rows if row.org or platform is None or row.name in platform]
    return {
        **whole_hours(window).to_dict(),
        "events": round(asked),
        "tools": len(known),
        "never_selected": [
            {**_name_of(row), "since": row.created_at.isoformat()}
            for row in known
            if (row.org, row.name) not in shown
        ],
        "never_called": sorted(
            (
                {**_name_of(row), "shown": round(shown[row.org, row.name])}
                for row in known
                if shown.get((row.org, row.name), 0) >= shown_often and (row.org, row.name) not in called
            ),
            key=lambda tool: (-int(tool["shown"]), tool["name"]),
        ),
    }


def _name_of(row: Any) -> dict[str, Any]:
    return {"org": row.org, "name": row.name, "toolkit": row.toolkit}


def _shown_and_called(
    connection: sa.Connection, sums: WindowSums
) -> tuple[dict[tuple[str, str], float], set[tuple[str, str]]]:
    """(organisation, tool) → the number of events that showed it; and the set of called tools."""
    columns = sums.of(tables.tool_sums).c
    query = sa.select(
        columns.org,
        columns.tool,
        total(columns.selected).label("selected"),
        sa.func.max(columns.reported).label("reported"),
    ).group_by(columns.org, columns.tool)
    shown: dict[tuple[str, str], float] = {}
    called: set[tuple[str, str]] = set()
    for row in connection.execute(query):
        for key in {(row.org, row.tool), ("", row.tool)}:
            if row.selected:
                shown[key] = shown.get(key, 0) + row.selected
            if row.reported:
                called.add(key)
    return shown, called


@dataclass(frozen=True, slots=True)
class BrokenTool(JsonRecord):
    """A tool that stopped working, or never worked: the fields of `Break`, with times as datetimes."""

    org: str
    tool: str
    worked: float
    first_failure: datetime
    alarm: datetime
    failures: int
    successes: int
    reporters: int
    back: datetime | None

    @classmethod
    def of(cls, org: str, tool: str, found: Break) -> BrokenTool:
        """From a row of `learned`."""
        first, alarm = instant(found.first_failure), instant(found.alarm)
        counts = found.failures, found.successes, found.reporters
        back = None if found.back is None else instant(found.back)
        return cls(org, tool, found.worked, first, alarm, *counts, back)


def broken(database: Database, window: Window) -> tuple[BrokenTool, ...]:
    """Tools that broke within the window, the latest first. Selections still hide tools without `back`."""
    table = tables.learned
    where = [table.c.kind == BREAK]
    if window.org is not None:
        where.append(table.c.org == window.org)
    if window.since is not None:
        where.append(table.c.at >= seconds(window.since))
    if window.until is not None:
        where.append(table.c.at < seconds(window.until))
    query = sa.select(table.c.org, table.c.tool, table.c.state).where(*where)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    breaks = [BrokenTool.of(row.org, row.tool, Break.from_bytes(row.state)) for row in rows]
    return tuple(sorted(breaks, key=lambda each: (each.alarm, each.tool), reverse=True))
