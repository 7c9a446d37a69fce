"""Toolkits in the registry: a tree of categories, with the keywords and patterns that switch them on.

What would make a catalog impossible is refused here: a parent that is not there, parents in a circle, a tier
that nobody configured, a pattern that RE2 does not read. So are deletions that would leave tools or toolkits
without the toolkit they are in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import sqlalchemy as sa

from toolroll.arrays import NO_ROWS
from toolroll.catalog.routes import RouteTable
from toolroll.errors import Conflict, InvalidDefinition, NotFound
from toolroll.registry import governed_rows
from toolroll.registry.governed_rows import Editor, Governed, Row
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, words
from toolroll.registry.tiers import tiers_in
from toolroll.selection.policy.rule_checks import tier_problem
from toolroll.tools import Mode, Route, Toolkit

Keyword: TypeAlias = "str | tuple[str, str]"  # a keyword, or one with its mode: "word", "substring", "prefix"

_TABLE = tables.toolkits


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitRecord(Governed):
    """A toolkit as the registry keeps it.

    Attributes:
        toolkit: what catalogs see.
        keywords: each with its mode, "" for what `default_mode` says.
        patterns: RE2 expressions.
        org: whose it is; "" the platform's.
        plugin: which plugin declared it; "" for people.
        toolkit_id: what storage knows it by.
    """

    toolkit: Toolkit
    keywords: tuple[tuple[str, str], ...]
    patterns: tuple[str, ...]
    org: str
    plugin: str
    toolkit_id: str

    @property
    def name(self) -> str:
        """The toolkit's."""
        return self.toolkit.name

    @property
    def route(self) -> Route | None:
        """What switches it on; None where nothing does."""
        if not self.keywords and not self.patterns:
            return None
        return _route(self.name, self.keywords, self.patterns)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        content = _content(self.toolkit, self.keywords, self.patterns)
        owner = {"toolkit_id": self.toolkit_id, "org": self.org, "name": self.name, "plugin": self.plugin}
        return {**owner, **content, **self.stamps()}


