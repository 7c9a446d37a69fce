"""The registry: adds, changes, approves and deletes tools, and keeps every version.

Each change is one transaction that writes the tool, its version and a line in the audit log, or nothing. An
editor passes the version that they read; if somebody has changed the tool since, they get a Conflict.

Edits of people need no approval, except on tools that await approval: fixing a tag must not approve an
unread description.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from toolroll.formats.sources.dicts import read_tools_for_registry
from toolroll.model.errors import Conflict, Denied, InvalidInput, NotFound
from toolroll.model.tools import STATUSES, Definitions, Status, Tool
from toolroll.registry.access.service_keys import ServiceKeys
from toolroll.registry.editing import queries, versions
from toolroll.registry.editing.audit import Audit
from toolroll.registry.editing.content import (
    COLUMNS,
    GOVERNED,
    attributes_of,
    content_hash,
    content_of,
    tool_of,
)
from toolroll.registry.editing.duplicates import Duplicates
from toolroll.registry.editing.field_owners import KEPT, edited
from toolroll.registry.editing.governed_rows import Reach
from toolroll.registry.editing.page_mappings import Pages
from toolroll.registry.editing.pins import Pins
from toolroll.registry.editing.queries import (
    check_choice,
    check_limit,
    check_version,
    find_tool,
    read_version,
)
from toolroll.registry.editing.records import Review, ToolPage, ToolRecord
from toolroll.registry.editing.review import WHILE_WAITING, WhileWaiting, may_serve
from toolroll.registry.editing.rules import Rules, rules_naming
from toolroll.registry.editing.settings import Settings
from toolroll.registry.editing.tiers import read_tiers, set_tiers
from toolroll.registry.editing.tool_edits import (
    ToolEdits,
    check_name,
    major_version_flag,
    merged_flags,
    tool_edits,
)
from toolroll.registry.editing.toolkits import Toolkits, is_toolkit, lineage, no_toolkit
from toolroll.registry.editing.versions import FieldDifference, ToolVersion
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, Write, checked_text
from toolroll.registry.store.read_replica import ReadReplica
from toolroll.registry.sync.payload import Payload
from toolroll.registry.sync.plan import MODES, ReviewMode
from toolroll.registry.sync.sync import Progress, Sync, SyncReport

_LONGEST_PLUGIN = 200  # characters
_versions = tables.tool_versions.c


class Registry:
    """The tools of a database, and the toolkits, rules and settings that govern them. Safe in any thread.

    Attributes:
        actor: the author of changes in the audit log.
        duplicates: proposals of tools that seem to do the same.
        keys: the keys of the service's callers.
        read_replica: the copy of the database that serves reports, or None.
        reach: the platform's tools and toolkits that the author may know; None for all.
    """

    def __init__(
        self,
        database: Database,
        actor: str = "",
        read_replica: ReadReplica | None = None,
        reach: Reach | None = None,
    ) -> None:
        self.database, self.read_replica, self.reach = database, read_replica, reach
        self.actor = actor
        self.toolkits = Toolkits(database, actor, reach)
        self.rules = Rules(database, actor, reach)
        self.pages = Pages(database, actor, reach)
        self.pins = Pins(database, actor, reach)
        self.settings = Settings(database, actor)
        self.duplicates = Duplicates(database, actor)
        self.keys = ServiceKeys(database, actor)
        self.audit = Audit(database)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        actor: str = "",
        create: bool = True,
        migrate: bool = False,
        read_replica: str | None = None,
    ) -> Registry:
        """Opens the registry at sqlite:///FILE or postgresql://USER@HOST/DATABASE.

        actor: the author of changes.
        create: creates an empty registry if there is none.
        migrate: upgrades the schema of a registry from an older toolroll.
        read_replica: the URL of a PostgreSQL with a copy, for `reports`. It need not answer now.

        Raises:
            InvalidInput, NotFound, StoreUnavailable: as in `Database.open`.
        """
        checked_text(actor, "actor")
        database = Database.open(url, create=create, migrate=migrate)
        try:
            replica = None if read_replica is None else ReadReplica(read_replica, database)
        except BaseException:
            database.close()
            raise
        return cls(database, actor, replica)

    def with_actor(self, actor: str, reach: Reach | None = None) -> Registry:
        """The registry with another author of changes, and their reach."""
        return Registry(self.database, actor, self.read_replica, reach)

    @property
    def reports(self) -> Database:
        """The database for analytics, lists of events and exports: the read replica, if there is one."""
        return self.read_replica or self.database

    def close(self) -> None:
        """Closes the connections."""
        self.database.close()
        if self.read_replica is not None:
            self.read_replica.close()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def tiers(self) -> tuple[str, ...]:
        """The subscription tiers, lowest first."""
        return read_tiers(self.database)

    def tool(self, name: str, *, org: str = "", deleted: bool = False) -> ToolRecord:
        """The tool with this name or tool_id; with `deleted`, else the last deleted tool.

        Raises NotFound, which suggests similar names.
        """
        with self.database.reading() as connection:
            return find_tool(connection, name, org, deleted=deleted, reach=self.reach)

    def tools(
        self,
        *,
        org: str | None = "",
        plugin: str | None = None,
        toolkit: str | None = None,
        status: Status | None = None,
        review: Review | None = None,
        flagged: bool | None = None,
        text: str | None = None,
        deleted: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> ToolPage:
        """A page of an organisation's tools that meet all conditions, ordered by name.

        org: None for all organisations.
        flagged: only tools with flags, or only tools without.
        text: a part of the name or the description; A to Z equal a to z.
        deleted: deleted tools instead of present ones.
        after: `next` of the page before.
        limit: at most 1,000.
        """
        where = queries.conditions(
            org=org,
            deleted=deleted,
            flagged=flagged,
            text=text,
            equal={"plugin": plugin, "toolkit": toolkit, "status": status, "review": review},
        )
        with self.database.reading() as connection:
            return queries.read_page(connection, where, after, limit)

    def history(
        self, name: str, *, org: str = "", before: int | None = None, limit: int = 100
    ) -> tuple[ToolVersion, ...]:
        """The versions of a tool, deleted or not, newest first; with `before`, only lower versions."""
        with self.database.reading() as connection:
            record = find_tool(connection, name, org, deleted=True, reach=self.reach)
            where = [] if before is None else [_versions.version < min(before, record.version + 1)]
            return versions.find_versions(connection, record.tool.tool_id, *where, limit=check_limit(limit))

    def diff(self, name: str, from_version: int, to_version: int, *, org: str = "") -> str:
        """The changes between two versions of a tool, as text for people."""
        return versions.difference(*self._two_versions(name, from_version, to_version, org))

    def differences(
        self, name: str, from_version: int, to_version: int, *, org: str = ""
    ) -> tuple[FieldDifference, ...]:
        """The changes between two versions of a tool: each field that differs, with both values."""
        return versions.field_differences(*self._two_versions(name, from_version, to_version, org))

    def _two_versions(
        self, name: str, from_version: int, to_version: int, org: str
    ) -> tuple[ToolVersion, ToolVersion]:
        with self.database.reading() as connection:
            record = find_tool(connection, name, org, deleted=True, reach=self.reach)
            before, after = (
                read_version(connection, record, number) for number in (from_version, to_version)
            )
        return before, after

    # Changing

    def set_tiers(self, tiers: Sequence[str], *, reason: str = "") -> tuple[str, ...]:
        """Sets the subscription tiers, lowest first; see `tiers.set_tiers`."""
        return set_tiers(self.database, self.actor, tiers, reason)

    def create(self, tool: Tool, *, org: str = "", reason: str = "") -> ToolRecord:
        """Adds a tool. Raises Conflict if the organisation or the platform has a tool with this name."""
        if not isinstance(tool, Tool):
            raise InvalidInput(f"tool is {type(tool).__name__}, must be a Tool")
        with tool_edits(self.database, self.actor, org) as edits:
            check_name(edits.write.connection, tool.name, org, reach=self.reach)
            return edits.create(tool, org=org, reason=reason)

    def update(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        version: int,
        give_back: Iterable[str] = (),
        force: bool = False,
        org: str = "",
        reason: str = "",
    ) -> ToolRecord:
        """Changes fields of a tool. Writes nothing if no field differs.

        Later definitions of its plugin do not change these fields any more.

        changes: field → value, by the names of `ToolRecord.to_dict`.
        version: the record's version when the caller read it.
        give_back: fields that get the plugin's value, and follow it from now on.
        force: allows changes that take the tool out of a rule.

        Raises:
            NotFound: there is no such tool.
            Conflict: the tool has another version, the new name is taken, or rules would lose the tool.
            InvalidInput: a field is unknown, a value is wrong, or there is no such toolkit.
        """
        values = attributes_of(changes)
        if not isinstance(status := values.get("status", ""), str):
            raise InvalidInput(f"status is {status!r:.80}, must be one of {', '.join(sorted(STATUSES))}")
        with self._editing(name, org, version) as (write, edits, record):
            back = _given_back(record, give_back)
            returned = tool_of({**content_of(record.tool), **attributes_of(back)}, record.tool.tool_id)
            tool = tool_of({**content_of(returned), **values}, record.tool.tool_id)
            state: dict[str, Any] = {}
            if back:
                kept = {field: sent for field, sent in record.source_values.items() if field not in back}
                flags = [flag for flag in record.flags if flag["code"] != KEPT]
                state = {
                    "source_values": edited(returned, tool, kept),
                    "flags": merged_flags(flags, major_version_flag(record.tool, tool)),
                }
            return self._replace(write, edits, "tool.update", record, tool, reason, force, **state)

    def propose(
        self, name: str, changes: Mapping[str, Any], *, version: int, org: str = "", reason: str = ""
    ) -> ToolRecord:
        """Changes fields of a tool; the result waits for approval. Writes nothing if no field differs.

        The approved content serves meanwhile if only texts differ (`review.may_serve`); otherwise the tool is
        in no catalog. changes, version: as in `update`.

        Raises:
            NotFound, Conflict, InvalidInput: as `update` does, and for a field that only people decide about.
            Denied: a person has rejected this content.
        """
        values = attributes_of(changes)
        if governed := sorted(values.keys() & set(GOVERNED)):
            raise InvalidInput(f"{governed[0]}: takes effect without approval; change it by update")
        with self._editing(name, org, version) as (write, edits, record):
            tool = tool_of({**content_of(record.tool), **values}, record.tool.tool_id)
            digest = content_hash(tool)
            if digest == record.rejected_hash:
                raise Denied(f"tool {name!r:.80}: this content was rejected; approve it first")
            if digest == record.content_hash:
                write.abandon()
                return record
            state: dict[str, Any] = {}
            if record.review == "approved":
                state = {
                    "review": "changed",
                    "served_version": record.version if may_serve(record.tool, tool) else None,
                }
            return self._replace(write, edits, "tool.propose", record, tool, reason, False, **state)

    def delete(self, name: str, *, version: int | None = None, org: str = "", reason: str = "") -> ToolRecord:
        """Deletes a tool. Its versions stay, and `restore` brings it back."""
        with self._editing(name, org, version) as (write, edits, record):
            return edits.change("tool.delete", record, reason=reason, deleted_at=write.at)

    def restore(self, name: str, *, org: str = "", reason: str = "") -> ToolRecord:
        """Restores the last deleted tool with this name or tool_id, in its former review state.

        Raises Conflict if it is not deleted, or another tool has taken its name.
        """
        with tool_edits(self.database, self.actor, org) as edits:
            connection = edits.write.connection
            try:
                record = find_tool(connection, name, org, deleted=True, alive=False, reach=self.reach)
            except NotFound as absent:
                try:
                    there = find_tool(connection, name, org, reach=self.reach)
                except NotFound:
                    raise absent from None
                raise Conflict(
                    f"tool {there.name!r}: is not deleted; it is at version {there.version}"
                ) from None
            check_name(connection, record.name, org, reach=self.reach)
            return edits.change("tool.restore", record, reason=reason, deleted_at=None)

    def rollback(
        self,
        name: str,
        to: int,
        *,
        version: int | None = None,
        force: bool = False,
        org: str = "",
        reason: str = "",
    ) -> ToolRecord:
        """Makes a new, approved version from version `to`; content that awaits approval is lost.

        force: as in `update`.

        Raises:
            NotFound: there is no such tool or version.
            Denied: the content of that version was never approved, or was rejected.
            Conflict: the tool has another version, the old name is taken, or rules would lose the tool.
            InvalidInput: the old toolkit no longer exists.
        """
        with self._editing(name, org, version) as (write, edits, record):
            target = read_version(write.connection, record, to)
            if content_hash(target.tool) != target.content_hash:
                raise Conflict(
                    f"tool {name!r:.80}: version {to} is damaged: its hash is wrong; restore a backup"
                )
            same = versions.find_versions(
                write.connection, record.tool.tool_id, _versions.content_hash == target.content_hash
            )
            if target.content_hash == record.rejected_hash:
                raise Denied(f"tool {name!r}: the content of version {to} was rejected; approve it first")
            if not any(version.review == "approved" for version in same):
                raise Denied(f"tool {name!r}: the content of version {to} was never approved")
            return self._replace(
                write,
                edits,
                "tool.rollback",
                record,
                target.tool,
                reason or f"back to version {to}",
                force,
                review="approved",
                flags=merged_flags(target.flags, major_version_flag(record.tool, target.tool)),
            )

    # Review

    def approve(
        self, name: str, *, version: int | None = None, org: str = "", reason: str = ""
    ) -> ToolRecord:
        """Approves a tool's present content and removes its flags.

        Raises Conflict if nothing awaits approval and the tool has no flags.
        """
        with self._editing(name, org, version) as (_, edits, record):
            if record.review == "approved" and not record.flags:
                raise Conflict(f"tool {name!r}: nothing waits for approval, and it has no flags to remove")
            return edits.change(
                "tool.approve", record, reason=reason, review="approved", flags=(), rejected_hash=None
            )

    def reject(self, name: str, *, version: int | None = None, org: str = "", reason: str = "") -> ToolRecord:
        """Rejects content that awaits approval: restores the last approved version, or deletes a new tool.

        Raises Conflict if nothing awaits approval.
        """
        with self._editing(name, org, version) as (write, edits, record):
            rejected = record.content_hash
            if record.review == "approved":
                raise Conflict(f"tool {name!r}: nothing waits for approval; roll it back, or delete it")
            if record.approved_version is None:
                return edits.change(
                    "tool.reject", record, reason=reason, deleted_at=write.at, rejected_hash=rejected
                )
            approved = read_version(write.connection, record, record.approved_version)
            governed = {name: getattr(record.tool, name) for name in GOVERNED}
            tool = replace(approved.tool, **governed)
            check_name(write.connection, tool.name, org, but=record.tool.tool_id, reach=self.reach)
            if rejected == approved.content_hash:  # only the plugin's values of people's fields were new
                rejected = record.rejected_hash or ""
            content = content_of(record.tool)
            sent = {column: content[name] for name, column in COLUMNS.items()} | dict(record.source_values)
            return edits.change(
                "tool.reject",
                record,
                tool,
                reason=reason,
                review="approved",
                flags=approved.flags,
                rejected_hash=rejected or None,
                source_values={name: sent[name] for name in approved.source_values},
            )

    # Many at once

    def sync(
        self,
        definitions: Definitions | Iterable[Any],
        *,
        plugin: str,
        toolkit: str = "",
        plugin_version: str = "",
        org: str = "",
        review: ReviewMode | None = None,
        while_waiting: WhileWaiting | None = None,
        trusted: bool = False,
        dry_run: bool = False,
        reason: str = "",
        progress: Progress | None = None,
    ) -> SyncReport:
        """Makes a plugin's tools, toolkits and page mappings equal to the definitions.

        Args:
            definitions: everything that the plugin has: Definitions, or a list of tools in any form that
                `read_tools` reads, such as the list of an MCP server.
            plugin: its name. A definition that belongs to another plugin or to people is a conflict.
            toolkit: with a list of tools: the toolkit of tools that name no toolkit.
            plugin_version: the plugin's own version, for people.
            org: the owner of the catalog; "" is the platform.
            review: "auto" (new and changed tools are selected at once), "changed" (changed tools wait for
                approval), "all" (new ones too). None keeps the plugin's mode, at first "auto".
            while_waiting: while a change waits, the tool is "hidden", or serves its "approved" content if
                only texts differ (see `review.may_serve`). None keeps the plugin's choice, at first "hidden".
            trusted: see `sync.planner.Planner`.
            dry_run: only plans; conflicts are in the plan, not raised.
            reason: for the history.
            progress: called with the number of written tools and their total.

        Raises:
            InvalidInput: an argument is wrong.
            InvalidDefinition, Conflict: all problems together; nothing was written.
            StoreUnavailable: the database failed; nothing was written.
        """
        checked_text(plugin, "plugin", _LONGEST_PLUGIN)
        if not plugin:
            raise InvalidInput("plugin is '', must be its name; import definitions that have no plugin")
        check_choice(review, MODES, "review")
        check_choice(while_waiting, WHILE_WAITING, "while_waiting")
        if toolkit and isinstance(definitions, Definitions):
            raise InvalidInput(f"toolkit is {toolkit!r:.80}, must be '': the Definitions name their toolkits")
        read = _definitions(definitions, checked_text(toolkit, "toolkit"))
        payload = Payload.of(read, plugin=plugin, org=org, version=plugin_version)
        sync = Sync(self.database, payload, review, while_waiting, trusted, reach=self.reach)
        return sync.run(self.actor, dry_run=dry_run, reason=reason, progress=progress)

    def import_(
        self,
        definitions: Definitions | Iterable[Any],
        *,
        org: str = "",
        dry_run: bool = False,
        restore: bool = False,
        reason: str = "",
        progress: Progress | None = None,
    ) -> SyncReport:
        """Adds the operator's own definitions, and updates those with the same names; deletes nothing.

        They belong to no plugin and need no approval. New definitions bring their governance. Decisions of
        people on existing tools stay: the governance (`content.GOVERNED`), and texts until the definitions
        change. Tools that people deleted stay deleted, unless `restore` is set. Raises as `sync` does.

        definitions: as in `sync`; `read_folder` reads the definitions of a folder.
        """
        payload = Payload.of(_definitions(definitions), org=org)
        sync = Sync(self.database, payload, trusted=True, restore=restore)
        return sync.run(self.actor, dry_run=dry_run, reason=reason, progress=progress)

    @contextmanager
    def _editing(
        self, name: str, org: str, version: int | None
    ) -> Iterator[tuple[Write, ToolEdits, ToolRecord]]:
        """A transaction that changes one tool. Raises NotFound and Conflict; see `check_version`."""
        with tool_edits(self.database, self.actor, org) as edits:
            record = find_tool(edits.write.connection, name, org, reach=self.reach)
            yield edits.write, edits, check_version(record, version)

    def _replace(
        self,
        write: Write,
        edits: ToolEdits,
        action: str,
        record: ToolRecord,
        tool: Tool,
        reason: str,
        force: bool,
        **state: Any,
    ) -> ToolRecord:
        if state.get("review", record.review) != "approved" and record.served_version is not None:
            approved = read_version(write.connection, record, record.served_version).tool
            if not may_serve(approved, tool):
                state["served_version"] = None
        is_same = content_hash(tool) == record.content_hash and not any(
            getattr(tool, name) != getattr(record.tool, name) for name in GOVERNED
        )
        is_same = is_same and state.get("source_values", record.source_values) == record.source_values
        if is_same and state.get("review", record.review) == record.review:
            write.abandon()
            return record
        if tool.name != record.name:
            if record.plugin:  # the next sync would not recognise it
                raise Conflict(
                    f"tool {record.name!r}: belongs to plugin {record.plugin!r}, which knows it by this "
                    "name; give it a display_name, or let the plugin rename it"
                )
            check_name(write.connection, tool.name, record.org, but=record.tool.tool_id, reach=self.reach)
        _check_move(write, record, tool, force, self.reach)
        return edits.change(action, record, tool, reason=reason, **state)


def _given_back(record: ToolRecord, fields: Iterable[str]) -> dict[str, Any]:
    """The plugin's values of these fields. Raises InvalidInput for a field that people do not own."""
    if isinstance(fields, str):
        raise InvalidInput(f"give_back is {fields!r:.80}, must be a list of fields")
    found = {}
    for name in fields:
        if name not in record.source_values:
            mine = ", ".join(record.source_values) or "none"
            raise InvalidInput(
                f"give_back: tool {record.name!r}: {name!r:.80} is no field that people changed after a "
                f"plugin or an import had sent it; such fields are: {mine}"
            )
        found[name] = record.source_values[name]
    return found


