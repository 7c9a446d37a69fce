"""Inserts of many rows with the same columns, in each database's fastest way.

SQLAlchemy's own insert takes as long in Python for a row as the database takes to store it. So these
functions convert values with the columns' types and call the driver: COPY on PostgreSQL, four times as fast
as a statement with many parameter sets, and a prepared statement on SQLite. They raise what SQLAlchemy would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import sqlalchemy as sa

from toolroll.registry.store.gil import GilYielder

_T = TypeVar("_T")
Row = Mapping[str, Any]

_BATCH = 64  # rows in one call of the driver, for functions that yield the GIL


def batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """The items in lists of this size; the last list may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def insert(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Inserts all rows at once."""
    if not rows:
        return
    into, convert = _columns(connection, table, rows[0])
    if connection.dialect.name == "postgresql":
        _copy(connection, f"COPY {into} FROM STDIN", map(convert, rows))
    else:
        marks = ", ".join("?" * len(rows[0]))
        connection.exec_driver_sql(f"INSERT INTO {into} VALUES ({marks})", list(map(convert, rows)))


def insert_in_batches(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Inserts rows, and yields the GIL in between; a row whose key exists is an error."""
    _write(connection, table, rows, "")


def add_missing(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Inserts rows, and yields the GIL in between; skips a row whose key exists."""
    _write(connection, table, rows, " ON CONFLICT DO NOTHING")


def upsert(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Inserts rows, and yields the GIL in between; a row replaces the one with its key."""
    quote = connection.dialect.identifier_preparer.quote
    keys = ", ".join(quote(column.name) for column in table.primary_key)
    _write(connection, table, rows, f" ON CONFLICT ({keys}) DO UPDATE SET ")


def _write(connection: sa.Connection, table: sa.Table, rows: Iterable[Row], on_conflict: str) -> None:
    rest, yielder = iter(rows), GilYielder()
    first = next(rest, None)
    if first is None:
        return
    into, convert = _columns(connection, table, first)
    if on_conflict.endswith("SET "):
        quote = connection.dialect.identifier_preparer.quote
        names = [quote(name) for name in first if not table.c[name].primary_key]
        on_conflict += ", ".join(f"{name} = excluded.{name}" for name in names)

    def converted() -> Iterator[tuple[Any, ...]]:
        for row in chain((first,), rest):
            yield convert(row)
            yielder()

    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    marks = f"({', '.join([mark] * len(first))})"
    for values in batches(converted(), _BATCH):
        if mark == "%s":
            connection.exec_driver_sql(f"INSERT INTO {into} VALUES {marks}{on_conflict}", values)
        else:  # One statement: with one for each row, SQLite's driver waits for the GIL after each row.
            all_marks = ", ".join([marks] * len(values))
            statement = f"INSERT INTO {into} VALUES {all_marks}{on_conflict}"
            connection.exec_driver_sql(statement, tuple(chain.from_iterable(values)))


def _columns(
    connection: sa.Connection, table: sa.Table, row: Row
) -> tuple[str, Callable[[Row], tuple[Any, ...]]]:
    """The table and its columns in SQL, and the conversion of a row to the driver's values."""
    dialect = connection.dialect
    quote = dialect.identifier_preparer.quote
    # the same conversion as SQLAlchemy's; None if a type needs none
    processors = [(name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in row]

    def convert(row: Row) -> tuple[Any, ...]:
        return tuple([row[name] if process is None else process(row[name]) for name, process in processors])

    return f"{quote(table.name)} ({', '.join(map(quote, row))})", convert


def _copy(connection: sa.Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    module = connection.dialect.loaded_dbapi
    try:
        driver: Any = connection.connection
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except module.Error as error:
        # SQLAlchemy's exception, so that the store translates it like any other
        raise sa.exc.DBAPIError.instance(
            statement, None, error, module.Error, dialect=connection.dialect
        ) from error
