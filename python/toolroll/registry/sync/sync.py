"""Carries out a sync: makes the registry equal to a plugin's payload, completely or not at all.

    read the state  →  plan  →  no step: done, nothing was written
                             →  one transaction: tools, versions, toolkits, pages, the plugin, the log

Hashing and planning happen before the registry is locked. If the revision has changed meanwhile, the plan is
made again under the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolroll.registry.editing import governed_rows
from toolroll.registry.editing.governed_rows import Reach
from toolroll.registry.editing.review import WhileWaiting
from toolroll.registry.editing.tiers import write_tiers
from toolroll.registry.editing.tool_edits import ToolEdits
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, Write, checked_text
from toolroll.registry.store.revision import revision_in
from toolroll.registry.store.row_reader import read_rows
from toolroll.registry.sync.payload import Payload
from toolroll.registry.sync.plan import ReviewMode, RowStep, SyncPlan, ToolStep
from toolroll.registry.sync.planner import Planner
from toolroll.registry.sync.registry_state import read_state
from toolroll.runtime.gil import batches

Progress = Callable[[int, int], None]  # done, total

_BATCH = 1_000  # tools in one statement
_LOGGED = 100  # names of each action in a line of the audit log; the versions have all of them


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of a sync; with `dry_run`, of a planned sync.

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
class Sync:
    """One sync of a payload. review, while_waiting, trusted, restore: see `Planner`.

    reach: the platform's tools and toolkits that its author may know.
    """

    database: Database
    payload: Payload
    review: ReviewMode | None = None
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
        checked_text(reason, "reason")  # before all the work; `writing` checks the actor
        with self.database.reading() as connection:
            revision = revision_in(connection)
            planned = self._plan(connection)
        if dry_run:
            return SyncReport(planned, revision, is_applied=False, dry_run=True)
        planned.check()
        if planned.is_empty:
            return SyncReport(planned, revision, is_applied=False)
        with self.database.writing(actor, self.payload.org) as write:
            if write.revision != revision + 1:  # somebody wrote meanwhile
                planned = self._plan(write.connection)
                planned.check()
            if planned.is_empty:
                write.abandon()
                return SyncReport(planned, write.revision - 1, is_applied=False)
            _PlanWriter(write, planned, self.payload, reason, progress).apply()
        return SyncReport(planned, write.revision, is_applied=True)

    def _plan(self, connection: sa.Connection) -> SyncPlan:
        planner = Planner(
            read_state(connection, self.payload, self.reach),
            self.payload,
            review=self.review,
            while_waiting=self.while_waiting,
            trusted=self.trusted,
            restore=self.restore,
        )
        return planner.plan()


class _PlanWriter:
    """Applies one plan within one transaction."""

    def __init__(
        self, write: Write, planned: SyncPlan, payload: Payload, reason: str, progress: Progress | None
    ) -> None:
        self._write, self._plan, self._payload, self._reason = write, planned, payload, reason
        self._progress, self._done = progress, 0
        self._steps = [step for step in planned.tools if step.action != "leave"]

    def apply(self) -> None:
        """Writes all steps, and the line of the audit log last."""
        if self._plan.tiers:
            write_tiers(self._write, (), self._plan.tiers, self._reason)
        edits = ToolEdits(self._write)
        for batch in batches([step for step in self._steps if step.action != "adopt"], _BATCH):
            for step in batch:
                self._change_tool(edits, step)
            edits.flush()
            self._report(len(batch))
        self._adopt([step for step in self._steps if step.action == "adopt"])
        for toolkit in self._plan.toolkits:
            self._change_row(tables.toolkits, "toolkit", "name", toolkit)
        for page in self._plan.pages:
            self._change_row(tables.page_mappings, "page", "pattern", page)
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
                source_hash=step.source_hash,
                reason=self._reason,
            )
        elif step.tool is None:
            # Without a source hash: the plugin dropped the tool, people did not delete it.
            state: dict[str, Any] = {"deleted_at": self._write.at, "source_hash": None}
            edits.change("tool.delete", step.before, reason=self._reason, **state)
        else:
            edits.change(
                "tool.restore" if step.action == "restore" else "tool.update",
                step.before,
                step.tool,
                reason=self._reason,
                review=step.review,
                flags=flags,
                source_hash=step.source_hash,
                source_values=step.source_values,
                served_version=step.served_version,
                deleted_at=None,
            )

    def _adopt(self, steps: Sequence[ToolStep]) -> None:
        """Stores only the plugin's new definitions. The tools do not change: no new version, no new date."""
        statement = (
            sa.update(tables.tools)
            .where(tables.tools.c.tool_id == sa.bindparam("of_tool"))
            .values(source_hash=sa.bindparam("source_hash"), source_values=sa.bindparam("source_values"))
        )
        for batch in batches(steps, _BATCH):
            values = [
                {
                    "of_tool": step.before.tool.tool_id,
                    "source_hash": step.source_hash,
                    "source_values": step.source_values,
                }
                for step in batch
                if step.before
            ]
            self._write.connection.execute(statement, values)
            self._report(len(batch))

    def _change_row(self, table: sa.Table, noun: str, label: str, step: RowStep) -> None:
        write, before = self._write, {} if step.before is None else step.before.values
        after = step.values or {}
        if step.before is None:
            row = governed_rows.insert(write, table, {label: step.name, "plugin": self._plan.plugin, **after})
        else:
            key = next(iter(table.primary_key))
            (stored,) = read_rows(write.connection, list(table.c), key == step.before.key)
            deleted_at = write.at if step.action == "delete" else None
            row = governed_rows.change(write, table, stored, {**after, "deleted_at": deleted_at})
        details: dict[str, Any] = {"page_id": row["page_id"]} if noun == "page" else {}
        details["before"] = {name: before[name] for name in step.fields or before}
        details["after"] = {name: after[name] for name in step.fields or after}
        write.log(f"{noun}.{step.action}", step.name, details, self._reason)

    def _update_plugin(self) -> None:
        write, p = self._write, tables.plugins.c
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
        row = (p.org == write.org, p.name == self._payload.plugin)
        if not write.connection.execute(sa.update(tables.plugins).where(*row).values(values)).rowcount:
            values |= {"org": write.org, "name": self._payload.plugin}
            write.connection.execute(sa.insert(tables.plugins), values)

    def _report(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            self._progress(self._done, len(self._steps))
