"""The registry's state for a plan: a few columns of all tools, and whole records of tools that may change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.registry.editing.content import TOOLKIT_FIELDS
from toolroll.registry.editing.governed_rows import Reach, knows_tool, knows_toolkit
from toolroll.registry.editing.records import Review, ToolRecord, read_records
from toolroll.registry.editing.rules import UNNAMED, known_rule
from toolroll.registry.editing.tiers import tiers_in
from toolroll.registry.editing.versions import ToolVersion, version_of
from toolroll.registry.store import tables
from toolroll.registry.sync.payload import Payload
from toolroll.runtime.gil import batches

_IDS = 500  # ids in one IN


class ToolState(NamedTuple):
    """The columns of every tool's row that a plan needs."""

    tool_id: str
    name: str
    plugin: str
    toolkit: str
    review: Review
    source_hash: str | None
    is_deleted: bool


class RowState(NamedTuple):
    """A toolkit or a page mapping. name: or the pattern. values: the columns that a sync writes."""

    key: str
    name: str
    plugin: str
    is_deleted: bool
    values: Mapping[str, Any]


class PluginState(NamedTuple):
    """The columns of the plugin's row that a plan needs."""

    version: str
    payload_hash: str
    review: str
    while_waiting: str


@dataclass(frozen=True, slots=True)
class RegistryState:
    """The state of one organisation in the registry, and the names of others that a sync must respect.

    Attributes:
        tools: present tools, the plugin's deleted ones, and tools that people deleted; the last change last.
        toolkits, pages: present rows, and the plugin's deleted rows.
        records: tool_id → the tool, if the payload may change it.
        approved: tool_id → the last approved version, of the `records` that await approval.
        rules: ("tool" or "toolkit", name) → names of the rules that name it.
        members: name or pattern of a tool → a toolkit of another owner that has it as a member.
        mentioned: toolkits that other owners' tools or page mappings name.
        shared_tools: names of the platform's tools; empty for the platform itself.
        shared_toolkits: name → parent, for the platform's toolkits; empty for the platform itself.
        parents: toolkits that other organisations use as a parent.
        plugin: None for a new plugin.
        tiers: the configured subscription tiers, lowest first.
    """

    tools: Sequence[ToolState] = ()
    toolkits: Sequence[RowState] = ()
    pages: Sequence[RowState] = ()
    records: Mapping[str, ToolRecord] = field(default_factory=dict)
    approved: Mapping[str, ToolVersion] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    mentioned: Collection[str] = frozenset()
    shared_tools: Collection[str] = frozenset()
    shared_toolkits: Mapping[str, str | None] = field(default_factory=dict)
    parents: Collection[str] = frozenset()
    plugin: PluginState | None = None
    tiers: tuple[str, ...] = ()


def read_state(connection: sa.Connection, payload: Payload, reach: Reach | None = None) -> RegistryState:
    """The input of a plan: one query for the tools, and a few smaller queries.

    reach: the platform's tools and toolkits that the author may know. Unknown ones restrict a payload only
        where its tools would gain rights that their plugin lacks: in base toolkits, and by rules that allow.
    """
    org, plugin = payload.org, payload.plugin
    t, k, m, p = tables.tools.c, tables.toolkits.c, tables.page_mappings.c, tables.plugins.c
    # Also the plugin's deleted tools, and tools that people deleted (a sync leaves no source hash).
    in_scope = t.deleted_at.is_(None) | t.plugin.in_({plugin, ""}) | t.source_hash.is_not(None)
    columns = (t.deleted_at.is_not(None) if name == "is_deleted" else t[name] for name in ToolState._fields)
    found = connection.execute(sa.select(*columns).where(t.org == org, in_scope).order_by(t.revision))
    tools = [ToolState(*row) for row in found]
    in_scope = k.deleted_at.is_(None) | (k.plugin == plugin)
    about = connection.execute(
        sa.select(p.version, p.payload_hash, p.review, p.while_waiting).where(p.org == org, p.name == plugin)
    ).first()
    toolkits = _rows(connection, tables.toolkits, TOOLKIT_FIELDS, k.revision, k.org == org, in_scope)
    own = {row.name for row in toolkits if not row.is_deleted and row.plugin == plugin}
    places = {tool.toolkit for tool in payload.tools.values()} - own - payload.toolkits.keys() - {""}
    more: dict[str, Any] = {}
    if plugin and (places or own != payload.toolkits.keys()):
        more["mentioned"] = _read_mentioned(connection, tools, org, plugin, reach)
    if plugin and payload.tools.keys() - {tool.name for tool in tools if not tool.is_deleted}:
        more["members"] = _read_members(connection, org, plugin)
    if org:
        shared = _texts(connection, t.name, t.org == "", t.deleted_at.is_(None))
        more["shared_tools"] = {name for name in shared if knows_tool(reach, name)}
        more["shared_toolkits"] = _read_shared_toolkits(connection, reach)
    else:
        of_others = (k.org != org, k.parent.is_not(None), k.deleted_at.is_(None))
        more["parents"] = _texts(connection, k.parent, *of_others)
    records, approved = _read_records(connection, tools, payload)
    return RegistryState(
        tools=tools,
        toolkits=toolkits,
        pages=_rows(connection, tables.page_mappings, _PAGE, m.page_id, m.org == org, m.plugin == plugin),
        records=records,
        approved=approved,
        rules=_read_rules(connection, org, reach) if plugin else {},
        plugin=None if about is None else PluginState(*about),
        tiers=tiers_in(connection),
        **more,
    )


