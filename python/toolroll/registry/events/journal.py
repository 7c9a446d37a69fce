"""A write-ahead log on disk that keeps records until they are in the database.

A process appends to segments of its own, each record in one write, so a record survives the end of the
process. To survive a power cut, a thread syncs the file every 50 ms, or `append` syncs each record with
`durable="disk"`. A lock file shows that the process lives; once it does not, another process takes its
segments over. A record may be cut off or damaged anywhere: reading skips and counts it, and finds the next
sound one.

A segment is deleted once all of it is acknowledged, so after a crash records may be read twice. The database
knows what it has, and takes each once.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeAlias

from toolroll._gil import GilYielder
from toolroll.errors import InvalidInput, StoreUnavailable

_log = logging.getLogger("toolroll")

Durable: TypeAlias = Literal["process", "disk"]

MOST_BYTES = 256 * 2**20  # of all processes that share the folder
SEGMENT_BYTES = 4 * 2**20
SYNC_EVERY_S = 0.05
LARGEST = 2**20  # bytes of a record
_SPENT_BYTES = 64 * 2**10  # a segment of this size is truncated once it is acknowledged

_MARK = b"\xf5TR1"  # no UTF-8 has the first of these
_HEAD = struct.Struct("<4sII")  # mark, length, CRC32 of the length and the record


class Position(NamedTuple):
    """Where a record ends."""

    segment: int
    offset: int


class JournalEntry(NamedTuple):
    """A record that was read back, and where it ends."""

    record: bytes
    end: Position


@dataclass(slots=True)
class Damage:
    """How many ranges of a journal could not be read, and how many bytes they have."""

    stretches: int = 0
    bytes: int = 0


def frame(record: bytes) -> bytes:
    """A record with its header: mark, length, checksum."""
    length = len(record).to_bytes(4, "little")
    return _HEAD.pack(_MARK, len(record), zlib.crc32(record, zlib.crc32(length))) + record


def records_in(data: bytes, damage: Damage) -> Iterator[tuple[bytes, int]]:
    """(record, offset of its end) of all sound records; counts the rest as damage."""
    at, size, lost_from = 0, len(data), None
    while at < size:
        end = _end_of(data, at)
        if end is None:
            lost_from = at if lost_from is None else lost_from
            at = data.find(_MARK, at + 1)
            at = size if at < 0 else at
            continue
        if lost_from is not None:
            damage.stretches, damage.bytes = damage.stretches + 1, damage.bytes + at - lost_from
            lost_from = None
        yield data[at + _HEAD.size : end], end
        at = end
    if lost_from is not None:
        damage.stretches, damage.bytes = damage.stretches + 1, damage.bytes + size - lost_from


def _end_of(data: bytes, at: int) -> int | None:
    """Where the record at this offset ends; None if there is no sound one."""
    if at + _HEAD.size > len(data):
        return None
    mark, length, check = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if mark != _MARK or length > LARGEST or end > len(data):
        return None
    record = data[at + _HEAD.size : end]
    return end if zlib.crc32(record, zlib.crc32(data[at + 4 : at + 8])) == check else None


class Journal:
    """The segments of this process. Any thread may append; one thread reads and acknowledges.

    Attributes:
        folder: processes on one machine may share it.
        damage: the ranges that could not be read back.
        error: why the last record could not be written; None if it could.
    """

    def __init__(self, folder: Path, *, durable: Durable = "process", most_bytes: int = MOST_BYTES) -> None:
        """Creates no file: the first record creates the folder and the first segment."""
        self.folder, self.damage = folder, Damage()
        self.error: str | None = None
        self._durable, self._most_bytes = durable, most_bytes
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._name = f"{self._pid}-{os.urandom(6).hex()}"
        self._alive: IO[bytes] | None = None
        self._file: int | None = None
        self._segment, self._size = 0, 0
        self._acknowledged = Position(1, 0)
        self._written, self._synced = 0, 0  # bytes since the beginning
        self._appending, self._syncing = threading.Lock(), threading.Lock()
        self._others_bytes = 0
        self._is_closed = False

    def reset_in_child(self) -> None:
        """In the child of a fork: the parent keeps its segments."""
        for inherited in (self._file, self._alive):
            with suppress(OSError):
                if isinstance(inherited, int):
                    os.close(inherited)
                elif inherited is not None:
                    inherited.close()
        self._begin()

    def append(self, record: bytes) -> None:
        """Writes a record. When this returns, the record survives the end of the process.

        Raises:
            StoreUnavailable: the journal or the disk is full, or cannot be written. Nothing was written.
        """
        if len(record) > LARGEST:
            raise InvalidInput(f"outcome: takes {len(record):,} bytes, must be at most {LARGEST:,}")
        data = frame(record)
        with self._appending:
            if self._is_closed:
                raise StoreUnavailable("this Toolroll is closed and records nothing more; open it again")
            if self._file is None or self._size >= SEGMENT_BYTES:
                self._next_segment()
            if self.backlog_bytes + self._others_bytes + len(data) > self._most_bytes:
                raise StoreUnavailable(
                    f"journal {self.folder}: is full ({self._most_bytes:,} bytes wait for the database); "
                    "nothing was recorded. It empties itself once the database answers",
                    retry_after_s=10.0,
                )
            self._write(data)
            mark, self.error = self._written, None
        if self._durable == "disk":
            self.sync(mark)

    def sync(self, mark: int | None = None) -> None:
        """Syncs the file, unless another thread has synced it up to `mark`."""
        with self._syncing:
            if self._synced >= (self._written if mark is None else mark):
                return
            with self._appending:
                file, written = self._file, self._written
            if file is not None:
                try:
                    os.fsync(file)
                except OSError as error:
                    if self._file == file:  # else it was full, and was synced when it was closed
                        raise self._failed("cannot be written", error) from error
            self._synced = written

    def problem(self) -> str | None:
        """Why a record could not be written now, as far as can be said without writing one; None if it could.

        The folder may have become read-only, or may be gone, since the last record.
        """
        if self.error is not None or self._is_closed:
            return self.error
        place = self.folder
        if self._alive is None:  # the first record makes the folder
            place = next((path for path in (place, *place.absolute().parents) if path.exists()), place)
        if not place.is_dir():
            return f"journal {self.folder}: is gone; outcomes are lost when this process ends. Start it again"
        if not os.access(place, os.W_OK | os.X_OK):
            return f"journal {self.folder}: cannot be written; reports are refused. Check its rights"
        return None

    @property
    def backlog_bytes(self) -> int:
        """About how many bytes of this process are not acknowledged."""
        segments = self._segment - self._acknowledged.segment
        if self._file is None or segments < 0:
            return 0
        return segments * SEGMENT_BYTES + self._size - self._acknowledged.offset

    @property
    def is_empty(self) -> bool:
        """Whether all records of this process are acknowledged."""
        with self._appending:
            return self._file is None or self._acknowledged == Position(self._segment, self._size)

    def peek(self, most: int) -> list[JournalEntry]:
        """The oldest records that are not acknowledged, at most so many."""
        found, yielder = list[JournalEntry](), GilYielder()
        with self._appending:
            if self._file is None:
                return found
            last, size = self._segment, self._size
        position = self._acknowledged
        while position.segment <= last and len(found) < most:
            data = self._read(position, size - position.offset if position.segment == last else -1)
            for record, end in records_in(data, self.damage):
                found.append(JournalEntry(record, Position(position.segment, position.offset + end)))
                yielder()
                if len(found) == most:
                    return found
            if not found:  # nothing sound is left in it
                self.acknowledge(
                    Position(last, size) if position.segment == last else Position(position.segment + 1, 0)
                )
            position = Position(position.segment + 1, 0)
        return found

    def _read(self, position: Position, length: int) -> bytes:
        """The bytes of the segment behind this position; length: at most, -1 for all."""
        try:
            with self._path(position.segment).open("rb") as file:
                file.seek(position.offset)
                return file.read(length)
        except FileNotFoundError:
            return b""

    def acknowledge(self, position: Position) -> None:
        """Deletes the records up to this position: they are in the database."""
        with self._appending:
            for segment in range(self._acknowledged.segment, position.segment):
                self._path(segment).unlink(missing_ok=True)
            self._acknowledged = position
            is_all = position == Position(self._segment, self._size)
            if is_all and self._file is not None and self._size >= _SPENT_BYTES:
                self._empty()

    def close(self) -> None:
        """Syncs the rest, or deletes the files if all is acknowledged."""
        with suppress(StoreUnavailable):
            self.sync()
        is_empty = self.is_empty
        with self._appending:
            self._is_closed = True
            if self._file is not None:
                os.close(self._file)
                self._file = None
                if is_empty:
                    self._path(self._segment).unlink(missing_ok=True)
            if self._alive is not None:
                self._alive.close()  # from here on another process may adopt it
                if is_empty:
                    self._alive_path.unlink(missing_ok=True)
                self._alive = None

    def orphans(self) -> Iterator[Orphan]:
        """Journals of processes that have ended, each locked until the next one."""
        for path in sorted(self.folder.glob("*.alive")):
            if path == self._alive_path:
                continue
            lock = adopt(path)
            if lock is None:
                continue
            try:
                yield Orphan(path, self.damage)
            finally:
                lock.close()

    # The caller holds the lock of `append`.

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            count = os.write(self._file, data)
        except OSError as error:
            raise self._failed("cannot be written", error) from error
        if count < len(data):  # the disk is full: no record may follow half a record
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            self.error = f"journal {self.folder}: the disk is full; nothing was recorded"
            raise StoreUnavailable(self.error)
        self._size += count
        self._written += count

    def _check_folder(self) -> None:
        """Raises if others may write to the folder: its records are trusted."""
        if os.name != "posix":
            return
        found = self.folder.stat()
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o002:
            raise StoreUnavailable(
                f"journal {self.folder}: others may write there, and its records are trusted; make it "
                "yours (chown, chmod 700), or choose another folder (journal=)"
            )

    def _next_segment(self) -> None:
        try:
            if self._alive is None:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._check_folder()
                self._alive = claim(self._alive_path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            flags |= getattr(os, "O_BINARY", 0)
            file = os.open(self._path(self._segment + 1), flags, 0o600)
            if self._file is not None:
                os.fsync(self._file)
                os.close(self._file)
            if self._durable == "disk" and os.name == "posix":
                self._sync_folder()
        except OSError as error:
            raise self._failed("cannot be written", error) from error
        if self._acknowledged == Position(self._segment, self._size) and self._segment:
            self._path(self._segment).unlink(missing_ok=True)
            self._acknowledged = Position(self._segment + 1, 0)
        self._file, self._size = file, 0
        self._segment += 1
        self._others_bytes = self._bytes_of_others()

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _empty(self) -> None:
        assert self._file is not None
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            self._size, self._acknowledged = 0, Position(self._segment, 0)

    def _bytes_of_others(self) -> int:
        total = 0
        for path in self.folder.glob("*.log"):
            if not path.name.startswith(self._name):
                with suppress(OSError):
                    total += path.stat().st_size
        return total

    @property
    def _alive_path(self) -> Path:
        return self.folder / f"{self._name}.alive"

    def _path(self, segment: int) -> Path:
        return self.folder / f"{self._name}.{segment:06d}.log"

    def _failed(self, what: str, error: OSError) -> StoreUnavailable:
        self.error = (
            f"journal {self.folder}: {what}: {error.strerror or error}; nothing was recorded. "
            "Check the disk and the rights to the folder, or choose another one"
        )
        return StoreUnavailable(self.error)


class Orphan:
    """The journal of a process that has ended."""

    def __init__(self, alive: Path, damage: Damage) -> None:
        self._alive, self._damage = alive, damage
        self._segments = sorted(alive.parent.glob(f"{alive.name.removesuffix('.alive')}.*.log"))

    def records(self) -> Iterator[bytes]:
        """All sound records, in their order."""
        for path in self._segments:
            for record, _ in records_in(path.read_bytes(), self._damage):
                yield record

    def clear(self) -> None:
        """Deletes it: all its records are in the database."""
        for path in self._segments:
            path.unlink(missing_ok=True)
        self._alive.unlink(missing_ok=True)


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def claim(path: Path) -> IO[bytes]:
    """Creates a file that is locked as soon as it has this name."""
    # If it had its name from the start, another process could lock it first.
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    file = fresh.open("wb")
    try:
        _lock(file)
        if sys.platform == "win32":  # pragma: no cover - an open file keeps its name
            file.close()
            file = path.open("wb")
            _lock(file)
            fresh.unlink()
        else:
            fresh.rename(path)
    except BaseException:
        file.close()
        fresh.unlink(missing_ok=True)
        raise
    return file


def adopt(path: Path) -> IO[bytes] | None:
    """The file, locked, if its process has ended; None if that lives, or if the file is gone."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return None
    try:
        _lock(file)
    except OSError:
        file.close()
        return None
    if not path.exists():  # another process adopted and deleted it
        file.close()
        return None
    return file
