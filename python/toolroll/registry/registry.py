"""The registry: tools that are put in, changed, approved and taken out, with every version kept.

Each change is one transaction that writes the tool, its version and a line in the log, or nothing. Who
changes a tool names the version that they have seen: if it has moved on, they are told by whom, and nothing
is lost.

What people change is approved by itself, but for what waits for approval: that goes on waiting, lest who
corrects a tag approves a description that they have not read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from toolroll.errors import Conflict, Denied, InvalidInput, NotFound
from toolroll.registry import queries, versions
from toolroll.registry.audit import Audit
from toolroll.registry.content import FIELDS, GOVERNED, content_hash, content_of, tool_of
from toolroll.registry.page_mappings import Pages
from toolroll.registry.queries import checked_limit, expected, found, version_at, versions_of
from toolroll.registry.records import Page, Record, Review
from toolroll.registry.rules import Rules, rules_naming
from toolroll.registry.settings import Settings
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, Write, words
from toolroll.registry.sync import sync
from toolroll.registry.sync.plan import Mode
from toolroll.registry.sync.sync import Progress, SyncReport
from toolroll.registry.tiers import read_tiers, set_tiers
from toolroll.registry.tool_edits import Edits, check_name, flagged, major
from toolroll.registry.toolkits import Toolkits, is_toolkit, lineage, no_toolkit
from toolroll.registry.versions import Version, version_of
from toolroll.tools import STATUSES, Definitions, Status, Tool

_versions = tables.tool_versions.c


class Registry:
    """Safe to use from any thread.

    Attributes:
        database: where everything is kept.
        actor: whom changes are attributed to.
        toolkits, rules, pages, settings: what governs tools.
        audit: the log of all changes.
    """

    def __init__(self, database: Database, actor: str = "") -> None:
        self.database = database
        self.actor = words(actor, "actor")
        self.toolkits = Toolkits(database, actor)
        self.rules = Rules(database, actor)
        self.pages = Pages(database, actor)
        self.settings = Settings(database, actor)
        self.audit = Audit(database)

    @classmethod
    def open(cls, url: str, *, actor: str = "", create: bool = True, migrate: bool = False) -> Registry:
        """Opens the registry at sqlite:///FILE or postgresql://USER@HOST/DATABASE.

        Where there is none, `create` makes an empty one; `migrate` brings one that an older toolroll made to
        this one's schema. Changes are attributed to `actor`.

        Raises:
            InvalidInput, NotFound, StoreUnavailable: as Database.open.
        """
        words(actor, "actor")
        return cls(Database.open(url, create=create, migrate=migrate), actor)

    def with_actor(self, actor: str) -> Registry:
        """The same registry, where changes are attributed to somebody else."""
        return Registry(self.database, actor)

    def close(self) -> None:
        """Gives the connections back."""
        self.database.close()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def tiers(self) -> tuple[str, ...]:
        """The subscription tiers, lowest first."""
        return read_tiers(self.database)

    def tool(self, name: str, *, org: str = "", deleted: bool = False) -> Record:
        """The tool of that name, or tool_id; with `deleted`, the one deleted last if none is there.

        Raises NotFound, which names those whose names come near.
        """
        with self.database.reading() as connection:
            return found(connection, name, org, deleted=deleted)

    def tools(
        self,
        *,
        org: str = "",
        plugin: str | None = None,
        toolkit: str | None = None,
        status: Status | None = None,
        review: Review | None = None,
        flagged: bool | None = None,
        text: str | None = None,
        deleted: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> Page:
        """Some of an organisation's tools by name, those that fit all that is given.

        `text` is a part of the name or of the description, in which A to Z count as a to z; `flagged` asks
        for those with flags, or without; `deleted` for those that were deleted, instead of those that are
        there. `after` is the `next` of the page before, `limit` at most 1,000.
        """
        query = queries.matching(
            org=org,
            deleted=deleted,
            flagged=flagged,
            text=text,
            equal={"plugin": plugin, "toolkit": toolkit, "status": status, "review": review},
        )
        with self.database.reading() as connection:
            return queries.page(connection, query, after, limit)

    def history(
        self, name: str, *, org: str = "", before: int | None = None, limit: int = 100
    ) -> tuple[Version, ...]:
        """The versions of a tool, deleted or not, newest first; those before a version, if one is named."""
        with self.database.reading() as connection:
            record = found(connection, name, org, deleted=True)
            query = versions_of(record).order_by(_versions.version.desc()).limit(checked_limit(limit))
            if before is not None:
                query = query.where(_versions.version < min(before, record.version + 1))
            return tuple(map(version_of, connection.execute(query)))

    def diff(self, name: str, from_version: int, to_version: int, *, org: str = "") -> str:
        """What changed between two versions of a tool, for people to read."""
        with self.database.reading() as connection:
            record = found(connection, name, org, deleted=True)
            before, after = (version_at(connection, record, number) for number in (from_version, to_version))
        return versions.difference(before, after)

    # Changing

    def set_tiers(self, tiers: Sequence[str], *, reason: str = "") -> tuple[str, ...]:
        """Sets the subscription tiers, lowest first; see `tiers.set_tiers`."""
        return set_tiers(self.database, self.actor, tiers, reason)

    def create(self, tool: Tool, *, org: str = "", reason: str = "") -> Record:
        """Adds a tool. Raises Conflict where the name is taken, in the organisation or on the platform."""
        if not isinstance(tool, Tool):
            raise InvalidInput(f"tool is {type(tool).__name__}, must be a Tool")
        with self._editing(org) as (write, edits):
            check_name(write.connection, tool.name, org)
            return edits.create(tool, org=org, reason=reason)

    def update(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        version: int,
        force: bool = False,
        org: str = "",
        reason: str = "",
    ) -> Record:
        """Changes some fields of a tool; where that changes nothing, nothing is written.

        `changes` maps fields of Tool to their values, "version" being the semantic one. `version` is the
        record's, as it was read. `force` lets a tool out of the reach of rules that name it or its toolkit.

        Raises:
            NotFound: there is no such tool.
            Conflict: the version has moved on, the new name is taken, or rules would lose the tool.
            InvalidInput: a field is unknown, or its value wrong, or there is no such toolkit.
        """
        _check_fields(changes)
        with self._editing(org) as (write, edits):
            record = expected(found(write.connection, name, org), version)
            tool = tool_of({**content_of(record.tool), **changes}, record.tool.tool_id)
            return self._become(write, edits, "tool.update", record, tool, reason, force)

    def delete(self, name: str, *, version: int | None = None, org: str = "", reason: str = "") -> Record:
        """Takes a tool out; it can be restored, and its versions stay."""
        with self._editing(org) as (write, edits):
            record = expected(found(write.connection, name, org), version)
            return edits.change("tool.delete", record, reason=reason, deleted_at=write.at)

    def restore(self, name: str, *, org: str = "", reason: str = "") -> Record:
        """Brings back the tool of that name, or tool_id, that was deleted last; what waited goes on waiting.

        Raises Conflict where it is there, or another took its name meanwhile.
        """
        with self._editing(org) as (write, edits):
            try:
                record = found(write.connection, name, org, deleted=True, alive=False)
            except NotFound as absent:
                try:
                    there = found(write.connection, name, org)
                except NotFound:
                    raise absent from None
                raise Conflict(
                    f"tool {there.name!r}: is not deleted; it is there, at version {there.version}"
                ) from None
            check_name(write.connection, record.name, org)
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
    ) -> Record:
        """Makes what a tool was at version `to` its next version, approved: what waits is given up.

        `force` as in `update`.

        Raises:
            NotFound: there is no such tool, or it has no such version.
            Denied: what it was then was never approved, or was refused.
            Conflict: the version has moved on, the name of then is taken, or rules would lose the tool.
            InvalidInput: there is no such toolkit any more.
        """
        with self._editing(org) as (write, edits):
            record = expected(found(write.connection, name, org), version)
            target = version_at(write.connection, record, to)
            approved = versions_of(record).where(_versions.content_hash == target.content_hash)
            if target.content_hash == record.rejected_hash:
                raise Denied(f"tool {name!r}: what it was at version {to} was refused; approve it first")
            if not any(version_of(row).review == "approved" for row in write.connection.execute(approved)):
                raise Denied(f"tool {name!r}: what it was at version {to} was never approved")
            return self._become(
                write,
                edits,
                "tool.rollback",
                record,
                target.tool,
                reason or f"back to version {to}",
                force,
                review="approved",
                flags=flagged(target.flags, major(record.tool, target.tool)),
            )

    # Review

    def approve(self, name: str, *, version: int | None = None, org: str = "", reason: str = "") -> Record:
        """Lets a tool be selected as it is now, and takes its flags off; does nothing where nothing waits."""
        with self._editing(org) as (write, edits):
            record = expected(found(write.connection, name, org), version)
            if record.review == "approved" and not record.flags:
                write.abandon()
                return record
            return edits.change(
                "tool.approve", record, reason=reason, review="approved", flags=(), rejected_hash=None
            )

    def reject(self, name: str, *, version: int | None = None, org: str = "", reason: str = "") -> Record:
        """Refuses what waits: the tool is again what was approved last; one that never was is deleted.

        Raises Conflict where nothing waits.
        """
        with self._editing(org) as (write, edits):
            record = expected(found(write.connection, name, org), version)
            refused = record.content_hash
            if record.review == "approved":
                raise Conflict(f"tool {name!r}: nothing waits for approval; roll it back, or delete it")
            if record.approved_version is None:
                return edits.change(
                    "tool.reject", record, reason=reason, deleted_at=write.at, rejected_hash=refused
                )
            approved = version_at(write.connection, record, record.approved_version)
            governed = {name: getattr(record.tool, name) for name in GOVERNED}
            tool = replace(approved.tool, **governed)
            check_name(write.connection, tool.name, org, but=record.tool.tool_id)
            return edits.change(
                "tool.reject",
                record,
                tool,
                reason=reason,
                review="approved",
                flags=approved.flags,
                rejected_hash=refused,
            )

    # Many at once

    def sync(
        self,
        definitions: Definitions,
        *,
        plugin: str,
        version: str = "",
        org: str = "",
        review: Mode | None = None,
        trusted: bool = False,
        dry_run: bool = False,
        reason: str = "",
        progress: Progress | None = None,
    ) -> SyncReport:
        """Makes a plugin's tools, toolkits and pages those of the definitions, as `sync.sync` has it."""
        return sync.sync(
            self.database,
            definitions,
            actor=self.actor,
            plugin=plugin,
            version=version,
            org=org,
            review=review,
            trusted=trusted,
            dry_run=dry_run,
            reason=reason,
            progress=progress,
        )

    def import_(
        self,
        definitions: Definitions,
        *,
        org: str = "",
        dry_run: bool = False,
        restore: bool = False,
        reason: str = "",
        progress: Progress | None = None,
    ) -> SyncReport:
        """Adds and updates tools, toolkits and page mappings of no plugin, as `sync.import_` has it."""
        return sync.import_(
            self.database,
            definitions,
            actor=self.actor,
            org=org,
            dry_run=dry_run,
            restore=restore,
            reason=reason,
            progress=progress,
        )

    @contextmanager
    def _editing(self, org: str) -> Iterator[tuple[Write, Edits]]:
        with self.database.writing(self.actor, org) as write:
            edits = Edits(write)
            yield write, edits
            edits.flush()

    def _become(
        self,
        write: Write,
        edits: Edits,
        action: str,
        record: Record,
        tool: Tool,
        reason: str,
        force: bool,
        **state: Any,
    ) -> Record:
        is_same = content_hash(tool) == record.content_hash and not any(
            getattr(tool, name) != getattr(record.tool, name) for name in GOVERNED
        )
        if is_same and state.get("review", record.review) == record.review:
            write.abandon()
            return record
        if tool.name != record.name:
            if record.plugin:  # the next sync would not find it
                raise Conflict(
                    f"tool {record.name!r}: belongs to plugin {record.plugin!r}, which knows it by this "
                    "name; give it a display_name, or let the plugin rename it"
                )
            check_name(write.connection, tool.name, record.org, but=record.tool.tool_id)
        _check_move(write, record, tool, force)
        return edits.change(action, record, tool, reason=reason, **state)


