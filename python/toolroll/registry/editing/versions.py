"""The history of a tool: a snapshot of every version, and the difference between two of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.model.tools import Tool
from toolroll.registry.editing.content import COLUMNS, content_of, differences, tool_of
from toolroll.registry.editing.records import Review, ToolRecord
from toolroll.registry.store import tables
from toolroll.registry.store.json_values import JsonRecord
from toolroll.registry.store.row_reader import Row, read_rows

SHORT = 80  # characters of a value that `difference` shows on one line, as before → after


@dataclass(frozen=True, slots=True)
class ToolVersion(JsonRecord):
    """One version of a tool. Nothing changes it later.

    Attributes:
        changed: the fields that differ from the version before, including "review", "served_version",
            "deleted" and "restored"; "source_values" if only the plugin's values of fields that people own
            differ; empty for the first version.
        reason, actor, at: of the change.
        served_version: the approved version that served while this one waited, or None.
        source_values: the fields that people owned, each with the last value of the plugin.
        flags: things to review.
    """

    tool: Tool
    version: int
    changed: tuple[str, ...]
    reason: str
    actor: str
    at: datetime
    content_hash: str
    review: Review
    served_version: int | None
    source_values: dict[str, Any]
    is_deleted: bool
    flags: tuple[dict[str, str], ...]
    revision: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        fields = JsonRecord.to_dict(self)
        del fields["flags"]
        ids = {"tool_id": self.tool.tool_id, "semantic_version": self.tool.version}
        content = content_of(self.tool)
        return ids | fields | {"tool": {column: content[name] for name, column in COLUMNS.items()}}


def version_row(record: ToolRecord, changed: tuple[str, ...], reason: str) -> dict[str, Any]:
    """The row of `tool_versions` for a record's present version."""
    return {
        "tool_id": record.tool.tool_id,
        "version": record.version,
        "snapshot": {
            "tool": content_of(record.tool),
            "review": record.review,
            "source_values": dict(record.source_values),
            "served_version": record.served_version,
            "deleted": record.deleted_at is not None,
            "flags": [dict(flag) for flag in record.flags],
        },
        "changed": list(changed),
        "reason": reason,
        "actor": record.updated_by,
        "at": record.updated_at,
        "content_hash": record.content_hash,
        "semantic_version": record.tool.version,
        "revision": record.revision,
    }


def version_of(row: Row) -> ToolVersion:
    """The version in a row of `tool_versions`."""
    snapshot = row["snapshot"]
    return ToolVersion(
        tool=tool_of(snapshot["tool"], row["tool_id"]),
        changed=tuple(row["changed"]),
        review=snapshot["review"],
        served_version=snapshot["served_version"],
        source_values=snapshot["source_values"],
        is_deleted=snapshot["deleted"],
        flags=tuple(snapshot["flags"]),
        **{name: row[name] for name in _AS_STORED},
    )


_AS_STORED = ("version", "reason", "actor", "at", "content_hash", "revision")


def find_version(connection: sa.Connection, tool_id: str, number: int) -> ToolVersion | None:
    """The version of a tool with this number, or None."""
    found = find_versions(connection, tool_id, tables.tool_versions.c.version == number)
    return found[0] if found else None


def find_versions(
    connection: sa.Connection, tool_id: str, *where: sa.ColumnElement[bool], limit: int | None = None
) -> tuple[ToolVersion, ...]:
    """The versions of a tool that meet the conditions, the last one first."""
    v = tables.tool_versions.c
    order = (v.version.desc(),)
    rows = read_rows(connection, list(v), v.tool_id == tool_id, *where, order_by=order, limit=limit)
    return tuple(map(version_of, rows))


@dataclass(frozen=True, slots=True)
class FieldDifference(JsonRecord):
    """One field in which two versions of a tool differ, as `ToolRecord.to_dict` names it; or "deleted"."""

    field: str
    before: Any
    after: Any


def field_differences(before: ToolVersion, after: ToolVersion) -> tuple[FieldDifference, ...]:
    """The fields in which two versions differ, in the order of a tool's fields."""
    found = [FieldDifference(*difference) for difference in differences(before.tool, after.tool)]
    attributes = {"review": "review", "served_version": "served_version", "deleted": "is_deleted"}
    for name, attribute in attributes.items():
        old, new = getattr(before, attribute), getattr(after, attribute)
        if old != new:
            found.append(FieldDifference(name, old, new))
    if news := _news(before, after):
        old = {name: before.source_values[name] for name in news}
        found.append(FieldDifference("source_values", old, news))
    return tuple(found)


def _news(before: ToolVersion, after: ToolVersion) -> dict[str, Any]:
    """The plugin's new values for fields that people owned before and still own."""
    old, new = before.source_values, after.source_values
    return {name: value for name, value in new.items() if name in old and old[name] != value}


def difference(before: ToolVersion, after: ToolVersion) -> str:
    """The changes from one version to another, field by field, as text for people."""
    lines = [f"{after.tool.name}: version {before.version} → {after.version}"]
    for name, old, new in differences(before.tool, after.tool):
        lines += _field(name, old, new, before, after)
    if before.review != after.review:
        lines.append(f"review: {before.review} → {after.review}")
    if before.served_version != after.served_version:
        served = (_one_line(version.served_version) for version in (before, after))
        lines.append(f"serves meanwhile: {' → '.join(served)}")
    for name, value in _news(before, after).items():
        lines.append(f"{name}: people's; its plugin says {_one_line(value):.{SHORT}}")
    if before.is_deleted != after.is_deleted:
        lines.append("deleted" if after.is_deleted else "restored")
    if len(lines) == 1:
        lines.append("no difference")
    return "\n".join(lines)


def _field(name: str, old: Any, new: Any, before: ToolVersion, after: ToolVersion) -> Iterator[str]:
    short_old, short_new = _one_line(old), _one_line(new)
    if max(len(short_old), len(short_new)) <= SHORT and "\n" not in f"{old}{new}":
        yield f"{name}: {short_old} → {short_new}"
        return
    yield f"{name}:"
    for line in difflib.unified_diff(
        _lines(old), _lines(new), f"version {before.version}", f"version {after.version}", lineterm="", n=2
    ):
        yield f"  {line}"


def _one_line(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False, default=dict)


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.splitlines()
    return json.dumps(value, ensure_ascii=False, indent=2, default=dict).splitlines()
