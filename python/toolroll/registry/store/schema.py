"""Reads a database's schema revision and upgrades it: in one transaction, by one process at a time."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from pathlib import Path

import sqlalchemy as sa

from toolroll.model.errors import NotFound, StoreUnavailable
from toolroll.registry.store import partitions, tables
from toolroll.registry.store.url import Address

_log = logging.getLogger(__name__)

REVISIONS = ("0001",)  # the steps under migrations/versions, oldest first
MIGRATIONS = Path(__file__).parent / "migrations"
VERSION_TABLE = "toolroll_version"
OLDEST_POSTGRESQL = 15
_LOCK = 0x746F6F6C  # "tool": the advisory lock that serialises upgrades

_TABLE_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
}


def revision_of(connection: sa.Connection, address: Address) -> str | None:
    """The revision of the database's schema, or None if the database is empty.

    Raises StoreUnavailable if the tables are not toolroll's, or damaged, or a newer toolroll made them.
    """
    names = set(connection.exec_driver_sql(_TABLE_NAMES[address.dialect]).scalars())
    if not names:
        return None
    if VERSION_TABLE not in names:
        raise StoreUnavailable(
            f"{address.text}: holds no registry but {len(names)} other tables "
            f"({', '.join(sorted(names)[:3])}, …) and was left alone; name an empty database"
        )
    versions = list(connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars())
    if len(versions) == 1 and versions[0] in REVISIONS:
        return str(versions[0])
    if len(versions) != 1 or not str(versions[0]) > REVISIONS[-1]:
        raise StoreUnavailable(
            f"{address.text}: is damaged: its table {VERSION_TABLE} should hold one revision and holds "
            f"{', '.join(map(str, versions)) or 'none'}; another program has changed it. "
            "Restore the database from a backup"
        )
    raise StoreUnavailable(
        f"{address.text}: was made by a newer toolroll (schema {versions[0]}; "
        f"this one knows up to {REVISIONS[-1]}); install that version, or a newer one"
    )


def check(connection: sa.Connection, address: Address, *, create: bool, migrate: bool) -> bool:
    """Whether the schema is current; False if the caller allows the necessary `upgrade`.

    Raises:
        NotFound: the database is empty, and `create` is False.
        StoreUnavailable: the schema is older and `migrate` is False; see also `revision_of`.
    """
    if address.dialect == "postgresql":
        _check_server(connection, address)
    revision = revision_of(connection, address)
    if revision == REVISIONS[-1]:
        return True
    if revision is None and not create:
        raise no_registry(address)
    if revision is not None and not migrate:
        raise StoreUnavailable(
            f"{address.text}: has schema {revision}, this toolroll needs {REVISIONS[-1]}; "
            f"back it up and run: toolroll registry upgrade --catalog {address.text}"
        )
    return False


def no_registry(address: Address) -> NotFound:
    """The error for an address without a registry."""
    return NotFound(
        f"{address.text}: no registry is there; create one with: toolroll import FOLDER --to {address.text}"
    )


def upgrade(connection: sa.Connection, address: Address) -> None:
    """Creates the tables of an empty database, or runs the missing steps, in the connection's transaction."""
    if address.dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    revision = revision_of(connection, address)  # another process may have upgraded meanwhile
    if revision == REVISIONS[-1]:
        return
    # Alembic takes a fifth of a second to import, and a registry needs it only here.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    if revision is None:
        tables.metadata.create_all(connection, checkfirst=False)
        if address.dialect == "postgresql" and _has_pgvector(connection, address):
            connection.exec_driver_sql("ALTER TABLE embeddings ALTER COLUMN vector TYPE vector")
        partitions.make_ahead(connection, datetime.now(timezone.utc))
        command.stamp(config, "head")
    else:
        command.upgrade(config, "head")


def _check_server(connection: sa.Connection, address: Address) -> None:
    number = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
    if number < OLDEST_POSTGRESQL * 10_000:
        raise StoreUnavailable(
            f"{address.text}: is PostgreSQL {number // 10_000}, must be {OLDEST_POSTGRESQL} or newer"
        )


def _has_pgvector(connection: sa.Connection, address: Address) -> bool:
    """Whether the extension pgvector is installed; installs it if it can."""
    if connection.exec_driver_sql("SELECT 1 FROM pg_extension WHERE extname = 'vector'").first():
        return True
    try:
        with connection.begin_nested():
            connection.exec_driver_sql("CREATE EXTENSION vector")
    except sa.exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        reason = " ".join(str(error.orig).split())
        _log.info("%s: vectors are real[], as pgvector could not be added (%s)", address.text, reason)
        return False
    return True
