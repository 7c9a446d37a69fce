"""Carries out a sync: what a plugin sends becomes what the registry holds, whole or not at all.

    read the hashes  →  plan  →  nothing to do: done, nothing was written
                              →  one transaction: tools, versions, toolkits, pages, the plugin, the log

Hashing and planning happen before the registry is locked. If nobody wrote in between, as the revision tells,
the plan holds; otherwise it is made again under the lock, from the hashes that are there already.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa

from toolroll.errors import InvalidInput
from toolroll.registry.content import changed_fields
from toolroll.registry.flags import GOVERNED as GOVERNED_FLAG
from toolroll.registry.flags import Flag, Lookalikes, flags_of
from toolroll.registry.records import Record, record_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, Write, words
from toolroll.registry.sync.payload import Payload
from toolroll.registry.sync.plan import MODES, Held, HeldPage, HeldTool, HeldToolkit, Mode, SyncPlan, ToolStep
from toolroll.registry.sync.planner import plan
from toolroll.registry.tiers import tiers_in
from toolroll.registry.tool_edits import Edits, major
from toolroll.tools import Definitions, Tool

MAJOR = "major"  # as `edits.major` flags it
MOVED = "moved"  # another toolkit: rules that name the old one no longer reach it

Progress = Callable[[int, int], None]  # done, of how many

_BATCH = 1_000  # rows of a statement: what is prepared at a time
_IDS = 500  # ids in one IN
_LOGGED = 100  # names of a kind in a line of the log; the versions have all of them
_LONGEST_PLUGIN = 200


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did, or with `dry_run` would do.

    Attributes:
        plan: what was to be done.
        revision: the registry's, afterwards.
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


def sync(
    database: Database,
    definitions: Definitions,
    *,
    actor: str,
    plugin: str,
    version: str = "",
    org: str = "",
    review: Mode | None = None,
    trusted: bool = False,
    dry_run: bool = False,
    reason: str = "",
    progress: Progress | None = None,
) -> SyncReport:
    """Makes the plugin's tools, toolkits and page mappings those of the definitions.

    Args:
        database: where.
        definitions: what the plugin has.
        actor: who syncs, for the history.
        org: whose catalog it is; "" the platform's.
        reason: why, for the history.
        plugin: whose they are; what another plugin or people hold is a conflict.
        version: the plugin's own, kept for people.
        review: "auto" (what it sends is selected), "changed" (changed tools wait for approval), "all" (new
            ones too). None keeps the plugin's mode, "auto" at first.
        trusted: see `planning.plan`.
        dry_run: only says what would be done; conflicts are in the plan, not raised.
        progress: called with the tools written so far, and how many there are.

    Raises:
        InvalidDefinition, Conflict: all that is wrong, at once; nothing was done.
        StoreUnavailable: the database; nothing was done.
    """
    words(plugin, "plugin", _LONGEST_PLUGIN)
    if not plugin:
        raise InvalidInput("plugin is '', must be its name; what belongs to no plugin is imported")
    if review is not None and review not in MODES:
        raise InvalidInput(f"review is {review!r}, must be one of {', '.join(MODES)}, or None for no change")
    return _Run(database, definitions, plugin, version, org, review, trusted).go(
        actor, dry_run, reason, progress
    )


def import_(
    database: Database,
    definitions: Definitions,
    *,
    actor: str,
    org: str = "",
    dry_run: bool = False,
    restore: bool = False,
    reason: str = "",
    progress: Progress | None = None,
) -> SyncReport:
    """Adds the operator's own definitions, and updates those of the same names; deletes nothing.

    They belong to no plugin and need no approval. New ones govern themselves; of those that are there what
    people decided since stays: their governance (`content.GOVERNED`), and their texts until the definitions
    change. What people deleted stays deleted, unless `restore` brings it back. Raises as `sync` does.
    """
    run = _Run(database, definitions, "", "", org, None, True, restore)
    return run.go(actor, dry_run, reason, progress)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A plan, and the tools that it changes as they are.

    Attributes:
        records: by tool_id.
    """

    plan: SyncPlan
    held: Held
    records: Mapping[str, Record]


