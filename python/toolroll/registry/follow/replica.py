"""A process's copy of a registry: read once, later only the changes.

It has the rows of the platform, and of the organisations that it follows: of ten thousand, few select in one
process. It has the rules, settings and experiments of all organisations, so they apply to a new caller at
once. A replica is a value. `catch_up` makes a newer one in one consistent read, so an interrupted read
changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from toolroll.catalog.pins import Pin
from toolroll.catalog.refresh import ToolChanges
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Definitions, Route, Tool, Toolkit
from toolroll.registry.editing.content import content_hash, keywords_in, route_to, toolkit_in
from toolroll.registry.editing.governed_rows import SHARED_FIELDS
from toolroll.registry.editing.pins import pin_in
from toolroll.registry.editing.policy_rows import (
    closed_also,
    differing,
    problem_of,
    read_policy,
    updated_policy,
)
from toolroll.registry.editing.records import served_tool, tool_in
from toolroll.registry.editing.versions import find_version
from toolroll.registry.follow.tracked_rows import TrackedRows
from toolroll.registry.store import policy_digests, tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.policy_digests import PUBLIC, Digests, parts_of
from toolroll.registry.store.revision import changed_orgs, revision_in, written_at
from toolroll.registry.store.row_reader import Row, read_rows
from toolroll.selection.effective_policy import PolicySource

T = TypeVar("T")
_log = logging.getLogger("toolroll")
_NOTHING: Mapping[str, Any] = {}
_OWNED = (tables.tools, tables.toolkits, tables.pins)  # the rows of an organisation's catalog
_PARTS = (*(table.name for table in _OWNED), PUBLIC)  # of digests
_NOT_READ = {*SHARED_FIELDS, "plugin", "source_hash", "source_values", "rejected_hash", "flags"} - {
    "deleted_at"
}


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A registry as of one revision.

    Attributes:
        at: the time of the revision; None for a registry without any change.
        tools, toolkits, pins: organisation → id → the tool with its approved content, the toolkit with its
            routes, or the pin of a tool of the platform. `catch_up` keeps the mapping object of an
            organisation that did not change.
        policy_source: rules, page mappings and tiers, and the organisations whose policy rows do not fit
            their digests.
        settings: organisation → settings that have a value, with the platform's settings.
        own_settings: organisation → settings that have a value, without the platform's settings.
        experiments: organisation → its running experiment; "" for all other organisations.
        damaged: organisation → id → the reason why a tool's row cannot be read; such a tool is in no catalog.
        held: organisation → id → name of a tool that waits for review, or is damaged.
        row_digests: organisation → part → id → digest, of the rows of tools, toolkits and pins.
        read_at: monotonic seconds of the last read.
        followed: the organisations whose tools, toolkits and pins are read; None for all. The platform's are
            always read.
        unread: the organisations that have such rows but are not followed.
    """

    revision: int = -1
    at: datetime | None = None
    tools: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict)
    toolkits: Mapping[str, Mapping[str, tuple[Toolkit, tuple[Route, ...]]]] = field(default_factory=dict)
    pins: Mapping[str, Mapping[str, Pin]] = field(default_factory=dict)
    policy_source: PolicySource = field(default_factory=PolicySource)
    settings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    own_settings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    damaged: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    row_digests: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    read_at: float = 0.0
    followed: frozenset[str] | None = None
    unread: frozenset[str] = frozenset()

    @property
    def orgs(self) -> frozenset[str]:
        """The organisations with tools, toolkits or pins of their own."""
        return self.unread.union(org for org in (*self.tools, *self.toolkits, *self.pins) if org)

    def has_read(self, org: str) -> bool:
        """Whether this organisation's rows are read."""
        return self.followed is None or not org or org in self.followed

    def without(self, orgs: Collection[str]) -> Replica:
        """The replica without these organisations' rows, which it no longer follows."""
        if self.followed is None or not self.followed.intersection(orgs):
            return self
        by_org = ("tools", "toolkits", "pins", "damaged", "held", "row_digests")
        kept: dict[str, Any] = {name: _others(getattr(self, name), orgs) for name in by_org}
        return replace(
            self,
            **kept,
            followed=self.followed.difference(orgs),
            unread=self.unread.union(self.orgs.intersection(orgs)),
        )

    def pins_of(self, org: str) -> tuple[tuple[Tool, Pin], ...]:
        """An organisation's pins by id, each with its tool; without pins of tools that are in no catalog."""
        tools = self.tools.get("", _NOTHING)
        return tuple(
            (tools[pin.tool_id], pin)
            for _, pin in sorted(self.pins.get(org, _NOTHING).items())
            if pin.tool_id in tools
        )

    def definitions(self, org: str) -> Definitions:
        """Tools, toolkits and routes of one organisation; "" is the platform."""
        tools = tuple(self.tools.get(org, _NOTHING).values())
        return replace(self.toolkits_and_routes(org), tools=tools)

    def toolkits_and_routes(self, org: str) -> Definitions:
        """`definitions` without tools.

        Toolkits are sorted by name: a catalog's revision depends on the order of its routes, and all
        processes must give equal catalogs the same revision.
        """
        pairs = sorted(self.toolkits.get(org, _NOTHING).values(), key=lambda pair: pair[0].name)
        routes = tuple(route for _, routes in pairs for route in routes)
        return Definitions((), tuple(toolkit for toolkit, _ in pairs), routes)

    def names_held(self, org: str) -> frozenset[str]:
        """Names of the organisation's tools that are in no catalog."""
        return frozenset(self.held.get(org, _NOTHING).values())

    def names_since(self, org: str, before: Mapping[str, Tool]) -> frozenset[str]:
        """Names of the organisation's tools that an earlier replica lacks."""
        now = self.tools.get(org, _NOTHING)
        if now is before:
            return frozenset()
        changed = now.changed_since(before) if isinstance(now, TrackedRows) else None
        new = now.keys() if changed is None else changed & now.keys()
        known = {before[key].name for key in new if key in before}
        return frozenset({now[key].name for key in new} - known)

    def changes(self, org: str, before: Mapping[str, Tool] | None) -> ToolChanges | None:
        """The changes to the tools of an organisation; None if unknown.

        before: its tools in an earlier replica; all were in its catalog.
        """
        now = self.tools.get(org)
        if not isinstance(now, TrackedRows) or before is None:
            return None
        keys = now.changed_since(before)
        if keys is None:
            return None
        return ToolChanges(
            frozenset(before[key].name for key in keys if key in before),
            tuple(now[key] for key in sorted(keys) if key in now),
        )


