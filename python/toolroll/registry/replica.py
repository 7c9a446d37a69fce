"""A process's copy of a registry: read completely once, later only the changes.

A replica is a value. `catch_up` makes a newer one in one consistent read, so an interrupted read changes
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.errors import InvalidDefinition, InvalidInput
from toolroll.learning.experiments import Experiment
from toolroll.registry.content import keywords_in, route_to, toolkit_in
from toolroll.registry.page_mappings import mapping_in
from toolroll.registry.records import served_tool, tool_in
from toolroll.registry.rules import rule_in
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.versions import find_version
from toolroll.selection.effective_policy import PolicySource
from toolroll.tools import Definitions, Route, Tool, Toolkit

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A registry as of one revision.

    Attributes:
        revision: of the registry; later changes have a higher one.
        at: the time of that revision; None for a registry without any change.
        tools, toolkits: organisation → id → the tool with its approved content, or the toolkit with its
            routes. `catch_up` keeps the mapping object of an organisation that did not change.
        policy_source: rules, page mappings and tiers.
        settings: organisation → settings that have a value, the platform's included.
        experiments: organisation → the experiment that runs for its turns; "" for all other organisations.
        damaged: organisation → id → why the row cannot be read; such a row is in no catalog.
        read_at: monotonic seconds of the last read.
    """

    revision: int = -1
    at: datetime | None = None
    tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    toolkits: Mapping[str, Mapping[str, tuple[Toolkit, tuple[Route, ...]]]] = field(default_factory=dict)
    policy_source: PolicySource = field(default_factory=PolicySource)
    settings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    damaged: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read_at: float = 0.0

    @property
    def orgs(self) -> frozenset[str]:
        """The organisations that have tools or toolkits of their own."""
        return frozenset(org for org in (*self.tools, *self.toolkits) if org)

    def definitions(self, org: str) -> Definitions:
        """Tools, toolkits and routes of one organisation; "" is the platform.

        Toolkits are sorted by name: a catalog's revision depends on the order of its routes, and all
        processes must give equal catalogs the same revision.
        """
        toolkits = sorted(self.toolkits.get(org, _NOTHING).values(), key=lambda pair: pair[0].name)
        return Definitions(
            tuple(self.tools.get(org, _NOTHING).values()),
            tuple(toolkit for toolkit, _ in toolkits),
            tuple(route for _, routes in toolkits for route in routes),
        )


def catch_up(database: Database, seen: Replica) -> Replica:
    """The present registry, from `seen` and the rows that changed since.

    One consistent read: tools, rules and settings belong together. If the registry's history is not that of
    `seen`, somebody has restored a backup, and everything is read. A row that cannot be read is in no catalog
    and affects only its organisation.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    with database.reading() as connection:
        revision = connection.execute(sa.select(tables.registry_state.c.revision)).scalar_one()
        is_restored = seen.revision > revision or seen.at != _written_at(connection, seen.revision)
        if revision == seen.revision and not is_restored:
            return replace(seen, read_at=time.monotonic())
        if is_restored:
            seen = Replica()
        damaged = {org: dict(rows) for org, rows in seen.damaged.items()}
        return Replica(
            revision,
            _written_at(connection, revision),
            _merged(connection, tables.tools, seen.revision, seen.tools, _ToolReader(connection), damaged),
            _merged(connection, tables.toolkits, seen.revision, seen.toolkits, _toolkit, damaged),
            _policy_source(connection),
            read_settings(connection),
            read_experiments(connection),
            {org: rows for org, rows in damaged.items() if rows},
            time.monotonic(),
        )


def stamp_of(database: Database) -> tuple[int, datetime | None]:
    """The registry's revision and its time: equal for two calls only if nothing has changed between them."""
    with database.reading() as connection:
        revision = connection.execute(sa.select(tables.registry_state.c.revision)).scalar_one()
        return revision, _written_at(connection, revision)


def read_settings(connection: sa.Connection) -> dict[str, frozenset[str]]:
    """Organisation → settings that have a value, the platform's included. One query."""
    rows = connection.execute(
        sa.select(tables.settings.c.org, tables.settings.c.key).where(tables.settings.c.is_set)
    )
    found: dict[str, set[str]] = {"": set()}
    for org, key in rows:
        found.setdefault(org, set()).add(key)
    return {org: frozenset(keys | found[""]) for org, keys in found.items()}


def read_experiments(connection: sa.Connection) -> dict[str, Experiment]:
    """Organisation → its running experiment; "" is the one for all others. Damaged ones do not run."""
    table = tables.experiments
    found = {}
    for row in connection.execute(sa.select(table).where(table.c.active)):
        with suppress(InvalidInput, TypeError, AttributeError):  # edited by hand
            found[row.org] = Experiment(row.name, row.variants, row.unit, row.salt)
    return found


