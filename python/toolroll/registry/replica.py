"""A process's copy of a registry: read once, later only the changes.

It has the platform's rows, and those of the organisations that it follows: of ten thousand, few select in one
process. Rules, settings and experiments are those of all, so a caller who was never seen before is under
them at once. A replica is a value. `catch_up` makes a newer one in one consistent read, so an interrupted
read changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.catalog.pins import Pin
from toolroll.catalog.refresh import ToolChanges
from toolroll.errors import InvalidDefinition, InvalidInput, quoted
from toolroll.learning.experiments import Experiment
from toolroll.registry.changed_orgs import changed_orgs, orgs_with_new_rows, orgs_with_rows
from toolroll.registry.content import content_hash, keywords_in, route_to, toolkit_in
from toolroll.registry.governed_rows import SHARED_FIELDS
from toolroll.registry.pins import pin_in
from toolroll.registry.policy_rows import owner_of, read_policy, updated_policy, values_of
from toolroll.registry.records import served_tool, tool_in
from toolroll.registry.store import tables
from toolroll.registry.store.checksums import verified
from toolroll.registry.store.database import Database
from toolroll.registry.store.errors import is_damage
from toolroll.registry.store.revision import revision_in
from toolroll.registry.store.row_reader import Row, UnreadableRow, place_of, read_rows
from toolroll.registry.tracked_rows import TrackedRows
from toolroll.registry.versions import find_version
from toolroll.selection.effective_policy import PolicySource
from toolroll.tools import Definitions, Route, Tool, Toolkit

_NOTHING: Mapping[str, Any] = {}
_SETTING, _EXPERIMENT = "setting ", "experiment "  # before names of rows that have no id
_PARENT = "parent of "  # before ids of toolkits that have no place in the tree
_REPEATED = (_SETTING, _EXPERIMENT, _PARENT)  # problems that each read finds again
_NOT_READ = {
    *SHARED_FIELDS,
    "plugin",
    "content_hash",
    "source_hash",
    "source_values",
    "rejected_hash",
    "flags",
} - {"deleted_at"}


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A registry as of one revision.

    Attributes:
        revision: of the registry; later changes have a higher one.
        at: the time of that revision; None for a registry without any change.
        tools, toolkits: organisation → id → the tool with its approved content, or the toolkit with its
            routes. `catch_up` keeps the mapping object of an organisation that did not change.
        pins: organisation → id → its pin of a tool of the platform; kept in the same way.
        policy_source: rules, page mappings and tiers.
        settings: organisation → settings that have a value, the platform's included.
        experiments: organisation → the experiment that runs for its turns; "" for all other organisations.
        damaged: organisation → id → why the row cannot be read; such a row is in no catalog.
        lost: organisation → id → name of a toolkit that cannot be read or whose parent is not known, "" where
            the name cannot be read either. Its tools are in no catalog: nobody knows which settings and which
            tier they need.
        held: organisation → id → name of a tool that waits for review or cannot be read; "" where the name
            cannot be read either.
        read_at: monotonic seconds of the last read.
        followed: the organisations whose tools, toolkits and pins are read; None for all. The platform's are.
        unread: names of organisations that have such rows and are not followed. One may have lost them since.
    """

    revision: int = -1
    at: datetime | None = None
    tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    toolkits: Mapping[str, Mapping[str, tuple[Toolkit, tuple[Route, ...]]]] = field(default_factory=dict)
    pins: Mapping[str, Mapping[str, Pin]] = field(default_factory=dict)
    policy_source: PolicySource = field(default_factory=PolicySource)
    settings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    damaged: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lost: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read_at: float = 0.0
    followed: frozenset[str] | None = None
    unread: frozenset[str] = frozenset()

    @property
    def orgs(self) -> frozenset[str]:
        """The organisations that have tools, toolkits or pins of their own."""
        return self.unread.union(org for org in (*self.tools, *self.toolkits, *self.pins) if org)

    def has_read(self, org: str) -> bool:
        """Whether it has the rows of this organisation."""
        return self.followed is None or not org or org in self.followed

    def without(self, orgs: Collection[str]) -> Replica:
        """The same without the rows of these organisations, which are no longer followed."""
        if self.followed is None or not self.followed.intersection(orgs):
            return self
        kept = {  # of rows that are those of all organisations
            org: {key: problem for key, problem in rows.items() if key.startswith((_SETTING, _EXPERIMENT))}
            for org, rows in self.damaged.items()
            if org in orgs
        }
        return replace(
            self,
            tools=_others(self.tools, orgs),
            toolkits=_others(self.toolkits, orgs),
            pins=_others(self.pins, orgs),
            damaged={**_others(self.damaged, orgs), **{org: rows for org, rows in kept.items() if rows}},
            lost=_others(self.lost, orgs),
            held=_others(self.held, orgs),
            followed=self.followed.difference(orgs),
            unread=self.unread.union(self.orgs.intersection(orgs)),
        )

    def pins_of(self, org: str) -> tuple[tuple[Tool, Pin], ...]:
        """An organisation's pins, each with its tool, by id; those of tools in no catalog are left out."""
        tools = self.tools.get("", _NOTHING)
        return tuple(
            (tools[pin.tool_id], pin)
            for _, pin in sorted(self.pins.get(org, _NOTHING).items())
            if pin.tool_id in tools
        )

    def definitions(self, org: str) -> Definitions:
        """Tools, toolkits and routes of one organisation; "" is the platform.

        Toolkits are sorted by name: a catalog's revision depends on the order of its routes, and all
        processes must give equal catalogs the same revision.
        """
        toolkits = sorted(self.toolkits.get(org, _NOTHING).values(), key=lambda pair: pair[0].name)
        tools = tuple(self.tools.get(org, _NOTHING).values())
        if lost := {name for owner in {"", org} for name in self.lost.get(owner, _NOTHING).values()}:
            toolkits, tools = self._without(lost, org, toolkits, tools)
        return Definitions(
            tools,
            tuple(toolkit for toolkit, _ in toolkits),
            tuple(route for _, routes in toolkits for route in routes),
        )

    def names_held(self, org: str) -> frozenset[str]:
        """Names of tools of the organisation that are in no catalog."""
        names = set(self.held.get(org, _NOTHING).values()) - {""}
        if self.lost.get("") or self.lost.get(org):
            names.update(tool.name for tool in self.tools.get(org, _NOTHING).values())
            names.difference_update(tool.name for tool in self.definitions(org).tools)
        return frozenset(names)

    def names_since(self, org: str, before: Mapping[str, Tool]) -> frozenset[str]:
        """Names of tools of the organisation that it did not have in an earlier replica."""
        now = self.tools.get(org, _NOTHING)
        if now is before:
            return frozenset()
        changed = now.changed_since(before) if isinstance(now, TrackedRows) else None
        new = now.keys() if changed is None else changed & now.keys()
        known = {before[key].name for key in new if key in before}
        return frozenset({now[key].name for key in new} - known)

    def changes(self, org: str, before: Mapping[str, Tool] | None) -> ToolChanges | None:
        """The tools of an organisation that are others than before; None where that is not known.

        before: its tools in an earlier replica, all of which were in its catalog.
        """
        now = self.tools.get(org)
        if not isinstance(now, TrackedRows) or before is None or self.lost.get("") or self.lost.get(org):
            return None
        keys = now.changed_since(before)
        if keys is None:
            return None
        return ToolChanges(
            frozenset(before[key].name for key in keys if key in before),
            tuple(now[key] for key in sorted(keys) if key in now),
        )

    def toolkits_and_routes(self, org: str) -> Definitions:
        """`definitions` without tools, where no toolkit is lost."""
        toolkits = sorted(self.toolkits.get(org, _NOTHING).values(), key=lambda pair: pair[0].name)
        return Definitions(
            (),
            tuple(toolkit for toolkit, _ in toolkits),
            tuple(route for _, routes in toolkits for route in routes),
        )

    def _without(
        self,
        lost: set[str],
        org: str,
        toolkits: list[tuple[Toolkit, tuple[Route, ...]]],
        tools: tuple[Tool, ...],
    ) -> tuple[list[tuple[Toolkit, tuple[Route, ...]]], tuple[Tool, ...]]:
        """The toolkits and tools without those in or below lost toolkits."""
        platform = self.toolkits.get("", _NOTHING).values() if org else ()
        parents = {toolkit.name: toolkit.parent for toolkit, _ in (*toolkits, *platform)}

        def is_lost(name: str | None) -> bool:
            seen: set[str] = set()
            while name and name not in seen:
                if name in lost or ("" in lost and name not in parents):
                    return True
                seen.add(name)
                name = parents.get(name)
            return False

        gone = {name for name in {*parents, *(tool.toolkit for tool in tools)} if is_lost(name)}
        left = [pair for pair in toolkits if pair[0].name not in gone]
        return left, tuple(tool for tool in tools if tool.toolkit not in gone)


