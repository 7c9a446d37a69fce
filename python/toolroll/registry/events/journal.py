"""Keeps what was acknowledged on disk until it is in the database.

A process appends to segments of its own, a record in one write, so what it has written survives whatever
happens to it afterwards. Power cuts are another matter: a thread hands the file to the disk every 50 ms, or,
with `durable="disk"`, each record before it is acknowledged. A lock file says that the process lives; when
it does not, another process takes its segments over. What is read back may be cut off or damaged anywhere:
such a record is passed over and counted, and the next sound one is found.

A segment goes when all of it is drained, so after a crash records may be read twice. Who drains takes
each once all the same: the database knows what it has.
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

from toolroll.errors import InvalidInput, StoreUnavailable
from toolroll.registry.store.gil import GilYielder

_log = logging.getLogger("toolroll")

Durable: TypeAlias = Literal["process", "disk"]

MOST_BYTES = 256 * 2**20  # of all processes that share the folder
SEGMENT_BYTES = 4 * 2**20
SYNC_EVERY_S = 0.05
LARGEST = 2**20  # bytes of a record
_SPENT_BYTES = 64 * 2**10  # of a segment that is drained: it is emptied from then on

_MARK = b"\xf5TR1"  # no UTF-8 has the first of these
_HEAD = struct.Struct("<4sII")  # mark, length, CRC32 of the length and the record


class Place(NamedTuple):
    """Up to where a journal is drained."""

    segment: int
    offset: int


class Found(NamedTuple):
    """A record as it was read back.

    Attributes:
        record: as it was written.
        end: the place behind it.
    """

    record: bytes
    end: Place


@dataclass(slots=True)
class Damage:
    """How many stretches of a journal could not be read, and how many bytes they have."""

    stretches: int = 0
    bytes: int = 0


def framed(record: bytes) -> bytes:
    """A record with what it takes to find it again."""
    length = len(record).to_bytes(4, "little")
    return _HEAD.pack(_MARK, len(record), zlib.crc32(record, zlib.crc32(length))) + record


def records_in(data: bytes, damage: Damage) -> Iterator[tuple[bytes, int]]:
    """(record, offset of its end) of all that are sound; the rest is counted."""
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
    """Where the record that begins here ends; None if no sound one does."""
    if at + _HEAD.size > len(data):
        return None
    mark, length, check = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if mark != _MARK or length > LARGEST or end > len(data):
        return None
    record = data[at + _HEAD.size : end]
    return end if zlib.crc32(record, zlib.crc32(data[at + 4 : at + 8])) == check else None


class Journal:
    """The segments of this process. Any thread may append; one drains.

    Attributes:
        folder: where it is; processes on one machine may share it.
        damage: what could not be read back.
    """

    def __init__(self, folder: Path, *, durable: Durable = "process", most_bytes: int = MOST_BYTES) -> None:
        """Makes nothing yet: the first record makes the folder and the first segment."""
        self.folder, self.damage = folder, Damage()
        self._durable, self._most_bytes = durable, most_bytes
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._name = f"{self._pid}-{os.urandom(6).hex()}"
        self._alive: IO[bytes] | None = None
        self._file: int | None = None
        self._segment, self._size = 0, 0
        self._drained = Place(1, 0)
        self._written, self._synced = 0, 0  # bytes since the beginning
        self._appending, self._syncing = threading.Lock(), threading.Lock()
        self._others_bytes = 0
        self._is_closed = False

    def begin_anew(self) -> None:
        """In the child of a fork: what the parent has written is the parent's to drain."""
        for inherited in (self._file, self._alive):
            with suppress(OSError):
                if isinstance(inherited, int):
                    os.close(inherited)
                elif inherited is not None:
                    inherited.close()
        self._begin()

    def append(self, record: bytes) -> None:
        """Writes a record; when this returns, the end of this process cannot undo it.

        Raises:
            StoreUnavailable: the journal, or the disk, is full, or cannot be written. Nothing was kept.
        """
        if len(record) > LARGEST:
            raise InvalidInput(f"outcome: takes {len(record):,} bytes, must be at most {LARGEST:,}")
        data = framed(record)
        with self._appending:
            if self._is_closed:
                raise StoreUnavailable("this Toolroll is closed and records nothing more; open it again")
            if self._file is None or self._size >= SEGMENT_BYTES:
                self._next_segment()
            if self.backlog_bytes + self._others_bytes + len(data) > self._most_bytes:
                raise StoreUnavailable(
                    f"journal {self.folder}: is full ({self._most_bytes:,} bytes wait for the database); "
                    "nothing was recorded. Once the database answers, it empties itself",
                    retry_after_s=10.0,
                )
            self._write(data)
            mark = self._written
        if self._durable == "disk":
            self.sync(mark)

    def sync(self, mark: int | None = None) -> None:
        """Has the disk keep what was written; up to `mark`, if somebody else has not done so yet."""
        with self._syncing:
            if self._synced >= (self._written if mark is None else mark):
                return
            with self._appending:
                file, written = self._file, self._written
            if file is not None:
                try:
                    os.fsync(file)
                except OSError as error:
                    if self._file == file:  # else the segment is full, and was synced when it was closed
                        raise self._failed("cannot be written", error) from error
            self._synced = written

    @property
    def backlog_bytes(self) -> int:
        """What this process has written and not drained, about."""
        segments = self._segment - self._drained.segment
        if self._file is None or segments < 0:
            return 0
        return segments * SEGMENT_BYTES + self._size - self._drained.offset

    @property
    def is_synced(self) -> bool:
        """Whether the disk has all that was written."""
        return self._synced == self._written

    @property
    def is_drained(self) -> bool:
        """Whether nothing of this process waits."""
        with self._appending:
            return self._file is None or self._drained == Place(self._segment, self._size)

    def waiting(self, most: int) -> list[Found]:
        """The oldest records that are not drained yet."""
        found, yielder = list[Found](), GilYielder()
        with self._appending:
            if self._file is None:
                return found
            last, size = self._segment, self._size
        place = self._drained
        while place.segment <= last and len(found) < most:
            data = self._read(place, size - place.offset if place.segment == last else -1)
            for record, end in records_in(data, self.damage):
                found.append(Found(record, Place(place.segment, place.offset + end)))
                yielder()
                if len(found) == most:
                    return found
            if not found:  # nothing sound is left in it
                self.drained(Place(last, size) if place.segment == last else Place(place.segment + 1, 0))
            place = Place(place.segment + 1, 0)
        return found

    def _read(self, place: Place, length: int) -> bytes:
        """What is behind this place in its segment; length: at most, -1 for all."""
        try:
            with self._path(place.segment).open("rb") as file:
                file.seek(place.offset)
                return file.read(length)
        except FileNotFoundError:
            return b""

    def drained(self, place: Place) -> None:
        """Forgets what is before this place: it is in the database."""
        with self._appending:
            for segment in range(self._drained.segment, place.segment):
                self._path(segment).unlink(missing_ok=True)
            self._drained = place
            is_all = place == Place(self._segment, self._size)
            if is_all and self._file is not None and self._size >= _SPENT_BYTES:
                self._empty()

    def close(self) -> None:
        """Hands what is left to the disk; clears away what is drained."""
        with suppress(StoreUnavailable):
            self.sync()
        is_drained = self.is_drained
        with self._appending:
            self._is_closed = True
            if self._file is not None:
                os.close(self._file)
                self._file = None
                if is_drained:
                    self._path(self._segment).unlink(missing_ok=True)
            if self._alive is not None:
                self._alive.close()  # from here on another may take over what is left
                if is_drained:
                    self._alive_path.unlink(missing_ok=True)
                self._alive = None

    def orphans(self) -> Iterator[Orphan]:
        """Journals of processes that are gone, each locked for as long as it is looked at."""
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

    # Under the lock of those who append.

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        try:
            count = os.write(self._file, data)
        except OSError as error:
            raise self._failed("cannot be written", error) from error
        if count < len(data):  # the disk is full: half a record must not stand before the next
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise StoreUnavailable(f"journal {self.folder}: the disk is full; nothing was recorded")
        self._size += count
        self._written += count

    def _check_folder(self) -> None:
        """What is in the folder is believed, so nobody else may write there."""
        if os.name != "posix":
            return
        found = self.folder.stat()
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o002:
            raise StoreUnavailable(
                f"journal {self.folder}: others may write there, and what is in it is believed; make it "
                "yours (chown, chmod 700), or name another folder (journal=)"
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
        if self._drained == Place(self._segment, self._size) and self._segment:
            self._path(self._segment).unlink(missing_ok=True)
            self._drained = Place(self._segment + 1, 0)
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
            self._size, self._drained = 0, Place(self._segment, 0)

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
        return StoreUnavailable(
            f"journal {self.folder}: {what}: {error.strerror or error}; nothing was recorded. "
            "Check the disk and the rights to the folder, or name another"
        )


class Orphan:
    """What a process that is gone has left."""

    def __init__(self, alive: Path, damage: Damage) -> None:
        self._alive, self._damage = alive, damage
        self._segments = sorted(alive.parent.glob(f"{alive.name.removesuffix('.alive')}.*.log"))

    def records(self) -> Iterator[bytes]:
        """All that can be read, in their order."""
        for path in self._segments:
            for record, _ in records_in(path.read_bytes(), self._damage):
                yield record

    def clear(self) -> None:
        """Deletes it: all of it is in the database."""
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
    """Makes a file that is locked from its first moment under this name."""
    # Under its own name from the start, another could lock it before its owner does.
    making = path.with_name(f"{path.name}.{os.getpid()}.new")
    file = making.open("wb")
    try:
        _lock(file)
        if sys.platform == "win32":  # pragma: no cover - what is open has to keep its name
            file.close()
            file = path.open("wb")
            _lock(file)
            making.unlink()
        else:
            making.rename(path)
    except BaseException:
        file.close()
        making.unlink(missing_ok=True)
        raise
    return file


def adopt(path: Path) -> IO[bytes] | None:
    """The file, locked, if its owner is gone; None while there is one, or once it has been cleared away."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return None
    try:
        _lock(file)
    except OSError:
        file.close()
        return None
    if not path.exists():  # another has adopted it and cleared it away meanwhile
        file.close()
        return None
    return file
