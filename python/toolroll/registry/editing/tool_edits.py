"""Changes to tools within one transaction: each writes the tool's row, a version and a line in the audit log.

Every change of a tool has a version, except a sync's change of `source_hash`, which is written elsewhere.
Rows are collected and written together, because a sync may change a hundred thousand tools.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidDefinition
from toolroll.model.tools import Tool
from toolroll.registry.editing.content import LONGEST_NAME, changed_fields, content_hash
from toolroll.registry.editing.field_owners import edited
from toolroll.registry.editing.governed_rows import Reach, knows_tool
from toolroll.registry.editing.records import Review, ToolRecord, row_of
from toolroll.registry.editing.versions import version_row
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Database, Write
from toolroll.runtime.gil import batches

BATCH = 1_000  # rows in a statement; bounds the memory of drivers
LARGEST_WEIGHT = 2**31 - 1  # PostgreSQL's largest integer

_SEMANTIC = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?")
_TEXTS = ("display_name", "execution_type", "toolkit", "summary", "when_to_use", "limitations")
_OBJECTS = ("parameters", "returns", "annotations", "meta", "execution", "execution_config")


@contextmanager
def tool_edits(database: Database, actor: str, org: str) -> Iterator[ToolEdits]:
    """A transaction that changes tools."""
    with database.writing(actor, org) as write:
        edits = ToolEdits(write)
        yield edits
        edits.flush()


class ToolEdits:
    """Collects changes to tools; call `flush` before the transaction ends."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self._created: list[ToolRecord] = []
        self._changed: list[ToolRecord] = []
        self._versions: list[dict[str, Any]] = []

    def create(
        self,
        tool: Tool,
        *,
        org: str,
        plugin: str = "",
        review: Review = "approved",
        flags: Iterable[Mapping[str, str]] = (),
        source_hash: str | None = None,
        reason: str = "",
    ) -> ToolRecord:
        """Adds a tool. The caller has checked that the name is free.

        source_hash: the hash of the definition that a plugin or an import sent.
        """
        record = ToolRecord(
            tool=replace(tool, tool_id=uuid.uuid4().hex, original=None, keys=None),
            org=org,
            plugin=plugin,
            version=1,
            content_hash=checked_hash(tool),
            source_hash=source_hash,
            source_values={},
            review=review,
            approved_version=1 if review == "approved" else None,
            served_version=None,
            rejected_hash=None,
            flags=tuple(flags),
            created_at=self.write.at,
            updated_at=self.write.at,
            updated_by=self.write.actor,
            deleted_at=None,
            revision=self.write.revision,
        )
        self._created.append(record)
        self.write.digests.replace(tables.tools, None, row_of(record))
        self._record_change("tool.create", record, (), reason)
        return record

    def change(
        self, action: str, before: ToolRecord, tool: Tool | None = None, *, reason: str = "", **state: Any
    ) -> ToolRecord:
        """Adds the next version of a tool: with another definition, other fields of its record, or both.

        An approved result becomes the approved version and is served.

        state: fields of ToolRecord, such as review=, flags=, deleted_at=, source_hash=. Without `flags`, a
            new major version adds a flag. Without `source_values`, the change counts as made by people, who
            then own its fields.
        """
        if tool is None or tool is before.tool:
            tool, digest = before.tool, before.content_hash
        else:
            tool = replace(tool, tool_id=before.tool.tool_id, original=None, keys=None)
            digest = checked_hash(tool)
        review = state.get("review", before.review)
        has_source = before.plugin != "" or before.source_hash is not None
        if has_source and "source_values" not in state:
            state["source_values"] = edited(before.tool, tool, before.source_values)
        after = replace(
            before,
            **{
                "flags": merged_flags(before.flags, major_version_flag(before.tool, tool)),
                "approved_version": before.version + 1 if review == "approved" else before.approved_version,
                "served_version": None if review == "approved" else before.served_version,
                **state,
                "tool": tool,
                "content_hash": digest,
                "version": before.version + 1,
                "updated_at": self.write.at,
                "updated_by": self.write.actor,
                "revision": self.write.revision,
            },
        )
        changed = changed_fields(before.tool, tool)
        if not changed and after.source_values != before.source_values:
            changed = ("source_values",)
        if review != before.review:
            changed += ("review",)
        if after.served_version != before.served_version:
            changed += ("served_version",)
        if (after.deleted_at is None) != (before.deleted_at is None):
            changed += ("restored" if after.deleted_at is None else "deleted",)
        self._changed.append(after)
        self.write.digests.replace(tables.tools, row_of(before), row_of(after))
        self._record_change(action, after, changed, reason)
        return after

    def flush(self) -> None:
        """Writes the collected changes."""
        run = self.write.connection.execute
        key = tables.tools.c.tool_id
        # Changes first: they may free a name that a created tool takes.
        for records in batches(self._changed, BATCH):
            rows = [{f"to_{name}": value for name, value in row_of(record).items()} for record in records]
            columns: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0]}
            columns = {name.removeprefix("to_"): value for name, value in columns.items()}
            del columns[key.name]
            run(sa.update(tables.tools).where(key == sa.bindparam("to_tool_id")).values(columns), rows)
        for records in batches(self._created, BATCH):
            bulk_insert.insert(self.write.connection, tables.tools, list(map(row_of, records)))
        for versions in batches(self._versions, BATCH):
            bulk_insert.insert(self.write.connection, tables.tool_versions, versions)
        self._created, self._changed, self._versions = [], [], []

    def _record_change(self, action: str, record: ToolRecord, changed: tuple[str, ...], reason: str) -> None:
        self._versions.append(version_row(record, changed, reason))
        details = {
            "tool_id": record.tool.tool_id,
            "version": record.version,
            "changed": list(changed),
            "content_hash": record.content_hash,
        }
        self.write.log(action, record.name, details, reason)


