"""Toolkits in the registry: a tree of categories, with the keywords and patterns that switch them on.

The registry refuses a toolkit that no catalog could contain: its parent does not exist or is below it, its
tier is not configured, or RE2 cannot read its pattern. It also refuses to delete a toolkit that is not empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import sqlalchemy as sa

from toolroll.catalog.routes import RouteTable
from toolroll.model.arrays import NO_ROWS
from toolroll.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound
from toolroll.model.tools import Route, Toolkit
from toolroll.registry.editing import governed_rows
from toolroll.registry.editing.content import (
    TOOLKIT_FIELDS,
    keywords_in,
    route_to,
    toolkit_content,
    toolkit_in,
)
from toolroll.registry.editing.governed_rows import Editor, GovernedRow, Reach, Row, knows_toolkit
from toolroll.registry.editing.tiers import tiers_in
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, Write, checked_text
from toolroll.registry.store.row_reader import read_rows
from toolroll.selection.policy.rule_checks import tier_problem

Keyword: TypeAlias = "str | tuple[str, str]"  # a keyword, or one with its mode: "word", "substring", "prefix"

_TABLE = tables.toolkits


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitRecord(GovernedRow):
    """A toolkit in the registry.

    Attributes:
        keywords: each with its mode, or with "" for `default_mode`.
        patterns: RE2 expressions.
        org: the owner; "" for the platform.
        plugin: the plugin that declared it; "" for people.
    """

    toolkit: Toolkit
    keywords: tuple[tuple[str, str], ...]
    patterns: tuple[str, ...]
    org: str
    plugin: str
    toolkit_id: str

    @property
    def name(self) -> str:
        """The toolkit's name."""
        return self.toolkit.name

    @property
    def route(self) -> Route | None:
        """The route that switches it on, or None."""
        return route_to(self.name, self.keywords, self.patterns)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        content = toolkit_content(self.toolkit, self.keywords, self.patterns)
        owner = {"toolkit_id": self.toolkit_id, "org": self.org, "name": self.name, "plugin": self.plugin}
        return {**owner, **content, **self.shared_fields()}


