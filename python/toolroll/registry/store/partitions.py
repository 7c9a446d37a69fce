"""Gives each month of events and outcomes its own table on PostgreSQL, and drops it as a whole.

Deleting a month row by row would write as much as inserting it, and autovacuum would have to clean up. Rows
of a month without a table, such as from a clock that is years off, go to the default partition. SQLite keeps
plain tables.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from toolroll.registry.store import tables

AHEAD = 2  # months that have a table before they begin
BY_MONTH = (tables.selection_events, tables.outcomes)
_COUNTED = 100_000  # up to this size, the rows of a dropped month are counted
_QUICKLY = "SET LOCAL lock_timeout = '500ms'"  # a wait for a whole table blocks all others


def month_of(at: datetime) -> datetime:
    """The beginning of the month in UTC."""
    return at.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def after(month: datetime) -> datetime:
    """The next month."""
    return month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)


def make_ahead(connection: sa.Connection, now: datetime) -> int:
    """Makes the missing tables of this month and the next two, and returns their number.

    Moves rows of these months from the default partition. Waits half a second at most.

    Raises sqlalchemy.exc.DBAPIError if the table is locked; try again later.
    """
    if connection.dialect.name != "postgresql":
        return 0
    made, month = 0, month_of(now)
    for _ in range(1 + AHEAD):
        for table in BY_MONTH:
            if month >= (covered_until(connection, table) or month):
                _make(connection, table, month)
                made += 1
        month = after(month)
    return made


def _make(connection: sa.Connection, table: sa.Table, month: datetime) -> None:
    name, until = f"{table.name}_{month:%Y_%m}", after(month)
    connection.exec_driver_sql(_QUICKLY)
    connection.exec_driver_sql(
        f"CREATE TABLE {name} (LIKE {table.name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
    )
    within = f"at >= '{month.isoformat()}' AND at < '{until.isoformat()}'"
    connection.exec_driver_sql(
        f"WITH moved AS (DELETE FROM {table.name}_default WHERE {within} RETURNING *) "
        f"INSERT INTO {name} SELECT * FROM moved"
    )
    connection.exec_driver_sql(
        f"ALTER TABLE {table.name} ATTACH PARTITION {name} "
        f"FOR VALUES FROM ('{month.isoformat()}') TO ('{until.isoformat()}')"
    )


def months(connection: sa.Connection, table: sa.Table) -> list[tuple[str, datetime]]:
    """Each monthly partition and its end, oldest first."""
    query = sa.text(
        "SELECT relname, substring(pg_get_expr(relpartbound, oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz "
        "FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = CAST(:parent AS regclass) "
        "AND pg_get_expr(relpartbound, oid) <> 'DEFAULT' ORDER BY 2"
    )
    return [(name, end) for name, end in connection.execute(query, {"parent": table.name})]


def covered_until(connection: sa.Connection, table: sa.Table) -> datetime | None:
    """The end of the last month with a table, or None."""
    found = months(connection, table)
    return found[-1][1].astimezone(timezone.utc) if found else None


def drop_before(connection: sa.Connection, table: sa.Table, before: datetime) -> int:
    """Drops the tables of months that ended before this time, and returns the number of their rows.

    For a table above 100,000 rows, the number is the server's estimate: counting would take too long.

    Raises sqlalchemy.exc.DBAPIError if the table is locked; try again later.
    """
    gone = 0
    for name, end in months(connection, table):
        if end <= before:
            connection.exec_driver_sql(_QUICKLY)
            gone += _rows_in(connection, name)
            connection.exec_driver_sql(f"DROP TABLE {name}")
    return gone


def _rows_in(connection: sa.Connection, name: str) -> int:
    estimate = f"SELECT reltuples FROM pg_class WHERE oid = '{name}'::regclass"
    about = int(connection.exec_driver_sql(estimate).scalar_one())
    if about > _COUNTED:
        return about
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one())


def default_of(table: sa.Table) -> Any:
    """The default partition, for queries."""
    return sa.table(f"{table.name}_default", *(sa.column(column.name, column.type) for column in table.c))
