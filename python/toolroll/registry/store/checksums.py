"""Checksums of the rows that policy and models read: a row that was changed past the registry is noticed.

A checksum is several digests: of everything that a reader believes, and of single columns. If the first one
is wrong, the others say which columns can be believed nonetheless, such as the owner of a rule and its
target. No key is involved: checksums show accidents, not an attacker who can write to the database.

The checksum of a deleted row ends in a mark. Readers of rules skip a deleted row by that mark, and need not
read all rows that were ever deleted. A date of deletion without the mark was not written by the registry.

JSON counts by its text, as it is stored: to write it again would take longer than to read the row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import Row, UnreadableRow, place_of

_NAMES = ("tools", "toolkits", "visibility_rules", "page_mappings", "pins")
_NOT_COVERED = {  # the author of a change, and columns that no catalog is built from
    *("version", "created_at", "updated_at", "updated_by", "deleted_at", "revision", "checksum"),
    *("plugin", "content_hash", "source_hash", "source_values", "rejected_hash", "flags", "approved_version"),
}
_TABLES = {name: tables.metadata.tables[name] for name in _NAMES}
_COVERED = {
    name: tuple(column.name for column in table.c if column.name not in _NOT_COVERED)
    for name, table in _TABLES.items()
}
# The columns with a digest of their own. A tool has many columns, and its versions tell what they were.
_PARTS: Mapping[str, tuple[str, ...]] = {**_COVERED, "tools": ("tool_id", "org", "name")}
_JSON = {
    name: tuple(column.name for column in table.c if isinstance(column.type, sa.JSON))
    for name, table in _TABLES.items()
}
_FLAGS = {
    name: tuple(column.name for column in table.c if isinstance(column.type, sa.Boolean))
    for name, table in _TABLES.items()
}
_values_of = {name: itemgetter(*columns) for name, columns in _COVERED.items()}
_WHOLE, _PART = 16, 4  # bytes of a digest
_DELETED = "deleted"  # the mark

_REPAIR = "write the row again, delete it, or restore a backup"


def is_present(table: sa.Table) -> sa.ColumnElement[bool]:
    """True of the rows that the registry has not deleted, whatever their date of deletion says."""
    return table.c.deleted_at.is_(None) | table.c.checksum.not_like(f"%-{_DELETED}")


def checksum_of(table: sa.Table, row: Row) -> str:
    """The checksum of a row."""
    name = table.name
    texts = {column: tables.json_text(row[column]) for column in _JSON[name] if row.get(column) is not None}
    values = {**row, **texts, **{column: bool(row[column]) for column in _FLAGS[name]}}
    parts = (_digest((values[column],), _PART) for column in _PARTS[name])
    mark = () if row["deleted_at"] is None else (_DELETED,)
    return "-".join((_whole(name, values), *parts, *mark))


def is_intact(table: sa.Table, row: Row) -> bool:
    """Whether the row is that of its checksum."""
    try:
        return bool(checksum_of(table, row) == row["checksum"])
    except (ValueError, TypeError, RecursionError):  # a value of another kind, or nested too deeply
        return False


def verified(table: sa.Table, row: Row | UnreadableRow) -> Row | UnreadableRow:
    """A row whose JSON is text, with that JSON read; or what can be believed of it.

    Those are the columns whose digests are right, or all columns if none is: then the checksum is damaged.
    """
    if isinstance(row, UnreadableRow):
        stored = row.stored or row.values
        believed = _believed(table, stored)
        return UnreadableRow(believed, row.problem, stored, row.where)
    if str(row["checksum"])[: 2 * _WHOLE] != _whole(table.name, row):
        return _damaged(table, row)
    read = dict(row)
    for column in _JSON[table.name]:
        text = row.get(column)
        if text is not None:
            try:
                read[column] = [] if text == "[]" else json.loads(text)
            except ValueError as error:  # one without a checksum
                return _unreadable(table, row, f"{column} is no JSON ({error})")
    return read


def content_columns(table: sa.Table) -> frozenset[str]:
    """The covered columns but those that say which row it is."""
    keys = {column.name for column in table.primary_key}
    return frozenset(_COVERED[table.name]) - keys - {"org", "name"}


def doubtful_columns(table: sa.Table, row: UnreadableRow) -> tuple[str, ...]:
    """The columns with a digest of their own that is wrong."""
    right = _right(table, row.stored)
    return tuple(column for column in _PARTS[table.name] if column not in right)


def checksum_of_tiers(tiers: Sequence[str]) -> str:
    """The checksum of the list of tiers."""
    return _digest((tables.json_text(list(tiers)),), _WHOLE)


def _damaged(table: sa.Table, row: Row) -> UnreadableRow:
    believed = _believed(table, row)
    wrong = [column for column in _PARTS[table.name] if column not in believed]
    if _is_marked(row) != (row["deleted_at"] is not None):
        wrong.append("deleted_at")
    what = f"does not fit {', '.join(wrong)}" if wrong else "is wrong"
    return _unreadable(table, row, f"its checksum {what}")


def _unreadable(table: sa.Table, row: Row, why: str) -> UnreadableRow:
    problem = f"{place_of(table, row)} is damaged: {why}; {_REPAIR}"
    return UnreadableRow(_believed(table, row), problem, row)


def _is_marked(row: Row) -> bool:
    return str(row.get("checksum")).endswith(f"-{_DELETED}")


def _believed(table: sa.Table, row: Row) -> dict[str, Any]:
    right = _right(table, row)
    return {column: row[column] for column in _PARTS[table.name] if column in (right or row)}


def _right(table: sa.Table, row: Row) -> set[str]:
    """The columns whose digests are right."""
    parts, digests = _PARTS[table.name], str(row.get("checksum")).split("-")[1:]
    return {
        column
        for column, digest in zip(parts, digests, strict=False)
        if column in row and digest == _digest((row[column],), _PART)
    }


def _whole(table: str, row: Row) -> str:
    return _digest((*_values_of[table](row), row["deleted_at"] is not None), _WHOLE)


def _digest(values: Iterable[object], size: int) -> str:
    # No text in a database holds NUL.
    text = "\0".join([value if type(value) is str else f"\0{value}" for value in values])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
