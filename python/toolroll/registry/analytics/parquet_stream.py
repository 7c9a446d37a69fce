"""Exports events continuously to partitioned Parquet: each event once, even if exports are killed.

    LOCATION/org_hash=07/month=2026-03/20260301T120000-0.parquet     or org_id=acme/month=…
    LOCATION/_toolroll/cursor.json      the end of the written time, and the options
    LOCATION/_toolroll/pending.json     the files of the slice that is being written
    LOCATION/_toolroll/slices/…         the files of each late slice, and the number of their events

Time is cut into slices. A slice is written `settle` after its end, because outcomes change the rows of events
for a while. Its files are made on this machine, listed in `pending.json` and uploaded; only then the cursor
moves. After a kill, the next export deletes the pending files and writes the slice again. Events that arrive
within `late` after their slice was written get their own files. Counts show which slices have late events,
and the ids in the files show which events these are.

Needs pyarrow and fsspec (extra `parquet`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import quote

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidInput, NotFound, quoted
from toolroll.registry.analytics.parquet import GROUP, event_schema, tables_of
from toolroll.registry.analytics.window import events
from toolroll.registry.events.details import read_events
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord
from toolroll.runtime.extras import needs_extra

with needs_extra("events", "parquet"):
    import pyarrow.parquet as pq

    from toolroll.runtime.locations import Location

FORMAT = 1
BY = ("hash", "org")
_STATE = "_toolroll"
_CURSOR, _PENDING, _LEASE = "cursor.json", "pending.json", "lease.json"
_LONGEST = 64_000_000  # bytes of a list of files
_LEASE_S = 120.0  # after which another export may take over from one that ended without saying so
_BEGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The layout of events; fixed by the first export to a location.

    Attributes:
        by: "hash" puts organisations into `buckets` folders (at most 1,024), "org" gives each its own.
        slice_s: seconds of a slice, a divisor of a day.
        messages, vectors: whether users' messages and their vectors are included.
    """

    by: Literal["hash", "org"] = "hash"
    buckets: int = 16
    slice_s: int = 3_600
    messages: bool = False
    vectors: bool = False

    def __post_init__(self) -> None:
        if self.by not in BY:
            raise InvalidInput(f"by: is {quoted(self.by)}, must be one of {', '.join(BY)}")
        if not 1 <= self.buckets <= 1_024:
            raise InvalidInput(f"buckets: is {self.buckets}, must be from 1 to 1024")
        if self.slice_s < 60 or 86_400 % self.slice_s:
            raise InvalidInput(f"slice: is {self.slice_s} s, must be from 60 s to a day, and divide a day")

    def partition(self, org: str) -> str:
        """The folder of an organisation's events."""
        if self.by == "org":
            return f"org_id={quote(org, safe='') or '__none__'}"
        digest = blake2b(org.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return f"org_hash={int.from_bytes(digest, 'big') % self.buckets:04d}"


@dataclass(frozen=True, slots=True)
class StreamResult(JsonRecord):
    """The result of a run.

    Attributes:
        events: written events; late: of these, the events that arrived after their slice was written.
        until: everything before this time is written.
    """

    events: int
    late: int
    files: int
    until: datetime


def export_stream(
    database: Database,
    location: Location,
    options: StreamOptions,
    *,
    now: datetime,
    settle_s: float = 3_600.0,
    late_s: float = 86_400.0,
    progress: Callable[[int], None] | None = None,
) -> StreamResult:
    """Writes past slices, and late events of written ones.

    settle_s: seconds from a slice's end until it is written. late_s: seconds in which late events are
        accepted.

    Raises:
        Conflict: another export writes to this location.
        InvalidInput: the location was written with other options.
        Unavailable: location or registry does not answer; run it again.
    """
    export = _Export(database, location, options, progress)
    with database.reading():  # before anything is written: it may fail, or be another registry's copy
        now -= timedelta(seconds=database.behind_s)  # a read replica has only events until then
    with _Lease(location.below(_STATE)) as renew:
        export.recover()
        end = _floor(now - timedelta(seconds=settle_s), options.slice_s)
        export.check_late(end - timedelta(seconds=late_s), renew)
        at = export.next_slice(export.position)
        while at is not None and at < end:
            export.write_slice(at)
            renew()
            at = export.next_slice(export.position)
        export.move_to(max(end, export.position))
    return StreamResult(export.written, export.late, export.files, export.position)


class _Export:
    """One run."""

    def __init__(
        self,
        database: Database,
        location: Location,
        options: StreamOptions,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._database, self._location, self._options = database, location, options
        self._progress = progress
        self._state, self._slices = location.below(_STATE), location.below(_STATE, "slices")
        self._schema = event_schema(options.messages, options.vectors)
        self.written = self.late = self.files = 0
        self.position = self._watched_from = _BEGIN

    def recover(self) -> None:
        """Reads the cursor, and deletes the files of an unfinished slice."""
        cursor = _json(self._state, _CURSOR)
        if cursor is None:
            self._write_cursor()
        else:
            if cursor.get("format") != FORMAT:
                raise InvalidInput(
                    f"{self._location}: was exported in format {quoted(cursor.get('format'))}, this version "
                    f"writes {FORMAT}: export to another folder"
                )
            if cursor["options"] != asdict(self._options):
                changed = [
                    f"{name} was {cursor['options'].get(name)!r}"
                    for name, value in asdict(self._options).items()
                    if cursor["options"].get(name) != value
                ]
                raise InvalidInput(
                    f"{self._location}: was begun with other options ({', '.join(changed)}): "
                    "use the same, or another folder"
                )
            self.position = datetime.fromisoformat(cursor["position"])
            self._watched_from = datetime.fromisoformat(cursor["watched_from"])
        pending = _json(self._state, _PENDING)
        if pending is None:
            return
        record = _json(self._slices, f"{pending['slice']}.json") or {"generation": -1}
        if record["generation"] < pending["generation"]:  # its files were not all there
            for name in pending["files"]:
                self._location.delete(name)
        self._state.delete(_PENDING)

    def next_slice(self, since: datetime) -> datetime | None:
        """The begin of the first slice with events since this time."""
        with self._database.reading() as connection:
            first: datetime | None = connection.execute(
                sa.select(events.c.at).where(events.c.at >= since).order_by(events.c.at).limit(1)
            ).scalar()
        return None if first is None else max(since, _floor(first, self._options.slice_s))

    def move_to(self, position: datetime) -> None:
        """Moves the cursor: everything before this time is written."""
        if position != self.position:
            self.position = position
            self._write_cursor()

    def write_slice(self, begin: datetime) -> None:
        """Writes a slice, and moves the cursor to its end."""
        self._complete(begin)  # it may be written: then only the cursor was lost
        self.move_to(begin + timedelta(seconds=self._options.slice_s))

    def check_late(self, oldest: datetime, renew: Callable[[], None]) -> None:
        """Writes late events of slices from `oldest` on, and drops the lists of earlier slices."""
        # A forgotten slice must never look like one that was not written.
        self._watched_from = max(
            self._watched_from, min(_floor(oldest, self._options.slice_s), self.position)
        )
        self._write_cursor()
        for name in self._slices.names():
            if name < self._watched_from.strftime(_STAMP):  # names sort as their times
                self._slices.delete(name)
        at = self.next_slice(self._watched_from)
        while at is not None and at < self.position:
            before = self.written
            self._complete(at)
            self.late += self.written - before
            renew()
            at = self.next_slice(at + timedelta(seconds=self._options.slice_s))

    def _complete(self, begin: datetime) -> None:
        """Writes the rest of a slice."""
        record = _json(self._slices, f"{begin.strftime(_STAMP)}.json")
        if record is None:
            self._write(begin, 0, [], frozenset())
        elif self._count(begin) > record["counted"]:
            known = {event_id for file in record["files"] for event_id in self._ids(file)}
            self._write(begin, record["generation"] + 1, record["files"], known)

    def _count(self, begin: datetime) -> int:
        query = sa.select(sa.func.count()).select_from(events).where(*self._within(begin))
        with self._database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def _within(self, begin: datetime) -> list[sa.ColumnElement[bool]]:
        end = begin + timedelta(seconds=self._options.slice_s)
        return [events.c.at >= begin, events.c.at < end]

    def _ids(self, file: str) -> list[str]:
        with self._location.reading(file) as stream:
            found: list[str] = pq.read_table(stream, columns=["event_id"]).column("event_id").to_pylist()
        return found

    def _write(self, begin: datetime, generation: int, before: list[str], known: Collection[str]) -> None:
        """Writes a slice's events, except events in its earlier files (`before`)."""
        stamp = begin.strftime(_STAMP)
        counted = self._count(begin)  # before the rows are read: later events are late ones
        ending = f"month={begin:%Y-%m}/{stamp}-{generation}.parquet"
        with tempfile.TemporaryDirectory(prefix="toolroll-export-") as folder:
            made, count = self._make(folder, begin, known)
            if not made and not known:
                return
            names = {f"{partition}/{ending}": path for partition, path in made.items()}
            pending = {"slice": stamp, "generation": generation, "files": [*names]}
            self._state.write(_PENDING, _encoded(pending))
            for name, path in names.items():
                self._location.upload(path, name)
        record = {"generation": generation, "counted": counted, "files": [*before, *names]}
        self._slices.write(f"{stamp}.json", _encoded(record))
        self._state.delete(_PENDING)
        self.written += count
        self.files += len(names)

    def _make(self, folder: str, begin: datetime, known: Collection[str]) -> tuple[dict[str, str], int]:
        """Makes files of the slice on this machine: partition → path, and the number of events."""
        made: dict[str, str] = {}
        writers: dict[str, Any] = {}
        count, is_by_org = 0, self._options.by == "org"
        for partition, rows in self._rows(begin, known):
            if is_by_org and partition not in writers:  # organisations come one after another
                while writers:
                    writers.popitem()[1].close()
            if partition not in writers:
                made[partition] = os.path.join(folder, f"{len(made)}.parquet")
                writers[partition] = pq.ParquetWriter(made[partition], self._schema, compression="zstd")
            for table in tables_of(rows, self._schema):
                writers[partition].write_table(table, row_group_size=GROUP)
                count += len(table)
            if self._progress is not None:
                self._progress(self.written + count)
        for writer in writers.values():
            writer.close()
        return made, count

    def _rows(
        self, begin: datetime, known: Collection[str]
    ) -> Iterator[tuple[str, Sequence[SimpleNamespace]]]:
        order = (events.c.org, events.c.at, events.c.event_id)
        with self._database.reading() as connection:
            for rows in read_events(connection, self._within(begin), order, GROUP):
                found: dict[str, list[SimpleNamespace]] = {}
                for row in rows:
                    if row.event_id not in known:
                        found.setdefault(self._options.partition(row.org), []).append(row)
                yield from found.items()

    def _write_cursor(self) -> None:
        said = {
            "format": FORMAT,
            "position": self.position.isoformat(),
            "watched_from": self._watched_from.isoformat(),
            "options": asdict(self._options),
        }
        self._state.write(_CURSOR, _encoded(said))


_STAMP = "%Y%m%dT%H%M%S"


def _floor(at: datetime, slice_s: int) -> datetime:
    seconds = int((at - _BEGIN).total_seconds())
    return _BEGIN + timedelta(seconds=seconds - seconds % slice_s)


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _json(folder: Location, name: str) -> dict[str, Any] | None:
    """A JSON object, or None. Raises InvalidInput if it is damaged."""
    try:
        found = json.loads(folder.read(name, _LONGEST))
        if not isinstance(found, dict):
            raise ValueError("is no JSON object")
    except NotFound:
        return None
    except ValueError as error:
        raise InvalidInput(f"{folder}/{name}: cannot be read: {error}") from error
    return found


class _Lease:
    """Keeps a second export away from the location; the body gets a function that renews the lease.

    An object store has no lock, so two exports may start at the same moment. They write the same files, since
    slices determine the names.
    """

    def __init__(self, state: Location) -> None:
        self._state, self._owner = state, f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._until = 0.0

    def __enter__(self) -> Callable[[], None]:
        lease = _json(self._state, _LEASE)
        if lease is not None and lease["until"] > time.time() and not _has_ended(lease["owner"]):
            raise Conflict(
                f"{self._state}: {lease['owner'].rpartition(':')[0]} exports there; if it has ended, wait "
                f"{lease['until'] - time.time():.0f} s"
            )
        self._renew()
        return self._renew

    def __exit__(self, *_: object) -> None:
        self._state.delete(_LEASE)

    def _renew(self) -> None:
        if self._until - time.time() < _LEASE_S / 2:
            self._until = time.time() + _LEASE_S
            self._state.write(_LEASE, _encoded({"owner": self._owner, "until": self._until}))


def _has_ended(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    host, _, rest = owner.partition(":")
    if host != socket.gethostname() or sys.platform == "win32":  # where asking for a process ends it
        return False
    try:
        os.kill(int(rest.partition(":")[0]), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OSError:
        return False
    return False