class Toolkits(Editor[ToolkitRecord]):
    """The toolkits of a registry."""

    _table, _noun, _kind, _fields = _TABLE, "toolkit", "toolkit", TOOLKIT_FIELDS

    def put(
        self,
        toolkit: Toolkit,
        *,
        keywords: Iterable[Keyword] | None = None,
        patterns: Iterable[str] | None = None,
        org: str = "",
        plugin: str = "",
        version: int | None = None,
        reason: str = "",
    ) -> ToolkitRecord:
        """Creates the toolkit, or updates the one with this name. Writes nothing if no field differs.

        keywords, patterns: switch the toolkit on; None keeps the present ones.
        plugin: the plugin that declares it; "" for people, who may also edit a plugin's toolkit.
        version: the version that the caller read; 0 if the toolkit must be new; None for any.

        Raises:
            InvalidDefinition: a field is wrong, the parent does not exist or is below the toolkit, the tier
                is not configured, a keyword is blank, or RE2 cannot read a pattern.
            Conflict: the toolkit has another version, or a plugin declares a toolkit that it does not own.
        """
        name = governed_rows.check_name(toolkit.name, "toolkit name")
        what = f"toolkit {name!r}"
        checked_text(plugin, "plugin")
        new_keywords = None if keywords is None else _keywords(keywords, what)
        new_patterns = None if patterns is None else _patterns(patterns, what)
        with self._database.writing(self.actor, org) as write:
            same = (_TABLE.c.org == org, _TABLE.c.name == name)
            row = next(iter(governed_rows.rows_of(write.connection, _TABLE, *same)), None)
            if row is None and version:
                raise Conflict(f"{what}: version {version} was expected, but it does not exist")
            if row is not None:
                governed_rows.check_version(row, version, what)
                if plugin and row["plugin"] != plugin:
                    owner = f"plugin {row['plugin']!r:.80}" if row["plugin"] else "people, not to a plugin"
                    raise Conflict(f"{what}: belongs to {owner}; plugin {plugin!r:.80} cannot take it over")
                new_keywords = keywords_in(row) if new_keywords is None else new_keywords
                new_patterns = row["patterns"] if new_patterns is None else new_patterns
            content = toolkit_content(toolkit, new_keywords or (), new_patterns or ())
            _check(write, name, content)
            if row is None:
                return self._record(self._insert(write, name, content, reason, name=name, plugin=plugin))
            return self._record(self._update(write, row, content, name, reason))

    def get(self, name: str, org: str = "") -> ToolkitRecord:
        """The toolkit with this name. Raises NotFound."""
        checked_text(org, "org")
        with self._database.reading() as connection:
            return self._record(self._row(connection, name, org))

    def list(self, org: str | None = "", deleted: bool = False) -> tuple[ToolkitRecord, ...]:
        """The organisation's own toolkits by name, or all toolkits; with `deleted`, also deleted toolkits."""
        return self._list(org, deleted, _TABLE.c.org, _TABLE.c.name, _TABLE.c.created_at)

    def tree(self, org: str = "") -> str:
        """The toolkits of the organisation and the platform, each below its parent, as text."""
        checked_text(org, "org")
        with self._database.reading() as connection:
            return _tree(connection, org)

    def delete(
        self, name: str, *, org: str = "", version: int | None = None, reason: str = ""
    ) -> ToolkitRecord:
        """Deletes an empty toolkit.

        Raises:
            NotFound: there is no such toolkit.
            Conflict: it contains tools or toolkits, or has another version.
        """
        with self._editing(name, org, version) as (write, row):
            _check_empty(write, name)
            return self._record(self._delete(write, row, name, reason))

    def restore(self, name: str, *, org: str = "", reason: str = "") -> ToolkitRecord:
        """Restores the last deleted toolkit with this name.

        Raises:
            NotFound: no toolkit with this name was deleted.
            Conflict: a toolkit with this name exists.
            InvalidDefinition: its parent or its tier no longer exists.
        """
        checked_text(name, "toolkit name")
        with self._database.writing(self.actor, org) as write:
            last_first = (_TABLE.c.deleted_at.is_(None).desc(), _TABLE.c.revision.desc())
            same = (_TABLE.c.org == org, _TABLE.c.name == name)
            found = read_rows(write.connection, list(_TABLE.c), *same, order_by=last_first, limit=1)
            row = next(found, None)
            if row is None:
                raise NotFound(f"toolkit {name!r:.80}: was never {governed_rows.place_of(org)}")
            if row["deleted_at"] is None:
                raise Conflict(f"toolkit {name!r:.80}: is at version {row['version']}; nothing to restore")
            content = {field: row[field] for field in TOOLKIT_FIELDS}
            _check(write, name, content)
            self._log(write, "restore", row, name, reason, after=content)
            return self._record(governed_rows.change(write, _TABLE, row, {"deleted_at": None}))

    @staticmethod
    def _record(row: Mapping[str, Any]) -> ToolkitRecord:
        return ToolkitRecord(
            toolkit=toolkit_in(row),
            keywords=keywords_in(row),
            patterns=tuple(row["patterns"]),
            org=row["org"],
            plugin=row["plugin"],
            toolkit_id=row["toolkit_id"],
            **governed_rows.shared_fields(row),
        )


def check_toolkit(database: Database, name: str, org: str) -> None:
    """Raises InvalidInput if neither the organisation nor the platform has this toolkit."""
    with database.reading() as connection:
        if not is_toolkit(connection, name, org):
            raise InvalidInput(no_toolkit(connection, name, org))


def is_toolkit(connection: sa.Connection, name: str, org: str, reach: Reach | None = None) -> bool:
    """Whether the organisation or the platform declares this toolkit, or a tool of theirs names it.

    reach: the platform's toolkits that the caller may know; None for all.
    """
    tools, orgs = tables.tools, {"", org} if knows_toolkit(reach, name) else {org}
    return any(
        connection.execute(
            sa.select(table.c.org).where(column == name, table.c.deleted_at.is_(None), table.c.org.in_(orgs))
        ).first()
        for table, column in ((_TABLE, _TABLE.c.name), (tools, tools.c.toolkit))
    )