class _Run:
    """One sync, from the payload to the report."""

    def __init__(
        self,
        database: Database,
        definitions: Definitions,
        plugin: str,
        version: str,
        org: str,
        review: Mode | None,
        trusted: bool,
        restore: bool = False,
    ) -> None:
        if not isinstance(definitions, Definitions):
            raise InvalidInput(f"definitions is {type(definitions).__name__}, must be Definitions")
        words(org, "org")
        words(version, "version")
        self._database = database
        self._payload = Payload.of(definitions, plugin=plugin, org=org, version=version)
        self._review: Mode | None = review
        self._trusted, self._restore = trusted, restore

    def go(self, actor: str, dry_run: bool, reason: str, progress: Progress | None) -> SyncReport:
        words(actor, "actor")
        words(reason, "reason")
        with self._database.reading() as connection:
            revision = int(connection.execute(sa.select(tables.registry_state.c.revision)).scalar_one())
            draft = self._draft(connection)
        if dry_run:
            return SyncReport(draft.plan, revision, is_applied=False, dry_run=True)
        draft.plan.check()
        if draft.plan.is_empty:
            return SyncReport(draft.plan, revision, is_applied=False)
        with self._database.writing(actor, self._payload.org) as write:
            if write.revision != revision + 1:  # somebody was faster
                draft = self._draft(write.connection)
                draft.plan.check()
            if draft.plan.is_empty:
                write.abandon()
                return SyncReport(draft.plan, write.revision - 1, is_applied=False)
            _Writer(write, draft, self._payload.hashes, reason, progress).apply(self._payload)
        return SyncReport(draft.plan, write.revision, is_applied=True)

    def _draft(self, connection: sa.Connection) -> _Draft:
        held = _read(connection, self._payload)
        planned = plan(held, self._payload, review=self._review, trusted=self._trusted, restore=self._restore)
        ids = [
            step.before.tool_id
            for step in planned.tools
            if step.before and step.action not in ("leave", "adopt")
        ]
        records = {
            row.tool_id: record_of(row)
            for batch in _batches(ids, _IDS)
            for row in connection.execute(sa.select(tables.tools).where(tables.tools.c.tool_id.in_(batch)))
        }
        return _Draft(_looked_at(planned, held, records), held, records)


# Reading


def _read(connection: sa.Connection, payload: Payload) -> Held:
    """What a plan is made from: one read of the tools, a few of what is much less."""
    org, plugin = payload.org, payload.plugin
    t = tables.tools.c
    # Of those that are deleted the plugin's own, and what people deleted: a sync leaves no source hash.
    mine = sa.or_(t.deleted_at.is_(None), t.plugin.in_({plugin, ""}), t.source_hash.is_not(None))
    found = connection.execute(
        sa.select(
            t.tool_id,
            t.name,
            t.plugin,
            t.version,
            t.content_hash,
            t.source_hash,
            t.review,
            t.approved_version,
            t.rejected_hash,
            t.deleted_at.is_not(None),
            t.status,
            t.public,
            t.pinned,
            t.pin_weight,
            t.interchangeable,
            t.toolkit,
        )
        .where(t.org == org, mine)
        .order_by(t.revision)
    )
    tools = [HeldTool(*row) for row in found]
    held = Held(
        tools=tools,
        toolkits=_read_toolkits(connection, org, plugin),
        pages=_read_pages(connection, org, plugin),
        approved=_read_approved(connection, org) if any(tool.review != "approved" for tool in tools) else {},
        plugin=_read_plugin(connection, org, plugin),
        tiers=tiers_in(connection),
        rules=_read_rules(connection, org) if plugin else {},
    )
    own = {row.name for row in held.toolkits if not row.is_deleted and row.plugin == plugin}
    places = {tool.toolkit for tool in payload.tools.values()} - own - payload.toolkits.keys() - {""}
    if plugin and (places or own != payload.toolkits.keys()):
        held = replace(held, mentioned=_read_mentioned(connection, held.tools, org, plugin))
    if plugin and payload.tools.keys() - {tool.name for tool in tools if not tool.is_deleted}:
        held = replace(held, members=_read_members(connection, org, plugin))
    k = tables.toolkits.c
    if not org:
        others = (
            sa.select(k.parent).distinct().where(k.org != org, k.parent.is_not(None), k.deleted_at.is_(None))
        )
        return replace(held, parents=frozenset(connection.execute(others).scalars()))
    names = sa.select(t.name).where(t.org == "", t.deleted_at.is_(None))
    above = sa.select(k.name, k.parent).where(k.org == "", k.deleted_at.is_(None))
    return replace(
        held,
        shared_tools=frozenset(connection.execute(names).scalars()),
        shared_toolkits={name: parent for name, parent in connection.execute(above)},
    )