class Toolkits(Editor):
    """The toolkits of a registry."""

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
        """Makes the toolkit, or makes the one of this name like it. Without a difference nothing is written.

        keywords, patterns: what switches it on; None leaves them as they are. plugin: who declares it; ""
        for people, who may edit a plugin's toolkit, too. version: what was read before; 0 for one that must
        be new; None for whatever is there.

        Raises:
            InvalidDefinition: a field is wrong, the parent is not there or below the toolkit itself, the tier
                is not configured, a keyword is blank, RE2 does not read a pattern.
            Conflict: the version has moved on; a plugin puts what another or a human made.
        """
        name = governed_rows.check_name(toolkit.name, "toolkit name")
        what = f"toolkit {name!r}"
        words(plugin, "plugin")
        given_keywords = None if keywords is None else _keywords(keywords, what)
        given_patterns = None if patterns is None else _texts(patterns, "patterns", what)
        with self._database.writing(self.actor, org) as write:
            alive = governed_rows.rows_of(
                write.connection, _TABLE, _TABLE.c.org == org, _TABLE.c.name == name
            )
            row = alive[0] if alive else None
            if row is None and version:
                raise Conflict(f"{what}: version {version} was expected, but it is not there")
            if row is not None:
                governed_rows.check_version(row, version, what)
                if plugin and row["plugin"] != plugin:
                    owner = (
                        f"to plugin {row['plugin']!r:.80}" if row["plugin"] else "to people, not to a plugin"
                    )
                    raise Conflict(f"{what}: belongs {owner}; plugin {plugin!r:.80} cannot take it over")
            old_keywords, old_patterns = ((), ()) if row is None else _switches(row)
            content = _content(
                toolkit,
                old_keywords if given_keywords is None else given_keywords,
                old_patterns if given_patterns is None else given_patterns,
            )
            _check(write, name, content)
            if row is None:
                row = governed_rows.insert(write, _TABLE, {"name": name, "plugin": plugin, **content})
                write.log("toolkit.create", name, {"after": content}, reason)
            elif changed := governed_rows.differing(row, content):
                write.log("toolkit.update", name, governed_rows.before_and_after(row, changed), reason)
                row = governed_rows.change(write, _TABLE, row, changed)
            else:
                write.abandon()
            return _record(row)

    def get(self, name: str, org: str = "") -> ToolkitRecord:
        """The toolkit of this name. Raises NotFound."""
        words(org, "org")
        with self._database.reading() as connection:
            return _record(governed_rows.named(connection, _TABLE, org, name, "toolkit"))

    def list(self, org: str = "", deleted: bool = False) -> tuple[ToolkitRecord, ...]:
        """The organisation's own, by name. deleted: with those that are deleted."""
        query = sa.select(_TABLE).where(_TABLE.c.org == words(org, "org"))
        if not deleted:
            query = query.where(_TABLE.c.deleted_at.is_(None))
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(_TABLE.c.name, _TABLE.c.created_at)).mappings()
            return tuple(_record(dict(row)) for row in rows)

    def tree(self, org: str = "") -> str:
        """All that the organisation has, its own and the platform's, each below its parent, for people."""
        words(org, "org")
        with self._database.reading() as connection:
            return tree(connection, org)

    def delete(
        self, name: str, *, org: str = "", version: int | None = None, reason: str = ""
    ) -> ToolkitRecord:
        """Deletes a toolkit that is empty.

        Raises:
            NotFound: there is no such toolkit.
            Conflict: tools or toolkits are in it, or the version has moved on.
        """
        with self._database.writing(self.actor, org) as write:
            row = governed_rows.named(write.connection, _TABLE, org, name, "toolkit")
            governed_rows.check_version(row, version, f"toolkit {name!r}")
            _check_empty(write, name)
            write.log("toolkit.delete", name, {"before": _content_of(row)}, reason)
            return _record(governed_rows.delete(write, _TABLE, row))

    def restore(self, name: str, *, org: str = "", reason: str = "") -> ToolkitRecord:
        """Brings back the toolkit of this name that was deleted last.

        Raises:
            NotFound: none was deleted.
            Conflict: there is one of this name again.
            InvalidDefinition: its parent or its tier is gone.
        """
        words(name, "toolkit name")
        with self._database.writing(self.actor, org) as write:
            found = write.connection.execute(
                sa.select(_TABLE)
                .where(_TABLE.c.org == org, _TABLE.c.name == name)
                .order_by(_TABLE.c.deleted_at.is_(None).desc(), _TABLE.c.revision.desc())
                .limit(1)
            )
            first = found.mappings().first()
            if first is None:
                raise NotFound(f"toolkit {name!r:.80}: was never {governed_rows.whose(org)}")
            row = dict(first)
            if row["deleted_at"] is None:
                raise Conflict(
                    f"toolkit {name!r:.80}: is there, at version {row['version']}; nothing to restore"
                )
            _check(write, name, _content_of(row))
            write.log("toolkit.restore", name, {"after": _content_of(row)}, reason)
            return _record(governed_rows.change(write, _TABLE, row, {"deleted_at": None}))


def is_toolkit(connection: sa.Connection, name: str, org: str) -> bool:
    """Whether an organisation's tools can be in this toolkit: its own or the platform's, declared or not."""
    tools, orgs = tables.tools, {"", org}
    return any(
        connection.execute(
            sa.select(table.c.org).where(column == name, table.c.deleted_at.is_(None), table.c.org.in_(orgs))
        ).first()
        for table, column in ((_TABLE, _TABLE.c.name), (tools, tools.c.toolkit))
    )


def no_toolkit(connection: sa.Connection, name: str, org: str) -> str:
    """That there is no such toolkit, and what was meant perhaps."""
    hint = governed_rows.near(name, governed_rows.names_in(connection, _TABLE, "", org))
    return f"toolkit {name!r:.80} is {governed_rows.nowhere(org)}{hint}"