def no_toolkit(connection: sa.Connection, name: str, org: str, reach: Reach | None = None) -> str:
    """The message that there is no such toolkit, with a suggestion."""
    names = governed_rows.names_in(connection, _TABLE, "", org, knows=partial(knows_toolkit, reach))
    hint = governed_rows.suggestion(name, names)
    return f"toolkit {name!r:.80} is {governed_rows.not_in_reach(org)}{hint}"


def lineage(
    connection: sa.Connection, name: str, org: str, reach: Reach | None = None
) -> dict[str, str | None]:
    """A toolkit and its ancestors, each with its tier. If two have one name, the platform's counts."""
    rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org.in_({"", org}))
    by_name = {
        row["name"]: row
        for row in sorted(rows, key=lambda row: row["org"], reverse=True)
        if row["org"] == org or knows_toolkit(reach, row["name"])
    }
    found: dict[str, str | None] = {}
    at: str | None = name or None
    while at is not None and at not in found:
        row = by_name.get(at, {})
        found[at] = row.get("tier")
        at = row.get("parent")
    return found


def circle(name: str, parents: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """A path from a toolkit up to itself, with its name first and last; () without such a path.

    parents: toolkit → its parents: one in a tree, two if the platform and an organisation differ.
    """
    seen: set[str] = set()
    paths: list[tuple[str, ...]] = [(name,)]
    while paths:
        path = paths.pop()
        for parent in parents.get(path[-1], ()):
            if parent == name:
                return (*path, name)
            if parent not in seen:
                seen.add(parent)
                paths.append((*path, parent))
    return ()


def _check(write: Write, name: str, content: Row) -> None:
    """Raises InvalidDefinition for a toolkit that no catalog could contain."""
    what = f"toolkit {name!r}"
    for field in ("description", "parent", "tier"):
        if content[field] is not None and not isinstance(content[field], str):
            raise _wrong(what, field, f"is {content[field]!r:.80}, must be text")
    if type(content["base"]) is not bool:
        raise _wrong(what, "base", f"is {content['base']!r:.80}, must be True or False")
    if any(not key.strip() for key in content["settings_keys"]):
        raise _wrong(what, "settings_keys", "holds a blank name")
    governed_rows.check_content(content, what)
    if route := route_to(name, keywords_in(content), content["patterns"]):
        RouteTable.of(0, [route], {name: NO_ROWS})  # fails as a catalog would
    tiers = tiers_in(write.connection)
    if content["tier"] is not None and (problem := tier_problem(content["tier"], tiers)):
        raise _wrong(what, "tier", problem)
    if content["parent"] is not None:
        _check_parent(write, name, content["parent"])


def _check_parent(write: Write, name: str, parent: str) -> None:
    what = f"toolkit {name!r}"
    found = governed_rows.rows_of(write.connection, _TABLE, _TABLE.c.org.in_({"", write.org}))
    names = {row["name"] for row in found}
    if parent not in names | {name}:
        where, hint = governed_rows.not_in_reach(write.org), governed_rows.suggestion(parent, names)
        raise _wrong(what, "parent", f"is {parent!r:.80}, which is {where}{hint}")
    # If the organisation and the platform have toolkits with the same name, both parents count: the toolkits
    # must still form a tree after either is deleted.
    parents: dict[str, set[str]] = {name: {parent}}
    for row in found:
        if row["parent"] is not None and row["name"] != name:
            parents.setdefault(row["name"], set()).add(row["parent"])
    if path := circle(name, parents):
        raise _wrong(what, "parent", f"would make a circle: {' → '.join(path)}")


def _check_empty(write: Write, name: str) -> None:
    """Raises Conflict if the toolkit contains tools or toolkits, of any organisation."""
    owners = sa.select(_TABLE.c.org).where(_TABLE.c.name == name, _TABLE.c.deleted_at.is_(None))
    orgs_with_own = set(write.connection.execute(owners).scalars())
    if write.org and "" in orgs_with_own:
        return  # the platform's toolkit with the same name takes over

    def count(table: sa.Table, column: sa.Column[Any]) -> int:
        query = sa.select(table.c.org, sa.func.count()).where(column == name, table.c.deleted_at.is_(None))
        if write.org:
            query = query.where(table.c.org == write.org)
        found = write.connection.execute(query.group_by(table.c.org))
        return sum(n for org, n in found if org == write.org or org not in orgs_with_own)

    tools = count(tables.tools, tables.tools.c.toolkit)
    toolkits = count(_TABLE, _TABLE.c.parent)
    if tools or toolkits:
        inside = [
            f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in ((tools, "tool"), (toolkits, "toolkit")) if n
        ]
        raise Conflict(
            f"toolkit {name!r}: has {' and '.join(inside)} in it"
            f"{'' if write.org else ', also of organisations'}; move or delete them first"
        )


def _list(values: Iterable[Any], field: str, what: str) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise _wrong(what, field, f"is {values!r:.80}, must be a list")
    return tuple(values)


def _keywords(keywords: Iterable[Keyword], what: str) -> tuple[tuple[str, str], ...]:
    found = {}
    for keyword in _list(keywords, "keywords", what):
        pair = (keyword, "") if isinstance(keyword, str) else keyword
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not is_pair or not all(isinstance(text, str) for text in pair):
            raise _wrong(what, "keywords", f"holds {keyword!r:.80}, must hold keywords or (keyword, mode)")
        if not pair[0].strip():
            raise _wrong(what, "keywords", "holds a blank one, must have a visible character")
        found[pair[0]] = pair[1]
    return tuple(found.items())


def _patterns(patterns: Iterable[str], what: str) -> tuple[str, ...]:
    texts = _list(patterns, "patterns", what)
    if not all(isinstance(text, str) and text for text in texts):
        raise _wrong(what, "patterns", f"is {texts!r:.80}, must be a list of non-empty strings")
    return texts


def _wrong(what: str, field: str, problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"{what}: {field} {problem}", field=field)


def _tree(connection: sa.Connection, org: str) -> str:
    """One toolkit a line, each below its parent."""
    rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org.in_({"", org}))
    tools = tables.tools.c
    in_toolkits = sa.select(tools.toolkit).where(tools.deleted_at.is_(None), tools.org.in_({"", org}))
    counts = Counter(connection.execute(in_toolkits).scalars())
    shown: dict[str, Row] = {row["name"]: row for row in rows if row["org"]}
    own = frozenset(shown)
    shown |= {row["name"]: row for row in rows if not row["org"]}  # as in catalogs
    shown |= {name: {"name": name} for name in counts if name and name not in shown}
    return "\n".join(_lines(shown, counts, own))


