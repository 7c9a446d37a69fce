"""Writes batches of events and reports that wait as bytes. What the store will never take is set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from toolroll._gil import GilYielder
from toolroll.errors import StoreUnavailable
from toolroll.registry.events.details import pack_early
from toolroll.registry.events.ingest import IngestCache, ingest
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.row_bytes import from_bytes
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.store.database import Database
from toolroll.registry.store.errors import DamagedRow


class WrittenBatch(NamedTuple):
    """What became of a batch.

    Attributes:
        events, outcomes: rows that were written.
        repeated: reports that said nothing new.
        dropped: events that the store will never take, and why.
        refused: records of reports that cannot be counted, and why.
        seqs: organisation → the number of its last outcome, for the organisations with new ones.
        waited_s: how long the batch waited for those of other processes.
    """

    events: int
    outcomes: int
    repeated: int
    dropped: list[str]
    refused: list[tuple[bytes, str]]
    seqs: dict[str, int]
    waited_s: float


class Batches(Protocol):
    """Writes batches, in this process or in another.

    Attributes:
        most_events: of a batch. Larger ones cost less for each event, and hold up others for longer.
    """

    most_events: int

    def write(self, events: Sequence[bytes], records: Sequence[bytes], now: float | None) -> WrittenBatch:
        """As `BatchWriter.write`."""

    def start(self) -> None:
        """Starts what takes a while to start, so that the first batch need not wait for it."""

    def close(self, timeout_s: float) -> None:
        """Ends what it has started, within that time."""

    def abandon(self) -> None:
        """In the child of a fork: lets go of what is the parent's."""


class BatchWriter:
    """Writes batches in the thread that calls it. Used by one thread."""

    most_events = 256

    def __init__(self, database: Database, window_s: float = LIFETIME_S) -> None:
        """window_s: how long after an event its outcomes count."""
        self._database, self._window_s, self._cache = database, window_s, IngestCache()

    def write(self, events: Sequence[bytes], records: Sequence[bytes], now: float | None) -> WrittenBatch:
        """Writes a batch. Writing it again adds nothing.

        events: of `row_bytes.to_bytes`. records: of `ReceivedReport.to_bytes`. now: as `ingest` takes it.

        Raises:
            StoreUnavailable: some of it was not written, or nobody knows; write it again.
        """
        batch = _Batch(self._database, self._window_s, self._cache)
        yielder, rows, reports = GilYielder(), list[dict[str, Any]](), list[ReceivedReport]()
        known = self._cache.tools.known
        for data in events:
            row = from_bytes(data)
            pack_early(row, known)  # here, not in the transaction: others wait for that
            rows.append(row)
            yielder()
        for record in records:
            yielder()
            try:
                reports.append(ReceivedReport.from_bytes(record))
            except (KeyError, TypeError, ValueError) as error:  # such as one of another version
                batch.refuse(record, error)
        batch.take(rows, reports, now)
        return batch.written()

    def start(self) -> None:
        """Has nothing to start."""

    def close(self, timeout_s: float) -> None:
        """Has nothing to close: the database is its owner's."""

    def abandon(self) -> None:
        """In the child of a fork: has nothing to let go of."""


class _Batch:
    """A batch that may be written in parts."""

    def __init__(self, database: Database, window_s: float, cache: IngestCache) -> None:
        self._database, self._window_s, self._cache = database, window_s, cache
        self._events = self._outcomes = self._repeated = 0
        self._dropped = list[str]()
        self._refused = list[tuple[bytes, str]]()
        self._seqs = dict[str, int]()
        self._waited_s = 0.0

    def refuse(self, record: bytes, error: Exception) -> None:
        """Sets aside a report that cannot be counted."""
        self._refused.append((record, str(error)))

    def take(
        self, events: list[dict[str, Any]], reports: list[ReceivedReport], now: float | None = None
    ) -> None:
        """Writes these, or of what makes the store refuse them all the others."""
        try:
            done = ingest(
                self._database, events, reports, window_s=self._window_s, now=now, cache=self._cache
            )
        except Exception as error:
            if isinstance(error, StoreUnavailable) and not isinstance(error, DamagedRow):
                raise
            # A value that cannot be stored, a damaged row, or a bug: the others must not wait for it.
            if len(events) + len(reports) <= 1:
                for report in reports:
                    self.refuse(report.to_bytes(), error)
                self._dropped += [f"the store does not take one: {error}"] * len(events)
                return
            half, rest = len(events) // 2, len(reports) // 2
            if len(events) == 1:
                self.take(events, [])
                self.take([], reports)
                return
            self.take(events[:half], reports[:rest])
            self.take(events[half:], reports[rest:])
            return
        self._events += done.events
        self._outcomes += done.outcomes
        self._repeated += done.repeated
        self._waited_s += done.waited_s
        for report, refusal in done.refused:
            self.refuse(report.to_bytes(), refusal)
        if done.outcomes:
            self._seqs |= done.seqs

    def written(self) -> WrittenBatch:
        return WrittenBatch(
            self._events,
            self._outcomes,
            self._repeated,
            self._dropped,
            self._refused,
            self._seqs,
            self._waited_s,
        )