_PAGE = ("toolkits", "priority")


def _read_records(
    connection: sa.Connection, tools: Iterable[ToolState], payload: Payload
) -> tuple[dict[str, ToolRecord], dict[str, ToolVersion]]:
    """The records of the tools that the payload may change, and their approved versions."""
    ids = [
        row.tool_id
        for row in tools
        if row.plugin == payload.plugin
        and (payload.hashes.get(row.name) != row.source_hash or row.review != "approved" or row.is_deleted)
        and (row.name in payload.tools or (payload.plugin and not row.is_deleted))
    ]
    t, v = tables.tools.c, tables.tool_versions.c
    records = {
        record.tool.tool_id: record
        for batch in batches(ids, _IDS)
        for record in read_records(connection, t.tool_id.in_(batch))
    }
    is_approved = (v.tool_id == t.tool_id) & (v.version == t.approved_version)
    query = sa.select(tables.tool_versions).join_from(tables.tools, tables.tool_versions, is_approved)
    waiting = [tool_id for tool_id, record in records.items() if record.review != "approved"]
    approved = {
        row["tool_id"]: version_of(dict(row))
        for batch in batches(waiting, _IDS)
        for row in connection.execute(query.where(t.tool_id.in_(batch))).mappings()
    }
    return records, approved


def _rows(
    connection: sa.Connection,
    table: sa.Table,
    columns: Sequence[str],
    order: sa.ColumnElement[Any],
    *where: sa.ColumnElement[bool],
) -> list[RowState]:
    name = table.c["pattern" if table is tables.page_mappings else "name"]
    first = (next(iter(table.primary_key)), name, table.c.plugin, table.c.deleted_at.is_not(None))
    found = connection.execute(
        sa.select(*first, *(table.c[each] for each in columns)).where(*where).order_by(order)
    )
    return [
        RowState(key, name, plugin, is_deleted, dict(zip(columns, values, strict=True)))
        for key, name, plugin, is_deleted, *values in found
    ]


def _texts(connection: sa.Connection, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> set[str]:
    return set(connection.execute(sa.select(column).distinct().where(*where)).scalars())


def _read_shared_toolkits(connection: sa.Connection, reach: Reach | None) -> dict[str, str | None]:
    """The platform's toolkits that restrict a payload of an organisation, with their parents."""
    k = tables.toolkits.c
    query = sa.select(k.name, k.parent, k.base).where(k.org == "", k.deleted_at.is_(None))
    rows = connection.execute(query).all()
    parents = {row.name: row.parent for row in rows}
    base = {row.name for row in rows if row.base}

    def is_base(name: str) -> bool:
        above: list[str | None] = []
        at: str | None = name
        while at is not None and at not in above:
            above.append(at)
            at = parents.get(at)
        return not base.isdisjoint(above)

    return {name: parent for name, parent in parents.items() if knows_toolkit(reach, name) or is_base(name)}


def _read_rules(connection: sa.Connection, org: str, reach: Reach | None) -> dict[tuple[str, str], list[str]]:
    """The targets of the organisation's rules; for the platform, the targets of all rules.

    Within a reach, rules of the platform have no name, and rules that deny are ignored.
    """
    r = tables.visibility_rules.c
    where = [r.deleted_at.is_(None), *([r.org.in_({"", org})] if org else [])]
    query = sa.select(r.org, r.tool, r.toolkit, r.name, r.effect).where(*where).order_by(r.name)
    found: dict[tuple[str, str], list[str]] = {}
    for row in map(dict, connection.execute(query).mappings()):
        if name := known_rule(row, reach) or (UNNAMED if row["effect"] == "allow" else ""):
            target = ("tool", row["tool"]) if row["tool"] else ("toolkit", row["toolkit"])
            found.setdefault(target, []).append(name)
    return found


def _read_members(connection: sa.Connection, org: str, plugin: str) -> dict[str, str]:
    """Member → a toolkit of another owner. An organisation's toolkit may name the platform's tools."""
    k = tables.toolkits.c
    where = [k.deleted_at.is_(None), sa.cast(k.members, sa.Text) != "[]", *([k.org == org] if org else [])]
    return {
        member: row.name
        for row in connection.execute(sa.select(k.org, k.name, k.plugin, k.members).where(*where))
        if (row.org, row.plugin) != (org, plugin)
        for member in row.members
    }


def _read_mentioned(
    connection: sa.Connection, own: Iterable[ToolState], org: str, plugin: str, reach: Reach | None
) -> set[str]:
    """Toolkits that other owners' tools or page mappings name."""
    t, m = tables.tools.c, tables.page_mappings.c
    found = {tool.toolkit for tool in own if not tool.is_deleted and tool.plugin != plugin}
    elsewhere = _texts(connection, t.toolkit, t.deleted_at.is_(None), t.org == "" if org else t.org != "")
    found |= {name for name in elsewhere if not org or knows_toolkit(reach, name)}
    where = [
        m.deleted_at.is_(None),
        (m.org != org) | (m.plugin != plugin),
        *([m.org.in_({"", org})] if org else []),
    ]
    for owner, toolkits in connection.execute(sa.select(m.org, m.toolkits).where(*where)):
        found.update(name for name in toolkits if owner or not org or knows_toolkit(reach, name))
    return found - {""}