def checked_hash(tool: Tool) -> str:
    """The tool's content hash. Raises InvalidDefinition for a tool that the registry cannot store."""
    for name in _TEXTS:
        if not isinstance(getattr(tool, name), str):
            raise _wrong(tool, name, "text")
    for name in _OBJECTS:
        if (value := getattr(tool, name)) is not None and not isinstance(value, Mapping):
            raise _wrong(tool, name, "a JSON object or null")
    if not isinstance(tool.version, str) or len(tool.version) > 64 or not _SEMANTIC.fullmatch(tool.version):
        raise _wrong(tool, "version", "MAJOR.MINOR.PATCH, such as 1.4.0 or 2.0.0-rc.1")
    if not -LARGEST_WEIGHT <= tool.pin_weight <= LARGEST_WEIGHT:
        raise _wrong(tool, "pin_weight", f"at most {LARGEST_WEIGHT:,}")
    if len(tool.interchangeable) > LONGEST_NAME or "\0" in tool.interchangeable:
        raise _wrong(tool, "interchangeable", f"at most {LONGEST_NAME} characters")
    return content_hash(tool)


def merged_flags(
    flags: Iterable[Mapping[str, str]], added: Iterable[Mapping[str, str]]
) -> tuple[Mapping[str, str], ...]:
    """The flags and the added ones; an added flag replaces a flag with the same code."""
    added = tuple(added)
    codes = {flag["code"] for flag in added}
    return (*(flag for flag in flags if flag["code"] not in codes), *added)


def check_name(
    connection: sa.Connection, name: str, org: str, *, but: str = "", reach: Reach | None = None
) -> None:
    """Raises Conflict if another tool of the organisation or a known tool of the platform has the name."""
    tools, orgs = tables.tools.c, {org, ""} if knows_tool(reach, name) else {org}
    taken = sa.select(tools.org, tools.plugin, tools.updated_by).where(
        tools.name == name, tools.org.in_(orgs), tools.deleted_at.is_(None), tools.tool_id != but
    )
    for row in connection.execute(taken.order_by(tools.org.desc())):
        owner = f"plugin {row.plugin!r}" if row.plugin else "a tool that people made"
        where = f"in {row.org!r}" if row.org else "on the platform"
        raise Conflict(f"tool {name!r}: the name is taken {where} by {owner}; rename one of them")


def major_version_flag(before: Tool, after: Tool) -> tuple[dict[str, str], ...]:
    """The flag for a new major version; () if the major version stays."""
    if before.version.partition(".")[0] == after.version.partition(".")[0]:
        return ()
    message = f"{before.version} became {after.version}: callers may have to change"
    return ({"code": "major", "message": message},)


def _wrong(tool: Tool, name: str, allowed: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"{name} is {getattr(tool, name)!r:.80}, must be {allowed}", field=name, tool=tool.name[:80]
    )
