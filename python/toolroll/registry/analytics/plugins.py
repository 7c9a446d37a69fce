"""The plugins of a registry: their last registration, and the use of their tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa

from toolroll.registry.analytics.tools import BrokenTool
from toolroll.registry.analytics.window import Window
from toolroll.registry.analytics.window_sums import WindowSums, total
from toolroll.registry.events.hour_selects import day_of, hour_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, checked_text
from toolroll.registry.store.json_values import JsonRecord
from toolroll.registry.store.row_reader import read_rows

_PLUGINS, _TOOLS, _ARMS, _LOG = tables.plugins, tables.tools, tables.learned, tables.changes
_NONE = (0, 0, 0)
_LONGEST = 31  # days of the search for the last call


@dataclass(frozen=True, slots=True)
class PluginRecord(JsonRecord):
    """A plugin, such as an MCP server, that registers tools.

    Attributes:
        org: its owner. review: the changes that need approval.
        tools: the number of its tools.
        waiting, flagged, inactive: tools that await approval, have flags, or are not active.
        synced_at, synced_by: of the last registration.
        changes: of the last sync with changes: `at`, `counts`, and names by action; None if unknown.
        shown, called, succeeded: numbers of events.
        last_day: numbers `calls` and `failed` of the last 24 whole hours.
        last_call, last_failure: the beginning of the hour, or of the day if it was before these hours; None
            if there was none in 31 days.
        left_out: broken tools that are hidden in some organisation's selections: `tool` and `since`; None if
            unknown.
    """

    org: str
    name: str
    plugin_version: str
    review: str
    tools: int
    waiting: int
    flagged: int
    inactive: int
    synced_at: datetime
    synced_by: str
    changes: dict[str, Any] | None
    shown: int
    called: int
    succeeded: int
    last_day: dict[str, int]
    last_call: datetime | None
    last_failure: datetime | None
    left_out: tuple[dict[str, Any], ...] | None


def plugins(
    database: Database,
    org: str | None = None,
    *,
    breaks: Iterable[BrokenTool] | None = None,
    now: datetime | None = None,
) -> tuple[PluginRecord, ...]:
    """The plugins of an organisation ("": the platform), or all, by organisation and name.

    A plugin of the platform has the calls of all organisations. breaks: None if unknown.
    """
    now = datetime.now(timezone.utc) if now is None else now
    where = [] if org is None else [_PLUGINS.c.org == checked_text(org, "org")]
    order = (_PLUGINS.c.org, _PLUGINS.c.name)
    with database.reading() as connection:
        found = list(read_rows(connection, list(_PLUGINS.c), *where, order_by=order))
        states, calls = _states(connection, org), _calls(connection, org)
        recent = _recent(connection, org, now)
        left_out = None if breaks is None else _left_out(connection, org, breaks)
        return tuple(
            PluginRecord(
                row["org"],
                row["name"],
                row["version"],
                row["review"],
                row["tools"],
                *states.get((row["org"], row["name"]), _NONE),
                row["synced_at"],
                row["synced_by"],
                _last_change(connection, row["org"], row["name"]),
                *calls.get((row["org"], row["name"]), _NONE),
                *recent.get((row["org"], row["name"]), _NEVER),
                None if left_out is None else tuple(left_out.get((row["org"], row["name"]), ())),
            )
            for row in found
        )


def _of_plugins(org: str | None) -> list[sa.ColumnElement[bool]]:
    """The condition for tools of this organisation's plugins."""
    whose = [] if org is None else [_TOOLS.c.org == org]
    return [_TOOLS.c.deleted_at.is_(None), _TOOLS.c.plugin != "", *whose]


def _states(connection: sa.Connection, org: str | None) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(organisation, plugin) → numbers of waiting, flagged and inactive tools."""

    def count_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
        return sa.func.sum(sa.case((condition, 1), else_=0))

    query = (
        sa.select(
            _TOOLS.c.org,
            _TOOLS.c.plugin,
            count_if(_TOOLS.c.review != "approved"),
            count_if(sa.cast(_TOOLS.c.flags, sa.Text) != "[]"),
            count_if(_TOOLS.c.status != "active"),
        )
        .where(*_of_plugins(org))
        .group_by(_TOOLS.c.org, _TOOLS.c.plugin)
    )
    rows = connection.execute(query)
    return {(org, name): (waiting, flagged, off) for org, name, waiting, flagged, off in rows}


def _calls(connection: sa.Connection, org: str | None) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(organisation, plugin) → how often its tools were shown, called and successful."""
    counts = (_ARMS.c.shown, _ARMS.c.called, _ARMS.c.succeeded)
    is_theirs = sa.and_(
        _ARMS.c.tool == _TOOLS.c.name, sa.or_(_TOOLS.c.org == "", _TOOLS.c.org == _ARMS.c.org)
    )
    query = (
        sa.select(_TOOLS.c.org, _TOOLS.c.plugin, *map(sa.func.sum, counts))
        .select_from(_TOOLS.join(_ARMS, is_theirs))
        .where(
            _ARMS.c.kind == "tool",
            _ARMS.c.level == "everywhere",
            *_of_plugins(org),
        )
        .group_by(_TOOLS.c.org, _TOOLS.c.plugin)
    )
    rows = connection.execute(query)
    return {(org, name): (int(shown), int(called), int(done)) for org, name, shown, called, done in rows}


