"""Changes to tools within one transaction: each leaves its row, its version and its line in the log.

Nothing else writes to `tools`, so nothing changes a tool without a trace. Rows are gathered and written
together, since a sync may bring a hundred thousand.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from toolroll.errors import Conflict, InvalidDefinition
from toolroll.registry.content import LONGEST_NAME, changed_fields, content_hash
from toolroll.registry.records import Record, Review, row_of
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Write, words
from toolroll.registry.versions import version_row
from toolroll.tools import Tool

BATCH = 1_000  # rows to a statement; keeps what a driver holds at a time small
LARGEST_WEIGHT = 2**31 - 1  # of PostgreSQL's integer

_SEMANTIC = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?")
_TEXTS = ("display_name", "execution_type", "toolkit", "summary", "when_to_use", "limitations")
_OBJECTS = ("parameters", "returns", "execution_config")


class Edits:
    """Gathers changes to tools; `flush` writes them, before the transaction ends."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._created: list[Record] = []
        self._changed: list[Record] = []
        self._versions: list[dict[str, Any]] = []

    def create(
        self,
        tool: Tool,
        *,
        org: str,
        plugin: str = "",
        review: Review = "approved",
        flags: Iterable[Mapping[str, str]] = (),
        is_source: bool = False,
        reason: str = "",
        digest: str = "",
    ) -> Record:
        """A new tool. The caller has seen to it that the name is free; `is_source`: a plugin sent it so.

        digest: what `checked` says, where that is known already.
        """
        digest = digest or checked(tool)
        record = Record(
            tool=replace(tool, tool_id=uuid.uuid4().hex, original=None),
            org=org,
            plugin=plugin,
            version=1,
            content_hash=digest,
            source_hash=digest if is_source else None,
            review=review,
            approved_version=1 if review == "approved" else None,
            rejected_hash=None,
            flags=tuple(flags),
            created_at=self._write.at,
            updated_at=self._write.at,
            updated_by=self._write.actor,
            deleted_at=None,
            revision=self._write.revision,
        )
        self._created.append(record)
        self._note("tool.create", record, (), reason)
        return record

    def change(
        self,
        action: str,
        before: Record,
        tool: Tool | None = None,
        *,
        reason: str = "",
        digest: str = "",
        **state: Any,
    ) -> Record:
        """The next version of a tool: another definition, other fields of its record, or both.

        `state` are fields of Record, such as review=, flags=, deleted_at=, source_hash=. What is approved
        now counts as the approved version. Where no flags are given, another major version flags itself.
        """
        tool = before.tool if tool is None else replace(tool, tool_id=before.tool.tool_id, original=None)
        digest = before.content_hash if tool is before.tool else digest or checked(tool)
        review = state.get("review", before.review)
        after = replace(
            before,
            **{
                "flags": flagged(before.flags, major(before.tool, tool)),
                "approved_version": before.version + 1 if review == "approved" else before.approved_version,
                **state,
                "tool": tool,
                "content_hash": digest,
                "version": before.version + 1,
                "updated_at": self._write.at,
                "updated_by": self._write.actor,
                "revision": self._write.revision,
            },
        )
        changed = changed_fields(before.tool, tool)
        if review != before.review:
            changed += ("review",)
        if (after.deleted_at is None) != (before.deleted_at is None):
            changed += ("deleted",)
        self._changed.append(after)
        self._note(action, after, changed, reason)
        return after

    def flush(self) -> None:
        """Writes what was gathered."""
        run = self._write.connection.execute
        key = tables.tools.c.tool_id
        # Changes first: a name may become free here that is taken below.
        for rows in _batches([row_of(record) for record in self._changed]):
            named = [{f"to_{name}": value for name, value in row.items()} for row in rows]
            columns: dict[str, Any] = {
                name: sa.bindparam(f"to_{name}") for name in rows[0] if name != key.name
            }
            run(sa.update(tables.tools).where(key == sa.bindparam("to_tool_id")).values(columns), named)
        for rows in _batches([row_of(record) for record in self._created]):
            bulk_insert.insert(self._write.connection, tables.tools, rows)
        for rows in _batches(self._versions):
            bulk_insert.insert(self._write.connection, tables.tool_versions, rows)
        self._created, self._changed, self._versions = [], [], []

    def _note(self, action: str, record: Record, changed: tuple[str, ...], reason: str) -> None:
        self._versions.append(version_row(record, changed, words(reason, "reason")))
        details = {
            "tool_id": record.tool.tool_id,
            "version": record.version,
            "changed": list(changed),
            "content_hash": record.content_hash,
        }
        self._write.log(action, record.name, details, reason)


def checked(tool: Tool) -> str:
    """The tool's content hash. Raises InvalidDefinition where the registry cannot keep it."""
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


def flagged(
    flags: Iterable[Mapping[str, str]], added: Iterable[Mapping[str, str]]
) -> tuple[Mapping[str, str], ...]:
    """The flags and those added to them, which take the place of an older one with their code."""
    added = tuple(added)
    codes = {flag["code"] for flag in added}
    return (*(flag for flag in flags if flag["code"] not in codes), *added)


def check_name(connection: sa.Connection, name: str, org: str, *, but: str = "") -> None:
    """Raises Conflict where another tool has the name: in the organisation, or on the platform above it."""
    tools = tables.tools.c
    taken = sa.select(tools.org, tools.plugin, tools.updated_by).where(
        tools.name == name, tools.org.in_({org, ""}), tools.deleted_at.is_(None), tools.tool_id != but
    )
    for row in connection.execute(taken.order_by(tools.org.desc())):
        holder = f"plugin {row.plugin!r}" if row.plugin else "a tool that people made"
        where = f"in {row.org!r}" if row.org else "on the platform"
        raise Conflict(f"tool {name!r}: the name is taken {where} by {holder}; rename one of them")


def major(before: Tool, after: Tool) -> tuple[dict[str, str], ...]:
    """The flag for another major version, or none."""
    if before.version.partition(".")[0] == after.version.partition(".")[0]:
        return ()
    message = f"{before.version} became {after.version}: who calls it may have to change"
    return ({"code": "major", "message": message},)


def _wrong(tool: Tool, name: str, allowed: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"{name} is {getattr(tool, name)!r:.80}, must be {allowed}", field=name, tool=tool.name[:80]
    )


def _batches(rows: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    return (rows[at : at + BATCH] for at in range(0, len(rows), BATCH))