def catch_up(database: Database, seen: Replica, asked: Iterable[str] = ()) -> Replica:
    """The present registry, from `seen` and the rows that changed since.

    One consistent read: tools, rules and settings belong together. If the registry's history is not that of
    `seen`, somebody has restored a backup, and everything is read. A row that cannot be read is in no catalog
    and affects only its organisation.

    asked: organisations to follow from now on, where `seen` does not follow all.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    with database.reading() as connection:
        revision = revision_in(connection)
        is_restored = seen.revision > revision or seen.at != _written_at(connection, seen.revision)
        fresh = frozenset(asked) - {""} - (seen.followed or frozenset())
        fresh = frozenset() if seen.followed is None else fresh
        if revision == seen.revision and not is_restored and not fresh:
            return replace(seen, read_at=time.monotonic())
        if is_restored:
            seen = Replica(followed=seen.followed)
        scope = _Scope.of(connection, seen, revision, fresh)
        changed = scope.changed
        damaged, lost = _lasting(seen.damaged, changed), _lasting(seen.lost, changed)
        held = _lasting(seen.held, changed)
        tool_reader = _ToolReader(connection, held)
        tools = _merged(connection, tables.tools, scope, seen.tools, tool_reader, damaged, held)
        toolkits = _merged(connection, tables.toolkits, scope, seen.toolkits, _toolkit, damaged, lost)
        pins = _merged(connection, tables.pins, scope, seen.pins, _pin, damaged, {})
        _find_strays(tools, toolkits, damaged, lost)
        settings, experiments = seen.settings, seen.experiments
        if changed is None or changed:
            settings = _settings(connection, seen.settings, changed, damaged)
            experiments = _experiments(connection, seen.experiments, changed, damaged)
        return Replica(
            revision,
            _written_at(connection, revision),
            tools,
            toolkits,
            pins,
            read_policy(connection)
            if changed is None
            else updated_policy(connection, seen.policy_source, changed, seen.revision),
            settings,
            experiments,
            {org: rows for org, rows in damaged.items() if rows},
            {org: rows for org, rows in lost.items() if rows},
            {org: rows for org, rows in held.items() if rows},
            time.monotonic(),
            scope.followed,
            scope.unread(connection, seen),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """The rows of tools, toolkits and pins that a read looks at.

    SQLite's rows may have damaged owners, so all rows that changed are looked at there. Those of
    organisations that are not followed are passed over.

    Attributes:
        since: rows above this revision are read, of `changed`.
        changed: the organisations that have changed; None for all, where the platform has, or where that is
            not known.
        logged: the owners of all changes; None where that is not known.
        fresh: the organisations of which all rows are read.
        followed: as in `Replica`, after the read.
        passed_over: gets the owners of rows that are passed over.
    """

    since: int
    changed: frozenset[str] | None
    logged: frozenset[str] | None
    fresh: frozenset[str]
    followed: frozenset[str] | None
    is_sqlite: bool
    passed_over: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, connection: sa.Connection, seen: Replica, revision: int, fresh: frozenset[str]) -> _Scope:
        is_sqlite, logged = connection.dialect.name == "sqlite", None
        if seen.revision >= 0 and not is_sqlite:
            logged = changed_orgs(connection, seen.revision, revision)
        changed = None if logged is None or "" in logged else logged
        followed = None if seen.followed is None else seen.followed | fresh
        return cls(seen.revision, changed, logged, fresh, followed, is_sqlite)

    def rows(self, table: sa.Table) -> sa.ColumnElement[bool] | None:
        """True of the rows to look at; None for no row."""
        org, read = table.c.org, list[sa.ColumnElement[bool]]()
        newer = table.c.revision > self.since if self.since >= 0 else sa.true()
        orgs = self.changed
        if self.followed is not None and not self.is_sqlite:
            kept = self.followed - self.fresh | {""}
            orgs = kept if orgs is None else kept & orgs
        if orgs is None:
            read.append(newer)
        elif orgs:
            read.append(sa.and_(org.in_(sorted(orgs)), newer))
        if self.fresh:
            read.append(org.in_(sorted(self.fresh)))
        return sa.or_(*read) if read else None

    def keeps(self, org: str) -> bool:
        """Whether rows of this organisation are kept."""
        return not org or self.followed is None or org in self.followed

    def unread(self, connection: sa.Connection, seen: Replica) -> frozenset[str]:
        """`Replica.unread` after the read."""
        if self.followed is None:
            return frozenset()
        if self.is_sqlite:
            found = seen.unread | self.passed_over
        elif self.logged is None:
            found = orgs_with_rows(connection)
        else:
            others = self.logged - self.followed - seen.unread - {""}
            found = seen.unread | orgs_with_new_rows(connection, others, self.since)
        return seen.unread if found == seen.unread and not self.fresh else frozenset(found - self.followed)


def _others(by_org: Mapping[str, Any], orgs: Collection[str]) -> dict[str, Any]:
    return {org: rows for org, rows in by_org.items() if org not in orgs}


def stamp_of(database: Database) -> tuple[int, datetime | None]:
    """The registry's revision and its time: equal for two calls only if nothing has changed between them."""
    if database.dialect != "postgresql":
        with database.reading() as connection:
            revision = revision_in(connection)
            return revision, _written_at(connection, revision)
    state, log = tables.registry_state.c, tables.changes.c
    written_at = sa.select(sa.func.max(log.at)).where(log.revision == state.revision).scalar_subquery()
    with database.reading(is_single=True) as connection:
        rows = connection.execute(sa.select(state.revision, written_at)).all()
        if len(rows) != 1 or rows[0][0] < 0:
            revision_in(connection)  # which says what is wrong
        return rows[0][0], rows[0][1]


