"""For operators: the registry's contents in numbers, and the upgrade of its schema."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.registry import stored_rows
from toolroll.registry.governed_rows import as_json
from toolroll.registry.store import schema, tables
from toolroll.registry.store.checksums import is_present
from toolroll.registry.store.database import Database
from toolroll.registry.store.revision import damaged
from toolroll.registry.store.row_reader import Row, UnreadableRow, read_rows
from toolroll.registry.store.unreadable_rows import UnreadableRows, readable
from toolroll.registry.store.url import Address
from toolroll.registry.tiers import verified_tiers

# The tables of which every row is looked at; those of versions, events and vectors may be large.
_WITH_CHECKSUMS = (tables.tools, tables.toolkits, tables.visibility_rules, tables.page_mappings, tables.pins)
_WITHOUT = (tables.settings, tables.experiments, tables.registry_state)


def status_of(database: Database) -> dict[str, Any]:
    """Counts, revision, schema, tools that await approval, database, embeddings. One consistent read.

    "unreadable" names the rows that cannot be read; such tools and plugins are not counted.
    """
    tools, changes = tables.tools, tables.changes
    alive = tools.c.deleted_at.is_(None)
    unreadable = UnreadableRows()
    with database.reading() as connection:

        def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
            counted = sa.select(sa.func.count()).select_from(table).where(*where)
            return int(connection.execute(counted).scalar_one())

        def count_by(column: sa.Column[str], *where: sa.ColumnElement[bool]) -> dict[str, int]:
            counted = sa.select(column, sa.func.count()).where(*where).group_by(column).order_by(column)
            return {name: number for name, number in connection.execute(counted)}

        def count_alive(table: sa.Table) -> int:
            return count(table, table.c.deleted_at.is_(None))

        for table in _WITHOUT:
            readable(connection, list(table.c), (), unreadable)
        for table in _WITH_CHECKSUMS:
            of_their_kind = readable(connection, list(table.c), (), unreadable)
            for row in stored_rows.read(connection, table, *of_their_kind):
                if "damage" in row:
                    unreadable.add(table, row["org"], *(row[key.name] for key in table.primary_key))
        sound = readable(connection, list(tools.c), (), None)
        spaces = tables.embeddings.c.identity
        read = verified_tiers(connection)
        state, last = _state(connection), _last_change(connection)
        reviews = count_by(tools.c.review, alive, *sound)
        return {
            "catalog": database.url,
            "database": _version(database, connection),
            "schema": schema.REVISIONS[-1],  # `Database.open` accepts no other
            "revision": state.get("revision"),
            "created_at": _iso(state.get("created_at")),
            "changed_at": _iso(last),
            "tools": sum(reviews.values()),
            "tools_by_org": count_by(tools.c.org, alive, *sound),
            "tools_by_status": count_by(tools.c.status, alive, *sound),
            "deleted": count(tools, tools.c.deleted_at.is_not(None)),
            "waiting": {name: reviews.get(name, 0) for name in ("pending", "changed")},
            "flagged": count(tools, alive, sa.cast(tools.c.flags, sa.Text) != "[]", *sound),
            "toolkits": count_alive(tables.toolkits),
            "rules": count(
                tables.visibility_rules,
                is_present(tables.visibility_rules),
                tables.visibility_rules.c.active,
            ),
            "pages": count_alive(tables.page_mappings),
            "pins": count_alive(tables.pins),
            "settings": count(tables.settings, tables.settings.c.is_set),
            "plugins": _plugins(connection, unreadable),
            "tiers": read.problem if isinstance(read, UnreadableRow) else list(read),
            "versions": count(tables.tool_versions),
            "changes": count(changes),
            "embeddings": count_by(spaces, *readable(connection, (spaces,), (), unreadable)),
            "unreadable": [*unreadable],
        }


def _state(connection: sa.Connection) -> Row:
    """What can be read of the registry's own row."""
    rows = list(read_rows(connection, list(tables.registry_state.c)))
    if not rows:
        raise damaged("is missing")
    (row,) = rows
    return row.values if isinstance(row, UnreadableRow) else row


def _last_change(connection: sa.Connection) -> datetime | None:
    log = tables.changes.c
    for row in read_rows(connection, (log.at,), order_by=(log.seq.desc(),), limit=1):
        return None if isinstance(row, UnreadableRow) else row["at"]
    return None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def upgrade(url: str) -> tuple[str, str]:
    """Upgrades the schema to this toolroll's. Returns the schema before and after.

    Raises:
        NotFound: there is no registry.
        StoreUnavailable: it does not answer, or a newer toolroll made it.
    """
    before = _schema(url)
    Database.open(url, create=False, migrate=True).close()
    return before or schema.REVISIONS[-1], schema.REVISIONS[-1]


def _schema(url: str) -> str | None:
    """The present schema; None if opening the registry will explain what is wrong."""
    address = Address.of(url)
    if address.path is not None and not address.path.is_file():
        return None
    database = Database(address)
    try:
        with database.reading() as connection:
            return schema.revision_of(connection, address)
    finally:
        database.close()


def _plugins(connection: sa.Connection, unreadable: UnreadableRows) -> list[dict[str, Any]]:
    table = tables.plugins
    names = ("org", "name", "version", "review", "while_waiting", "tools", "synced_at", "synced_by")
    order = (table.c.org, table.c.name)
    rows = read_rows(connection, list(table.c), order_by=order)
    renamed = {"version": "plugin_version"}
    return [
        {renamed.get(name, name): as_json(row[name]) for name in names}
        for row in unreadable.without(table, rows)
    ]


def _version(database: Database, connection: sa.Connection) -> str:
    if database.dialect == "sqlite":
        return f"SQLite {connection.exec_driver_sql('SELECT sqlite_version()').scalar_one()}"
    version = str(connection.exec_driver_sql("SHOW server_version").scalar_one()).split()[0]
    vector = connection.exec_driver_sql(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).scalar()
    return f"PostgreSQL {version}, {f'pgvector {vector}' if vector else 'without pgvector'}"
