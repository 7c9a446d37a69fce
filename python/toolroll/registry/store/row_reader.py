"""Reads rows of a table as mappings of its columns, and JSON columns as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

Row: TypeAlias = Mapping[str, Any]


def read_rows(
    connection: sa.Connection,
    columns: Sequence[sa.Column[Any]],
    *where: sa.ColumnElement[bool],
    order_by: Sequence[sa.ColumnElement[Any]] = (),
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """The values of these columns, row by row."""
    query = sa.select(*columns).where(*where).order_by(*order_by).limit(limit)
    names = [column.name for column in columns]
    for row in connection.execute(query):
        yield dict(zip(names, row, strict=True))


def items(dialect: str, column: sa.ColumnElement[Any], name: str = "item") -> Any:
    """A JSON list of texts as rows with a column `value`, joined to the row with the list."""
    function = sa.func.json_array_elements_text if dialect == "postgresql" else sa.func.json_each
    return function(column).table_valued(sa.column("value", sa.Text), name=name, joins_implicitly=True)


def pairs(dialect: str, column: sa.ColumnElement[Any], name: str = "pair") -> Any:
    """A JSON object as rows with text columns `key` and `value`, joined to the row with the object."""
    function = sa.func.json_each_text if dialect == "postgresql" else sa.func.json_each
    key, value = sa.column("key", sa.Text), sa.column("value", sa.Text)
    return function(column).table_valued(key, value, name=name, joins_implicitly=True)