def _read_rules(connection: sa.Connection, org: str) -> dict[tuple[str, str], list[str]]:
    """What the rules name that concern the organisation; everybody's where it is the platform."""
    r = tables.visibility_rules.c
    query = sa.select(r.tool, r.toolkit, r.name).where(r.deleted_at.is_(None)).order_by(r.name)
    found: dict[tuple[str, str], list[str]] = {}
    for tool, toolkit, name in connection.execute(query.where(r.org.in_({"", org})) if org else query):
        found.setdefault(("tool", tool) if tool else ("toolkit", toolkit), []).append(name)
    return found


def _read_members(connection: sa.Connection, org: str, plugin: str) -> dict[str, str]:
    """What toolkits of others have as members; those of an organisation may mean the platform's tools."""
    k = tables.toolkits.c
    query = sa.select(k.org, k.name, k.plugin, k.members).where(
        k.deleted_at.is_(None), sa.cast(k.members, sa.Text) != "[]"
    )
    found: dict[str, str] = {}
    for whose, name, by, members in connection.execute(query.where(k.org == org) if org else query):
        if (whose, by) != (org, plugin):
            found |= dict.fromkeys(members, name)
    return found


def _read_mentioned(connection: sa.Connection, own: Iterable[HeldTool], org: str, plugin: str) -> set[str]:
    """Toolkits that tools or page mappings of others name."""
    t, p = tables.tools.c, tables.page_mappings.c
    found = {tool.toolkit for tool in own if not tool.is_deleted and tool.plugin != plugin}
    tools = sa.select(t.toolkit).distinct().where(t.deleted_at.is_(None))
    found.update(connection.execute(tools.where(t.org == "" if org else t.org != "")).scalars())
    pages = sa.select(p.toolkits).where(p.deleted_at.is_(None), sa.or_(p.org != org, p.plugin != plugin))
    for toolkits in connection.execute(pages.where(p.org.in_({"", org})) if org else pages).scalars():
        found.update(toolkits)
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


_TOOLKIT = ("description", "parent", "settings_keys", "base", "tier", "keywords", "patterns", "members")


def _read_toolkits(connection: sa.Connection, org: str, plugin: str) -> list[HeldToolkit]:
    k = tables.toolkits.c
    found = connection.execute(
        sa.select(tables.toolkits)
        .where(k.org == org, sa.or_(k.deleted_at.is_(None), k.plugin == plugin))
        .order_by(k.revision)
    )
    return [
        HeldToolkit(
            row["toolkit_id"],
            row["name"],
            row["plugin"],
            row["version"],
            row["deleted_at"] is not None,
            {name: row[name] for name in _TOOLKIT},
        )
        for row in found.mappings()
    ]


def _read_pages(connection: sa.Connection, org: str, plugin: str) -> list[HeldPage]:
    p = tables.page_mappings.c
    found = connection.execute(
        sa.select(tables.page_mappings).where(p.org == org, p.plugin == plugin).order_by(p.page_id)
    )
    return [
        HeldPage(
            row["page_id"],
            row["pattern"],
            tuple(row["toolkits"]),
            row["priority"],
            row["plugin"],
            row["version"],
            row["deleted_at"] is not None,
        )
        for row in found.mappings()
    ]


def _read_plugin(connection: sa.Connection, org: str, plugin: str) -> tuple[str, str, str] | None:
    p = tables.plugins.c
    found = connection.execute(
        sa.select(p.version, p.payload_hash, p.review).where(p.org == org, p.name == plugin)
    ).first()
    return None if found is None else (found.version, found.payload_hash, found.review)


