"""Ships a host's events and reports through the outbox to the registry's inbox.

A selection is queued, without waiting. A report is in the outbox when `record` returns. One thread makes
events of selections and moves the outbox into the inbox, which takes each record once, however often it is
shipped. The registry's keeper then processes them.

The more selections wait, the smaller is the share that becomes events. Dropped selections are counted, and
the others are a fair sample.
"""

from __future__ import annotations

import logging
import math
import os
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.learning.deduplication import NEW_EVENT, EventState, Step, deduplicate
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.model.errors import NotFound, StoreUnavailable
from toolroll.registry.events.event_record import event_to_bytes
from toolroll.registry.events.event_row import SelectionOrigin, event_row
from toolroll.registry.events.lease import NO_FIGURES, KeeperState, state_of
from toolroll.registry.events.rows import (
    Messages,
    ReceivedReport,
    as_stored,
    check_steps,
    exposure_of_event,
    seconds,
    word,
)
from toolroll.registry.outbox.outbox import Outbox, Record
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing
from toolroll.registry.store.database import LONGEST_TEXT, Database, checked_text
from toolroll.runtime.threads import Worker
from toolroll.selection.selection import Selection

_log = logging.getLogger("toolroll")

MOST_EVENTS = 1_024  # selections in the queue; more are dropped
MOST_INBOX = 100_000  # records in the inbox; with more, no host ships
_HURRY = 256  # selections in the queue; then the thread waits for no more
_LARGE = 100_000  # tools; selections from a larger catalog are larger, so fewer may wait
DELIVERED_WITHIN_S = 0.05  # a delivery later than this is not in the event
SHIP_EVERY_S = 0.2  # larger batches cost less
_PAUSE_EVERY, _PAUSE_S = 4, 0.00005  # events and seconds: other threads get the interpreter
# (fill of the queue, share of selections that become events below it)
_SHARES = ((0.5, 1.0), (0.75, 0.5), (0.875, 0.25), (math.inf, 0.125))
_RECORDS = 512  # in a batch
_LONGEST_ID = 32  # characters
_REMEMBERED = 4_096  # events that this process knows
_OTHERS_S = 1.0  # after which it ships the records of other processes
_IDLE_S = 1.0  # between two looks at the outbox, for records of other processes
_LOOK_S = 5.0  # between two looks at the keeper, while one runs; else one at each step
_COUNT_S = 5.0  # between two counts of the inbox
_NOBODY_S = 10.0  # without a keeper, until health says so
_FLUSH_S = 0.02  # between two looks whether the keeper has counted all


@dataclass(slots=True)
class EventCounts:
    """Counts of selections.

    Attributes:
        written: as events in the outbox.
        dropped: without an event: too many were waiting, or the event could not be made.
    """

    written: int = 0
    dropped: int = 0


class _QueuedSelection(NamedTuple):
    """A selection in the queue. at: monotonic seconds. share: the probability that it becomes an event."""

    at: float
    selection: Selection
    share: float


@dataclass(slots=True)
class _KnownEvent:
    """A recent event of this process.

    Attributes:
        exposure: None if this process has only reports on the event.
        said: the event's state after the reports of this process.
        steps: the number of reports with a change.
    """

    exposure: Exposure | None = None
    said: EventState = NEW_EVENT
    steps: int = 0