# Numbers of calls, and the times of the last call and the last failure.
_Calls = tuple[dict[str, int], "datetime | None", "datetime | None"]
_NO_CALLS = {"calls": 0, "failed": 0}
_NEVER: _Calls = (_NO_CALLS, None, None)


def _recent(connection: sa.Connection, org: str | None, now: datetime) -> dict[tuple[str, str], _Calls]:
    """(organisation, plugin) → its calls of the last day, and the times of the last call and failure."""
    whose = org or None  # a plugin of the platform is called in all organisations
    month = Window(whose, day_of(now - timedelta(days=_LONGEST)))
    last_day = Window(whose, hour_of(now - timedelta(days=1)))
    found = {
        plugin: (_NO_CALLS, call and day_of(call), failure and day_of(failure))
        for plugin, (_, call, failure) in _counted(connection, org, WindowSums(connection, month))
    }
    for plugin, (counts, call, failure) in _counted(
        connection, org, WindowSums(connection, last_day, by_hour=True)
    ):
        found[plugin] = (counts, call, failure or found.get(plugin, _NEVER)[2])
    return found


def _counted(
    connection: sa.Connection, org: str | None, sums: WindowSums
) -> Iterator[tuple[tuple[str, str], _Calls]]:
    rows = sums.of(tables.tool_sums)
    columns = rows.c
    is_theirs = sa.and_(
        columns.tool == _TOOLS.c.name, sa.or_(_TOOLS.c.org == "", _TOOLS.c.org == columns.org)
    )
    query = (
        sa.select(
            _TOOLS.c.org,
            _TOOLS.c.plugin,
            total(columns.called),
            total(columns.failed),
            sa.func.max(columns.at, type_=columns.at.type),
            sa.func.max(sa.case((columns.failed > 0, columns.at)), type_=columns.at.type),
        )
        .select_from(_TOOLS.join(rows, is_theirs))
        .where(columns.called > 0, *_of_plugins(org))
        .group_by(_TOOLS.c.org, _TOOLS.c.plugin)
    )
    for owner, name, calls, failed, last_call, last_failure in connection.execute(query):
        yield (owner, name), ({"calls": round(calls), "failed": round(failed)}, last_call, last_failure)


def _left_out(
    connection: sa.Connection, org: str | None, breaks: Iterable[BrokenTool]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(organisation, plugin) → its hidden tools, the longest hidden first."""
    open_breaks = sorted((each for each in breaks if each.back is None), key=lambda each: each.alarm)
    names = {each.tool for each in open_breaks}
    query = sa.select(_TOOLS.c.org, _TOOLS.c.name, _TOOLS.c.plugin).where(
        _TOOLS.c.name.in_(names), *_of_plugins(org)
    )
    owners = {(row.org, row.name): row.plugin for row in connection.execute(query)} if names else {}
    since: dict[tuple[str, str], dict[str, datetime]] = {}
    for each in open_breaks:
        owner = each.org if (each.org, each.tool) in owners else ""
        if plugin := owners.get((owner, each.tool)):
            since.setdefault((owner, plugin), {}).setdefault(each.tool, each.alarm)
    return {
        key: [{"tool": tool, "since": at.isoformat()} for tool, at in tools.items()]
        for key, tools in since.items()
    }


def _last_change(connection: sa.Connection, org: str, name: str) -> dict[str, Any] | None:
    where = (_LOG.c.org == org, _LOG.c.subject == name, _LOG.c.action == "sync")
    order = (_LOG.c.seq.desc(),)
    for row in read_rows(connection, (_LOG.c.at, _LOG.c.details), *where, order_by=order, limit=1):
        details = row["details"]
        names = {action: details.get(action, []) for action in ("create", "change", "restore", "delete")}
        return {"at": row["at"].isoformat(), "counts": details.get("counts", {}), **names}
    return None
