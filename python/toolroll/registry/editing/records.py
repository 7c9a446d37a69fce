"""Tools with their registry state, and their conversion from and to rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import sqlalchemy as sa

from toolroll.model.tools import Tool
from toolroll.registry.editing.content import COLUMNS, GOVERNED, content_of
from toolroll.registry.editing.governed_rows import GovernedRow
from toolroll.registry.store import tables
from toolroll.registry.store.json_values import as_json
from toolroll.registry.store.row_reader import read_rows

# approved: may be selected; pending: never approved yet; changed: approved before, new content awaits
# approval.
Review = Literal["approved", "pending", "changed"]
REVIEWS: frozenset[str] = frozenset(get_args(Review))

_SEQUENCES = ("tags", "examples", "icons")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord(GovernedRow):
    """One tool of the registry. Its `version` is not the tool's own semantic version.

    Attributes:
        org: its owner; "" for the platform.
        plugin: the plugin that sent it; "" if people wrote it.
        content_hash: SHA-256 of its content.
        source_hash: the hash of the last definition of its plugin or an import; None if people wrote it.
        source_values: the fields that people own, each with the plugin's last value.
        review: only approved content is selected.
        approved_version: the last approved version, or None.
        served_version: the approved version that serves while the present content waits, or None.
        rejected_hash: the hash of the last rejected content.
        flags: things to review: {"code", "message"} each.
    """

    tool: Tool
    org: str
    plugin: str
    content_hash: str
    source_hash: str | None
    source_values: Mapping[str, Any] = field(hash=False)
    review: Review
    approved_version: int | None
    served_version: int | None
    rejected_hash: str | None
    flags: tuple[Mapping[str, str], ...] = field(hash=False)

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the columns of its row. `semantic_version` is the tool's own version."""
        row = row_of(self)
        first = ("tool_id", "org", "plugin", "version")
        columns = (*first, *(name for name in row if name not in first))
        return {name: as_json(row[name]) for name in columns}


@dataclass(frozen=True, slots=True)
class ToolPage:
    """A part of a list of tools, ordered by name.

    Attributes:
        next: the `after` of the next page; "" on the last page.
        total: the number of tools on all pages; None on later pages, which do not count them again.
    """

    records: tuple[ToolRecord, ...]
    next: str = ""
    total: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        tools = [record.to_dict() for record in self.records]
        return {"tools": tools, "next": self.next, "total": self.total}


def tool_in(columns: Mapping[Any, Any]) -> Tool:
    """The tool in the columns of a row of `tools`."""
    values = {name: columns[column] for name, column in COLUMNS.items()}
    for name in _SEQUENCES:
        values[name] = tuple(values[name])
    return Tool(tool_id=columns["tool_id"], **values)


def served_tool(approved: Tool, present: Tool) -> Tool:
    """The tool that serves while the present content waits: approved content, present governance."""
    return replace(approved, **{name: getattr(present, name) for name in GOVERNED})


def read_records(
    connection: sa.Connection,
    *where: sa.ColumnElement[bool],
    order_by: Sequence[sa.ColumnElement[Any]] = (),
    limit: int | None = None,
) -> Iterator[ToolRecord]:
    """The records in rows of `tools`."""
    table = tables.tools
    for row in read_rows(connection, list(table.c), *where, order_by=order_by, limit=limit):
        state = {name: row[name] for name in _STATE}
        yield ToolRecord(tool=tool_in(row), flags=tuple(row["flags"] or ()), **state)


def row_of(record: ToolRecord) -> dict[str, Any]:
    """The row of `tools` for a record."""
    content = content_of(record.tool)
    return {
        "tool_id": record.tool.tool_id,
        **{column: content[name] for name, column in COLUMNS.items()},
        "flags": [dict(flag) for flag in record.flags],
        **{name: getattr(record, name) for name in _STATE},
    }


_STATE = tuple(
    column.name for column in tables.tools.c if column.name not in {*COLUMNS.values(), "tool_id", "flags"}
)