def read_settings(
    connection: sa.Connection,
    damaged: dict[str, dict[str, str]] | None = None,
    orgs: Collection[str] | None = None,
) -> dict[str, frozenset[str]]:
    """Organisation → settings that have a value, the platform's included. An unreadable one has none.

    damaged: gets the unreadable ones. orgs: of these organisations and the platform; None for all.
    """
    found: dict[str, set[str]] = {"": set()}
    c = tables.settings.c
    where = [c.is_set.is_not(sa.false())]
    if orgs is not None:
        where.append(c.org.in_(sorted({"", *orgs})))
    for row in read_rows(connection, (c.org, c.key, c.is_set), *where):
        if not isinstance(row, UnreadableRow):
            found.setdefault(row["org"], set()).add(row["key"])
        elif damaged is not None:
            damaged.setdefault(owner_of(row), {})[f"{_SETTING}{row.values.get('key')}"] = row.problem
    return {org: frozenset(keys | found[""]) for org, keys in found.items()}


def _settings(
    connection: sa.Connection,
    known: Mapping[str, frozenset[str]],
    changed: Collection[str] | None,
    damaged: dict[str, dict[str, str]],
) -> Mapping[str, frozenset[str]]:
    """The settings, of which only those of `changed` are read; `known` if they are as they were."""
    if changed is None:
        found = read_settings(connection, damaged)
    else:
        part = read_settings(connection, damaged, changed)
        found = {**known, **part}
        for org in set(changed) - part.keys():
            found.pop(org, None)
    return known if found == known else found


