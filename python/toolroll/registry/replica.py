"""What a process knows of a registry: read once whole, then only what has changed since.

A replica is a value. Catching up makes another one from it in one consistent read, so a read that is given
up half-way changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.errors import InvalidDefinition
from toolroll.governance import Governance
from toolroll.rules import PageMapping, Rule
from toolroll.store import tables
from toolroll.store.database import Database
from toolroll.tools import Definitions, Route, Tool, Toolkit

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class News:
    """What one catching up has found.

    Attributes:
        orgs: whose tools or toolkits changed; "" for the platform's.
        governance: rules, page mappings or tiers changed.
        settings: which settings have a value changed.
    """

    orgs: frozenset[str] = frozenset()
    governance: bool = False
    settings: bool = False

    def __bool__(self) -> bool:
        return bool(self.orgs) or self.governance or self.settings


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A registry as of one revision.

    Attributes:
        revision: of the registry; what changed later has a higher one.
        at: when that revision was written; None for a registry that nothing was written to.
        tools, toolkits: organisation → id → what is there and approved.
        governance: rules, page mappings and tiers.
        settings: organisation → settings that have a value, the platform's among them.
        read_at: monotonic seconds at which this was known to be current.
    """

    revision: int = -1
    at: datetime | None = None
    tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    toolkits: Mapping[str, Mapping[str, tuple[Toolkit, tuple[Route, ...]]]] = field(default_factory=dict)
    governance: Governance = field(default_factory=Governance)
    settings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    read_at: float = 0.0

    @property
    def orgs(self) -> frozenset[str]:
        """Organisations with tools or toolkits of their own."""
        return frozenset(org for org in (*self.tools, *self.toolkits) if org)

    def definitions(self, org: str) -> Definitions:
        """Tools, toolkits and routes of one organisation, or "" for those of the platform."""
        toolkits = self.toolkits.get(org, _NOTHING).values()
        return Definitions(
            tuple(self.tools.get(org, _NOTHING).values()),
            tuple(toolkit for toolkit, _ in toolkits),
            tuple(route for _, routes in toolkits for route in routes),
        )


def catch_up(database: Database, seen: Replica) -> tuple[Replica, News]:
    """The registry as it is now, and what is new in it since `seen`.

    One consistent read: tools, rules and settings belong together. Reads only rows that changed, unless the
    registry has another past than the one seen: then somebody restored a backup, and all is read.

    Raises:
        StoreUnavailable: the database does not answer.
        InvalidDefinition: a tool in it cannot be read.
    """
    with database.reading() as connection:
        state = connection.execute(sa.select(tables.registry_state)).one()
        is_another = seen.revision > state.revision or seen.at != _written_at(connection, seen.revision)
        if state.revision == seen.revision and not is_another:
            return replace(seen, read_at=time.monotonic()), News()
        before = seen
        if is_another:
            seen = Replica()
        at = _written_at(connection, state.revision)
        tools, of_tools = _merged(connection, tables.tools, seen, seen.tools, _tool)
        toolkits, of_toolkits = _merged(connection, tables.toolkits, seen, seen.toolkits, _toolkit)
        governance = _governance(connection, state.tiers)
        settings = read_settings(connection)
    replica = Replica(state.revision, at, tools, toolkits, governance, settings, time.monotonic())
    orgs = {"", *before.orgs, *replica.orgs} if is_another else of_tools | of_toolkits
    return replica, News(frozenset(orgs), governance != before.governance, settings != before.settings)


def stamp_of(database: Database) -> tuple[int, datetime | None]:
    """The registry's revision, and when it was written: what differs between two looks if anything does."""
    with database.reading() as connection:
        revision = connection.execute(sa.select(tables.registry_state.c.revision)).scalar_one()
        return revision, _written_at(connection, revision)


def read_settings(connection: sa.Connection) -> dict[str, frozenset[str]]:
    """Organisation → settings that have a value, for it or for the platform. One query."""
    rows = connection.execute(
        sa.select(tables.settings.c.org, tables.settings.c.key).where(tables.settings.c.is_set)
    )
    found: dict[str, set[str]] = {"": set()}
    for org, key in rows:
        found.setdefault(org, set()).add(key)
    return {org: frozenset(keys | found[""]) for org, keys in found.items()}


