"""Inserts and updates many rows with the same columns, in the fastest way of each database.

SQLAlchemy spends as much time on a row as the database. So these functions convert values with the columns'
types and call the driver: COPY on PostgreSQL, four times as fast as a statement with many parameter sets, and
a prepared statement on SQLite. They raise SQLAlchemy's errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import sqlalchemy as sa

from toolroll.runtime.gil import GilYielder, batches

Row = Mapping[str, Any]
_Converter: TypeAlias = Callable[[Row], tuple[Any, ...]]

_BATCH = 64  # rows in one call of the driver, for functions that yield the GIL


def insert(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Inserts all rows at once."""
    if not rows:
        return
    into, convert = _into(connection, table, rows[0]), _converter(connection, table, rows[0])
    if connection.dialect.name == "postgresql":
        _copy(connection, f"COPY {into} FROM STDIN", map(convert, rows))
    else:
        marks = ", ".join("?" * len(rows[0]))
        connection.exec_driver_sql(f"INSERT INTO {into} VALUES ({marks})", list(map(convert, rows)))


def insert_in_batches(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Inserts rows, and yields the GIL in between. A row whose key exists is an error."""
    _write(connection, table, rows, "")


def add_missing(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Inserts rows, and yields the GIL in between. Skips rows whose keys exist."""
    _write(connection, table, rows, " ON CONFLICT DO NOTHING")


def merge(
    connection: sa.Connection,
    table: sa.Table,
    rows: Iterable[Row],
    *,
    added: Collection[str] = (),
    later: Collection[str] = (),
) -> None:
    """Inserts rows, or updates the row with the same key, and yields the GIL in between.

    added: columns to which the new value is added. later: columns that keep the greater value. Other columns
        get the new value, unless it is NULL.
    """
    quote, dialect = connection.dialect.identifier_preparer.quote, connection.dialect
    into, most = quote(table.name), "GREATEST" if dialect.name == "postgresql" else "MAX"
    sets = []
    for column in table.c:
        name = quote(column.name)
        old, new = f"{into}.{name}", f"excluded.{name}"
        known = f"COALESCE({new}, {old})"
        if column.name in added:
            known = f"{old} + {new}"
        elif column.name in later:
            known = f"{most}({known}, COALESCE({old}, {new}))"
        if not column.primary_key:
            sets.append(f"{name} = {known}")
    keys = ", ".join(quote(column.name) for column in table.primary_key)
    _write(connection, table, rows, f" ON CONFLICT ({keys}) DO UPDATE SET {', '.join(sets)}", at_once=True)


def update(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    """Sets columns of the rows with these keys, and yields the GIL in between. Skips unknown keys.

    rows: the columns of the primary key, and the columns to set.
    """
    rest = iter(rows)
    if (first := next(rest, None)) is None:
        return
    quote, dialect = connection.dialect.identifier_preparer.quote, connection.dialect
    is_postgresql = dialect.name == "postgresql"
    into, marks, equal = quote(table.name), list[str](), dict[bool, list[str]]({True: [], False: []})
    for at, name in enumerate(first, 1):  # VALUES names its columns column1, column2 and so on
        column = table.c[name]
        # without a type, PostgreSQL reads a parameter in VALUES as text
        marks.append(f"%s::{column.type.compile(dialect)}" if is_postgresql else "?")
        equal[column.primary_key].append(f"{quote(name)} = new.column{at}")
    where = " AND ".join(f"{into}.{one}" for one in equal[True])
    statement = f"UPDATE {into} SET {', '.join(equal[False])} FROM (VALUES {{}}) AS new WHERE {where}"
    for values in _converted(chain((first,), rest), _converter(connection, table, first)):
        connection.exec_driver_sql(
            statement.format(_row_marks(marks, len(values))), tuple(chain.from_iterable(values))
        )


def _write(
    connection: sa.Connection,
    table: sa.Table,
    rows: Iterable[Row],
    on_conflict: str,
    *,
    at_once: bool = False,
) -> None:
    """Inserts rows. at_once: whether one statement may insert several rows on PostgreSQL, too."""
    rest = iter(rows)
    if (first := next(rest, None)) is None:
        return
    into = _into(connection, table, first)
    is_postgresql = connection.dialect.name == "postgresql"
    marks = ["%s" if is_postgresql else "?"] * len(first)
    for values in _converted(chain((first,), rest), _converter(connection, table, first)):
        if is_postgresql and not at_once:
            statement = f"INSERT INTO {into} VALUES {_row_marks(marks, 1)}{on_conflict}"
            connection.exec_driver_sql(statement, values)
        else:  # with a statement for each row, SQLite's driver waits for the GIL after each row
            statement = f"INSERT INTO {into} VALUES {_row_marks(marks, len(values))}{on_conflict}"
            connection.exec_driver_sql(statement, tuple(chain.from_iterable(values)))


def _row_marks(marks: Sequence[str], n: int) -> str:
    """The parameters of n rows, for VALUES."""
    return ", ".join([f"({', '.join(marks)})"] * n)


def _converted(rows: Iterable[Row], convert: _Converter) -> Iterator[list[tuple[Any, ...]]]:
    """The driver's values, one batch for each call. Yields the GIL after a row."""
    yielder = GilYielder()

    def values() -> Iterator[tuple[Any, ...]]:
        for row in rows:
            yield convert(row)
            yielder()

    return batches(values(), _BATCH)


def _into(connection: sa.Connection, table: sa.Table, row: Row) -> str:
    """SQL for the table and the columns of the rows."""
    quote = connection.dialect.identifier_preparer.quote
    return f"{quote(table.name)} ({', '.join(map(quote, row))})"


def _converter(connection: sa.Connection, table: sa.Table, row: Row) -> _Converter:
    """Converts rows with these columns to the driver's values, as SQLAlchemy does."""
    dialect = connection.dialect
    processors = [(name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in row]

    def convert(row: Row) -> tuple[Any, ...]:
        return tuple([row[name] if process is None else process(row[name]) for name, process in processors])

    return convert


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