def _experiments(
    connection: sa.Connection,
    known: Mapping[str, Experiment],
    changed: Collection[str] | None,
    damaged: dict[str, dict[str, str]],
) -> dict[str, Experiment]:
    """Organisation → its running experiment; "" is the one for all others. Damaged ones do not run.

    changed: those of these organisations are read, the others are `known`; None for all.
    """
    columns = tables.experiments.c
    read = (columns.name, columns.org, columns.variants, columns.unit, columns.salt, columns.active)
    where, found = [columns.active.is_not(sa.false())], dict[str, Experiment]()
    if changed is not None:
        where.append(columns.org.in_(sorted(changed)))
        found.update(_others(known, changed))
    for row in read_rows(connection, read, *where, order_by=(columns.name,)):
        problem = row.problem if isinstance(row, UnreadableRow) else ""
        try:
            if not isinstance(row, UnreadableRow):
                found[row["org"]] = Experiment(row["name"], row["variants"], row["unit"], row["salt"])
        except (InvalidInput, TypeError, AttributeError) as error:
            problem = f"{place_of(tables.experiments, values_of(row))} cannot be read: {error}"
        if problem:
            damaged.setdefault(owner_of(row), {})[f"{_EXPERIMENT}{values_of(row).get('name')}"] = problem
    return found


