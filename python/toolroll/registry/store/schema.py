"""Which schema a database has, and bringing it to ours: one transaction, one process at a time."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from toolroll.errors import NotFound, StoreUnavailable
from toolroll.registry.store.url import Address

REVISIONS = ("0001", "0002", "0003")  # the steps under migrations/versions, oldest first
VERSION_TABLE = "toolroll_version"
OLDEST_POSTGRESQL = 15
_LOCK = 0x746F6F6C  # "tool": the advisory lock of those who migrate


def found(connection: sa.Connection, address: Address) -> str | None:
    """The revision of the schema that is there, or None in an empty database.

    Raises:
        StoreUnavailable: what is there is not ours or damaged, or a newer toolroll made it.
    """
    if address.dialect == "sqlite":
        tables = (
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        )
    else:
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    names = set(connection.exec_driver_sql(tables.replace("%", "%%" if "pg_" in tables else "%")).scalars())
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
            f"{address.text}: is damaged: its table {VERSION_TABLE} should say one schema and says "
            f"{', '.join(map(str, versions)) or 'none'}; something else has changed it. "
            "Restore it from a backup"
        )
    raise StoreUnavailable(
        f"{address.text}: was made by a newer toolroll (schema {versions[0]}; "
        f"this one knows up to {REVISIONS[-1]}); install that version, or a newer one"
    )


def check(connection: sa.Connection, address: Address, *, create: bool, migrate: bool) -> bool:
    """Whether the schema is ours already; False if it has to be, and may be, brought to it."""
    if address.dialect == "postgresql":
        _check_server(connection, address)
    revision = found(connection, address)
    if revision == REVISIONS[-1]:
        return True
    if revision is None and not create:
        raise absent(address)
    if revision is not None and not migrate:
        raise StoreUnavailable(
            f"{address.text}: has schema {revision}, this toolroll wants {REVISIONS[-1]}; "
            f"back it up and run: toolroll registry upgrade --catalog {address.text}"
        )
    return False


def absent(address: Address) -> NotFound:
    """The error that says that there is no registry."""
    return NotFound(
        f"{address.text}: no registry is there; make one with: toolroll import FOLDER --to {address.text}"
    )


def upgrade(connection: sa.Connection, address: Address) -> None:
    """Runs the steps that are missing, in the transaction of a connection that may write."""
    if address.dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    revision = found(connection, address)  # another process may have been faster
    if revision == REVISIONS[-1]:
        return
    if revision is None and address.dialect == "postgresql":
        _add_pgvector(connection, address)
    # Alembic takes a fifth of a second to import, and is needed once in the life of a registry.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    command.upgrade(config, "head")


def _check_server(connection: sa.Connection, address: Address) -> None:
    number = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
    if number < OLDEST_POSTGRESQL * 10_000:
        raise StoreUnavailable(
            f"{address.text}: is PostgreSQL {number // 10_000}, must be {OLDEST_POSTGRESQL} or newer"
        )


def _add_pgvector(connection: sa.Connection, address: Address) -> None:
    if connection.exec_driver_sql("SELECT 1 FROM pg_extension WHERE extname = 'vector'").first():
        return
    try:
        connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
    except sa.exc.DBAPIError as error:
        raise StoreUnavailable(
            f"{address.text}: needs the extension pgvector, which could not be added "
            f"({' '.join(str(error.orig).split())}); install it on the server, and have its administrator "
            "run in this database: CREATE EXTENSION vector"
        ) from error
