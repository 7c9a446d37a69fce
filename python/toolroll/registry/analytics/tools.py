"""Tool health: how reliable tools are, when they broke, and which ones are never used."""

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
from toolroll.registry.events.breaks import Break as FoundBreak
from toolroll.registry.events.learned_rows import arm_statistics as _arms
from toolroll.registry.events.row_fold import BREAK, LEVELS, SEED
from toolroll.registry.events.rows import seconds
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

RATES = LearningRates()
_tools = tables.tools


@dataclass(frozen=True, slots=True)
class Arm(JsonRecord):
    """A tool's reliability in a context.

    Attributes:
        org, tool: the organisation and the tool.
        level: "everywhere", "page", "context", or "seed" for the counts of the profile `learned`, which has
            no calls and expected ones.
        context_key: the page, or tier:page:category; "" for everywhere.
        mean, low, high: posterior mean of its success, and the equal-tailed 95 % interval.
        successes, failures, calls, expected: decayed sums at this time, as selections read them: after a
            break, what was before it counts as one observation.
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
        found.append(
            Arm(
                row.org,
                row.tool,
                row.level,
                row.context_key,
                float(alpha[at] / (alpha[at] + beta[at])),
                low[at],
                high[at],
                float(successes[at]),
                float(failures[at]),
                wanted * row.calls,
                wanted * row.expected,
                row.shown,
                row.called,
                row.succeeded,
                row.updated_at,
            )
        )
    return tuple(found)


def _left(at: float | None, now: datetime, half_s: float) -> float:
    """The share of a sum that is left now."""
    return 1.0 if at is None else 0.5 ** (max(0.0, seconds(now) - at) / half_s)


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
    connection: sa.Connection, sums: WindowSums
) -> tuple[dict[tuple[str, str], float], set[tuple[str, str]]]:
    """(organisation, tool) → in how many events it was shown; and those that were called."""
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
class Break(JsonRecord):
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

    @classmethod
    def of(cls, org: str, tool: str, found: FoundBreak) -> Break:
        """From a row of `learned`."""
        first, alarm, back = found.times()
        counts = found.failures, found.successes, found.reporters
        return cls(org, tool, found.worked, first, alarm, *counts, back)


def broken(database: Database, window: Window) -> tuple[Break, ...]:
    """Tools that broke within the window, the latest first.

    The change detector of the fold found them, which selections read, too: a tool without `back` is a tool
    that selections hide.
    """
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
    breaks = [Break.of(row.org, row.tool, FoundBreak.from_bytes(row.state)) for row in rows]
    return tuple(sorted(breaks, key=lambda each: (each.alarm, each.tool), reverse=True))
