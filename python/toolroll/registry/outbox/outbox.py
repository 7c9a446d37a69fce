"""The outbox: one SQLite file on a machine, which keeps records until they are in the registry.

A record is in the file when `append` returns, even if its process is then killed. Every process of the
machine appends to the same file, and any of them may ship another's records.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.options import Durable
from toolroll.registry.store.engines import sqlite_module
from toolroll.registry.store.url import Address
from toolroll.runtime.gil import batches

MOST_BYTES = 256 * 2**20
LARGEST = 2**20  # bytes of a record
_WAIT_S = 5.0  # for another process that writes to the file
_PAGE = 4_096
_LOG_BYTES = 16 * 2**20  # of the log's empty file: to write there again is quicker than to extend it
_AT_ONCE = 64  # rows that are deleted or appended in one statement: others wait for it
_MEMORY = 64  # pages that a connection caches
_sqlite = sqlite_module()
_ERRORS: tuple[type[Exception], ...] = (_sqlite.Error, OSError)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, "
    "org TEXT NOT NULL, at REAL NOT NULL, record BLOB NOT NULL) STRICT"
)
_APPEND = "INSERT INTO outbox (id, org, at, record) VALUES (?, ?, ?, ?)"
# A process's own records, and records of others that it has seen for a while: their processes may have ended.
_OLDEST = (
    "SELECT seq, id, org, at, record FROM outbox WHERE (id > ? AND id < ?) OR seq <= ? ORDER BY seq LIMIT ?"
)


class Record(NamedTuple):
    """A record in the file.

    Attributes:
        seq: its number in the file.
        id: unique in the registry.
        at: its time, in seconds since the epoch.
        record: its bytes.
    """

    seq: int
    id: str
    org: str
    at: float
    record: bytes


def usual_outbox(url: str) -> Path:
    """The default file for a registry: beside a SQLite file, else in the user's state folder."""
    address = Address.of(url)
    if address.path is not None:
        return address.path.with_name(f"{address.path.name}.outbox")
    configured = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME")
    try:
        below = ("AppData", "Local") if sys.platform == "win32" else (".local", "state")
        base = Path(configured) if configured else Path.home().joinpath(*below)
    except RuntimeError:  # a user without a home
        base = Path(tempfile.gettempdir())
    return base / "toolroll" / f"{hashlib.sha256(address.text.encode()).hexdigest()[:16]}.outbox"


def check_outbox(file: Path) -> None:
    """Raises InvalidInput, with file and folder, if records cannot be written. Leaves nothing behind."""
    if file.is_dir():
        raise InvalidInput(f"outbox {file}: is a folder, must be a file")
    folder = file.absolute().parent
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        if file.exists():
            file.open("ab").close()
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise InvalidInput(
            f"outbox {file}: {existing}: outcomes cannot be written there: {error.strerror}; set `outbox` "
            "to a file in a folder that can be written, on a volume where containers are replaced"
        ) from error


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


class _ProcessFile:
    """Connections of one process to the file. A forked child never touches its parent's."""

    def __init__(self) -> None:
        # One connection for all threads: several would wait for each other in steps of a millisecond.
        self.lock = threading.Lock()
        self.writing: Any = None
        self.shipping: Any = None  # the shipper's own, so that no other thread waits for its disk
        self.file: tuple[int, int] | None = None
        self.name = os.urandom(8).hex()  # begins the ids of its records
        self.numbers = itertools.count()

    def new_id(self) -> str:
        return f"{self.name}{next(self.numbers):08x}"

    @property
    def ids(self) -> tuple[str, str]:
        """The exclusive bounds of its records' ids."""
        return self.name, f"{self.name}g"