class Shipper:
    """Ships the records of one process. Safe to share between threads.

    The child of a fork begins with an empty queue; the parent ships its own queue.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        exposure_of: Callable[[Selection], Exposure],
        *,
        messages: Callable[[], Messages] | None,
        origin_of: Callable[[Selection], SelectionOrigin] = lambda selection: SelectionOrigin(),
        on_shipped: Callable[[], None] = lambda: None,
        also: Callable[[], float] = lambda: math.inf,
        is_synced: bool = False,
    ) -> None:
        """Starts its thread with `start`, or with the first selection or report.

        exposure_of: selection → exposure, with the context's user as reporter. messages: returns the form of
            stored messages; None writes no events. origin_of: selection → its origin. on_shipped: called
            after records have reached the inbox. also: called in each step; returns the seconds until its
            next call, and must not raise. is_synced: whether a SQLite registry must have records on its
            disk before the outbox deletes them; a server always has.
        """
        self._database, self._outbox, self._is_synced = database, outbox, is_synced
        self._exposure_of, self._origin_of, self._on_shipped = exposure_of, origin_of, on_shipped
        self._also, self._messages_of, self._is_closed = also, messages, False
        self._messages: Messages | None = None  # until the key for hashes has been read
        self._begin()
        self._worker = Worker(self._step, "toolroll-ship", subject="outbox", batch_s=SHIP_EVERY_S)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self.counts = EventCounts()
        self._queue: deque[_QueuedSelection] = deque()
        self._known: OrderedDict[str, _KnownEvent] = OrderedDict()
        self._looked_at = self._counted_at = -math.inf  # monotonic
        self._keeper: KeeperState | None = None
        self._kept_at = time.monotonic()  # when a keeper was last seen

    def start(self) -> None:
        """Starts the thread that ships the outbox."""
        self._worker.wake()

    def wake(self) -> None:
        """Lets the thread, if it runs, take a step soon."""
        if self._worker.is_started:
            self._worker.wake()

    # Callers wait for these.

    def note(self, selection: Selection) -> None:
        """Queues a selection. Never waits and never fails."""
        if self._is_closed:
            return
        if self._pid != os.getpid():
            self._begin()
        full = len(self._queue) / _most_selections(selection)
        share = next(share for bound, share in _SHARES if full < bound)
        if full < 1 and _is_within(share, selection.event_id):
            self._queue.append(_QueuedSelection(time.monotonic(), selection, share))
            if len(self._queue) % _HURRY:
                self._worker.wake()
            else:
                self._worker.hurry()
        else:
            self._drop("more come than can be written; the others stand for them")

    def record(self, exposure: Exposure, report: Report, now: float | None = None) -> Step:
        """Takes a report. When this returns, the report is in the outbox and will count exactly once.

        Returns the changes of the report, as far as this process knows. now: seconds since the epoch; None
        for the system clock.

        Raises:
            InvalidInput: it names a tool that was not shown, cannot be stored, or exceeds the number of
                reports on this event.
            StoreUnavailable: the outbox is full or cannot be written; nothing was recorded.
        """
        if self._pid != os.getpid():
            self._begin()
        checked_text(exposure.org, "org")
        exposure = as_stored(exposure)
        known = self._known.get(exposure.event_id) or _KnownEvent()
        step = deduplicate(exposure, known.said, report)
        if step.is_new and not step.closes:  # an event closes once
            check_steps(exposure, known.steps)
        # A repeated report is recorded, too: another process may have recorded something else since.
        at = time.time() if now is None else now
        self._outbox.append((exposure.org, at, ReceivedReport(exposure, report, at).to_bytes()))
        known.said, known.steps = step.settled, known.steps + step.is_new
        self._remember(exposure.event_id, known)
        self._worker.wake()
        return step

    def known(self, event_id: str, reporter: str) -> Exposure | None:
        """The exposure of a recent event of this process, once its record is made."""
        known = self._known.get(event_id)
        found = None if known is None else known.exposure
        return found if found is not None and found.reporter == reporter else None

    def exposure(self, event_id: str, org: str | None = None) -> Exposure:
        """The exposure of an event of this process or of the store.

        Raises:
            NotFound: there is no such event, or it belongs to another organisation.
            StoreUnavailable: the event is not a recent one of this process, and the store does not answer.
        """
        known = self._known.get(event_id)
        found = (None if known is None else known.exposure) or self._queued(event_id)
        if found is None:
            checked_text(event_id, "event")
            found = exposure_of_event(self._database, event_id, org)
        if found is None or (org is not None and found.org != org):
            raise NotFound(
                f"event {event_id!r:.80}: is not known here. An event can be reported by its id once it is "
                "in the store; a receipt, roll.receipt(picked), works at once and from anywhere"
            )
        return found

    def _queued(self, event_id: str) -> Exposure | None:
        for noted in self._queue.copy():
            if noted.selection.event_id == event_id:
                return self._exposure_of(noted.selection)
        known = self._known.get(event_id)  # its record may have been made meanwhile
        return None if known is None else known.exposure

    def _remember(self, event_id: str, known: _KnownEvent) -> None:
        self._known[event_id] = known
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def _drop(self, why: str, error: Exception | None = None) -> None:
        if not self.counts.dropped:
            _log.warning("events: some are dropped: %s", why, exc_info=error)
        self.counts.dropped += 1

    # Waiting.

    def flush(self, timeout_s: float, hurry: Callable[[], None] = lambda: None) -> bool:
        """Waits until all selections and reports so far are counted. Returns whether they are.

        hurry: called repeatedly meanwhile.
        """
        deadline = time.monotonic() + timeout_s
        if not self.ship(timeout_s):
            return False
        try:
            while self._is_in_inbox():
                if time.monotonic() >= deadline:
                    return False
                hurry()
                time.sleep(_FLUSH_S)
        except StoreUnavailable:
            return False
        return True

    def ship(self, timeout_s: float) -> bool:
        """Waits until all selections and reports so far are in the inbox. Returns whether they are."""
        try:
            return self._worker.flush(self._is_shipped, timeout_s)
        except StoreUnavailable:  # the outbox cannot be read
            return False

    def request_stop(self) -> None:
        """Takes no more selections, and stops shipping soon."""
        self._is_closed = True
        self._worker.request_stop()

    def drain(self, timeout_s: float) -> None:
        """Takes no more selections and ships as much as it can in this time. The outbox keeps the rest."""
        self._is_closed = True
        if self._worker.is_started:
            self.ship(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Ends the thread, and closes the outbox."""
        self.request_stop()
        self._worker.stop(timeout_s)
        self._outbox.close()

    def health(self) -> dict[str, Any]:
        """The waiting records, their age, the last error, and the registry's keeper."""
        waiting_bytes, waiting_s = self._outbox.waiting()
        keeper = self._keeper or KeeperState("", None, False, {})
        return {
            "events": {"waiting": len(self._queue), **asdict(self.counts)},
            "outcomes": {"waiting_bytes": waiting_bytes, "waiting_s": round(waiting_s, 3)},
            "keeper": {
                "holder": keeper.holder,
                "runs": keeper.is_held,
                "until": None if keeper.until is None else keeper.until.isoformat(),
                **NO_FIGURES,
                **keeper.figures,
            },
            "unkept": self._unkept(),
            "outbox": self._outbox.problem(),
            "failing": self._worker.error,
        }

    def _unkept(self) -> str | None:
        """A warning, if no keeper runs, so that nothing is learnt."""
        keeper = self._keeper
        if keeper is None or keeper.is_held or time.monotonic() - self._kept_at < _NOBODY_S:
            return None
        since = "" if keeper.until is None else f" since {keeper.until.isoformat(timespec='seconds')}"
        return (
            f"no keeper runs{since}, so nothing is learnt and no event is stored; start one: toolroll "
            f"registry keep --catalog {self._database.url}"
        )

    # The thread.

    def _step(self) -> float:
        """Makes events and ships a batch; returns the seconds until the next step."""
        if self._pid != os.getpid():
            self._begin()
        also_s = self._also()  # first: the rest may fail
        wait_s = min(self._make_events(), also_s)
        self._outbox.checkpoint()
        self._look()
        is_full = self._ship()
        return 0.0 if is_full else min(wait_s, _IDLE_S)

    def _make_events(self) -> float:
        """Appends events to the outbox; returns the seconds until the next selection is due.

        A selection waits a moment, because a delivery right after it decides which tools are shown.
        """
        if self._messages_of is not None and self._messages is None and self._queue:
            self._messages = self._messages_of()
        records = list[tuple[str, float, bytes]]()
        wait_s, is_half_full = _IDLE_S, self._outbox.is_half_full()
        while self._queue and len(records) < _RECORDS and not self._worker.is_stopped:
            noted = self._queue[0]
            wait_s = noted.at + DELIVERED_WITHIN_S - time.monotonic()
            if wait_s > 0 and not self._is_closed:
                break
            try:
                record = self._record_of(noted)
                if record is not None and not is_half_full:
                    records.append(record)
                elif record is not None:
                    self._drop("the outbox is half full, and the rest is for outcomes")
            except Exception as error:  # one selection must not hold up the next ones
                self._drop("none can be made of a selection", error)
            self._queue.popleft()
            if len(records) % _PAUSE_EVERY == 0:
                time.sleep(_PAUSE_S)
        if records:
            try:
                self._outbox.append(*records)
                self.counts.written += len(records)
            except StoreUnavailable as error:
                for _ in records:
                    self._drop(str(error))
        return max(wait_s, 0.0) if self._queue else _IDLE_S

    def _record_of(self, noted: _QueuedSelection) -> tuple[str, float, bytes] | None:
        """The event as (organisation, time, bytes); None if no events are written."""
        selection = noted.selection
        org, event_id = selection.turn.context.org, selection.event_id
        checked_text(org, "org")
        exposure = self._exposure_of(selection)
        known = self._known.get(event_id) or _KnownEvent()
        known.exposure = exposure
        self._remember(event_id, known)
        if self._messages is None:
            return None
        has_odds = len(self._queue) < MOST_EVENTS // 4
        origin = self._origin_of(selection)
        row = event_row(selection, exposure, origin, self._messages, has_odds=has_odds, share=noted.share)
        return org, seconds(row["at"]), event_to_bytes(row)

    def _look(self) -> None:
        """From time to time, reads whether a keeper runs."""
        is_held = self._keeper is not None and self._keeper.is_held
        if time.monotonic() - self._looked_at >= (_LOOK_S if is_held else _IDLE_S):
            self._keeper = state_of(self._database)
            self._looked_at = time.monotonic()
            if self._keeper.is_held:
                self._kept_at = self._looked_at

    def _ship(self) -> bool:
        """Moves a batch from the outbox into the inbox. Returns whether more may be left."""
        records = self._outbox.oldest(_RECORDS, _OTHERS_S)
        if not records:
            return False
        self._check_inbox()
        rows = [_inbox_row(one) for one in records]
        # A commit to a SQLite file that does not wait for the disk survives the end of a process, as the
        # outbox does. One to a server does not survive the server's, and the outbox has no copy any more.
        is_synced = self._is_synced or self._database.dialect == "postgresql"
        with self._database.recording() if is_synced else self._database.autocommit() as connection:
            add_missing(connection, tables.inbox, rows)
        self._outbox.delete(records)
        self._on_shipped()
        return len(records) == _RECORDS

    def _check_inbox(self) -> None:
        """Raises StoreUnavailable if too many records wait for the keeper: they then stay in the outbox."""
        if time.monotonic() - self._counted_at < _COUNT_S:
            return
        some = sa.select(tables.inbox.c.id).limit(MOST_INBOX).subquery()
        with self._database.reading(is_single=True) as connection:
            count = connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
        if count >= MOST_INBOX:
            raise StoreUnavailable(
                f"{self._database.url}: its inbox is full, with {count:,} records", retry_after_s=5.0
            )
        self._counted_at = time.monotonic()

    def _is_shipped(self) -> bool:
        return not self._queue and not self._outbox.has_own

    def _is_in_inbox(self) -> bool:
        first, last = self._outbox.ids
        inbox = tables.inbox
        query = sa.select(inbox.c.id).where(inbox.c.id > first, inbox.c.id < last).limit(1)
        with self._database.reading(is_single=True) as connection:
            return connection.execute(query).first() is not None


def _inbox_row(record: Record) -> dict[str, Any]:
    """A record in a form that the inbox can store, so that a damaged record does not block others.

    The keeper refuses and logs a record with damaged bytes.
    """
    _, of, org, at, data = record
    is_time = isinstance(at, float) and math.isfinite(at)
    return {
        "id": word(str(of), _LONGEST_ID),
        "org": word(str(org), LONGEST_TEXT),
        "at": at if is_time else time.time(),
        "record": data if isinstance(data, bytes) else b"",
    }


def _is_within(share: float, event_id: str) -> bool:
    """Whether an event is in a sample of this share. A larger sample contains every smaller one."""
    return share >= 1 or zlib.crc32(event_id.encode()) < share * 2**32


def _most_selections(selection: Selection) -> int:
    """The most selections from such a catalog that may wait in memory."""
    return max(64, MOST_EVENTS * _LARGE // max(_LARGE, len(selection.catalog)))