def _written_at(connection: sa.Connection, revision: int) -> datetime | None:
    """When a revision was written, which tells two pasts with the same numbers apart."""
    log = tables.changes.c
    return connection.execute(sa.select(sa.func.max(log.at)).where(log.revision == revision)).scalar()


def _merged(
    connection: sa.Connection,
    table: sa.Table,
    seen: Replica,
    known: Mapping[str, Mapping[str, Any]],
    read: Any,
) -> tuple[dict[str, Mapping[str, Any]], set[str]]:
    """By organisation and id, with the rows that changed since, and whose those are."""
    identity = next(iter(table.primary_key))
    changed = connection.execute(
        sa.select(table).where(table.c.revision > seen.revision).order_by(table.c.org, identity)
    )
    merged: dict[str, Mapping[str, Any]] = dict(known)
    fresh: dict[str, dict[str, Any]] = {}
    orgs = set()
    for row in changed.mappings():
        org, key = row["org"], row[identity.name]
        values = fresh.get(org)
        if values is None:
            values = fresh[org] = dict(known.get(org, _NOTHING))
        before = values.get(key)
        value = read(row)
        if value is not None:
            values[key] = value
        else:
            values.pop(key, None)
        if value != before:
            orgs.add(org)
    for org, values in fresh.items():
        if values:
            merged[org] = values
        else:
            merged.pop(org, None)
    return merged, orgs


def _tool(row: Mapping[str, Any]) -> Tool | None:
    """The tool of a row; None for one that is in no catalog."""
    if row["deleted_at"] is not None or row["review"] != "approved":
        return None
    return Tool(
        name=row["name"],
        description=row["description"],
        parameters=row["parameters"],
        toolkit=row["toolkit"],
        summary=row["summary"],
        when_to_use=row["when_to_use"],
        limitations=row["limitations"],
        tags=tuple(row["tags"]),
        examples=tuple(row["examples"]),
        status=row["status"],
        public=row["public"],
        pinned=row["pinned"],
        pin_weight=row["pin_weight"],
        version=row["semantic_version"],
        tool_id=row["tool_id"],
        display_name=row["display_name"],
        returns=row["returns"],
        execution_type=row["execution_type"],
        execution_config=row["execution_config"],
    )


def _toolkit(row: Mapping[str, Any]) -> tuple[Toolkit, tuple[Route, ...]] | None:
    if row["deleted_at"] is not None:
        return None
    toolkit = Toolkit(
        row["name"],
        row["description"],
        row["parent"],
        tuple(row["settings_keys"]),
        row["base"],
        row["tier"],
    )
    keywords, patterns = row["keywords"], row["patterns"]
    if not keywords and not patterns:
        return toolkit, ()
    modes = tuple(keyword.get("mode", "") for keyword in keywords)
    words = tuple(keyword["keyword"] for keyword in keywords)
    return toolkit, (Route((toolkit.name,), words, tuple(patterns), modes if any(modes) else ()),)


def _governance(connection: sa.Connection, tiers: Any) -> Governance:
    rules, pages = tables.visibility_rules, tables.page_mappings
    try:
        return Governance(
            tuple(
                Rule(
                    name=row["name"],
                    effect=row["effect"],
                    kind=row["kind"],
                    condition=row["condition"],
                    tool=row["tool"],
                    toolkit=row["toolkit"],
                    priority=row["priority"],
                    org=row["org"],
                    rule_id=row["rule_id"],
                )
                for row in connection.execute(
                    sa.select(rules)
                    .where(rules.c.deleted_at.is_(None), rules.c.active)
                    .order_by(rules.c.org, rules.c.name)
                ).mappings()
            ),
            tuple(
                PageMapping(
                    row["pattern"], tuple(row["toolkits"]), row["priority"], row["org"], row["page_id"]
                )
                for row in connection.execute(
                    sa.select(pages)
                    .where(pages.c.deleted_at.is_(None))
                    .order_by(pages.c.org, pages.c.pattern, pages.c.page_id)
                ).mappings()
            ),
            tuple(tiers),
        )
    except (ValueError, TypeError, KeyError) as error:  # what somebody wrote there by hand
        return Governance(error=InvalidDefinition(f"a rule or page mapping is damaged: {error}"))
