"""Rows as editors read them: damaged ones too, marked, so that somebody can repair or delete them.

Catalogs and policies leave a damaged row out (see store/checksums.py). An editor gets it with the values that
it holds, which may be wrong, and blank ones for those that cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

import sqlalchemy as sa

from toolroll.errors import InvalidDefinition
from toolroll.registry.store import tables
from toolroll.registry.store.checksums import doubtful_columns, verified
from toolroll.registry.store.row_reader import UnreadableRow, read_rows
from toolroll.tools import Tool

UNREADABLE = "(unreadable)"  # the name of a row whose name cannot be read
UNKNOWN_TIME = datetime.min.replace(tzinfo=timezone.utc)

Row = dict[str, Any]

_DEFAULTS: Mapping[str, Any] = {  # where the blank value of a kind makes no sense
    "name": UNREADABLE,
    "created_at": UNKNOWN_TIME,
    "updated_at": UNKNOWN_TIME,
    "condition": {},
    "source_values": {},
    "review": "pending",
    "status": "draft",
    "semantic_version": Tool("x").version,
}
_KINDS: tuple[tuple[Any, type, Any], ...] = (
    (sa.Boolean, bool, False),
    (sa.Integer, int, 0),
    (tables.Instant, datetime, None),
)
_REFUSED = (InvalidDefinition, TypeError, ValueError, LookupError, AttributeError)
_FIELD_OF_ITEMS = {"keywords": "keyword", "flags": "code"}  # items that are objects have this text

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True, eq=False)
class Damage:
    """Why a row is not believed.

    Attributes:
        problem: a sentence that names the row.
        columns: those that may hold a wrong value, of the columns that have a digest of their own.
        blank: those whose stored value is none that the column may hold.
        where: finds the row where its key cannot be read.
    """

    problem: str
    columns: tuple[str, ...]
    blank: tuple[str, ...]
    where: sa.ColumnElement[bool] | None


def read(
    connection: sa.Connection,
    table: sa.Table,
    *where: sa.ColumnElement[bool],
    order_by: Sequence[sa.ColumnElement[Any]] = (),
    limit: int | None = None,
) -> Iterator[Row]:
    """All columns of rows. A damaged row has its `Damage` under "damage"."""
    found = read_rows(
        connection, list(table.c), *where, order_by=order_by, limit=limit, has_checksum=True, has_kinds=True
    )
    for one in found:
        row = verified(table, one)
        yield _as_row(table, row) if isinstance(row, UnreadableRow) else dict(row)


def record_of(table: sa.Table, row: Row, build: Callable[[Row], RecordT]) -> RecordT:
    """What `build` makes of a row; of a damaged one, without the values that it refuses."""
    try:
        return build(row)
    except _REFUSED:
        damage = row.get("damage")
        if damage is None:
            raise
        keys = {*(column.name for column in table.primary_key), "org"}
        for kept in ({*keys, "name"}, keys):  # a name may be one that no tool can have
            values = {one.name: row[one.name] if one.name in kept else _blank(one) for one in table.c}
            try:
                return build({**values, "damage": damage})
            except _REFUSED:
                continue
        raise


def _as_row(table: sa.Table, found: UnreadableRow) -> Row:
    row = {column.name: _value(column, found.stored.get(column.name)) for column in table.c}
    blank = tuple(
        column.name
        for column in table.c
        if isinstance(column.type, sa.JSON) or row[column.name] is not found.stored.get(column.name, row)
    )
    return {**row, "damage": Damage(found.problem, doubtful_columns(table, found), blank, found.where)}


def _value(column: sa.Column[Any], stored: Any) -> Any:
    """A stored value, or a blank one if it is of another kind than its column."""
    blank = _blank(column)
    if not isinstance(column.type, sa.JSON):
        return stored if isinstance(stored, _kind(column)) else blank
    try:
        value = json.loads(stored)
    except (TypeError, ValueError, RecursionError):
        return blank
    if isinstance(value, list) and (field := _FIELD_OF_ITEMS.get(column.name)):
        value = [item for item in value if isinstance(item, dict) and isinstance(item.get(field), str)]
    is_object = column.nullable or isinstance(blank, dict)
    return value if isinstance(value, dict if is_object else list) else blank


def _blank(column: sa.Column[Any]) -> Any:
    if column.nullable:
        return None
    if column.name in _DEFAULTS:
        return _DEFAULTS[column.name]
    if isinstance(column.type, sa.JSON):
        return []
    return next((blank for type_, _, blank in _KINDS if isinstance(column.type, type_)), "")


def _kind(column: sa.Column[Any]) -> type:
    return next((kind for type_, kind, _ in _KINDS if isinstance(column.type, type_)), str)
