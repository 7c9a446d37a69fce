"""How often calls of each plugin's tools succeeded and failed, and which of its tools fail most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolroll.registry.analytics.rollup_reader import over_rollups, total
from toolroll.registry.analytics.window import Window, json_fields
from toolroll.registry.store import tables
from toolroll.registry.store.column_kinds import are_readable
from toolroll.registry.store.database import Database
from toolroll.registry.store.unreadable_rows import Conditions, UnreadableRows

_MOST_FAILING = 5  # tools of a plugin in one answer

_tools, _calls = tables.tools, tables.tool_rollups


@dataclass(frozen=True, slots=True)
class PluginCalls:
    """The calls of one plugin's tools.

    Attributes:
        org, plugin: its owner and its name.
        calls, succeeded, failed: numbers of calls; of the others nobody said what came of them.
        failing: the tools with the most failures, those first: `name`, `calls` and `failed`.
    """

    org: str
    plugin: str
    calls: int
    succeeded: int
    failed: int
    failing: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**json_fields(self), "failing": list(self.failing)}


@dataclass(frozen=True, slots=True)
class _ToolCalls:
    name: str
    calls: float
    succeeded: float
    failed: float


def plugin_calls(
    database: Database, window: Window, unreadable: UnreadableRows | None = None
) -> tuple[PluginCalls, ...]:
    """The plugins with calls in the window, those with the most failures first.

    An organisation's plugin has the calls of that organisation, one of the platform those of all in the
    window, whose first and last hour count as a whole. unreadable: gets sums that cannot be read.
    """
    columns = _calls.c
    # Several tools of a plugin may be called in one event, and each call counts.
    query = (
        sa.select(
            columns.org,
            columns.tool,
            *(total(columns[name]).label(name) for name in ("called", "succeeded", "failed")),
        )
        .where(columns.called > 0)
        .group_by(columns.org, columns.tool)
    )

    def read(connection: sa.Connection, where: Conditions) -> Sequence[Any]:
        return connection.execute(query.where(*where)).all()

    with database.reading() as connection:
        rows = over_rollups(connection, _calls, window, read, unreadable)
    owners = _owners(database, window)
    found: dict[tuple[str, str], list[_ToolCalls]] = {}
    for row in rows:
        own = (row.org, row.tool)
        owner = own if own in owners else ("", row.tool)
        if owner in owners:
            calls = _ToolCalls(row.tool, row.called, row.succeeded, row.failed)
            found.setdefault((owner[0], owners[owner]), []).append(calls)
    counted = (_of_plugin(org, plugin, tools) for (org, plugin), tools in found.items())
    return tuple(sorted(counted, key=lambda each: (-each.failed, -each.calls, each.org, each.plugin)))


def _owners(database: Database, window: Window) -> dict[tuple[str, str], str]:
    """(organisation, tool) → the plugin that registered it."""
    columns = (_tools.c.org, _tools.c.name, _tools.c.plugin)
    where = [_tools.c.deleted_at.is_(None), _tools.c.plugin != "", are_readable(columns, database.dialect)]
    if window.org is not None:
        where.append(_tools.c.org.in_({"", window.org}))
    with database.reading() as connection:
        rows = connection.execute(sa.select(*columns).where(*where)).all()
    return {(row.org, row.name): row.plugin for row in rows}


def _of_plugin(org: str, plugin: str, rows: Sequence[_ToolCalls]) -> PluginCalls:
    """Adds up the rows: a tool of the platform has one for each organisation."""
    by_tool: dict[str, list[_ToolCalls]] = {}
    for row in rows:
        by_tool.setdefault(row.name, []).append(row)
    failing: list[tuple[int, str, int]] = []
    for name, of in by_tool.items():
        if failed := round(sum(row.failed for row in of)):
            failing.append((-failed, name, round(sum(row.calls for row in of))))
    return PluginCalls(
        org,
        plugin,
        round(sum(row.calls for row in rows)),
        round(sum(row.succeeded for row in rows)),
        round(sum(row.failed for row in rows)),
        tuple(
            {"name": name, "calls": calls, "failed": -less}
            for less, name, calls in sorted(failing)[:_MOST_FAILING]
        ),
    )