def _check_move(write: Write, record: Record, tool: Tool, force: bool) -> None:
    """Refuses to move a tool to a toolkit that is not there, or away from what rules name."""
    connection, org, before = write.connection, record.org, record.tool
    what = f"tool {record.name!r}"
    if tool.toolkit != before.toolkit and tool.toolkit and not is_toolkit(connection, tool.toolkit, org):
        raise InvalidInput(f"{what}: {no_toolkit(connection, tool.toolkit, org)}")
    if force:
        return
    hint = "change the rules first, or force it"
    if tool.name != before.name and (rules := rules_naming(connection, org, tool=before.name)):
        raise Conflict(f"{what}: to be named {tool.name!r} it would leave {_rules(rules)}, by name; {hint}")
    if tool.toolkit != before.toolkit:
        kept = lineage(connection, tool.toolkit, org)
        left = {
            name: tier for name, tier in lineage(connection, before.toolkit, org).items() if name not in kept
        }
        if rules := rules_naming(connection, org, toolkits=left):
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


def _check_fields(changes: Mapping[str, Any]) -> None:
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"changes is {type(changes).__name__}, must map fields to values")
    if not isinstance(changes.get("status", ""), str):
        raise InvalidInput(
            f"status is {changes['status']!r:.80}, must be one of {', '.join(sorted(STATUSES))}"
        )
    known = (*FIELDS, *GOVERNED)
    for name in changes:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InvalidInput(f"a tool has no field {name!r:.80}{hint} Known are {', '.join(known)}")