# Looking


def _looked_at(planned: SyncPlan, held: Held, records: Mapping[str, Record]) -> SyncPlan:
    """The plan with the fields that change, and with what people should look at."""
    names: Lookalikes | None = None
    if any(step.action in ("create", "restore") for step in planned.tools):
        names = Lookalikes(tool.name for tool in held.tools if not tool.is_deleted)
        for name in held.shared_tools:
            names.add(name)
        for step in planned.tools:
            if step.action in ("create", "restore"):
                names.add(step.name)
    return replace(planned, tools=tuple(_looked_at_step(step, records, names) for step in planned.tools))


def _looked_at_step(step: ToolStep, records: Mapping[str, Record], names: Lookalikes | None) -> ToolStep:
    tool = step.tool
    if tool is None:
        return step
    flags = flags_of(tool, None if step.action == "change" else names)
    if step.asked:
        asked = ", ".join(step.asked)
        flags += (Flag(GOVERNED_FLAG, f"its plugin asks for {asked}, which is for people to say"),)
    if step.before is None:
        return replace(step, flags=flags) if flags else step
    record = records[step.before.tool_id]
    before = record.tool
    kept = [Flag.from_dict(flag) for flag in record.flags]
    flags += tuple(_moves(before, tool))
    # What happened to the tool since somebody approved it, beside what is odd about it now.
    codes = {flag.code for flag in flags}
    flags += tuple(flag for flag in kept if flag.code in (MAJOR, MOVED) and flag.code not in codes)
    if step.action == "change":
        flags += tuple(flag for flag in kept if flag.code == "confusable")  # of its name, which stays
    return replace(step, flags=flags, fields=changed_fields(before, tool))


def _moves(before: Tool, after: Tool) -> Iterator[Flag]:
    yield from map(Flag.from_dict, major(before, after))
    if before.toolkit != after.toolkit:
        yield Flag(
            MOVED,
            f"toolkit was {before.toolkit!r}, is {after.toolkit!r}: "
            "rules that name a toolkit may no longer reach it",
        )


# Writing