def _written_at(connection: sa.Connection, revision: int) -> datetime | None:
    """The time of a revision, which distinguishes two histories with the same numbers."""
    log = tables.changes.c
    try:
        return connection.execute(sa.select(sa.func.max(log.at)).where(log.revision == revision)).scalar()
    except Exception as error:
        if not is_damage(error):
            raise
        return None


def _merged(
    connection: sa.Connection,
    table: sa.Table,
    scope: _Scope,
    known: Mapping[str, Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], Any],
    damaged: dict[str, dict[str, str]],
    lost: dict[str, dict[str, str]],
) -> dict[str, Mapping[str, Any]]:
    """The known values by organisation and id, updated with the rows in the scope.

    damaged, lost: get the problem and the name of each row that cannot be read, as in `Replica`.
    """
    fresh: dict[str, TrackedRows[Any]] = {}
    changed: dict[str, set[str]] = {}
    for org, key, row in _changed(connection, table, scope):
        if not scope.keeps(org):
            if isinstance(row, UnreadableRow) or row["deleted_at"] is None:
                scope.passed_over.add(org)
            continue
        values = fresh.get(org)
        if values is None:
            values = fresh[org] = TrackedRows(known.get(org, _NOTHING))
        for rows in (*damaged.values(), *lost.values()):  # its owner may not have been readable
            rows.pop(key, None)
        value = None
        try:
            if isinstance(row, UnreadableRow):
                raise InvalidDefinition(row.problem)
            value = read(row)
        except Exception as error:  # edited by hand
            if not isinstance(error, LookupError) and not is_damage(error):
                raise
            name, problem = values_of(row).get("name"), str(error)
            if not isinstance(row, UnreadableRow):
                problem = f"{place_of(table, row)} cannot be read: {error}"
            damaged.setdefault(org, {})[key] = problem
            lost.setdefault(org, {})[key] = name if isinstance(name, str) else ""
        if not _is_same(value, values.get(key)):
            changed.setdefault(org, set()).add(key)
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    merged: dict[str, Mapping[str, Any]] = dict(known)
    for org, keys in changed.items():
        if fresh[org]:
            fresh[org].succeed(known.get(org, _NOTHING), keys)
            merged[org] = fresh[org]
        else:
            merged.pop(org, None)
    return merged


def _changed(
    connection: sa.Connection, table: sa.Table, scope: _Scope
) -> Iterator[tuple[str, str, Row | UnreadableRow]]:
    """Organisation, id and row of each change."""
    where = scope.rows(table)
    if where is None:
        return
    identity = next(iter(table.primary_key))
    columns = [column for column in table.c if column.name not in _NOT_READ]
    for found in read_rows(connection, columns, where, order_by=(table.c.org, identity), has_checksum=True):
        row = verified(table, found)
        key = values_of(row).get(identity.name)
        yield owner_of(row), key if isinstance(key, str) else "", row


