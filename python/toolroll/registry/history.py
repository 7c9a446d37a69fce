"""What a registry was: its tools, toolkits, rules and page mappings as of an earlier revision.

Nothing is kept for this that is not kept anyway. Every version of a tool is there, so a revision had the last
versions up to it. Toolkits, rules and mappings have one row each, and the audit log says of every change what
was before: what came later is undone, newest first. Settings have no past here; an event says which counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from toolroll.errors import NotFound
from toolroll.registry.governed_rows import Row
from toolroll.registry.page_mappings import mapping_in
from toolroll.registry.replica import Replica, toolkit_in
from toolroll.registry.rules import rule_in
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.versions import version_of
from toolroll.selection.effective_policy import PolicySource
from toolroll.tools import Tool

# The word before the dot of an action → whose rows it changes, and the column that its subject names.
_TABLES = {
    "toolkit": (tables.toolkits, "name"),
    "rule": (tables.visibility_rules, "name"),
    "page": (tables.page_mappings, "pattern"),
}
_OF_TOOLS = ("tool", "toolkit", "sync", "import")  # what changes catalogs, not only who sees what


def as_of(database: Database, revision: int, orgs: Iterable[str]) -> Replica:
    """The registry as it was, as far as it concerns these organisations; "" is the platform.

    One consistent read. Its settings are empty.

    Raises:
        NotFound: the registry has not come to that revision, or does not know what was then.
        StoreUnavailable: the database does not answer.
    """
    orgs = frozenset(orgs) | {""}
    with database.reading() as connection:
        state = connection.execute(sa.select(tables.registry_state)).one()
        if not 0 <= revision <= state.revision:
            raise NotFound(f"registry: revision {revision} is not there, it is at {state.revision}")
        before = _Before(connection, orgs, revision, tuple(state.tiers))
        toolkits: dict[str, dict[str, Any]] = {}
        for row in before.alive("toolkit"):
            toolkits.setdefault(row["org"], {})[row["toolkit_id"]] = toolkit_in(row)
        return Replica(
            revision=revision,
            tools=_tools(connection, orgs, revision),
            toolkits=toolkits,
            policy_source=PolicySource(
                tuple(rule_in(row) for row in before.alive("rule") if row["active"]),
                tuple(mapping_in(row) for row in before.alive("page")),
                before.tiers,
            ),
        )


def earlier(database: Database, revision: int, orgs: Iterable[str], limit: int) -> list[int]:
    """Revisions before this one at which these organisations' catalogs may have been others, newest first.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    table = tables.changes
    of_tools = [table.c.action.like(f"{kind}.%") | (table.c.action == kind) for kind in _OF_TOOLS]
    query = (
        sa.select(table.c.revision)
        .where(table.c.revision <= revision, table.c.org.in_({"", *orgs}), sa.or_(*of_tools))
        .distinct()
        .order_by(table.c.revision.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        changed = connection.execute(query).scalars().all()
    # Before the change of revision 7 it was what 6 had, whatever 6 changed.
    return [number - 1 for number in changed]


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
        version = version_of(row)
        if version.review == "approved" and not version.is_deleted:
            found.setdefault(row.org, {})[row.tool_id] = version.tool
    return dict(found)


class _Before:
    """Rows that people edit, with all that came after a revision undone.

    Attributes:
        tiers: as they were.
    """

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
                    raise _lost(
                        f"{kind} {row[_TABLES[kind][1]]!r:.80} has changed since, and nothing says how"
                    )

    def alive(self, kind: str) -> Iterator[Row]:
        """Those that were not deleted then."""
        return (row for row in self._rows[kind] if row["deleted_at"] is None)

    def _undo(self, kind: str, verb: str, line: sa.Row[Any], orgs: Collection[str]) -> None:
        found = self._meant(kind, verb, line)
        if not found:
            if line.org in orgs and "page_id" not in line.details:  # a page's line may be of any organisation
                raise _lost(f"change {line.seq} of {kind} {line.subject!r:.80} is of nothing that is known")
            return
        row = found[0]
        self._undone.add(id(row))
        if verb == "create":
            self._rows[kind] = [other for other in self._rows[kind] if other is not row]
            return
        before = line.details.get("before")
        row.update(before if isinstance(before, Mapping) else _of_page(before))
        if verb == "delete":
            row["deleted_at"] = None
        elif verb == "restore":
            row["deleted_at"] = line.at  # whenever it was

    def _meant(self, kind: str, verb: str, line: sa.Row[Any]) -> list[Row]:
        """Rows that may be what a line is about, the likeliest first."""
        rows, details = self._rows[kind], line.details
        if "page_id" in details:
            return [row for row in rows if row["page_id"] == details["page_id"]]
        after = details.get("after")
        name = line.subject if not isinstance(after, Mapping) else after.get("name", line.subject)
        column, is_alive = _TABLES[kind][1], verb != "delete"
        found = [
            row
            for row in rows
            if row["org"] == line.org and row[column] == name and (row["deleted_at"] is None) == is_alive
        ]
        if kind == "page":  # of a sync, which names no row: several may have one pattern
            says = _of_page(after if is_alive else details.get("before"))
            found = [row for row in found if all(row[field] == value for field, value in says.items())]
        return sorted(found, key=lambda row: row["deleted_at"] != line.at)


def _of_page(says: Sequence[Any] | None) -> dict[str, Any]:
    """What a sync's line says of a mapping."""
    return {} if not says else {"toolkits": list(says[0]), "priority": says[1]}


def _lost(what: str) -> NotFound:
    return NotFound(f"registry: its past is not whole: {what}")
