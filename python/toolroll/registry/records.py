"""A tool with what the registry knows about it, and its row in the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

import sqlalchemy as sa

from toolroll.registry.content import FIELDS, GOVERNED, content_of
from toolroll.registry.store import tables
from toolroll.tools import Tool

# approved: may be selected; pending: new, never approved; changed: approved once, new content waits.
Review = Literal["approved", "pending", "changed"]
REVIEWS: frozenset[str] = frozenset(get_args(Review))

_COLUMNS = {name: "semantic_version" if name == "version" else name for name in (*FIELDS, *GOVERNED)}
_SEQUENCES = ("tags", "examples")


@dataclass(frozen=True, slots=True)
class Record:
    """One tool of the registry, as it is now.

    Attributes:
        tool: its definition, with its tool_id.
        org: whose it is: "" the platform's.
        plugin: what it came with; "" where people wrote it.
        version: counts its changes from 1; what an update has to name. Not the tool's own semantic version.
        content_hash: SHA-256 of what its author says.
        source_hash: that of what its plugin sent or an import read last, None where people wrote it.
        review: "approved", "pending" or "changed"; only what is approved is selected.
        approved_version: the last version that was approved, None before there is one.
        rejected_hash: of the content that was refused last.
        flags: what somebody should look at: {"code", "message"} each.
        created_at, updated_at, updated_by: when, and by whom last.
        deleted_at: None while it is there.
        revision: the registry's, when the tool was last touched.
    """

    tool: Tool
    org: str
    plugin: str
    version: int
    content_hash: str
    source_hash: str | None
    review: Review
    approved_version: int | None
    rejected_hash: str | None
    flags: tuple[Mapping[str, str], ...] = field(hash=False)
    created_at: datetime
    updated_at: datetime
    updated_by: str
    deleted_at: datetime | None
    revision: int

    @property
    def name(self) -> str:
        """The tool's."""
        return self.tool.name

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: `version` is the record's, `semantic_version` the tool's own."""
        content = content_of(self.tool)
        semantic_version = content.pop("version")
        return {
            "tool_id": self.tool.tool_id,
            "org": self.org,
            "plugin": self.plugin,
            "version": self.version,
            **content,
            "semantic_version": semantic_version,
            "content_hash": self.content_hash,
            "source_hash": self.source_hash,
            "review": self.review,
            "approved_version": self.approved_version,
            "rejected_hash": self.rejected_hash,
            "flags": [dict(flag) for flag in self.flags],
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "updated_by": self.updated_by,
            "deleted_at": None if self.deleted_at is None else self.deleted_at.isoformat(),
            "revision": self.revision,
        }


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the records that were asked for, by name.

    Attributes:
        next: what to pass as `after` for those that follow; "" where none do.
    """

    records: tuple[Record, ...]
    next: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"tools": [record.to_dict() for record in self.records], "next": self.next}


def tool_in(columns: Mapping[Any, Any]) -> Tool:
    """The tool that the columns of a row of `tools` hold, by their names."""
    values = {name: columns[column] for name, column in _COLUMNS.items()}
    for name in _SEQUENCES:
        values[name] = tuple(values[name])
    return Tool(tool_id=columns["tool_id"], **values)


def record_of(row: sa.Row[Any]) -> Record:
    """The record that a row of `tools` holds."""
    columns = row._mapping
    return Record(
        tool=tool_in(columns),
        flags=tuple(columns["flags"]),
        **{name: columns[name] for name in _GOVERNANCE},
    )


def row_of(record: Record) -> dict[str, Any]:
    """The row of `tools` that holds the record."""
    content = content_of(record.tool)
    return {
        "tool_id": record.tool.tool_id,
        **{column: content[name] for name, column in _COLUMNS.items()},
        "flags": [dict(flag) for flag in record.flags],
        **{name: getattr(record, name) for name in _GOVERNANCE},
    }


_GOVERNANCE = tuple(
    column.name for column in tables.tools.c if column.name not in {*_COLUMNS.values(), "tool_id", "flags"}
)