def _written_at(connection: sa.Connection, revision: int) -> datetime | None:
    """The time of a revision, which distinguishes two histories with the same numbers."""
    log = tables.changes.c
    return connection.execute(sa.select(sa.func.max(log.at)).where(log.revision == revision)).scalar()


def _merged(
    connection: sa.Connection,
    table: sa.Table,
    since: int,
    known: Mapping[str, Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], Any],
    damaged: dict[str, dict[str, str]],
) -> dict[str, Mapping[str, Any]]:
    """The known values by organisation and id, updated with the rows that changed since a revision."""
    fresh: dict[str, dict[str, Any]] = {}
    changed = set()
    for org, key, row in _changed(connection, table, since):
        values = fresh.get(org)
        if values is None:
            values = fresh[org] = dict(known.get(org, _NOTHING))
        damaged.get(org, {}).pop(key, None)
        value = None
        try:
            if isinstance(row, Exception):
                raise row
            value = read(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # edited by hand
            damaged.setdefault(org, {})[key] = f"{table.name}: {error}"
        if not _is_same(value, values.get(key)):
            changed.add(org)
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    merged: dict[str, Mapping[str, Any]] = dict(known)
    for org in changed:
        if fresh[org]:
            merged[org] = fresh[org]
        else:
            merged.pop(org, None)
    return merged


def _changed(
    connection: sa.Connection, table: sa.Table, since: int
) -> Iterator[tuple[str, str, Mapping[str, Any] | Exception]]:
    """Organisation, id and row of each change; the error instead of a row with malformed JSON."""
    identity = next(iter(table.primary_key))
    newer = table.c.revision > since
    order = (table.c.org, identity)
    try:
        for row in connection.execute(sa.select(table).where(newer).order_by(*order)):
            values = row._asdict()
            yield values["org"], values[identity.name], values
    except ValueError:  # of one unknown row: reads all rows again, one by one
        keys = connection.execute(sa.select(table.c.org, identity).where(newer).order_by(*order)).all()
        for org, key in keys:
            try:
                yield org, key, connection.execute(sa.select(table).where(identity == key)).one()._asdict()
            except ValueError as error:
                yield org, key, error


class _ToolReader:
    """Reads the tool in a row; None if it belongs in no catalog."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def __call__(self, row: Mapping[str, Any]) -> Tool | None:
        if row["deleted_at"] is not None:
            return None
        if row["review"] == "approved":
            return tool_in(row)
        if row["served_version"] is None:
            return None
        approved = find_version(self._connection, row["tool_id"], row["served_version"])
        if approved is None:
            raise ValueError(f"tool {row['name']!r:.80} has no version {row['served_version']!r:.20}")
        return served_tool(approved.tool, tool_in(row))


def _is_same(one: object, other: object) -> bool:
    # 1 equals True, but JSON and rules tell them apart.
    return one == other and repr(one) == repr(other)


def _toolkit(row: Mapping[str, Any]) -> tuple[Toolkit, tuple[Route, ...]] | None:
    return None if row["deleted_at"] is not None else toolkit_and_routes(row)


def toolkit_and_routes(row: Mapping[str, Any]) -> tuple[Toolkit, tuple[Route, ...]]:
    """The toolkit in a row of `toolkits`, and the routes that switch it on: one or none."""
    route = route_to(row["name"], keywords_in(row), row["patterns"])
    return toolkit_in(row), () if route is None else (route,)


def _policy_source(connection: sa.Connection) -> PolicySource:
    rules, pages = tables.visibility_rules, tables.page_mappings
    broken: dict[str, Exception] = {}
    try:
        tiers = tuple(connection.execute(sa.select(tables.registry_state.c.tiers)).scalar_one())
        return PolicySource(
            tuple(_read_rows(connection, rules, rules.c.active, rule_in, broken)),
            tuple(_read_rows(connection, pages, sa.true(), mapping_in, broken)),
            tiers,
            broken,
        )
    except (ValueError, TypeError) as error:  # edited by hand
        return PolicySource(unread=InvalidDefinition(f"rules or page mappings are damaged: {error}"))


def _read_rows(
    connection: sa.Connection,
    table: sa.Table,
    where: sa.ColumnElement[bool],
    read: Callable[[Mapping[str, Any]], Any],
    broken: dict[str, Exception],
) -> Iterator[Any]:
    live = sa.select(table).where(table.c.deleted_at.is_(None), where)
    for row in connection.execute(live.order_by(table.c.org, next(iter(table.primary_key)))):
        try:
            yield read(row._asdict())
        except (ValueError, TypeError, KeyError) as error:
            broken[row.org] = InvalidDefinition(f"a row of {table.name} is damaged: {error}")
