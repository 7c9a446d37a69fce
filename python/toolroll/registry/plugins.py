"""The plugins of a registry: when they last registered their tools, and how their tools do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.registry import governed_rows
from toolroll.registry.store import tables
from toolroll.registry.store.column_kinds import are_readable
from toolroll.registry.store.database import Database, words
from toolroll.registry.store.row_reader import UnreadableRow, read_rows
from toolroll.registry.store.unreadable_rows import UnreadableRows

_PLUGINS, _TOOLS, _ARMS, _LOG = tables.plugins, tables.tools, tables.arm_statistics, tables.changes
_NONE = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """A plugin, such as an MCP server, that registers tools.

    Attributes:
        org, name, plugin_version: its owner, its name, and the version that it gave itself.
        review: which of its changes await approval.
        tools: the number of its tools.
        waiting, flagged, inactive: those of them that await approval, have flags, or are not active.
        synced_at, synced_by: the last time that it registered its tools, and by whom.
        changes: of the last sync with changes: `at`, `counts`, and names by action; None if unknown.
        shown, called, succeeded: in how many events its tools were.
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return governed_rows.fields_as_json(self)


def plugins(
    database: Database, org: str | None = None, unreadable: UnreadableRows | None = None
) -> tuple[PluginRecord, ...]:
    """The plugins of an organisation ("": the platform), or all, by organisation and name.

    Calls of a plugin of the platform are those of all organisations. unreadable: gets plugins that cannot be
    read.
    """
    unreadable = UnreadableRows() if unreadable is None else unreadable
    where = [] if org is None else [_PLUGINS.c.org == words(org, "org")]
    order = (_PLUGINS.c.org, _PLUGINS.c.name)
    with database.reading() as connection:
        found = [
            *unreadable.without(_PLUGINS, read_rows(connection, list(_PLUGINS.c), *where, order_by=order))
        ]
        states, calls = _states(connection, org), _calls(connection, org)
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
            )
            for row in found
        )


def _of_plugins(org: str | None) -> list[sa.ColumnElement[bool]]:
    """The tools that plugins of this organisation have registered."""
    whose = [] if org is None else [_TOOLS.c.org == org]
    return [_TOOLS.c.deleted_at.is_(None), _TOOLS.c.plugin != "", *whose]


def _states(connection: sa.Connection, org: str | None) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(organisation, plugin) → how many of its tools wait, are flagged, and are not active."""
    columns = (_TOOLS.c.org, _TOOLS.c.plugin, _TOOLS.c.review, _TOOLS.c.status, _TOOLS.c.flags)

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
        .where(
            *_of_plugins(org),
            are_readable(columns, connection.dialect.name),
        )
        .group_by(_TOOLS.c.org, _TOOLS.c.plugin)
    )
    rows = connection.execute(query)
    return {(org, name): (waiting, flagged, off) for org, name, waiting, flagged, off in rows}


def _calls(connection: sa.Connection, org: str | None) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(organisation, plugin) → how often its tools were shown, called and successful."""
    counts = (_ARMS.c.shown, _ARMS.c.called, _ARMS.c.succeeded)
    columns = (_ARMS.c.org, _ARMS.c.tool, _ARMS.c.level, *counts)
    is_theirs = sa.and_(
        _ARMS.c.tool == _TOOLS.c.name, sa.or_(_TOOLS.c.org == "", _TOOLS.c.org == _ARMS.c.org)
    )
    query = (
        sa.select(_TOOLS.c.org, _TOOLS.c.plugin, *map(sa.func.sum, counts))
        .select_from(_TOOLS.join(_ARMS, is_theirs))
        .where(
            _ARMS.c.level == "everywhere",
            *_of_plugins(org),
            are_readable(columns, connection.dialect.name),
        )
        .group_by(_TOOLS.c.org, _TOOLS.c.plugin)
    )
    rows = connection.execute(query)
    return {(org, name): (int(shown), int(called), int(done)) for org, name, shown, called, done in rows}


def _last_change(connection: sa.Connection, org: str, name: str) -> dict[str, Any] | None:
    where = (_LOG.c.org == org, _LOG.c.subject == name, _LOG.c.action == "sync")
    order = (_LOG.c.seq.desc(),)
    for row in read_rows(connection, (_LOG.c.at, _LOG.c.details), *where, order_by=order, limit=1):
        if isinstance(row, UnreadableRow):
            return None
        details = row["details"]
        names = {action: details.get(action, []) for action in ("create", "change", "restore", "delete")}
        return {"at": row["at"].isoformat(), "counts": details.get("counts", {}), **names}
    return None