class _ToolReader:
    """Reads the tool in a row; None if it belongs in no catalog.

    held: gets the names of those that wait for review, as in `Replica`.
    """

    def __init__(self, connection: sa.Connection, held: dict[str, dict[str, str]]) -> None:
        self._connection, self._held = connection, held

    def __call__(self, row: Mapping[str, Any]) -> Tool | None:
        if row["deleted_at"] is not None:
            return None
        if row["review"] == "approved":
            return tool_in(row)
        if row["served_version"] is None:
            self._held.setdefault(row["org"], {})[row["tool_id"]] = row["name"]
            return None
        approved = find_version(self._connection, row["tool_id"], row["served_version"])
        if approved is None:
            raise ValueError(f"tool {row['name']!r:.80} has no version {row['served_version']!r:.20}")
        if content_hash(approved.tool) != approved.content_hash:
            raise ValueError(f"the content of version {approved.version} is not that of its hash")
        return served_tool(approved.tool, tool_in(row))


def _is_same(one: object, other: object) -> bool:
    # 1 equals True, but JSON and rules tell them apart.
    return one == other and repr(one) == repr(other)


def _lasting(
    problems: Mapping[str, Mapping[str, str]], changed: Collection[str] | None
) -> dict[str, dict[str, str]]:
    """A copy, without the problems that the read of these organisations finds again; None for all of them."""
    return {
        org: {
            key: problem
            for key, problem in rows.items()
            if not key.startswith(_REPEATED if changed is None or org in changed else _PARENT)
        }
        for org, rows in problems.items()
    }


def _find_strays(
    tools: Mapping[str, Mapping[str, Tool]],
    toolkits: Mapping[str, Mapping[str, tuple[Toolkit, tuple[Route, ...]]]],
    damaged: dict[str, dict[str, str]],
    lost: dict[str, dict[str, str]],
) -> None:
    """Adds the toolkits whose parent is not known, or is below them, to `damaged` and `lost`."""
    platform = {toolkit.name: toolkit.parent for toolkit, _ in toolkits.get("", _NOTHING).values()}

    def is_known(name: str, parents: Mapping[str, str | None], org: str) -> bool:
        owners = (tools.get(owner, _NOTHING) for owner in {"", org})
        return name in parents or any(tool.toolkit == name for own in owners for tool in own.values())

    for org, rows in toolkits.items():
        parents = {**{toolkit.name: toolkit.parent for toolkit, _ in rows.values()}, **platform}
        named = {name for owner in {"", org} for name in lost.get(owner, _NOTHING).values()}
        for key, (toolkit, _) in rows.items():
            parent, problem = toolkit.parent, ""
            if parent is None or parent in named:
                continue
            if not is_known(parent, parents, org):
                problem = f"its parent {quoted(parent)} does not exist"
            elif _is_below_itself(toolkit.name, parents):
                problem = "its parents form a cycle"
            if problem:
                place = f"toolkits: {quoted(toolkit.name)}"
                damaged.setdefault(org, {})[f"{_PARENT}{key}"] = f"{place}: {problem}"
                lost.setdefault(org, {})[f"{_PARENT}{key}"] = toolkit.name


def _is_below_itself(name: str, parents: Mapping[str, str | None]) -> bool:
    seen, at = {name}, parents.get(name)
    while at is not None and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == name


def _toolkit(row: Mapping[str, Any]) -> tuple[Toolkit, tuple[Route, ...]] | None:
    return None if row["deleted_at"] is not None else toolkit_and_routes(row)


def _pin(row: Mapping[str, Any]) -> Pin | None:
    return None if row["deleted_at"] is not None else pin_in(row)


def toolkit_and_routes(row: Mapping[str, Any]) -> tuple[Toolkit, tuple[Route, ...]]:
    """The toolkit in a row of `toolkits`, and the routes that switch it on: one or none."""
    route = route_to(row["name"], keywords_in(row), row["patterns"])
    return toolkit_in(row), () if route is None else (route,)