class _Writer:
    """Carries out one plan within one transaction."""

    def __init__(
        self, write: Write, draft: _Draft, hashes: Mapping[str, str], reason: str, progress: Progress | None
    ) -> None:
        self._write, self._draft, self._hashes, self._reason = write, draft, hashes, reason
        self._progress, self._done, self._all = progress, 0, 0

    def apply(self, payload: Payload) -> None:
        """Writes all of it, the line in the log last."""
        planned = self._draft.plan
        steps = [step for step in planned.tools if step.action != "leave"]
        self._all = len(steps)
        self._tools([step for step in steps if step.action != "adopt"])
        self._adopt([step for step in steps if step.action == "adopt"])
        self._toolkits()
        self._pages()
        if payload.plugin:
            self._plugin(payload)
        said: dict[str, Any] = {
            "version": planned.version,
            "review": planned.review,
            "counts": planned.counts,
        }
        for action in ("create", "change", "restore", "delete"):
            if names := planned.names(action):
                said[action] = list(names[:_LOGGED])
        self._write.log("sync" if payload.plugin else "import", payload.plugin, said, self._reason)

    def _tools(self, steps: Sequence[ToolStep]) -> None:
        plugin, reason = self._draft.plan.plugin, self._reason
        edits = Edits(self._write)
        for batch in _batches(steps, _BATCH):
            for step in batch:
                flags = tuple(flag.to_dict() for flag in step.flags)
                before = self._draft.records[step.before.tool_id] if step.before else None
                if before is None:
                    assert step.tool is not None
                    edits.create(
                        step.tool,
                        org=self._write.org,
                        plugin=plugin,
                        review=step.review,
                        flags=flags,
                        is_source=step.source_hash is not None,
                        reason=reason,
                        digest=self._hashes[step.name],
                    )
                elif step.tool is None:
                    # Without source hash: it is the plugin that does not send it, not people who deleted it.
                    edits.change(
                        "tool.delete", before, reason=reason, deleted_at=self._write.at, source_hash=None
                    )
                else:
                    edits.change(
                        "tool.restore" if step.action == "restore" else "tool.update",
                        before,
                        step.tool,
                        reason=reason,
                        digest="" if step.is_kept else self._hashes[step.name],
                        review=step.review,
                        flags=flags,
                        source_hash=step.source_hash,
                        deleted_at=None,
                    )
            edits.flush()
            self._tell(len(batch))

    def _adopt(self, steps: Sequence[ToolStep]) -> None:
        """Notes what the plugin sends now. The tool stays what it is: no version, no new date."""
        t = tables.tools.c
        for batch in _batches(steps, _BATCH):
            self._write.connection.execute(
                sa.update(tables.tools)
                .where(t.tool_id == sa.bindparam("of_tool"))
                .values(source_hash=sa.bindparam("source_hash")),
                [
                    {"of_tool": step.before.tool_id, "source_hash": step.source_hash}
                    for step in batch
                    if step.before
                ],
            )
            self._tell(len(batch))

    def _toolkits(self) -> None:
        write = self._write
        k = tables.toolkits.c
        for step in self._draft.plan.toolkits:
            values = dict(step.content or {}) | self._touched()
            values["deleted_at"] = write.at if step.action == "delete" else None
            if step.before is None:
                values |= {
                    "toolkit_id": uuid.uuid4().hex,
                    "org": write.org,
                    "name": step.name,
                    "plugin": self._draft.plan.plugin,
                    "version": 1,
                    "created_at": write.at,
                }
                write.connection.execute(sa.insert(tables.toolkits), values)
            else:
                values["version"] = step.before.version + 1
                write.connection.execute(
                    sa.update(tables.toolkits).where(k.toolkit_id == step.before.toolkit_id).values(values)
                )
            was = step.before.content if step.before else {}
            now = step.content or {}
            details = {
                "before": {name: was[name] for name in step.fields or was},
                "after": {name: now[name] for name in step.fields or now},
            }
            write.log(f"toolkit.{step.action}", step.name, details, self._reason)

    def _pages(self) -> None:
        write = self._write
        p = tables.page_mappings.c
        for step in self._draft.plan.pages:
            values = self._touched() | {"deleted_at": write.at if step.action == "delete" else None}
            if step.page is not None:
                values |= {"toolkits": list(step.page.toolkits), "priority": step.page.priority}
            if step.before is None:
                values |= {
                    "page_id": uuid.uuid4().hex,
                    "org": write.org,
                    "pattern": step.pattern,
                    "plugin": self._draft.plan.plugin,
                    "version": 1,
                    "created_at": write.at,
                }
                write.connection.execute(sa.insert(tables.page_mappings), values)
            else:
                values["version"] = step.before.version + 1
                write.connection.execute(
                    sa.update(tables.page_mappings).where(p.page_id == step.before.page_id).values(values)
                )
            details = {
                "before": [list(step.before.toolkits), step.before.priority] if step.before else None,
                "after": [list(step.page.toolkits), step.page.priority] if step.page else None,
            }
            write.log(f"page.{step.action}", step.pattern, details, self._reason)

    def _plugin(self, payload: Payload) -> None:
        write = self._write
        p = tables.plugins.c
        values = {
            "version": self._draft.plan.version,
            "payload_hash": payload.digest,
            "review": self._draft.plan.review,
            "tools": len(payload.tools),
            "synced_at": write.at,
            "synced_by": write.actor,
            "revision": write.revision,
        }
        if self._draft.held.plugin is None:
            write.connection.execute(
                sa.insert(tables.plugins), values | {"org": write.org, "name": payload.plugin}
            )
        else:
            write.connection.execute(
                sa.update(tables.plugins).where(p.org == write.org, p.name == payload.plugin).values(values)
            )

    def _touched(self) -> dict[str, Any]:
        write = self._write
        return {"updated_at": write.at, "updated_by": write.actor, "revision": write.revision}

    def _tell(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            self._progress(self._done, self._all)


_T = TypeVar("_T")


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
