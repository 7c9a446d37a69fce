"""Reads rows of a table as mappings of its columns."""

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
    """These columns of a table's rows."""
    query = sa.select(*columns).where(*where).order_by(*order_by).limit(limit)
    names = [column.name for column in columns]
    for row in connection.execute(query):
        yield dict(zip(names, row, strict=True))
