"""Rows that replace those of the same key, or are passed over, on both databases.

Plain statements with many sets of parameters: SQLAlchemy's own way costs in Python several times what the
database takes, and this runs while others select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from toolroll.events.breath import Breath

_SOME = 64  # rows at a time


def upsert(connection: sa.Connection, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Inserts rows, all with the same columns; one whose key is there takes its place."""

    def clause(names: Sequence[str], quote: Callable[[str], str]) -> str:
        keys = [column.name for column in table.primary_key]
        others = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in names if name not in keys)
        return f" ON CONFLICT ({', '.join(map(quote, keys))}) DO UPDATE SET {others}"

    _insert(connection, table, rows, clause)


def add_missing(connection: sa.Connection, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Inserts rows, all with the same columns; one whose key is there is passed over."""
    _insert(connection, table, rows, lambda names, quote: " ON CONFLICT DO NOTHING")


def insert(connection: sa.Connection, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Inserts rows, all with the same columns; one whose key is there is an error."""
    _insert(connection, table, rows, lambda names, quote: "")


def _insert(
    connection: sa.Connection,
    table: sa.Table,
    rows: Iterable[Mapping[str, Any]],
    clause: Callable[[Sequence[str], Callable[[str], str]], str],
) -> None:
    dialect, quote, breath = connection.dialect, connection.dialect.identifier_preparer.quote, Breath()
    mark = "%s" if dialect.name == "postgresql" else "?"
    statement, processors = "", list[tuple[str, Callable[[Any], Any] | None]]()
    values: list[tuple[Any, ...]] = []
    for row in rows:
        if not processors:
            # what SQLAlchemy does to a parameter of each type; None where it does nothing
            processors = [
                (name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in row
            ]
            names = list(row)
            statement = (
                f"INSERT INTO {quote(table.name)} ({', '.join(map(quote, names))}) "
                f"VALUES ({', '.join([mark] * len(names))}){clause(names, quote)}"
            )
        values.append(
            tuple([row[name] if process is None else process(row[name]) for name, process in processors])
        )
        breath()
        if len(values) == _SOME:
            connection.exec_driver_sql(statement, values)
            values = []
    if values:
        connection.exec_driver_sql(statement, values)
