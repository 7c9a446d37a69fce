"""A registry's database: consistent reads, and writes that happen completely or not at all.

Every write takes a revision, and writers lock the one row that counts revisions. So revisions commit in
order: a reader that has seen revision 7 and reads the rows above 7 misses none.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.store import bulk_insert, engines, schema, sqlite_file, tables
from toolroll.registry.store.engines import BEGIN
from toolroll.registry.store.errors import translated
from toolroll.registry.store.policy_digests import DigestChanges, parsed
from toolroll.registry.store.revision import missing, revision_in
from toolroll.registry.store.url import Address, Dialect

logger = logging.getLogger(__name__)

WAIT_S = 10.0  # the longest wait for another writer
IDLE_S = 60.0  # after which PostgreSQL ends a transaction whose process is silent between two statements
BATCH_S, CHANGE_S = 300.0, 3_600.0  # the longest transaction of `recording` and of `writing`
CHECKED_BYTES = 64 * 2**20  # up to this size, opening a file checks it for damage
MOST_CONNECTIONS = 2 * engines.MOST_CONNECTIONS + 1  # of a database: two engines, and one that listens
CHANNEL = "toolroll"  # PostgreSQL's channel, with a notification for each revision
OUTCOMES = "outcomes"  # the text of a notification without a revision: outcomes were taken back
LONGEST_TEXT = 4_096  # characters of an actor, an organisation or a reason

# Pools of the parent process, kept after a fork: garbage collection would close their connections, and
# release locks that the parent still needs.
_inherited: list[object] = []


@dataclass(eq=False, slots=True)
class Write:
    """One writing transaction.

    Attributes:
        revision: the registry's revision afterwards; every changed row gets it.
        actor, org: the author, and the owner of the changed rows.
        at: the time of all changes, in UTC.
        digests: records each changed policy row.
    """

    connection: sa.Connection
    revision: int
    actor: str
    org: str
    at: datetime
    digests: DigestChanges
    _log: list[dict[str, Any]] = field(default_factory=list)
    _is_abandoned: bool = False

    def log(
        self, action: str, subject: str, details: Mapping[str, Any] | None = None, reason: str = ""
    ) -> None:
        """Adds a line to the audit log, in the same transaction."""
        self._log.append(
            {
                "revision": self.revision,
                "org": self.org,
                "at": self.at,
                "actor": self.actor,
                "action": action,
                "subject": subject,
                "reason": checked_text(reason, "reason"),
                "details": dict(details or {}),
            }
        )

    def abandon(self) -> None:
        """Makes the transaction end without a change and without a new revision."""
        self._is_abandoned = True


class Database:
    """A SQLite or PostgreSQL database. Safe to use from any thread; a forked child connects again.

    Attributes:
        url, listen_url: the addresses for queries and for notifications, without password and options.
        behind_s: the greatest possible age of the last read, in seconds; above 0 for a read replica only.
    """

    dialect: Dialect

    def __init__(
        self,
        address: Address,
        wait_s: float = WAIT_S,
        silence_s: float | None = None,
        listen: Address | None = None,
    ) -> None:
        """Takes an address. Neither connects nor checks the schema; see `open`."""
        self.dialect, self.url = address.dialect, address.text
        self._address, self._wait_s = address, wait_s
        self._listen = listen or address
        self.listen_url, self.behind_s = self._listen.text, 0.0
        self._is_closing = Event()
        self._engine = engines.engine_for(address, wait_s, self._is_closing, silence_s=silence_s)
        self._unsynced = engines.engine_for(address, wait_s, self._is_closing, is_synced=False)
        self._listening = self._engine
        if listen is not None:
            self._listening = engines.engine_for(listen, wait_s, self._is_closing, silence_s=silence_s)
        self._engines = {self._engine, self._unsynced, self._listening}
        self._pid = os.getpid()
        # The SQLite file and the log that the connections have open.
        self._file: sqlite_file.Identity | None = None
        self._log: sqlite_file.Identity | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool,
        migrate: bool,
        wait_s: float = WAIT_S,
        silence_s: float | None = None,
        listen_url: str | None = None,
    ) -> Database:
        """Opens a registry's database.

        Args:
            url: sqlite:///FILE or postgresql://USER@HOST/DATABASE.
            create: creates the tables of an empty database, and a missing SQLite file.
            migrate: upgrades an older schema.
            wait_s: the longest wait for the write of another process.
            silence_s: the longest wait for a PostgreSQL that sends nothing, such as in a long statement; None
                for no limit.
            listen_url: the PostgreSQL behind the pooler that `url` names, for notifications.

        Raises:
            InvalidInput: a URL has an unknown form.
            NotFound: there is no registry, and `create` is False.
            StoreUnavailable: there is no connection, the file is damaged, or another toolroll or another
                program made the tables.
        """
        address = Address.of(url)
        listen = None if listen_url is None else listen_address(address, listen_url)
        if address.path is not None:
            sqlite_file.find(address, address.path, create)
        database = cls(address, wait_s, silence_s, listen)
        try:
            database._prepare(create, migrate)
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def reading(self, *, is_single: bool = False) -> Iterator[sa.Connection]:
        """A connection that sees one state of the registry, even if others write meanwhile.

        is_single: for a single statement, which needs no transaction. This saves four round trips of six, for
            frequent queries. Waits while another process rebuilds the table.
        """
        with self._translated(), self._connected().connect() as connection:
            if self.dialect == "postgresql" and is_single:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            elif self.dialect == "postgresql":
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                # limits the wait for a process that rebuilds a table
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{self._wait_s * 1000:.0f}ms'")
            yield connection

    @contextmanager
    def writing(self, actor: str, org: str = "") -> Iterator[Write]:
        """A transaction that changes tools, policy or settings; an exception rolls it back.

        A nested transaction of the same thread would wait for the outer one until it fails.

        Raises StoreUnavailable if another writer held the lock for too long, or the database failed.
        """
        checked_text(actor, "actor")
        checked_text(org, "org")
        with self._transaction(CHANGE_S) as connection:
            advance = (
                sa.update(tables.registry_state)
                .values(revision=tables.registry_state.c.revision + 1)
                .returning(tables.registry_state.c.revision, tables.registry_state.c.policy_digest)
            )
            state = connection.execute(advance).one_or_none()
            if state is None:
                raise missing()
            digests = DigestChanges(parsed(state.policy_digest))
            write = Write(connection, state.revision, actor, org, datetime.now(timezone.utc), digests)
            yield write
            if write._is_abandoned:
                connection.rollback()
                return
            assert write._log, "a change without a line in the log"
            write.digests.write(connection)
            bulk_insert.insert(connection, tables.changes, write._log)
            if self.dialect == "postgresql":
                connection.execute(sa.select(sa.func.pg_notify(CHANNEL, str(state.revision))))

    @contextmanager
    def recording(self) -> Iterator[sa.Connection]:
        """A transaction that writes embeddings, events or statistics; an exception rolls it back.

        It takes no revision and sends no notification.
        """
        with self._transaction(BATCH_S) as connection:
            yield connection

    @contextmanager
    def _transaction(self, longest_s: float) -> Iterator[sa.Connection]:
        """A transaction that writes. PostgreSQL 17 and later ends it after `longest_s`."""
        with self._translated(writes=True), self._connected().connect() as connection:
            # On SQLite, a transaction that first reads and then writes fails at once if another has written
            # meanwhile, whatever its timeout. So writers lock at the beginning.
            connection = connection.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})
            with connection.begin():
                if self.dialect == "postgresql":
                    connection.exec_driver_sql("; ".join(self._limits(connection, longest_s)))
                yield connection

    def _limits(self, connection: sa.Connection, longest_s: float) -> list[str]:
        """Time limits of a transaction, so that a stuck writer does not block all others for long."""
        limits = {
            "lock_timeout": f"{self._wait_s * 1000:.0f}ms",
            "idle_in_transaction_session_timeout": f"{IDLE_S:.0f}s",
            # The limit for an idle transaction does not count while the server waits for the rest of a batch.
            "tcp_keepalives_idle": "5s",
            "tcp_keepalives_interval": "2s",
            "tcp_keepalives_count": "3",
        }
        version = connection.dialect.server_version_info
        if version is not None and version >= (17,):
            limits["transaction_timeout"] = f"{longest_s * 1000:.0f}ms"
        return [f"SET LOCAL {name} = '{value}'" for name, value in limits.items()]

    @contextmanager
    def autocommit(self) -> Iterator[sa.Connection]:
        """A connection for several statements. Each statement runs as in `at_once`."""
        with self._translated(writes=True):
            self._connected()
            with self._unsynced.connect() as connection:
                yield connection

    def at_once(self, statement: sa.Executable, values: Mapping[str, Any]) -> tuple[sa.Row[Any] | None, int]:
        """Runs one statement quickly. Returns the first row found, and the number of rows written.

        The statement is its own transaction, whose commit does not wait for the disk: a power cut may lose
        the last statements, the end of the process does not. Raises StoreUnavailable if it waits for two
        seconds.
        """
        try:
            self._connected()
            with self._unsynced.connect() as connection:
                found = connection.execute(statement, values)
                return (found.first(), 0) if found.returns_rows else (None, found.rowcount)
        except Exception:
            with self._translated(writes=True):
                raise

    def revision(self) -> int:
        """The number of changes so far."""
        with self.reading() as connection:
            return revision_in(connection)

    def close(self) -> None:
        """Closes the connections. Using the database afterwards raises StoreUnavailable.

        Other threads' calls that wait for PostgreSQL also raise it, within 0.1 s. A call that waits for a
        lock of SQLite ends normally.
        """
        self._is_closing.set()
        if os.getpid() == self._pid:
            for engine in self._engines:
                engine.dispose()

    def identity(self) -> sqlite_file.Identity | None:
        """Identifies the SQLite file. The value changes if another file replaces it.

        Raises StoreUnavailable if the file does not exist.
        """
        path = self._address.path
        return None if path is None else sqlite_file.identity(self._address, path)

    def __repr__(self) -> str:
        return f"Database({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} holds connections and cannot be pickled: open it in the other process")

    def own_connection(self) -> Any:
        """A driver connection outside the pool, for notifications. The caller closes it."""
        with translated(self._listen, self._wait_s, writes=False):
            self._connected()
            connection = self._listening.connect()
            connection.detach()
            return connection.connection.dbapi_connection

    def _translated(self, *, writes: bool = False) -> AbstractContextManager[None]:
        return translated(self._address, self._wait_s, writes=writes)

    def _connected(self) -> sa.Engine:
        if self._is_closing.is_set():
            raise StoreUnavailable(f"{self.url}: is closed; open it again")
        if os.getpid() != self._pid:
            for engine in self._engines:
                _inherited.append(engine.pool)
                engine.dispose(close=False)
            self._pid = os.getpid()
        if self._address.path is not None:
            self._follow_file(self._address.path)
        return self._engine

    def _follow_file(self, path: Path) -> None:
        file, log = sqlite_file.files(self._address, path)
        if file != self._file:
            if self._file is not None:
                self._reconnect(is_log_old=sqlite_file.has_log(path) and log == self._log)
            self._file = file
        self._log = log

    def _reconnect(self, is_log_old: bool) -> None:
        """Closes the connections to a replaced file, and checks that the new file is a registry."""
        if is_log_old:  # SQLite would apply its changes to the new file
            raise StoreUnavailable(
                f"{self.url}: was replaced, but the log of the former file is still beside it; "
                "stop all processes that use it, delete the two files that end in -wal and -shm, and replace "
                "it again"
            )
        logger.info("%s: was replaced; opening the new file", self.url)
        self._engine.dispose()
        self._unsynced.dispose()
        with self._engine.connect() as connection:
            if not schema.check(connection, self._address, create=False, migrate=False):
                raise schema.no_registry(self._address)
            self._check_damage(connection)

    def _prepare(self, create: bool, migrate: bool) -> None:
        address = self._address
        with self.reading() as connection:
            is_ready = schema.check(connection, address, create=create, migrate=migrate)
            if is_ready:
                self._check_damage(connection)
        if address.path is not None and sqlite_file.may_write(address.path):
            self._use_log()
        if not is_ready:
            with self._transaction(CHANGE_S) as connection:
                schema.upgrade(connection, address)
                self._create_state(connection)

    def _create_state(self, connection: sa.Connection) -> None:
        state = tables.registry_state
        if connection.execute(sa.select(state.c.id)).first() is None:
            first = {"id": 1, "revision": 0, "tiers": [], "policy_digest": "0" * 32}
            first["created_at"] = datetime.now(timezone.utc)
            connection.execute(sa.insert(state), first)

    def _check_damage(self, connection: sa.Connection) -> None:
        path = self._address.path
        if path is None or path.stat().st_size > CHECKED_BYTES:
            return
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise StoreUnavailable(
                f"{self.url}: is damaged ({' '.join(str(found).split())}); "
                "stop all processes that use it, and restore it from a backup"
            )

    def _use_log(self) -> None:
        """Turns on the write-ahead log, so that readers and the writer do not wait for each other."""
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                with self._translated(), self._connected().connect() as connection:
                    connection = connection.execution_options(**{BEGIN: ""})  # without a transaction
                    mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
                    if mode != "wal":
                        mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
                break
            except StoreUnavailable as error:
                # SQLite does not wait here for another process that creates the same file
                if error.retry_after_s is None or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        if mode != "wal":
            logger.warning(
                "%s: its disk allows no write-ahead log; readers and writers will wait for each other",
                self.url,
            )


def listen_address(of: Address, url: str) -> Address:
    """The address for notifications of a registry. Raises InvalidInput unless both are PostgreSQL."""
    address = Address.of(url)
    if "sqlite" in (of.dialect, address.dialect):
        raise InvalidInput(
            f"listen_url: is {address.text!r}; registry and listen_url must both be PostgreSQL"
        )
    return address


def is_storable(text: str) -> bool:
    """Whether both databases can store the text: it has no NUL and no half of a surrogate pair."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text))


def checked_text(text: str, what: str, longest: int = LONGEST_TEXT) -> str:
    """The text. Raises InvalidInput if it is too long, or one of the databases could not store it."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is {type(text).__name__}, must be text")
    if len(text) > longest:
        raise InvalidInput(f"{what} has {len(text):,} characters, must have at most {longest:,}")
    if not is_storable(text):
        raise InvalidInput(f"{what} is {text!r:.80}: NUL and halves of surrogate pairs cannot be stored")
    return text
