"""A registry's past: its tools, toolkits, rules, page mappings and pins as of an earlier revision.

The past needs no extra storage. A revision has the last version of each tool up to it. Toolkits, rules,
mappings and pins have one row each, and the audit log has the values before each change, so later changes are
undone, newest first. Settings have no history; events store the settings of their time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from toolroll.catalog.pins import Pin
from toolroll.model.errors import NotFound
from toolroll.model.tools import Tool
from toolroll.registry.editing.governed_rows import Row
from toolroll.registry.editing.page_mappings import mapping_in
from toolroll.registry.editing.pins import pin_in
from toolroll.registry.editing.records import served_tool
from toolroll.registry.editing.rules import rule_in
from toolroll.registry.editing.versions import find_version, version_of
from toolroll.registry.follow.replica import Replica, toolkit_and_routes
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.selection.effective_policy import PolicySource

# First word of an action in the audit log → the table that it changes, and the column with its subject.
_TABLES = {
    "toolkit": (tables.toolkits, "name"),
    "rule": (tables.visibility_rules, "name"),
    "page": (tables.page_mappings, "pattern"),
    "pin": (tables.pins, "tool_id"),
}
_CATALOG_ACTIONS = ("tool", "toolkit", "pin", "sync", "import")  # others change visibility alone


def as_of(database: Database, revision: int, orgs: Iterable[str]) -> Replica:
    """The registry at a revision, for these organisations and the platform, without settings.

    Raises:
        NotFound: the registry has no such revision yet, or its history has gaps.
        StoreUnavailable: the database does not answer.
    """
    orgs = frozenset(orgs) | {""}
    with database.reading() as connection:
        state = connection.execute(sa.select(tables.registry_state)).one()
        if not 0 <= revision <= state.revision:
            raise NotFound(f"registry: revision {revision} does not exist, it is at {state.revision}")
        past = _PastRows(connection, orgs, revision, tuple(state.tiers))
        toolkits: dict[str, dict[str, Any]] = {}
        for row in past.alive("toolkit"):
            toolkits.setdefault(row["org"], {})[row["toolkit_id"]] = toolkit_and_routes(row)
        pins: dict[str, dict[str, Pin]] = {}
        for row in past.alive("pin"):
            pins.setdefault(row["org"], {})[row["pin_id"]] = pin_in(row)
        rules = tuple(rule_in(row) for row in past.alive("rule") if row["active"])
        policy = PolicySource(rules, tuple(map(mapping_in, past.alive("page"))), past.tiers)
        tools = _tools(connection, orgs, revision)
        return Replica(revision, tools=tools, toolkits=toolkits, pins=pins, policy_source=policy)


def earlier(database: Database, revision: int, orgs: Iterable[str], limit: int) -> list[int]:
    """Earlier revisions at which the catalogs of these organisations may differ, newest first.

    Raises StoreUnavailable if the database does not answer.
    """
    table = tables.changes
    is_of_catalog = [table.c.action.like(f"{kind}.%") | (table.c.action == kind) for kind in _CATALOG_ACTIONS]
    query = (
        sa.select(table.c.revision)
        .where(table.c.revision <= revision, table.c.org.in_({"", *orgs}), sa.or_(*is_of_catalog))
        .distinct()
        .order_by(table.c.revision.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        changed = connection.execute(query).scalars().all()
    return [number - 1 for number in changed]  # the catalog before revision 7 is the catalog of revision 6


def _tools(connection: sa.Connection, orgs: Collection[str], revision: int) -> dict[str, Mapping[str, Tool]]:
    versions, tools = tables.tool_versions, tables.tools
    newest = (
        sa.select(versions.c.tool_id, sa.func.max(versions.c.version).label("version"))
        .where(versions.c.revision <= revision)
        .group_by(versions.c.tool_id)
        .subquery()
    )
    query = (
        sa.select(versions, tools.c.org)
        .join(newest, (newest.c.tool_id == versions.c.tool_id) & (newest.c.version == versions.c.version))
        .join(tools, tools.c.tool_id == versions.c.tool_id)
        .where(tools.c.org.in_(orgs))
        .order_by(tools.c.org, versions.c.tool_id)
    )
    found: dict[str, dict[str, Tool]] = {}
    for row in connection.execute(query):
        version = version_of(dict(row._mapping))
        if version.is_deleted:
            continue
        if version.review == "approved":
            found.setdefault(row.org, {})[row.tool_id] = version.tool
        elif version.served_version is not None:
            approved = find_version(connection, row.tool_id, version.served_version)
            if approved is None:
                raise _gap(f"tool {version.tool.name!r:.80} lacks version {version.served_version}")
            found.setdefault(row.org, {})[row.tool_id] = served_tool(approved.tool, version.tool)
    return dict(found)


class _PastRows:
    """Rows that people edit, with all changes after a revision undone. tiers: at that revision."""

    def __init__(
        self, connection: sa.Connection, orgs: Collection[str], revision: int, tiers: tuple[str, ...]
    ) -> None:
        self.tiers = tiers
        self._rows: dict[str, list[Row]] = {}
        self._undone: set[int] = set()  # rows, by identity
        for kind, (table, _) in _TABLES.items():
            query = sa.select(table).where(table.c.org.in_(orgs))
            order = (table.c.org, next(iter(table.primary_key)))
            self._rows[kind] = [dict(row) for row in connection.execute(query.order_by(*order)).mappings()]
        log = tables.changes
        lines = sa.select(log).where(log.c.revision > revision).order_by(log.c.seq.desc())
        for line in connection.execute(lines):
            kind, _, verb = line.action.partition(".")
            if kind == "tiers":
                self.tiers = tuple(line.details["before"]["tiers"])
            elif kind in _TABLES:
                self._undo(kind, verb, line, orgs)
        for kind, rows in self._rows.items():
            for row in rows:
                if row["revision"] > revision and id(row) not in self._undone:
                    name = row[_TABLES[kind][1]]
                    raise _gap(f"{kind} {name!r:.80} has changed since, and the audit log does not say how")

    def alive(self, kind: str) -> Iterator[Row]:
        """The rows that existed at the revision."""
        return (row for row in self._rows[kind] if row["deleted_at"] is None)

    def _undo(self, kind: str, verb: str, line: sa.Row[Any], orgs: Collection[str]) -> None:
        row = next(iter(self._rows_of(kind, verb, line)), None)
        if row is None:
            if line.org in orgs and kind != "page":  # anybody may edit a page mapping of another organisation
                raise _gap(f"change {line.seq} of {kind} {line.subject!r:.80} matches no row")
            return
        self._undone.add(id(row))
        if verb == "create":
            self._rows[kind] = [other for other in self._rows[kind] if other is not row]
            return
        row.update(line.details.get("before") or {})
        if verb == "delete":
            row["deleted_at"] = None
        elif verb == "restore":
            row["deleted_at"] = line.at  # the true date does not matter

    def _rows_of(self, kind: str, verb: str, line: sa.Row[Any]) -> list[Row]:
        """Rows that a line of the audit log may concern, the most likely first."""
        rows, details = self._rows[kind], line.details
        if kind in ("page", "pin"):
            key = f"{kind}_id"
            return [row for row in rows if row[key] == details.get(key)]
        name = (details.get("after") or {}).get("name", line.subject)
        is_alive = verb != "delete"
        found = [
            row
            for row in rows
            if row["org"] == line.org and row["name"] == name and (row["deleted_at"] is None) == is_alive
        ]
        return sorted(found, key=lambda row: row["deleted_at"] != line.at)


def _gap(what: str) -> NotFound:
    return NotFound(f"registry: its history is incomplete: {what}")
