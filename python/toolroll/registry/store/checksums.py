"""Checksums of the rows that policy and models read: a row that was changed past the registry is noticed.

A checksum is several digests: of everything that a reader believes, and of parts of it. If the first one is
wrong, the others say which parts can be believed nonetheless, such as the owner of a rule and its target. No
key is involved: checksums show accidents, not an attacker who can write to the database.

JSON counts by its text, as it is stored: to write it again would take longer than to read the row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import Row, UnreadableRow

# The parts of each table's rows that are believed by themselves.
_PARTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tools": (("tool_id",), ("org",), ("name",)),
    "toolkits": (("toolkit_id",), ("org",), ("name",)),
    "visibility_rules": (("rule_id",), ("org",), ("name",), ("effect", "tool", "toolkit")),
    "page_mappings": (("page_id",), ("org",)),
    "pins": (("pin_id",), ("org",)),
}
_NOT_COVERED = {  # the author of a change, and columns that no catalog is built from
    *("version", "created_at", "updated_at", "updated_by", "deleted_at", "revision", "checksum"),
    *("plugin", "content_hash", "source_hash", "rejected_hash", "flags", "approved_version"),
}
_TABLES = {name: tables.metadata.tables[name] for name in _PARTS}
_COVERED = {
    name: tuple(column.name for column in table.c if column.name not in _NOT_COVERED)
    for name, table in _TABLES.items()
}
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


def columns_of(table: sa.Table) -> tuple[str, ...]:
    """The columns that `checksum_of` reads."""
    return (*_COVERED[table.name], "deleted_at")


def checksum_of(table: sa.Table, row: Row) -> str:
    """The checksum of a row."""
    name = table.name
    texts = {column: tables.json_text(row[column]) for column in _JSON[name] if row.get(column) is not None}
    values = {**row, **texts, **{column: bool(row[column]) for column in _FLAGS[name]}}
    parts = (_digest((values[column] for column in part), _PART) for part in _PARTS[name])
    return "-".join((_whole(name, values), *parts))


def is_intact(table: sa.Table, row: Row) -> bool:
    """Whether the row is that of its checksum."""
    try:
        return bool(checksum_of(table, row) == row["checksum"])
    except (ValueError, TypeError, RecursionError):  # a value of another kind, or nested too deeply
        return False


def verified(table: sa.Table, row: Row | UnreadableRow) -> Row | UnreadableRow:
    """A row whose JSON is text, with that JSON read; or what can be believed of it.

    Those are the values in the parts whose digests are right, or in all parts if none is.
    """
    if isinstance(row, UnreadableRow):
        return UnreadableRow(_believed(table, row.values), row.problem)
    if str(row["checksum"])[: 2 * _WHOLE] != _whole(table.name, row):
        return UnreadableRow(
            _believed(table, row),
            f"a row of {table.name} is damaged: its checksum is wrong; restore a backup, or delete the row "
            "and write it again",
        )
    read = dict(row)
    for column in _JSON[table.name]:
        text = row.get(column)
        if text is not None:
            read[column] = [] if text == "[]" else json.loads(text)
    return read


def _believed(table: sa.Table, row: Row) -> dict[str, Any]:
    digests = set(str(row.get("checksum")).split("-"))
    parts = [{column: row.get(column) for column in part} for part in _PARTS[table.name]]
    right = [part for part in parts if _digest(part.values(), _PART) in digests]
    # Where none is right, it is the checksum that is damaged.
    return {column: value for part in right or parts for column, value in part.items()}


def _whole(table: str, row: Row) -> str:
    return _digest((*_values_of[table](row), row["deleted_at"] is not None), _WHOLE)


def _digest(values: Iterable[object], size: int) -> str:
    # No text in a database holds NUL.
    text = "\0".join([value if type(value) is str else f"\0{value}" for value in values])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
