"""Rows that replace those of the same key, or are passed over, on both databases.

Plain statements with many sets of parameters: SQLAlchemy's own way costs in Python several times what the
database takes, and this runs while others select.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from toolroll.events.breath import Breath

_SOME = 64  # rows at a time


def upsert(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, all with the same columns; one whose key is there takes its place."""
    _insert(connection, table, rows, replaces=True)


def add_missing(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, all with the same columns; one whose key is there is passed over."""
    _insert(connection, table, rows, replaces=False)


def _insert(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *, replaces: bool
) -> None:
    if not rows:
        return
    dialect, names = connection.dialect, list(rows[0])
    quoted = {name: dialect.identifier_preparer.quote(name) for name in names}
    keys = [column.name for column in table.primary_key]
    mark = "%s" if dialect.name == "postgresql" else "?"
    statement = (
        f"INSERT INTO {table.name} ({', '.join(quoted.values())}) VALUES ({', '.join([mark] * len(names))})"
    )
    if replaces:
        others = ", ".join(f"{quoted[name]} = excluded.{quoted[name]}" for name in names if name not in keys)
        statement += f" ON CONFLICT ({', '.join(quoted[key] for key in keys)}) DO UPDATE SET {others}"
    else:
        statement += " ON CONFLICT DO NOTHING"
    # what SQLAlchemy does to a parameter of each type; None where it does nothing
    processors = [(name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in names]
    breath = Breath()
    for start in range(0, len(rows), _SOME):
        values = [
            tuple([row[name] if process is None else process(row[name]) for name, process in processors])
            for row in rows[start : start + _SOME]
        ]
        connection.exec_driver_sql(statement, values)
        breath()