class Outbox:
    """The file of one machine and one registry. Any thread may append; one thread ships.

    error: why the last record could not be written; None if it could.
    """

    def __init__(self, file: Path, *, durable: Durable = "process", most_bytes: int = MOST_BYTES) -> None:
        """Creates no file yet: the first record does, with its folder. durable: see `Recording`."""
        self.file = file
        self.error: str | None = None
        self._is_synced, self._most_pages = durable == "disk", most_bytes // _PAGE
        self._is_closed = False
        # Kept after a fork: closing a parent's connection would release locks that the parent holds.
        self._processes: dict[int, _ProcessFile] = {}
        self._seen: tuple[float, int, int] = (0.0, 0, 0)

    @property
    def ids(self) -> tuple[str, str]:
        """The exclusive bounds of the ids of this process's records."""
        return self._own.ids

    def append(self, *records: tuple[str, float, bytes]) -> None:
        """Writes records of (organisation, seconds since the epoch, bytes).

        The written records survive the end of the process; see `Recording.durable`.

        Raises:
            InvalidInput: a record is too large.
            StoreUnavailable: file or disk is full or cannot be written; the first records may be in the file.
        """
        for _, _, record in records:
            if len(record) > LARGEST:
                raise InvalidInput(f"outcome: takes {len(record):,} bytes, must be at most {LARGEST:,}")
        own = self._own
        for some in batches(records, _AT_ONCE):
            values = [value for record in some for value in (own.new_id(), *record)]
            with own.lock:
                try:
                    self._writing(own).execute(f"{_APPEND}{', (?, ?, ?, ?)' * (len(some) - 1)}", values)
                except _ERRORS as error:
                    raise self._failed(error) from error
        self.error = None

    # For the thread that ships.

    def oldest(self, most: int, others_s: float) -> list[Record]:
        """The oldest records: own ones, and others' seen `others_s` ago. Raises StoreUnavailable."""
        own = self._own
        try:
            connection = self._shipping(own)
            if connection is None:
                return []
            since, now_seen, before = self._seen
            if time.monotonic() - since >= others_s:
                (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM outbox").fetchone()
                self._seen = time.monotonic(), last, now_seen
                before = now_seen
            return [Record(*row) for row in connection.execute(_OLDEST, (*own.ids, before, most)).fetchall()]
        except _ERRORS as error:
            raise self._failed(error) from error

    def delete(self, records: Sequence[Record]) -> None:
        """Deletes shipped records. Raises StoreUnavailable; then they are shipped again."""
        own = self._own
        for some in batches(records, _AT_ONCE):
            marks = ", ".join("?" * len(some))
            with own.lock:
                try:
                    self._writing(own).execute(
                        f"DELETE FROM outbox WHERE seq IN ({marks})", [record.seq for record in some]
                    )
                except _ERRORS as error:
                    raise self._failed(error) from error

    def checkpoint(self) -> None:
        """Moves the write-ahead log into the file, so that no append has to."""
        with suppress(StoreUnavailable, *_ERRORS):
            if (connection := self._shipping(self._own)) is not None:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # Any thread.

    @property
    def has_own(self) -> bool:
        """Whether the file has records of this process."""
        own = self._own
        with own.lock:
            if own.writing is None:
                return False
            try:
                query = "SELECT 1 FROM outbox WHERE id > ? AND id < ? LIMIT 1"
                return own.writing.execute(query, own.ids).fetchone() is not None
            except _ERRORS as error:
                raise self._failed(error) from error

    def waiting(self) -> tuple[int, float]:
        """About how many bytes of records the file has, and the age of the oldest in seconds."""
        own = self._own
        with own.lock:
            if own.writing is None and (self._is_closed or not self.file.exists()):
                return 0, 0.0
            with suppress(StoreUnavailable, *_ERRORS):
                connection = self._writing(own)
                row = connection.execute("SELECT at FROM outbox ORDER BY seq LIMIT 1").fetchone()
                if row is not None:
                    return self._pages(connection) * _PAGE, max(0.0, time.time() - row[0])
        return 0, 0.0

    def is_half_full(self) -> bool:
        """Whether only outcomes may still be added."""
        own = self._own
        with own.lock:
            try:
                return own.writing is not None and self._pages(own.writing) * 2 > self._most_pages
            except _ERRORS:
                return True

    def problem(self) -> str | None:
        """The reason why a record could not be written now, tested without a write; None if none is known.

        The file may have become read-only or disappeared since the last record.
        """
        if self.error is not None or self._is_closed:
            return self.error
        own = self._own
        if own.file is not None:
            try:
                found = os.stat(self.file)
            except OSError:
                found = None
            if found is None or (found.st_dev, found.st_ino) != own.file:
                return (
                    f"outbox {self.file}: is gone; outcomes that the registry does not have are lost when "
                    "this process ends. Start it again"
                )
        place = self.file.absolute().parent
        place = next((path for path in (place, *place.parents) if path.exists()), place)
        if not os.access(place, os.W_OK | os.X_OK) or (
            own.file is not None and not os.access(self.file, os.W_OK)
        ):
            return f"outbox {self.file}: cannot be written; reports are refused. Check its rights"
        return None

    def close(self) -> None:
        """Closes this process's connections. The file stays; further records are refused."""
        self._is_closed = True
        own = self._own
        with own.lock:
            for connection in (own.shipping, own.writing):
                if connection is not None:
                    with suppress(*_ERRORS):
                        connection.close()
            own.shipping = own.writing = None

    # Connections.

    @property
    def _own(self) -> _ProcessFile:
        own = self._processes.get(os.getpid())
        return self._processes.setdefault(os.getpid(), _ProcessFile()) if own is None else own

    def _writing(self, own: _ProcessFile) -> Any:
        """The connection that writes; the caller holds its lock."""
        if own.writing is None:
            if self._is_closed:
                raise StoreUnavailable("this Toolroll is closed and records nothing more; open it again")
            own.file = self._create()
            connection = self._connect(synchronous="FULL" if self._is_synced else "NORMAL")
            connection.execute(_SCHEMA)
            own.writing = connection
        return own.writing

    def _shipping(self, own: _ProcessFile) -> Any:
        """The connection that reads; None without a file."""
        if own.shipping is None and not self._is_closed and self.file.exists():
            with own.lock:
                self._writing(own)  # its table
            own.shipping = self._connect(synchronous="NORMAL")
        return own.shipping

    def _connect(self, synchronous: str) -> Any:
        connection = _sqlite.connect(
            str(self.file), timeout=_WAIT_S, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = _text  # one damaged text must not keep the others from being read
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            f"max_page_count={self._most_pages}",
            f"journal_size_limit={_LOG_BYTES}",
            f"cache_size={_MEMORY}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _create(self) -> tuple[int, int]:
        """Creates the file if it is missing. Returns its device and number.

        Raises StoreUnavailable if other users may write to it, since its records are trusted.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self.file, flags, 0o600)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if os.name == "posix" and (found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o002):
            self.error = (
                f"outbox {self.file}: others may write to it, and its records are trusted; make it yours "
                "(chown, chmod 600), or choose another file (outbox=)"
            )
            raise StoreUnavailable(self.error)
        return found.st_dev, found.st_ino

    def _pages(self, connection: Any) -> int:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        return int(pages) - int(free)

    def _failed(self, error: Exception) -> StoreUnavailable:
        """The error for a caller; remembers it for `problem`."""
        retry_after_s = None
        if "is full" in str(error) and self._is_at_limit():
            retry_after_s = 10.0
            why = (
                f"is full ({self._most_pages * _PAGE:,} bytes wait for the registry); nothing was recorded. "
                "It empties itself once the registry answers"
            )
        elif "is full" in str(error) or getattr(error, "errno", None) == errno.ENOSPC:
            why = "the disk is full; nothing was recorded"
        else:
            said = getattr(error, "strerror", None) or error
            why = (
                f"cannot be written: {said}; nothing was recorded. Check the disk and the rights to the file "
                "and its folder, or choose another one"
            )
        self.error = f"outbox {self.file}: {why}"
        return StoreUnavailable(self.error, retry_after_s=retry_after_s)

    def _is_at_limit(self) -> bool:
        """Whether the file has its maximum of pages; the caller holds the lock."""
        connection = self._own.writing
        if connection is None:
            return False
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        return int(pages) + _AT_ONCE > self._most_pages
