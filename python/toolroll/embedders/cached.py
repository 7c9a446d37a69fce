"""Stores vectors on disk, so that an unchanged catalog is not embedded again.

There is one SQLite file for each identity. Each call opens and closes its own connection: nothing is shared
across forks or threads, and SQLite's locks order processes. A cache may be lost, but it must never be wrong
or fail a call: a damaged file is moved aside and started again, a row with a wrong checksum is embedded
again, and if nothing can be written the cache logs that once and passes calls through.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sqlite3
import sys
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from toolroll.model.embedder import Embedder, EmbedsTexts, as_embedder, unit_rows
from toolroll.model.errors import InvalidInput

logger = logging.getLogger(__name__)
T = TypeVar("T")

FORMAT = 1  # PRAGMA user_version; another number is a file that we did not write
WAIT_S = 5.0  # for another process to finish its write; after that this call works without the cache
REST_S = 2.0  # without the file after an error
CHUNK = 256  # texts embedded between two writes: an interruption loses no more
RECENT = 1_024  # queries in memory


class CachedEmbedder(Embedder):
    """Embeds each text once by another embedder.

    `embed` (tools, examples) looks its texts up on disk and passes only the missing ones on. `embed_query`
    never touches the disk, since a turn waits for it; it remembers the last thousand messages in memory.
    Answers of the inner embedder are checked first: a wrong count or width, NaN, or a row that is neither of
    unit length nor zero raises EmbedderUnavailable and is not stored.

    Attributes:
        identity, dim: the inner embedder's.
        path: the file; None if it cannot be used.
    """

    def __init__(
        self,
        inner: EmbedsTexts,
        folder: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = 256 * 2**20,
    ) -> None:
        """Stores the file in `folder`, or `default_folder()`. Above `max_bytes`, old rows are deleted."""
        if max_bytes < 2**16:
            raise InvalidInput(f"vector cache: max_bytes is {max_bytes}, must be at least {2**16}")
        self._inner = whole = as_embedder(inner)
        self.identity, self.dim, self.is_instant = whole.identity, whole.dim, whole.is_instant
        self.is_english, self.scale = whole.is_english, whole.scale
        self._max_rows = max(1, max_bytes // (4 * self.dim + 128))  # 128: key, checksum, index
        self._recent: OrderedDict[bytes, npt.NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()
        self._resumes_at = {False: 0.0, True: 0.0}  # whether a call writes → until when it waits
        self._is_failing = False
        self.path: Path | None = None
        try:
            place = Path(folder) if folder is not None else default_folder()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path = place / _file_name(self.identity)
        except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
            self._without_file(error)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim]: stored rows from disk, the others from the inner embedder."""
        keys = [_key(text) for text in texts]
        known = self._read_rows(set(keys))
        missing = list({key: text for key, text in zip(keys, texts, strict=True) if key not in known}.items())
        for at in range(0, len(missing), CHUNK):
            part = missing[at : at + CHUNK]
            rows = self._checked(self._inner.embed([text for _, text in part]), len(part))
            fresh = dict(zip((key for key, _ in part), rows, strict=True))
            self._write_rows(fresh)
            known.update(fresh)
        vectors = np.empty((len(keys), self.dim), np.float32)
        for row, key in enumerate(keys):
            vectors[row] = known[key]
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim], read-only: the same array for the same message."""
        key = _key(text)
        with self._lock:
            found = self._recent.get(key)
            if found is not None:
                self._recent.move_to_end(key)
                return found
        answer = np.asarray(self._inner.embed_query(text))
        vector: npt.NDArray[np.float32] = self._checked(answer[None], 1)[0]
        vector.flags.writeable = False
        with self._lock:
            self._recent[key] = vector
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return vector

    def _checked(self, answer: object, count: int) -> npt.NDArray[np.float32]:
        """A copy of the inner embedder's vectors; raises EmbedderUnavailable if they are invalid."""
        return unit_rows(answer, count, self.dim, self.identity).copy()

    # The file: rows (id, key, vector), ids ascending without holes, so the oldest are the smallest.

    def _read_rows(self, keys: set[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        def read(db: sqlite3.Connection) -> dict[bytes, npt.NDArray[np.float32]]:
            found = {}
            for some in _slices(keys, 500):  # SQLite's oldest limit of parameters is 999
                marks = ",".join("?" * len(some))
                for key, blob in db.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some):
                    vector = _unpacked(key, blob, self.dim)
                    if vector is not None:
                        found[key] = vector
            return found

        return self._with_file(read, writes=False) or {}

    def _write_rows(self, rows: dict[bytes, npt.NDArray[np.float32]]) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.executemany(
                    "INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)",
                    ((key, _packed(key, vector)) for key, vector in rows.items()),
                )
                (newest,) = db.execute("SELECT max(id) FROM vectors").fetchone()
                db.execute("DELETE FROM vectors WHERE id <= ?", (newest - self._max_rows,))

        self._with_file(write, writes=True)

    def _with_file(self, use: Callable[[sqlite3.Connection], T], *, writes: bool) -> T | None:
        """The result of `use` with the open file; None if that fails. A damaged file is replaced once."""
        for attempt in (1, 2):
            path = self.path
            if path is None or time.monotonic() < self._resumes_at[writes]:
                return None
            try:
                with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as db:
                    _prepare(db)
                    found = use(db)
            except sqlite3.OperationalError as error:  # locked, read-only, full, no permission, I/O error
                if "locked" not in str(error):  # else only this call does without it
                    self._rest(path, error, writes)
                return None
            except (sqlite3.DatabaseError, UnicodeDecodeError, _ForeignDatabase) as error:
                # UnicodeDecodeError: the message of SQLite's error quotes damaged names.
                if attempt == 2:
                    self._without_file(error)
                    return None
                logger.warning("vector cache %s: %s; moved aside, starting again", path, error)
                try:
                    _move_aside(path)
                except OSError as stuck:
                    self._without_file(stuck)
                    return None
            else:
                if writes and self._is_failing:
                    self._is_failing = False
                    logger.info("vector cache %s: works again", path)
                return found
        return None

    def _rest(self, path: Path, error: Exception, writes: bool) -> None:
        """Continues without the file for a while, because a full disk may get room again. Logs it once."""
        until = time.monotonic() + REST_S
        self._resumes_at[True] = until
        if not writes:  # a file that cannot be written can still be read
            self._resumes_at[False] = until
        if not self._is_failing:
            self._is_failing = True
            logger.warning("vector cache %s: %s; vectors are not stored for now", path, error)

    def _without_file(self, error: Exception) -> None:
        """Continues without the file and logs that once."""
        path, self.path = self.path, None
        logger.warning("vector cache %s: %s; vectors are not stored", path or "folder", error)


class _ForeignDatabase(Exception):
    """A valid SQLite file that is not a cache of ours."""


def default_folder() -> Path:
    """`TOOLROLL_CACHE`, else `toolroll` in the platform's folder for caches of this user."""
    chosen = os.environ.get("TOOLROLL_CACHE")
    if chosen:
        return Path(chosen) / "vectors"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "toolroll" / "vectors"


def _file_name(identity: str) -> str:
    """A readable start and a unique end: two identities never share a file."""
    readable = re.sub(r"[^a-z0-9]+", "-", identity.lower()).strip("-")[:40]
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.sqlite"


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _packed(key: bytes, vector: npt.NDArray[np.float32]) -> bytes:
    """The numbers with a checksum over key and numbers, since SQLite does not detect a flipped bit."""
    numbers = vector.astype("<f4").tobytes()
    return numbers + zlib.crc32(key + numbers).to_bytes(4, "little")


def _unpacked(key: object, blob: object, dim: int) -> npt.NDArray[np.float32] | None:
    if not isinstance(key, bytes) or not isinstance(blob, bytes) or len(blob) != 4 * dim + 4:
        return None
    numbers, checksum = blob[:-4], int.from_bytes(blob[-4:], "little")
    return np.frombuffer(numbers, "<f4") if zlib.crc32(key + numbers) == checksum else None


def _prepare(db: sqlite3.Connection) -> None:
    """Creates the table in a new file; raises _ForeignDatabase for any other database."""
    if db.execute("PRAGMA user_version").fetchone()[0] == FORMAT:
        return
    db.execute("BEGIN IMMEDIATE")  # two processes may be here at once
    with db:
        if db.execute("PRAGMA user_version").fetchone()[0] == FORMAT:
            return
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise _ForeignDatabase("is a database of another kind")
        db.execute(
            "CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL)"
        )
        db.execute(f"PRAGMA user_version = {FORMAT}")


def _move_aside(path: Path) -> None:
    """Renames the file to `*.damaged`, its journal first: SQLite would replay that into the next file."""
    for name in (path.with_name(path.name + "-journal"), path):
        with suppress(FileNotFoundError):  # no journal, or another process was first
            os.replace(name, name.with_name(name.name + ".damaged"))


def _slices(keys: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    ordered = sorted(keys)
    for at in range(0, len(ordered), size):
        yield ordered[at : at + size]