def lineage(connection: sa.Connection, name: str, org: str) -> dict[str, str | None]:
    """A toolkit and those above it, each with its tier, as the platform or the organisation has them."""
    rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org.in_({"", org}))
    held = {row["name"]: row for row in sorted(rows, key=lambda row: row["org"], reverse=True)}
    found: dict[str, str | None] = {}
    at: str | None = name or None
    while at is not None and at not in found:
        row = held.get(at, {})
        found[at] = row.get("tier")
        at = row.get("parent")
    return found


def circle(name: str, parents: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """A way from a toolkit up to itself, its name first and last; () where there is none.

    parents: toolkit → those above it, one in a tree; two where a platform and an organisation differ.
    """
    came_from: dict[str, str] = {}
    waiting = [name]
    while waiting:
        at = waiting.pop()
        for parent in parents.get(at, ()):
            if parent == name:
                way = [name, at]
                while way[-1] != name:
                    way.append(came_from[way[-1]])
                return tuple(reversed(way))
            if parent not in came_from:
                came_from[parent] = at
                waiting.append(parent)
    return ()


def _check(write: Write, name: str, content: Row) -> None:
    """Refuses a toolkit that no catalog could hold."""
    what = f"toolkit {name!r}"
    for field in ("description", "parent", "tier"):
        if content[field] is not None and not isinstance(content[field], str):
            raise _wrong(what, field, f"is {content[field]!r:.80}, must be text")
    if type(content["base"]) is not bool:
        raise _wrong(what, "base", f"is {content['base']!r:.80}, must be True or False")
    if any(not key.strip() for key in content["settings_keys"]):
        raise _wrong(what, "settings_keys", "holds a blank name")
    governed_rows.check_kept(content, what)
    # Reads it as a catalog will.
    keywords, patterns = _switches(content)
    RouteTable.of(0, [_route(name, keywords, patterns)], {name: NO_ROWS})
    tiers = tiers_in(write.connection)
    if content["tier"] is not None and (problem := tier_problem(content["tier"], tiers)):
        raise _wrong(what, "tier", problem)
    if content["parent"] is not None:
        _check_parent(write, name, content["parent"])


def _check_parent(write: Write, name: str, parent: str) -> None:
    what = f"toolkit {name!r}"
    found = write.connection.execute(
        sa.select(_TABLE.c.org, _TABLE.c.name, _TABLE.c.parent).where(
            _TABLE.c.deleted_at.is_(None), _TABLE.c.org.in_({"", write.org})
        )
    ).all()
    names = {row.name for row in found}
    if parent not in names | {name}:
        hint = governed_rows.near(parent, names)
        raise _wrong(what, "parent", f"is {parent!r:.80}, which is {governed_rows.nowhere(write.org)}{hint}")
    # Where an organisation's toolkit is named like one of the platform's, both parents count: whichever of
    # the two is deleted later, what is left is a tree.
    parents: dict[str, set[str]] = {name: {parent}}
    for row in found:
        if row.parent is not None and row.name != name:
            parents.setdefault(row.name, set()).add(row.parent)
    if way := circle(name, parents):
        raise _wrong(what, "parent", f"would make a circle: {' → '.join(way)}")


def _check_empty(write: Write, name: str) -> None:
    """Refuses to delete what tools or toolkits are in, of whatever organisation."""
    orgs_with_own = set(
        write.connection.execute(
            sa.select(_TABLE.c.org).where(_TABLE.c.name == name, _TABLE.c.deleted_at.is_(None))
        ).scalars()
    )
    if write.org and "" in orgs_with_own:
        return  # the platform's of the same name is there for what is in it

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
            f"{'' if write.org else ', those of organisations included'}; move or delete them first"
        )


