"""Carries out a sync: makes the registry equal to a plugin's payload, completely or not at all.

    read the state  →  plan  →  no step: done, nothing was written
                             →  one transaction: tools, versions, toolkits, pages, the plugin, the log

Hashing and planning happen before the registry is locked. If the revision shows that somebody wrote
meanwhile, the plan is made again under the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from toolroll.registry import governed_rows
from toolroll.registry.content import TOOLKIT_FIELDS, changed_fields
from toolroll.registry.flags import GOVERNED as GOVERNED_FLAG
from toolroll.registry.flags import Flag, Lookalikes, flags_of
from toolroll.registry.reach import Reach, knows_tool, knows_toolkit
from toolroll.registry.records import Record, read_records
from toolroll.registry.review import HINTS_FLAG, WhileWaiting, hint_flags, may_serve
from toolroll.registry.rules import UNNAMED, known_rule
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import batches
from toolroll.registry.store.database import Database, Write, words
from toolroll.registry.store.revision import revision_in
from toolroll.registry.store.row_reader import read_rows
from toolroll.registry.sync.payload import Payload
from toolroll.registry.sync.plan import (
    Mode,
    PageState,
    PageStep,
    RegistryState,
    SyncPlan,
    ToolkitState,
    ToolkitStep,
    ToolState,
    ToolStep,
)
from toolroll.registry.sync.planner import plan
from toolroll.registry.tiers import tiers_in, write_tiers
from toolroll.registry.tool_edits import ToolEdits, major_version_flag
from toolroll.registry.versions import find_version
from toolroll.rules import PageMapping
from toolroll.tools import Tool

MAJOR = "major"  # the code of `major_version_flag`
MOVED = "moved"  # another toolkit: rules that name the old one no longer apply

_LASTING = (MAJOR, MOVED, HINTS_FLAG)

Progress = Callable[[int, int], None]  # done, total

_BATCH = 1_000  # tools in one statement
_IDS = 500  # ids in one IN
_LOGGED = 100  # names of each action in a line of the audit log; the versions have all of them


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did, or with `dry_run` would do.

    Attributes:
        plan: the steps.
        revision: the registry's revision afterwards.
        is_applied: whether anything was written.
    """

    plan: SyncPlan
    revision: int
    is_applied: bool
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return self.plan.to_dict() | {
            "revision": self.revision,
            "applied": self.is_applied,
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        if self.dry_run:
            end = "dry run: nothing was written"
        elif self.is_applied:
            end = f"done, revision {self.revision}"
        else:
            end = f"nothing to do, revision stays {self.revision}"
        return f"{self.plan}\n{end}"


@dataclass(frozen=True, slots=True)
class _Draft:
    """A plan, and the present records of the tools that it changes.

    Attributes:
        records: by tool_id.
    """

    plan: SyncPlan
    state: RegistryState
    records: Mapping[str, Record]


@dataclass(frozen=True, slots=True)
class Sync:
    """One sync of a payload; the fields from review on are arguments of `planner.plan`.

    reach: what its author may know of the platform's tools.
    """

    database: Database
    payload: Payload
    review: Mode | None = None
    while_waiting: WhileWaiting | None = None
    trusted: bool = False
    restore: bool = False
    reach: Reach | None = None

    def run(
        self, actor: str, *, dry_run: bool = False, reason: str = "", progress: Progress | None = None
    ) -> SyncReport:
        """Plans the sync and, unless `dry_run`, applies it.

        Raises:
            InvalidDefinition, Conflict: all problems together; nothing was written. Not with `dry_run`.
            StoreUnavailable: the database failed; nothing was written.
        """
        words(actor, "actor")
        words(reason, "reason")
        with self.database.reading() as connection:
            revision = revision_in(connection)
            draft = self._draft(connection)
        if dry_run:
            return SyncReport(draft.plan, revision, is_applied=False, dry_run=True)
        draft.plan.check()
        if draft.plan.is_empty:
            return SyncReport(draft.plan, revision, is_applied=False)
        with self.database.writing(actor, self.payload.org) as write:
            if write.revision != revision + 1:  # somebody wrote meanwhile
                draft = self._draft(write.connection)
                draft.plan.check()
            if draft.plan.is_empty:
                write.abandon()
                return SyncReport(draft.plan, write.revision - 1, is_applied=False)
            _Writer(write, draft, self.payload, reason, progress).apply()
        return SyncReport(draft.plan, write.revision, is_applied=True)

    def _draft(self, connection: sa.Connection) -> _Draft:
        state = _read(connection, self.payload, self.reach)
        planned = plan(
            state,
            self.payload,
            review=self.review,
            while_waiting=self.while_waiting,
            trusted=self.trusted,
            restore=self.restore,
        )
        waiting = _waiting(state, planned)
        ids = [
            step.before.tool_id
            for step in planned.tools
            if step.before and step.action not in ("leave", "adopt")
        ]
        ids += (row.tool_id for row in waiting)
        records = {
            record.tool.tool_id: record
            for batch in batches(ids, _IDS)
            for record in read_records(connection, tables.tools.c.tool_id.in_(batch))
        }
        planned = _with_served_versions(connection, planned, waiting, records, self.payload.tools)
        return _Draft(_with_flags(planned, state, records), state, records)


# Reading


def _read(connection: sa.Connection, payload: Payload, reach: Reach | None) -> RegistryState:
    """The input of a plan: one query for the tools, and a few smaller ones.

    reach: what the author may know of the platform. The rest restricts a payload only where its tools would
    otherwise get more than their plugin has: in base toolkits, and by rules that allow.
    """
    org, plugin = payload.org, payload.plugin
    t = tables.tools.c
    # Deleted tools too: the plugin's own, and those that people deleted (a sync leaves no source hash).
    in_scope = sa.or_(t.deleted_at.is_(None), t.plugin.in_({plugin, ""}), t.source_hash.is_not(None))
    tools = _read_tools(connection, t.org == org, in_scope)
    state = RegistryState(
        tools=tools,
        toolkits=_read_toolkits(connection, org, plugin),
        pages=_read_pages(connection, org, plugin),
        approved=_read_approved(connection, org) if any(tool.review != "approved" for tool in tools) else {},
        plugin=_read_plugin(connection, org, plugin),
        tiers=tiers_in(connection),
        rules=_read_rules(connection, org, reach) if plugin else {},
    )
    own = {row.name for row in state.toolkits if not row.is_deleted and row.plugin == plugin}
    places = {tool.toolkit for tool in payload.tools.values()} - own - payload.toolkits.keys() - {""}
    if plugin and (places or own != payload.toolkits.keys()):
        state = replace(state, mentioned=_read_mentioned(connection, state.tools, org, plugin, reach))
    if plugin and payload.tools.keys() - {tool.name for tool in tools if not tool.is_deleted}:
        state = replace(state, members=_read_members(connection, org, plugin))
    k = tables.toolkits.c
    if not org:
        others = (k.org != org, k.parent.is_not(None), tables.toolkits.c.deleted_at.is_(None))
        return replace(state, parents=frozenset(_texts(connection, k.parent, *others)))
    shared = _texts(connection, t.name, t.org == "", t.deleted_at.is_(None))
    return replace(
        state,
        shared_tools=frozenset(name for name in shared if knows_tool(reach, name)),
        shared_toolkits=_read_shared_toolkits(connection, reach),
    )


def _read_shared_toolkits(connection: sa.Connection, reach: Reach | None) -> dict[str, str | None]:
    """The platform's toolkits that restrict a payload of an organisation, with their parents."""
    k = tables.toolkits.c
    columns = (k.name, k.parent, k.base)
    rows = list(read_rows(connection, columns, k.org == "", tables.toolkits.c.deleted_at.is_(None)))
    base = {row["name"] for row in rows if row["base"]}
    parents: dict[str, str | None] = {row["name"]: row["parent"] for row in rows}

    def is_base(name: str) -> bool:
        above = dict.fromkeys((name,))
        while (parent := parents.get(next(reversed(above)))) is not None and parent not in above:
            above[parent] = None
        return not base.isdisjoint(above)

    return {name: parent for name, parent in parents.items() if knows_toolkit(reach, name) or is_base(name)}


def _read_tools(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[ToolState]:
    """The tools."""
    t = tables.tools.c
    columns = (t.deleted_at.is_not(None) if name == "is_deleted" else t[name] for name in ToolState._fields)
    found = connection.execute(sa.select(*columns).where(*where).order_by(t.revision))
    return [ToolState(*row) for row in found]


def _texts(connection: sa.Connection, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> set[str]:
    """The different texts in a column."""
    return set(connection.execute(sa.select(column).distinct().where(*where)).scalars())


def _read_rules(connection: sa.Connection, org: str, reach: Reach | None) -> dict[tuple[str, str], list[str]]:
    """The targets of rules that apply to the organisation; for the platform, of all rules.

    Rules of the platform have no name within a reach. What they only deny there is as if nobody named it.
    """
    r = tables.visibility_rules.c
    where = [tables.visibility_rules.c.deleted_at.is_(None)]
    if org:
        where.append(r.org.in_({"", org}))
    rows = read_rows(connection, (r.org, r.tool, r.toolkit, r.name, r.effect), *where)
    found: dict[tuple[str, str], list[str]] = {}
    for row in sorted(rows, key=itemgetter("name")):
        tool, toolkit = row["tool"], row["toolkit"]
        name = known_rule(row, reach) or (UNNAMED if row["effect"] == "allow" else "")
        if name:
            found.setdefault(("tool", tool) if tool else ("toolkit", toolkit), []).append(name)
    return found


def _read_members(connection: sa.Connection, org: str, plugin: str) -> dict[str, str]:
    """The members of somebody else's toolkits; an organisation's toolkit may mean the platform's tools."""
    k = tables.toolkits.c
    where = [tables.toolkits.c.deleted_at.is_(None), sa.cast(k.members, sa.Text) != "[]"]
    if org:
        where.append(k.org == org)
    found: dict[str, str] = {}
    for row in read_rows(connection, (k.org, k.name, k.plugin, k.members), *where):
        if (row["org"], row["plugin"]) != (org, plugin):
            found |= dict.fromkeys(row["members"], row["name"])
    return found


def _read_mentioned(
    connection: sa.Connection, own: Iterable[ToolState], org: str, plugin: str, reach: Reach | None
) -> set[str]:
    """Toolkits that tools or page mappings of somebody else name."""
    t, p = tables.tools.c, tables.page_mappings.c
    found = {tool.toolkit for tool in own if not tool.is_deleted and tool.plugin != plugin}
    others = t.org == "" if org else t.org != ""
    elsewhere = _texts(connection, t.toolkit, t.deleted_at.is_(None), others)
    found |= {name for name in elsewhere if knows_toolkit(reach, name)} if org else elsewhere
    where = [tables.page_mappings.c.deleted_at.is_(None), sa.or_(p.org != org, p.plugin != plugin)]
    if org:
        where.append(p.org.in_({"", org}))
    for row in read_rows(connection, (p.org, p.toolkits), *where):
        named = row["toolkits"]
        found.update(name for name in named if row["org"] or not org or knows_toolkit(reach, name))
    return found - {""}


def _read_approved(connection: sa.Connection, org: str) -> dict[str, str]:
    t, v = tables.tools.c, tables.tool_versions.c
    found = connection.execute(
        sa.select(t.tool_id, v.content_hash)
        .join_from(
            tables.tools,
            tables.tool_versions,
            sa.and_(v.tool_id == t.tool_id, v.version == t.approved_version),
        )
        .where(t.org == org, t.review != "approved")
    )
    return {tool_id: digest for tool_id, digest in found}


def _read_toolkits(connection: sa.Connection, org: str, plugin: str) -> list[ToolkitState]:
    k = tables.toolkits.c
    in_scope = (k.org == org, sa.or_(tables.toolkits.c.deleted_at.is_(None), k.plugin == plugin))
    return [
        ToolkitState(
            row["toolkit_id"],
            row["name"],
            row["plugin"],
            row["version"],
            row["deleted_at"] is not None,
            {name: row[name] for name in TOOLKIT_FIELDS},
        )
        for row in read_rows(connection, list(tables.toolkits.c), *in_scope, order_by=(k.revision,))
    ]


def _read_pages(connection: sa.Connection, org: str, plugin: str) -> list[PageState]:
    p = tables.page_mappings.c
    in_scope = (p.org == org, p.plugin == plugin)
    return [
        PageState(
            *(row["page_id"], row["pattern"], tuple(row["toolkits"]), row["priority"], row["plugin"]),
            *(row["version"], row["deleted_at"] is not None),
        )
        for row in read_rows(connection, list(tables.page_mappings.c), *in_scope, order_by=(p.page_id,))
    ]


def _read_plugin(connection: sa.Connection, org: str, plugin: str) -> tuple[str, str, str, str] | None:
    p = tables.plugins.c
    columns = (p.version, p.payload_hash, p.review, p.while_waiting)
    found = connection.execute(sa.select(*columns).where(p.org == org, p.name == plugin)).first()
    return None if found is None else (found.version, found.payload_hash, found.review, found.while_waiting)


# What serves meanwhile


def _waiting(state: RegistryState, planned: SyncPlan) -> list[ToolState]:
    """Tools of the plugin whose change goes on waiting, where that may be a reason to write."""
    if not planned.plugin:
        return []
    changing = {step.name for step in planned.tools if step.action not in ("adopt", "leave")}
    return [
        row
        for row in state.tools
        if row.plugin == planned.plugin
        and row.review == "changed"
        and not row.is_deleted
        and row.name not in changing
        and (planned.while_waiting == "approved" or row.served_version is not None)
    ]


def _with_served_versions(
    connection: sa.Connection,
    planned: SyncPlan,
    waiting: Iterable[ToolState],
    records: Mapping[str, Record],
    sent: Collection[str],
) -> SyncPlan:
    """The plan with the versions that serve while their tools wait.

    A tool that was waiting already gets a step if another version, or none, serves from now on. sent: names
    of the tools in the payload.
    """

    def served_version(row: ToolState, tool: Tool) -> int | None:
        if planned.while_waiting == "hidden" or row.approved_version is None:
            return None
        if row.review == "approved":
            approved = records[row.tool_id].tool
        elif (version := find_version(connection, row.tool_id, row.approved_version)) is not None:
            approved = version.tool
        else:
            return None
        return row.approved_version if may_serve(approved, tool) else None

    steps = {
        step.name: replace(step, served_version=served_version(step.before, step.tool))
        if step.is_held and step.before is not None and step.tool is not None
        else step
        for step in planned.tools
    }
    unchanged = planned.unchanged
    for row in waiting:
        tool = records[row.tool_id].tool
        if (served := served_version(row, tool)) != row.served_version:
            step = steps.get(row.name)
            source = step.source_hash if step and step.action == "adopt" else row.source_hash
            why = step.why if step and step.why else "waits for approval"
            steps[row.name] = ToolStep(
                *("change", row.name, tool, source, row, row.review, why),
                is_kept=True,
                served_version=served,
            )
            unchanged -= step is None and row.name in sent
    return replace(planned, tools=tuple(steps[name] for name in sorted(steps)), unchanged=unchanged)


# Flags


def _with_flags(planned: SyncPlan, state: RegistryState, records: Mapping[str, Record]) -> SyncPlan:
    """The plan with the changed fields and the flags of each tool."""
    names: Lookalikes | None = None
    if any(step.action in ("create", "restore") for step in planned.tools):
        names = Lookalikes(tool.name for tool in state.tools if not tool.is_deleted)
        for name in state.shared_tools:
            names.add(name)
        for step in planned.tools:
            if step.action in ("create", "restore"):
                names.add(step.name)
    return replace(planned, tools=tuple(_step_with_flags(step, records, names) for step in planned.tools))


def _step_with_flags(step: ToolStep, records: Mapping[str, Record], names: Lookalikes | None) -> ToolStep:
    tool = step.tool
    if tool is None:
        return step
    flags = flags_of(tool, None if step.action == "change" else names)
    if step.asked:
        asked = ", ".join(step.asked)
        flags += (Flag(GOVERNED_FLAG, f"its plugin asks for {asked}, which only people decide"),)
    if step.before is None:
        return replace(step, flags=flags) if flags else step
    record = records[step.before.tool_id]
    before = record.tool
    old = [Flag.from_dict(flag) for flag in record.flags]
    if tool is before:  # only another version serves meanwhile
        return replace(step, flags=tuple(old), fields=("served_version",))
    flags += tuple(_change_flags(before, tool))
    # Flags of earlier changes stay until somebody approves the tool.
    codes = {flag.code for flag in flags}
    flags += tuple(flag for flag in old if flag.code in _LASTING and flag.code not in codes)
    if step.action == "change":
        flags += tuple(flag for flag in old if flag.code == "confusable")  # the name has not changed
    return replace(step, flags=flags, fields=changed_fields(before, tool))


def _change_flags(before: Tool, after: Tool) -> Iterator[Flag]:
    yield from map(Flag.from_dict, major_version_flag(before, after))
    yield from hint_flags(before, after)
    if before.toolkit != after.toolkit:
        yield Flag(
            MOVED,
            f"toolkit was {before.toolkit!r}, is {after.toolkit!r}: "
            "rules that name a toolkit may no longer reach it",
        )


# Writing


class _Writer:
    """Applies one plan within one transaction."""

    def __init__(
        self, write: Write, draft: _Draft, payload: Payload, reason: str, progress: Progress | None
    ) -> None:
        self._write, self._draft, self._plan = write, draft, draft.plan
        self._payload, self._reason = payload, reason
        self._progress, self._done, self._total = progress, 0, 0

    def apply(self) -> None:
        """Writes all steps, and the line in the log last."""
        if self._plan.tiers:
            write_tiers(self._write, (), self._plan.tiers, self._reason)
        steps = [step for step in self._plan.tools if step.action != "leave"]
        self._total = len(steps)
        self._change_tools([step for step in steps if step.action != "adopt"])
        self._adopt([step for step in steps if step.action == "adopt"])
        for toolkit in self._plan.toolkits:
            self._change_toolkit(toolkit)
        for page in self._plan.pages:
            self._change_page(page)
        if self._payload.plugin:
            self._update_plugin()
        details: dict[str, Any] = {
            "plugin_version": self._plan.version,
            "review": self._plan.review,
            "counts": self._plan.counts,
        }
        for action in ("create", "change", "restore", "delete"):
            if names := self._plan.names(action):
                details[action] = list(names[:_LOGGED])
        action = "sync" if self._payload.plugin else "import"
        self._write.log(action, self._payload.plugin, details, self._reason)

    def _change_tools(self, steps: Sequence[ToolStep]) -> None:
        edits = ToolEdits(self._write)
        for batch in batches(steps, _BATCH):
            for step in batch:
                self._change_tool(edits, step)
            edits.flush()
            self._report(len(batch))

    def _change_tool(self, edits: ToolEdits, step: ToolStep) -> None:
        flags = tuple(flag.to_dict() for flag in step.flags)
        if step.before is None:
            assert step.tool is not None
            edits.create(
                step.tool,
                org=self._write.org,
                plugin=self._plan.plugin,
                review=step.review,
                flags=flags,
                is_source=step.source_hash is not None,
                reason=self._reason,
                digest=self._payload.hashes[step.name],
            )
            return
        before = self._draft.records[step.before.tool_id]
        if step.tool is None:
            # No source hash: the plugin dropped the tool, people did not delete it.
            state: dict[str, Any] = {"deleted_at": self._write.at, "source_hash": None}
            edits.change("tool.delete", before, reason=self._reason, **state)
            return
        edits.change(
            "tool.restore" if step.action == "restore" else "tool.update",
            before,
            step.tool,
            reason=self._reason,
            digest="" if step.is_kept else self._payload.hashes[step.name],
            review=step.review,
            flags=flags,
            source_hash=step.source_hash,
            served_version=step.served_version,
            deleted_at=None,
        )

    def _adopt(self, steps: Sequence[ToolStep]) -> None:
        """Updates source hashes only. The tools do not change: no version, no new date."""
        t = tables.tools.c
        statement = (
            sa.update(tables.tools)
            .where(t.tool_id == sa.bindparam("of_tool"))
            .values(source_hash=sa.bindparam("source_hash"))
        )
        for batch in batches(steps, _BATCH):
            values = [
                {"of_tool": step.before.tool_id, "source_hash": step.source_hash}
                for step in batch
                if step.before
            ]
            self._write.connection.execute(statement, values)
            self._report(len(batch))

    def _change_toolkit(self, step: ToolkitStep) -> None:
        before = step.before.content if step.before else {}
        after = step.content or {}
        if step.before is None:
            values = {"name": step.name, "plugin": self._plan.plugin, **after}
            governed_rows.insert(self._write, tables.toolkits, values)
        else:
            self._change_row(tables.toolkits, step.before.toolkit_id, step.action, after)
        details = {
            "before": {name: before[name] for name in step.fields or before},
            "after": {name: after[name] for name in step.fields or after},
        }
        self._write.log(f"toolkit.{step.action}", step.name, details, self._reason)

    def _change_page(self, step: PageStep) -> None:
        before, after = _page_values(step.before), _page_values(step.page)
        if step.before is None:
            values = {"pattern": step.pattern, "plugin": self._plan.plugin, **after}
            row = governed_rows.insert(self._write, tables.page_mappings, values)
        else:
            row = self._change_row(tables.page_mappings, step.before.page_id, step.action, after)
        details = {"page_id": row["page_id"], "before": before, "after": after}
        self._write.log(f"page.{step.action}", step.pattern, details, self._reason)

    def _change_row(
        self, table: sa.Table, key: str, action: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        (row,) = read_rows(self._write.connection, list(table.c), next(iter(table.primary_key)) == key)
        deleted_at = self._write.at if action == "delete" else None
        return governed_rows.change(self._write, table, row, {**values, "deleted_at": deleted_at})

    def _update_plugin(self) -> None:
        write = self._write
        p = tables.plugins.c
        values = {
            "version": self._plan.version,
            "payload_hash": self._payload.digest,
            "review": self._plan.review,
            "while_waiting": self._plan.while_waiting,
            "tools": len(self._payload.tools),
            "synced_at": write.at,
            "synced_by": write.actor,
            "revision": write.revision,
        }
        if self._draft.state.plugin is None:
            values |= {"org": write.org, "name": self._payload.plugin}
            write.connection.execute(sa.insert(tables.plugins), values)
        else:
            row = (p.org == write.org, p.name == self._payload.plugin)
            write.connection.execute(sa.update(tables.plugins).where(*row).values(values))

    def _report(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            self._progress(self._done, self._total)


def _page_values(page: PageState | PageMapping | None) -> dict[str, Any]:
    return {} if page is None else {"toolkits": list(page.toolkits), "priority": page.priority}