def _definitions(value: Definitions | Iterable[Any], toolkit: str = "") -> Definitions:
    """The definitions; a list of tools is read first."""
    if isinstance(value, Definitions):
        return value
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidInput(
            f"definitions is {type(value).__name__}, must be Definitions (`toolroll.read_folder(path)` reads "
            "them) or a list of tools"
        )
    return read_tools_for_registry(value, toolkit)


def _check_move(write: Write, record: ToolRecord, tool: Tool, force: bool, reach: Reach | None) -> None:
    """Refuses to move a tool to a toolkit that does not exist, or out of reach of rules and tiers."""
    connection, org, before = write.connection, record.org, record.tool
    what = f"tool {record.name!r}"
    is_moved = tool.toolkit != before.toolkit
    if is_moved and tool.toolkit and not is_toolkit(connection, tool.toolkit, org, reach):
        raise InvalidInput(f"{what}: {no_toolkit(connection, tool.toolkit, org, reach)}")
    if force:
        return
    hint = "change the rules first, or force it"
    is_renamed = tool.name != before.name
    if is_renamed and (rules := rules_naming(connection, org, tool=before.name, reach=reach)):
        raise Conflict(f"{what}: to be named {tool.name!r} it would leave {_rules(rules)}, by name; {hint}")
    if is_moved:
        kept = lineage(connection, tool.toolkit, org, reach)
        former = lineage(connection, before.toolkit, org, reach)
        left = {name: tier for name, tier in former.items() if name not in kept}
        if rules := rules_naming(connection, org, toolkits=left, reach=reach):
            raise Conflict(
                f"{what}: moved out of toolkit {before.toolkit!r} it would leave {_rules(rules)}; {hint}"
            )
        for name, tier in left.items():
            if tier is not None:
                raise Conflict(
                    f"{what}: moved out of toolkit {before.toolkit!r} it would leave tier {tier!r} of "
                    f"toolkit {name!r}; change the tier first, or force it"
                )


def _rules(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"rule{'' if len(names) == 1 else 's'} {shown}"