def _keywords(keywords: Iterable[Keyword], what: str) -> tuple[tuple[str, str], ...]:
    if isinstance(keywords, (str, bytes)) or not isinstance(keywords, Iterable):
        raise _wrong(what, "keywords", f"is {keywords!r:.80}, must be a list")
    found = {}
    for keyword in keywords:
        word, mode = (keyword, "") if isinstance(keyword, str) else _pair(keyword, what)
        if not word.strip():
            raise _wrong(what, "keywords", "holds a blank one, must have a visible character")
        found[word] = mode
    return tuple(found.items())


def _pair(keyword: object, what: str) -> tuple[str, str]:
    if (
        isinstance(keyword, (tuple, list))
        and len(keyword) == 2
        and all(isinstance(text, str) for text in keyword)
    ):
        return keyword[0], keyword[1]
    raise _wrong(what, "keywords", f"holds {keyword!r:.80}, must hold keywords or (keyword, mode)")


def _texts(texts: Iterable[str], field: str, what: str) -> tuple[str, ...]:
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise _wrong(what, field, f"is {texts!r:.80}, must be a list")
    texts = tuple(texts)
    if not all(isinstance(text, str) and text for text in texts):
        raise _wrong(what, field, f"is {texts!r:.80}, must be a list of non-empty strings")
    return texts


def _route(name: str, keywords: Iterable[tuple[str, str]], patterns: Iterable[str]) -> Route:
    pairs = tuple(keywords)
    modes = cast("tuple[Mode, ...]", tuple(mode for _, mode in pairs))
    return Route((name,), tuple(word for word, _ in pairs), tuple(patterns), modes if any(modes) else ())


def _content(
    toolkit: Toolkit, keywords: Iterable[tuple[str, str]], patterns: Iterable[str]
) -> dict[str, Any]:
    return {
        "description": toolkit.description,
        "parent": toolkit.parent,
        "settings_keys": [*toolkit.settings_keys],
        "base": toolkit.base,
        "tier": toolkit.tier,
        "keywords": [{"keyword": word, "mode": mode} for word, mode in keywords],
        "patterns": [*patterns],
        "members": [*toolkit.members],
    }


_FIELDS = tuple(_content(Toolkit("x"), (), ()))


def _content_of(row: Mapping[str, Any]) -> Row:
    return {field: row[field] for field in _FIELDS}


def _switches(row: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    keywords = tuple((keyword["keyword"], keyword.get("mode", "")) for keyword in row["keywords"])
    return keywords, tuple(row["patterns"])


def _record(row: Mapping[str, Any]) -> ToolkitRecord:
    keywords, patterns = _switches(row)
    return ToolkitRecord(
        toolkit=Toolkit(
            row["name"],
            row["description"],
            row["parent"],
            tuple(row["settings_keys"]),
            row["base"],
            row["tier"],
            tuple(row["members"]),
        ),
        keywords=keywords,
        patterns=patterns,
        org=row["org"],
        plugin=row["plugin"],
        toolkit_id=row["toolkit_id"],
        **governed_rows.stamps_of(row),
    )


def _wrong(what: str, field: str, problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"{what}: {field} {problem}", field=field)


_TABLE = tables.toolkits


def tree(connection: sa.Connection, org: str) -> str:
    """All that an organisation has, its own and the platform's: a line each, each below its parent."""
    rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org.in_({"", org}))
    counts = _tools_in(connection, org)
    shown: dict[str, Row] = {row["name"]: row for row in rows if row["org"]}
    own = frozenset(shown)
    shown |= {row["name"]: row for row in rows if not row["org"]}  # where both hold it, as catalogs read it
    shown |= {name: {"name": name} for name in counts if name and name not in shown}
    return "\n".join(_lines(shown, counts, own))


def _tools_in(connection: sa.Connection, org: str) -> Counter[str]:
    """Toolkit → how many tools of the organisation and of the platform are in it."""
    tools = tables.tools
    found = connection.execute(
        sa.select(tools.c.toolkit, sa.func.count())
        .where(tools.c.deleted_at.is_(None), tools.c.org.in_({"", org}))
        .group_by(tools.c.toolkit)
    )
    return Counter({toolkit: n for toolkit, n in found})


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
