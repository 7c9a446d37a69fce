"""Calls of each tool and of each plugin's tools: how many succeeded and failed, and how long they took."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.window import Window
from toolroll.registry.analytics.window_sums import WindowSums, bucket_at, total
from toolroll.registry.events.hour_selects import DURATION_STEPS, middle_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

By = Literal["calls", "failed", "mean", "p95"]
BY: tuple[By, ...] = ("calls", "failed", "mean", "p95")


@dataclass(slots=True)
class CallSums:
    """Calls of one tool, or of several.

    Attributes:
        calls, succeeded, failed: numbers of calls; the results of the others are unknown.
        timed: calls with a duration; total_ms: the sum of durations; buckets: bucket of durations → calls.
    """

    calls: float = 0.0
    succeeded: float = 0.0
    failed: float = 0.0
    timed: float = 0.0
    total_ms: float = 0.0
    buckets: Counter[int] = field(default_factory=Counter)

    def add(self, other: CallSums) -> None:
        """Adds calls of another tool, or of another organisation."""
        for name in ("calls", "succeeded", "failed", "timed", "total_ms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.buckets.update(other.buckets)

    def counts(self) -> dict[str, int]:
        """The numbers of calls, rounded: sampling makes estimates of them."""
        return {name: round(getattr(self, name)) for name in ("calls", "succeeded", "failed")}

    def duration_ms(self) -> dict[str, float | None]:
        """The mean and the 95th percentile, which is at most 6.3 % off; None without durations."""
        at = bucket_at(sorted(self.buckets.items()), 0.95)
        return {
            "mean": self.total_ms / self.timed if self.timed else None,
            "p95": None if at is None else middle_of(at, DURATION_STEPS),
        }


@dataclass(frozen=True, slots=True)
class ToolCallSummary(JsonRecord):
    """The calls of one tool in one organisation; see `CallSums`. duration_ms: `mean` and `p95`."""

    org: str
    tool: str
    calls: int
    succeeded: int
    failed: int
    timed: int
    duration_ms: dict[str, float | None]


def tool_calls(
    database: Database, window: Window, *, by: By = "calls", limit: int = 100
) -> tuple[ToolCallSummary, ...]:
    """The tools with calls in the window, in whole hours. by: the order, the highest first."""
    if by not in BY:
        raise InvalidInput(f"by: is {by!r:.80}, must be one of {', '.join(BY)}")
    found = [
        ToolCallSummary(org, tool, **sums.counts(), timed=round(sums.timed), duration_ms=sums.duration_ms())
        for (org, tool), sums in call_sums(database, window).items()
    ]
    return tuple(
        sorted(found, key=lambda each: (-_value(each, by), -each.calls, each.org, each.tool))[:limit]
    )


def _value(calls: ToolCallSummary, by: By) -> float:
    value = calls.duration_ms[by] if by in calls.duration_ms else getattr(calls, by)
    return -math.inf if value is None else float(value)


def call_sums(database: Database, window: Window) -> dict[tuple[str, str], CallSums]:
    """(organisation, tool) → its calls in the window."""
    found: dict[tuple[str, str], CallSums] = {}
    with database.reading() as connection:
        columns = WindowSums(connection, window).of(tables.tool_sums).c
        place = (columns.org, columns.tool, columns.bucket)
        numbers = [total(columns[name]) for name in ("called", "succeeded", "failed", "timed", "duration_ms")]
        query = sa.select(*place, *numbers).where(columns.called + columns.timed > 0).group_by(*place)
        for org, tool, bucket, *sums in connection.execute(query):
            # Several tools may be called in one event, and each call counts.
            timed = Counter({bucket: sums[3]} if sums[3] else {})
            called, succeeded, failed, number, total_ms = sums
            found.setdefault((org, tool), CallSums()).add(
                CallSums(called, succeeded, failed, number, total_ms, timed)
            )
    return found


_MOST = 5  # failing tools, and slow tools, of a plugin in one answer

_tools = tables.tools


@dataclass(frozen=True, slots=True)
class PluginCalls(JsonRecord):
    """The calls of one plugin's tools; see `ToolCallSummary`.

    Attributes:
        org: the plugin's owner.
        failing: the tools with the most failures: `name`, `calls` and `failed`.
        slow: the tools with the highest `p95`: `name`, `timed`, `mean` and `p95`.
    """

    org: str
    plugin: str
    calls: int
    succeeded: int
    failed: int
    timed: int
    duration_ms: dict[str, float | None]
    failing: tuple[dict[str, Any], ...]
    slow: tuple[dict[str, Any], ...]


def plugin_calls(database: Database, window: Window) -> tuple[PluginCalls, ...]:
    """The plugins with calls in the window, in whole hours, the most failures first.

    A plugin of the platform has the calls of all organisations in the window.
    """
    owners = _owners(database, window)
    found: dict[tuple[str, str], dict[str, CallSums]] = {}
    for own, sums in call_sums(database, window).items():
        owner = own if own in owners else ("", own[1])
        if owner in owners:
            by_tool = found.setdefault((owner[0], owners[owner]), {})
            by_tool.setdefault(own[1], CallSums()).add(sums)
    counted = (_of_plugin(org, plugin, by_tool) for (org, plugin), by_tool in found.items())
    return tuple(sorted(counted, key=lambda each: (-each.failed, -each.calls, each.org, each.plugin)))


def _owners(database: Database, window: Window) -> dict[tuple[str, str], str]:
    """(organisation, tool) → its plugin."""
    columns = (_tools.c.org, _tools.c.name, _tools.c.plugin)
    where = [_tools.c.deleted_at.is_(None), _tools.c.plugin != ""]
    if window.org is not None:
        where.append(_tools.c.org.in_({"", window.org}))
    with database.reading() as connection:
        rows = connection.execute(sa.select(*columns).where(*where)).all()
    return {(row.org, row.name): row.plugin for row in rows}


def _of_plugin(org: str, plugin: str, by_tool: dict[str, CallSums]) -> PluginCalls:
    every, failing, slow = CallSums(), list[dict[str, Any]](), list[dict[str, Any]]()
    for name, sums in by_tool.items():
        every.add(sums)
        counts, took = sums.counts(), sums.duration_ms()
        if counts["failed"]:
            failing.append({"name": name, "calls": counts["calls"], "failed": counts["failed"]})
        if took["p95"] is not None:
            slow.append({"name": name, "timed": round(sums.timed), **took})
    failing.sort(key=lambda tool: (-tool["failed"], tool["name"]))
    slow.sort(key=lambda tool: (-tool["p95"], tool["name"]))
    return PluginCalls(
        org,
        plugin,
        **every.counts(),
        timed=round(every.timed),
        duration_ms=every.duration_ms(),
        failing=tuple(failing[:_MOST]),
        slow=tuple(slow[:_MOST]),
    )