def catch_up(
    database: Database, seen: Replica, asked: Iterable[str] = (), *, reads_all: bool = False
) -> Replica:
    """The present registry, from `seen` and the rows that changed since. One consistent read.

    If the registry has another history than `seen`, somebody has restored a backup, and all rows are read.
    The rows are checked against the digests of policy rows (see store/policy_digests.py). `policy_source` has
    the organisations that do not fit; they are read again until they fit.

    asked: organisations to follow from now on, if `seen` does not follow all.
    reads_all: whether all rows are read, although nothing may have changed.

    Raises StoreUnavailable if the database does not answer, or a value in it cannot be read.
    """
    with database.reading() as connection:
        revision = revision_in(connection)
        is_restored = seen.revision > revision or seen.at != written_at(connection, seen.revision)
        fresh = frozenset(asked) - {""} - (seen.followed or frozenset())
        fresh = frozenset() if seen.followed is None else fresh
        if revision == seen.revision and not is_restored and not fresh and not reads_all:
            return replace(seen, read_at=time.monotonic())
        if is_restored:
            seen = Replica(followed=seen.followed)
        scope = _Scope.of(connection, seen, revision, fresh, reads_all)
        orgs = None if scope.changed is None else scope.changed | scope.whole
        stored = policy_digests.read(connection, orgs)
        policy, own_settings, experiments = seen.policy_source, seen.own_settings, seen.experiments
        if scope.changed is None or scope.changed:
            part, own = read_policy(connection, scope.changed, stored)
            policy = part if scope.changed is None else updated_policy(policy, scope.changed, part)
            own_settings = own if scope.changed is None else {**_others(own_settings, scope.changed), **own}
            experiments = _experiments(connection, experiments)
        settings = seen.settings
        if own_settings != seen.own_settings or not settings:
            settings = _with_shared(own_settings)
        rows = _Rows(connection, scope, seen)
        tools = rows.merged(tables.tools, seen.tools, rows.tool)
        toolkits = rows.merged(tables.toolkits, seen.toolkits, toolkit_and_routes)
        pins = rows.merged(tables.pins, seen.pins, pin_in)
        problems, doubtful = rows.checked(stored)
        if scope.changed is None and policy_digests.total_of(stored) != policy_digests.read_total(connection):
            problems[""] = "digests of policy rows are missing or old; see: toolroll registry check"
        for org in problems.keys() & toolkits.keys():
            toolkits[org] = _as_tree(toolkits[org], toolkits.get("", _NOTHING), tools, org)
        for org in doubtful & tools.keys():
            tools[org] = TrackedRows({key: replace(tool, public=False) for key, tool in tools[org].items()})
        return Replica(
            revision,
            written_at(connection, revision),
            *(tools, toolkits, pins, closed_also(policy, problems), settings, own_settings, experiments),
            damaged={org: found for org, found in rows.damaged.items() if found},
            held={org: found for org, found in rows.held.items() if found},
            row_digests=rows.digests,
            read_at=time.monotonic(),
            followed=scope.followed,
            unread=scope.unread(seen, stored),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """Selects the rows of tools, toolkits and pins to read.

    Attributes:
        since: rows above this revision are read, of the `changed` organisations.
        changed: the organisations that have changed or did not fit their digests; None for all.
        whole: the organisations whose rows are all read.
        followed: `Replica.followed` after the read.
    """

    since: int
    changed: frozenset[str] | None
    whole: frozenset[str]
    followed: frozenset[str] | None

    @classmethod
    def of(
        cls, connection: sa.Connection, seen: Replica, revision: int, fresh: frozenset[str], reads_all: bool
    ) -> _Scope:
        followed = None if seen.followed is None else seen.followed | fresh
        wrong = frozenset(seen.policy_source.wrong())
        if seen.revision < 0 or reads_all or "" in wrong:
            return cls(-1, None, fresh, followed)
        changed = changed_orgs(connection, seen.revision, revision)
        if changed is not None:
            changed |= wrong
        return cls(seen.revision, changed, fresh | wrong, followed)

    def is_whole(self, org: str) -> bool:
        """Whether all rows of the organisation are read."""
        return self.since < 0 or org in self.whole

    def rows(self, table: sa.Table) -> sa.ColumnElement[bool]:
        """The SQL condition for the rows."""
        followed = None if self.followed is None else self.followed | {""}

        def among(orgs: frozenset[str] | None) -> sa.ColumnElement[bool]:
            kept = followed if orgs is None else orgs if followed is None else orgs & followed
            return sa.true() if kept is None else table.c.org.in_(sorted(kept))

        if self.since < 0:
            return among(None)
        is_new = sa.and_(table.c.revision > self.since, among(self.changed))
        return sa.or_(is_new, among(self.whole)) if self.whole else is_new

    def unread(self, seen: Replica, stored: Mapping[str, Digests]) -> frozenset[str]:
        """`Replica.unread` after the read."""
        if self.followed is None:
            return frozenset()
        owners = {org for org, parts in stored.items() if any(parts.get(part) for part in _PARTS)}
        before = seen.unread - stored.keys() if self.changed is not None else frozenset()
        found = frozenset(before | owners) - self.followed - {""}
        return seen.unread if found == seen.unread else found


def _others(by_org: Mapping[str, Any], orgs: Collection[str]) -> dict[str, Any]:
    return {org: rows for org, rows in by_org.items() if org not in orgs}


def stamp_of(database: Database) -> tuple[int, datetime | None]:
    """The registry's revision and its time. If two calls return equal stamps, nothing has changed."""
    if database.dialect != "postgresql":
        with database.reading() as connection:
            revision = revision_in(connection)
            return revision, written_at(connection, revision)
    state, log = tables.registry_state.c, tables.changes.c
    at = sa.select(sa.func.max(log.at)).where(log.revision == state.revision).scalar_subquery()
    with database.reading(is_single=True) as connection:
        rows = connection.execute(sa.select(state.revision, at)).all()
        if len(rows) != 1 or rows[0][0] < 0:
            revision_in(connection)  # raises, and names the damage
        return rows[0][0], rows[0][1]


def read_settings(connection: sa.Connection) -> dict[str, frozenset[str]]:
    """Organisation → settings that have a value, with the platform's settings."""
    c = tables.settings.c
    own = defaultdict[str, set[str]](set)
    for org, key in connection.execute(sa.select(c.org, c.key).where(c.is_set)):
        own[org].add(key)
    return _with_shared({org: frozenset(keys) for org, keys in own.items()})


def _with_shared(own: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Adds the platform's settings to each organisation's."""
    shared = own.get("", frozenset())
    return {**{org: keys | shared for org, keys in own.items()}, "": shared}


def _experiments(connection: sa.Connection, known: Mapping[str, Experiment]) -> Mapping[str, Experiment]:
    """Organisation → its running experiment; "" for all other organisations."""
    c, found = tables.experiments.c, dict[str, Experiment]()
    columns = (c.name, c.org, c.variants, c.unit, c.salt)
    for row in read_rows(connection, columns, c.active, order_by=(c.name,)):
        try:
            found[row["org"]] = Experiment(row["name"], row["variants"], row["unit"], row["salt"])
        except (InvalidInput, TypeError, AttributeError) as error:
            _log.warning("experiment %s: does not run: %s", quoted(row["name"]), error)
    return known if found == known else found


class _Rows:
    """Reads the rows in a scope, and the tools, toolkits and pins in them.

    Attributes:
        damaged, held, digests: as in `Replica`; `digests` is its `row_digests`.
    """

    def __init__(self, connection: sa.Connection, scope: _Scope, seen: Replica) -> None:
        def known(by_org: Mapping[str, Mapping[str, T]]) -> dict[str, dict[str, T]]:
            return {org: dict(rows) for org, rows in by_org.items() if not scope.is_whole(org)}

        self._connection, self._scope = connection, scope
        self.damaged, self.held, self.digests = known(seen.damaged), known(seen.held), known(seen.row_digests)
        self._closing: dict[str, str] = {}  # organisation → why a row of its toolkits cannot be read
        self._copied: dict[tuple[str, str], dict[str, int]] = {}

    def merged(
        self, table: sa.Table, known: Mapping[str, Mapping[str, Any]], read: Callable[[Row], Any]
    ) -> dict[str, Mapping[str, Any]]:
        """The known values by organisation and id, updated with the rows in the scope."""
        identity = next(iter(table.primary_key)).name
        columns = [column for column in table.c if column.name not in _NOT_READ]
        fresh: dict[str, TrackedRows[Any]] = {}
        changed: dict[str, set[str]] = {}
        for org, values in known.items():
            if self._scope.is_whole(org):  # a row that does not come again is gone
                fresh[org], changed[org] = TrackedRows({}), set(values)
        order = (table.c.org, table.c[identity])
        for row in read_rows(self._connection, columns, self._scope.rows(table), order_by=order):
            org, key = row["org"], row[identity]
            if org not in fresh:
                whole = self._scope.is_whole(org)
                fresh[org] = TrackedRows(_NOTHING if whole else known.get(org, _NOTHING))
            self._digest(table, org, key, row)
            value = self._value(table, org, key, row, read)
            before = known.get(org, _NOTHING).get(key)
            if _is_same(value, before):
                value = before
                changed.get(org, set()).discard(key)
            else:
                changed.setdefault(org, set()).add(key)
            if value is None:
                fresh[org].pop(key, None)
            else:
                fresh[org][key] = value
        merged: dict[str, Mapping[str, Any]] = dict(known)
        for org, keys in changed.items():
            if not keys:
                continue
            if fresh[org]:
                fresh[org].succeed(known.get(org, _NOTHING), keys)
                merged[org] = fresh[org]
            else:
                merged.pop(org, None)
        return merged

    def tool(self, row: Row) -> Tool | None:
        """The tool in a row; None if it waits for review and belongs in no catalog."""
        if row["review"] == "approved":
            return tool_in(row)
        if row["served_version"] is None:
            self.held.setdefault(row["org"], {})[row["tool_id"]] = row["name"]
            return None
        approved = find_version(self._connection, row["tool_id"], row["served_version"])
        if approved is None:
            raise ValueError(f"tool {row['name']!r:.80} has no version {row['served_version']!r:.20}")
        if content_hash(approved.tool) != approved.content_hash:
            raise ValueError(f"the content of version {approved.version} does not fit its hash")
        return served_tool(approved.tool, tool_in(row))

    def checked(self, stored: Mapping[str, Digests]) -> tuple[dict[str, str], frozenset[str]]:
        """The organisations whose rows do not fit their digests, each with a sentence.

        Also returns the organisations whose tools must not count as public, since another program may have
        made one public.
        """
        scope, problems, doubtful = self._scope, dict(self._closing), set[str]()
        for org in {*self.digests, *stored}:
            if scope.followed is not None and org and org not in scope.followed:
                continue
            if scope.changed is not None and org not in scope.changed and org not in scope.whole:
                continue
            found = {part: sum(rows.values()) % 2**128 for part, rows in self.digests.get(org, {}).items()}
            wrong = differing(found, stored.get(org, {}), _PARTS)
            if wrong:
                problems[org] = problem_of(org, wrong)
            if PUBLIC in wrong:
                doubtful.add(org)
        return problems, frozenset(doubtful)

    def _value(self, table: sa.Table, org: str, key: str, row: Row, read: Callable[[Row], Any]) -> Any:
        """The tool, toolkit or pin in a row; None if the row is deleted, waits for review or is damaged."""
        for rows in (self.damaged.get(org), self.held.get(org)):
            if rows is not None:
                rows.pop(key, None)
        if row["deleted_at"] is not None:
            return None
        try:
            return read(row)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # past the database's checks
            name = row.get("name", key)
            problem = f"{table.name}: row {key} ({quoted(name)}) cannot be read: {error}; restore a backup"
            if table is tables.tools:
                self.damaged.setdefault(org, {})[key] = problem
                self.held.setdefault(org, {})[key] = name
            else:
                self._closing[org] = problem
            return None

    def _digest(self, table: sa.Table, org: str, key: str, row: Row) -> None:
        parts, found = self.digests.setdefault(org, {}), parts_of(table, row)
        for part in (table.name, PUBLIC) if table is tables.tools else (table.name,):
            rows = self._copied.get((org, part))
            if rows is None:
                rows = self._copied[org, part] = dict(parts.get(part, _NOTHING))
                parts[part] = rows
            if digest := found.get(part, 0):
                rows[key] = digest
            else:
                rows.pop(key, None)


def _is_same(one: object, other: object) -> bool:
    # 1 equals True, but JSON and rules tell them apart.
    return one == other and repr(one) == repr(other)


def _as_tree(
    own: Mapping[str, tuple[Toolkit, tuple[Route, ...]]],
    platform: Mapping[str, tuple[Toolkit, tuple[Route, ...]]],
    tools: Mapping[str, Mapping[str, Tool]],
    org: str,
) -> dict[str, tuple[Toolkit, tuple[Route, ...]]]:
    """The toolkits as a tree: without parents that are missing or below their child."""
    parents = {toolkit.name: toolkit.parent for toolkit, _ in (*own.values(), *platform.values())}
    named = {tool.toolkit for owner in {"", org} for tool in tools.get(owner, _NOTHING).values()}

    def is_rooted(name: str) -> bool:
        seen, at = {name}, parents[name]
        while at is not None and at not in seen:
            seen.add(at)
            if at not in parents:
                return at in named
            at = parents[at]
        return at is None

    return {
        key: (toolkit if is_rooted(toolkit.name) else replace(toolkit, parent=None), routes)
        for key, (toolkit, routes) in own.items()
    }


def toolkit_and_routes(row: Mapping[str, Any]) -> tuple[Toolkit, tuple[Route, ...]]:
    """The toolkit in a row of `toolkits`, and its route if it has one."""
    route = route_to(row["name"], keywords_in(row), row["patterns"])
    return toolkit_in(row), () if route is None else (route,)
