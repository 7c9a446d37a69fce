"""Gives each key of an organisation's rows the organisation, and PostgreSQL partitions.

PostgreSQL copies no events and outcomes: their tables become the first partitions, which end with a month.
Sessions and open events are copied, and on SQLite all four tables.
"""

from __future__ import annotations

from datetime import datetime, timezone

import sqlalchemy as sa
from alembic import op

from toolroll.registry.store import partitions, tables

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Replaces four tables by ones with other keys, with all rows."""
    connection = op.get_bind()
    for table in (tables.selection_events, tables.outcomes, tables.open_events, tables.sessions):
        is_kept = connection.dialect.name == "postgresql" and table in partitions.BY_MONTH
        if connection.dialect.name == "sqlite" and table is tables.sessions:
            continue  # only its partitions are new
        _add_later_columns(connection, table)
        old = f"{table.name}_before"
        connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO {old}")
        _free_names(connection, old)
        table.create(connection, checkfirst=False)
        if is_kept:
            latest = connection.execute(sa.text(f"SELECT max(at) FROM {old}")).scalar()
            end = partitions.after(partitions.month_of(max(latest or _now(), _now())))
            connection.exec_driver_sql(
                f"ALTER TABLE {table.name} ATTACH PARTITION {old} "
                f"FOR VALUES FROM (MINVALUE) TO ('{end.isoformat()}')"
            )
        else:
            names = ", ".join(f'"{column.name}"' for column in table.c)
            connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {old}")
            connection.exec_driver_sql(f"DROP TABLE {old}")
    partitions.make_ahead(connection, _now())


def _add_later_columns(connection: sa.Connection, table: sa.Table) -> None:
    """Adds the columns of later steps: the new table is made as it is today, and takes the old one's rows."""
    known = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for column in table.c:
        if column.name not in known:
            op.add_column(table.name, sa.Column(column.name, column.type))


def _free_names(connection: sa.Connection, old: str) -> None:
    """Drops the keys and indexes of a table: their names are those of the new one's."""
    if connection.dialect.name == "sqlite":
        query = sa.text(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = :t AND sql IS NOT NULL"
        )
        for (name,) in connection.execute(query, {"t": old}).all():
            connection.exec_driver_sql(f"DROP INDEX {name}")
        return
    constraints = sa.text(
        "SELECT conname FROM pg_constraint WHERE conrelid = CAST(:t AS regclass) AND contype IN ('p', 'u')"
    )
    for (name,) in connection.execute(constraints, {"t": old}).all():
        connection.exec_driver_sql(f"ALTER TABLE {old} DROP CONSTRAINT {name}")
    indexes = sa.text("SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = CAST(:t AS regclass)")
    for (name,) in connection.execute(indexes, {"t": old}).all():
        connection.exec_driver_sql(f"DROP INDEX {name}")


def _now() -> datetime:
    return datetime.now(timezone.utc)
