"""For operators: the registry's contents in numbers, its organisations, and the upgrade of its schema."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from toolroll.registry.store import schema, tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import as_json
from toolroll.registry.store.revision import missing
from toolroll.registry.store.row_reader import read_rows
from toolroll.registry.store.url import Address

MOST_ORGANISATIONS = 10_000
# Small tables; each active organisation has a row in one of them. Events are too many to read.
_OWNED = (
    *(tables.learning_state, tables.tools, tables.toolkits, tables.visibility_rules, tables.page_mappings),
    *(tables.pins, tables.settings, tables.plugins, tables.service_keys, tables.accounts, tables.experiments),
)


def status_of(database: Database) -> dict[str, Any]:
    """Counts, revision, schema, tools that await approval, database, embeddings. One consistent read."""
    tools, changes, rules = tables.tools, tables.changes, tables.visibility_rules
    alive = tools.c.deleted_at.is_(None)
    with database.reading() as connection:

        def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
            counted = sa.select(sa.func.count()).select_from(table).where(*where)
            return int(connection.execute(counted).scalar_one())

        def count_by(column: sa.Column[str], *where: sa.ColumnElement[bool]) -> dict[str, int]:
            counted = sa.select(column, sa.func.count()).where(*where).group_by(column).order_by(column)
            return {name: number for name, number in connection.execute(counted)}

        def count_alive(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
            return count(table, table.c.deleted_at.is_(None), *where)

        state = connection.execute(sa.select(tables.registry_state)).mappings().one_or_none()
        if state is None:
            raise missing()
        last = connection.execute(sa.select(changes.c.at).order_by(changes.c.seq.desc()).limit(1)).scalar()
        reviews = count_by(tools.c.review, alive)
        return {
            "catalog": database.url,
            "database": _version(database, connection),
            "schema": schema.REVISIONS[-1],  # `Database.open` accepts no other
            "revision": state["revision"],
            "created_at": as_json(state["created_at"]),
            "changed_at": as_json(last),
            "tools": sum(reviews.values()),
            "tools_by_org": count_by(tools.c.org, alive),
            "tools_by_status": count_by(tools.c.status, alive),
            "deleted": count(tools, tools.c.deleted_at.is_not(None)),
            "waiting": {name: reviews.get(name, 0) for name in ("pending", "changed")},
            "flagged": count(tools, alive, sa.cast(tools.c.flags, sa.Text) != "[]"),
            "toolkits": count_alive(tables.toolkits),
            "rules": count_alive(rules, rules.c.active),
            "pages": count_alive(tables.page_mappings),
            "pins": count_alive(tables.pins),
            "settings": count(tables.settings, tables.settings.c.is_set),
            "plugins": _plugins(connection),
            "tiers": state["tiers"],
            "versions": count(tables.tool_versions),
            "changes": count(changes),
            "embeddings": count_by(tables.embeddings.c.identity),
        }


def organisations(database: Database, part: str = "", limit: int = 100) -> tuple[str, ...]:
    """Names of organisations, ascending. part: only names that contain it.

    Organisations that only select and have no outcomes are missing.
    """
    with database.reading() as connection:
        each = [sa.select(table.c.org).where(table.c.org != "") for table in _OWNED]
        found = sa.union(*each).subquery()
        query = sa.select(found.c.org).order_by(found.c.org).limit(min(limit, MOST_ORGANISATIONS))
        if part:
            query = query.where(found.c.org.icontains(part, autoescape=True))
        return tuple(connection.execute(query).scalars())


def upgrade(url: str) -> tuple[str, str]:
    """Upgrades the schema to the newest one. Returns the schema before and after.

    Raises:
        NotFound: there is no registry.
        StoreUnavailable: it does not answer, or a newer toolroll made it.
    """
    before = _schema(url)
    Database.open(url, create=False, migrate=True).close()
    return before or schema.REVISIONS[-1], schema.REVISIONS[-1]


def _schema(url: str) -> str | None:
    """The present schema; None for a missing file, which `Database.open` explains."""
    address = Address.of(url)
    if address.path is not None and not address.path.is_file():
        return None
    database = Database(address)
    try:
        with database.reading() as connection:
            return schema.revision_of(connection, address)
    finally:
        database.close()


def _plugins(connection: sa.Connection) -> list[dict[str, Any]]:
    table = tables.plugins
    names = ("org", "name", "version", "review", "while_waiting", "tools", "synced_at", "synced_by")
    rows = read_rows(connection, list(table.c), order_by=(table.c.org, table.c.name))
    renamed = {"version": "plugin_version"}
    return [{renamed.get(name, name): as_json(row[name]) for name in names} for row in rows]


def _version(database: Database, connection: sa.Connection) -> str:
    if database.dialect == "sqlite":
        return f"SQLite {connection.exec_driver_sql('SELECT sqlite_version()').scalar_one()}"
    version = str(connection.exec_driver_sql("SHOW server_version").scalar_one()).split()[0]
    installed = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    vector = connection.exec_driver_sql(installed).scalar()
    return f"PostgreSQL {version}, {f'pgvector {vector}' if vector else 'without pgvector'}"
