"""How often calls of each plugin's tools succeeded and failed, and how long they took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolroll.registry.analytics.tool_calls import CallSums, call_sums
from toolroll.registry.analytics.window import Window
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

_MOST = 5  # failing tools, and slow tools, of a plugin in one answer

_tools = tables.tools


@dataclass(frozen=True, slots=True)
class PluginCalls(JsonRecord):
    """The calls of one plugin's tools.

    Attributes:
        org, plugin: its owner and its name.
        calls, succeeded, failed: numbers of calls; of the others nobody said what came of them.
        timed: how many of them were measured.
        duration_ms: `mean` and `p95` of these; None where nobody measured.
        failing: the tools with the most failures, those first: `name`, `calls` and `failed`.
        slow: the tools with the highest `p95`, those first: `name`, `timed`, `mean` and `p95`.
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
    """The plugins with calls in the window, those with the most failures first.

    An organisation's plugin has the calls of that organisation, one of the platform those of all in the
    window, whose first and last hour count as a whole.
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
    """(organisation, tool) → the plugin that registered it."""
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
