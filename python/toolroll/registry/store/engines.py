"""SQLAlchemy engines for the two databases, set up so that all other code can treat them alike."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any
from weakref import WeakSet

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from toolroll.model.errors import StoreUnavailable
from toolroll.registry.store import sqlite_file, tables
from toolroll.registry.store.url import Address

logger = logging.getLogger(__name__)

SOUND_SQLITE = (3, 51, 3)  # older ones lose data when two connections race for the log
OLDEST_SQLITE = (3, 38, 0)  # with STRICT tables and JSON functions
QUICK_S = 2.0  # the longest wait of an unsynced engine: for another writer of SQLite, for PostgreSQL
BEGIN = "toolroll_begin"  # execution option: how a transaction begins on SQLite

# Detects a dead connection within 15 seconds, even if the network drops its packets.
_POSTGRESQL: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "toolroll",
}


def engine_for(
    address: Address,
    wait_s: float,
    is_closing: Event,
    *,
    silence_s: float | None = None,
    is_synced: bool = True,
) -> sa.Engine:
    """An engine that has not connected yet.

    Args:
        address: of the database.
        wait_s: the longest wait for another writer of a SQLite file.
        is_closing: ends the calls that wait for PostgreSQL.
        silence_s: the longest wait for a PostgreSQL that sends nothing; None for no limit.
        is_synced: whether a commit waits for the disk. If not, each statement is a transaction of its own,
            and a power cut may lose the last statements; the end of a process loses none.
    """
    if address.path is not None:
        engine = _sqlite(address, address.path, wait_s if is_synced else min(wait_s, QUICK_S), is_synced)
    else:
        engine = _postgresql(address, is_closing, silence_s, is_synced)

    @sa.event.listens_for(engine, "checkin")
    def close_last(connection: Any, record: Any) -> None:
        if is_closing.is_set() and connection is not None:  # `dispose` closed only idle connections
            record.close()

    return engine


def _postgresql(address: Address, is_closing: Event, silence_s: float | None, is_synced: bool) -> sa.Engine:
    try:
        from toolroll.registry.store.interruptible import connection_class
    except ImportError as error:
        raise StoreUnavailable(
            f"{address.text}: needs psycopg: pip install 'toolroll[postgres]' ({error})"
        ) from error
    logging.getLogger("psycopg").addFilter(_is_worth_logging)
    options = {name: value for name, value in _POSTGRESQL.items() if name not in address.url.query}
    unsynced = {"isolation_level": "AUTOCOMMIT", "pool_timeout": QUICK_S}
    # Behind a pooler, a prepared statement may belong to another client.
    engine = sa.create_engine(
        address.url,
        connect_args={
            "prepare_threshold": None,
            **options,
            **({} if is_synced else {"options": "-c synchronous_commit=off"}),
        },
        json_serializer=tables.json_text,
        **{**_POOL, **({"pool_pre_ping": True} if is_synced else unsynced)},
    )
    connections = connection_class(is_closing, silence_s if is_synced else QUICK_S)

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        return connections.connect(*arguments, **options)

    return engine


_IDLE, _BUSY = 5, 10  # connections that a pool keeps, and the most that it opens beyond them
MOST_CONNECTIONS = _IDLE + _BUSY  # of one engine
_POOL: dict[str, Any] = {"pool_size": _IDLE, "max_overflow": _BUSY, "pool_timeout": 10}


def _is_worth_logging(record: logging.LogRecord) -> bool:
    # psycopg logs failed clean-ups after a lost connection; the loss itself raises an error.
    return not str(record.msg).startswith("error ignored")


def sqlite_module() -> ModuleType:
    """pysqlite3, which contains its own SQLite, else Python's sqlite3."""
    try:
        return importlib.import_module("pysqlite3")
    except ImportError:
        return importlib.import_module("sqlite3")


def _sqlite(address: Address, path: Path, wait_s: float, is_synced: bool) -> sa.Engine:
    module = sqlite_module()
    if module.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnavailable(
            f"{address.text}: needs SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer, and this Python has "
            f"{module.sqlite_version}: pip install pysqlite3"
        )
    if is_synced and module.sqlite_version_info < SOUND_SQLITE:
        logger.warning(
            "%s: SQLite %s may damage a registry that several connections write to; "
            "install pysqlite3, or a Python with SQLite %s",
            address.text,
            module.sqlite_version,
            ".".join(map(str, SOUND_SQLITE)),
        )
    factory = _closing_cursors(module)

    def connect() -> Any:
        uri = f"{path.as_uri()}?{sqlite_file.open_as(path)}"
        connection = module.connect(
            uri, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False, factory=factory
        )
        synchronous = f"synchronous={'FULL' if is_synced else 'NORMAL'}"
        # Older versions allow no JSON functions in the constraints of a schema that is not trusted.
        trusted = f"trusted_schema={'OFF' if module.sqlite_version_info >= SOUND_SQLITE else 'ON'}"
        for pragma in ("foreign_keys=ON", synchronous, trusted, "cell_size_check=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        return connection

    engine = sa.create_engine(
        "sqlite://",
        module=module,
        creator=connect,
        poolclass=QueuePool,
        json_serializer=tables.json_text,
        **_POOL,
    )

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        how = connection.get_execution_options().get(BEGIN, "BEGIN" if is_synced else "")
        if how:
            connection.exec_driver_sql(how)

    return engine


def _closing_cursors(module: ModuleType) -> Any:
    """A connection class that closes its cursors when a transaction ends.

    A cursor that was not read to its end shares its statement with the next cursor that runs the same SQL.
    When garbage collection closes the first cursor, pysqlite3 resets the second: rows come twice, or binding
    fails.
    """

    class Connection(module.Connection):  # type: ignore[misc, name-defined]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._cursors: WeakSet[Any] = WeakSet()
            super().__init__(*arguments, **options)

        def cursor(self, *arguments: Any, **options: Any) -> Any:
            cursor = super().cursor(*arguments, **options)
            self._cursors.add(cursor)
            return cursor

        def commit(self) -> None:
            self._close_cursors()
            super().commit()

        def rollback(self) -> None:
            self._close_cursors()
            super().rollback()

        def _close_cursors(self) -> None:
            for cursor in tuple(self._cursors):
                cursor.close()
            self._cursors.clear()

    return Connection