def _lines(rows: Mapping[str, Row], counts: Mapping[str, int], own: frozenset[str]) -> Iterator[str]:
    below: dict[str | None, list[str]] = {}
    for name, row in rows.items():
        parent = row.get("parent")
        below.setdefault(parent if parent in rows else None, []).append(name)
    waiting = [(0, name) for name in sorted(below.get(None, ()), reverse=True)]
    while waiting:
        depth, name = waiting.pop()
        yield f"{'  ' * depth}{_line(rows[name], counts.get(name, 0), name in own)}"
        waiting += [(depth + 1, child) for child in sorted(below.get(name, ()), reverse=True)]


def _line(row: Row, count: int, is_own: bool) -> str:
    facts = [f"{count} tool{'' if count == 1 else 's'}"]
    if is_own:
        facts.append("own")
    if row.get("base"):
        facts.append("base")
    if row.get("tier") is not None:
        facts.append(f"tier {row['tier']} and above")
    if row.get("settings_keys"):
        facts.append(f"with a value for {' or '.join(row['settings_keys'])}")
    if row.get("members"):
        facts.append(f"and {', '.join(row['members'])}"[:80])
    if row.get("plugin"):
        facts.append(f"plugin {row['plugin']}")
    summary = row.get("description", "").strip().partition("\n")[0]
    line = f"{row['name']}  ({', '.join(facts)})" + (f"  {summary[:80]}" if summary else "")
    return governed_rows.printable(line)
