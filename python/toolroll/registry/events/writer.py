"""Takes events and outcomes from those who select and report, and brings them into the store by itself.

Selecting appends to a queue and waits for nothing; when the queue is full, events are dropped and counted.
Reporting writes to the journal, and what is written there is not lost: not when the process is killed, not
while the database is away. Threads of its own do the rest. One makes rows of selections and hands the journal
to the disk: it never meets the database. The other drains both, tries again for as long as it takes, and
takes over what processes that are gone have left.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from toolroll._threads import Full, Overdue, Workers, survive_forks
from toolroll.errors import NotFound, StoreUnavailable, ToolrollError
from toolroll.learning.deduplication import NOTHING_SAID, Settled, deduplicate
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.registry.events.event_row import SelectionOrigin, event_row
from toolroll.registry.events.ingest import Drained, drain, is_due
from toolroll.registry.events.journal import SYNC_EVERY_S, Journal
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import Messages, Received, exposure_of_event, normal
from toolroll.registry.events.statistics import Known
from toolroll.registry.store.database import Database, words
from toolroll.registry.store.gil import GilYielder
from toolroll.selection.selection import Selection

_log = logging.getLogger("toolroll")

MOST_EVENTS = 1_024  # selections that wait to be made a row of; more are dropped
MOST_ROWS = 4_096  # that wait for the store; likewise
_LARGE = 100_000  # tools; selections from a larger catalog are larger, so fewer wait
DRAIN_EVERY_S = 0.2  # larger batches cost less
_EVENTS, _REPORTS = 256, 512  # of a batch
_KNOWN = 4_096  # events whose exposure, and reports whose gist, are remembered here
_RECENT = 128  # selections that an id still finds where no events are written
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0  # between tries while the store is away
_ADOPT_EVERY_S, _CLOSE_EVERY_S = 5.0, 15.0
_LOOK_UP_S = 5.0
_MOST_REFUSED_BYTES = 16 * 2**20
_UNKNOWN = Messages("dropped")  # until the store has said by which key to hash


@dataclass(slots=True)
class Counts:
    """What has become of all that came.

    Attributes:
        written: rows of events.
        dropped: events that no row was made of: the queue was full, or the row could not be.
        counted: reports that added something.
        repeated: reports that said nothing new.
        refused: reports that the store would not take; they are kept in a file beside the journal.
    """

    written: int = 0
    dropped: int = 0
    counted: int = 0
    repeated: int = 0
    refused: int = 0


class Recorder:
    """Of one store and one process. Any thread may note and record; a child of a fork begins by itself."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        exposure_of: Callable[[Selection], Exposure],
        *,
        messages: Callable[[], Messages] | None,
        origin_of: Callable[[Selection], SelectionOrigin] = lambda selection: SelectionOrigin(),
        drained: Callable[[Mapping[str, int]], None] = lambda seqs: None,
        window_s: float = LIFETIME_S,
    ) -> None:
        """Begins with the first event or report.

        exposure_of: what a selection showed, by the reporter that its context names. messages: says what is
            kept of them, once it is known; None for no events at all. standing_of: what a selection does not
            know of itself. drained: called with organisation → number of its last outcome, when some were
            written. window_s: for how long after an event what is said of it counts.
        """
        self._database, self._journal = database, journal
        self._exposure_of, self._origin_of, self._drained = exposure_of, origin_of, drained
        self._messages_of, self._messages = messages, None if messages is None else _UNKNOWN
        self._window_s = window_s
        self._is_closed = False
        self._begin()
        survive_forks(self, _at_work, _begin_anew)

    def _begin(self) -> None:
        self.counts = Counts()
        self._queue: deque[Selection] = deque()
        self._recent: deque[Selection] = deque(maxlen=_RECENT)  # where no events are written
        self._cells = Known()
        self._rows: list[dict[str, Any]] = []  # of events that the store has not taken yet
        self._known: OrderedDict[str, Exposure] = OrderedDict()  # recent events
        self._settled: OrderedDict[str, Settled] = OrderedDict()  # what was said of them here
        self._recording, self._starting = threading.Lock(), threading.Lock()
        self._at_work = threading.Lock()  # held while the database is
        self._stop, self._wake, self._called = threading.Event(), threading.Event(), threading.Event()
        self._drain_sleeps = self._journal_sleeps = False  # until somebody calls
        self._progress = threading.Condition()
        self._rounds = 0
        self._threads: list[threading.Thread] = []
        self._waiting_since: float | None = None  # monotonic
        self._failing: Exception | None = None
        self._workers = Workers(2, "toolroll-lookup")
        self._adopted_at = self._closed_at = 0.0  # monotonic

    # What callers wait for.

    def note(self, selection: Selection) -> None:
        """Takes a selection. Waits for nothing, and never fails."""
        if self._messages is None:
            self._recent.append(selection)
            return
        if self._is_closed:
            return
        waiting = len(self._queue)
        if waiting > 64 and waiting >= MOST_EVENTS * _LARGE // max(_LARGE, len(selection.catalog)):
            self._drop("they come faster than rows can be made of them")
            return
        self._queue.append(selection)
        if self._journal_sleeps or not self._threads:
            self._stir()

    def record(self, exposure: Exposure, report: Report, now: float | None = None) -> int:
        """Takes a report. When this returns it is on disk, and counts exactly once sooner or later.

        now: seconds since the epoch, by the clock that the exposure's time is of; None for the usual one.

        Returns:
            Of how many tools it says something new, as far as this process knows.

        Raises:
            InvalidInput: it names a tool that was not shown, or cannot be kept.
            StoreUnavailable: the journal is full or cannot be written; nothing was recorded.
        """
        words(exposure.org, "org")
        exposure = normal(exposure)
        event_id = exposure.event_id
        with self._recording:
            before = self._settled.get(event_id, NOTHING_SAID)
            step = deduplicate(exposure, before, report)
            # Also what was said here before: another process may have said something else since.
            at = time.time() if now is None else now
            self._journal.append(Received(exposure, report, at).to_bytes())
            self._settled[event_id] = step.settled
            if len(self._settled) > _KNOWN:
                self._settled.popitem(last=False)
            if self._waiting_since is None:
                self._waiting_since = time.monotonic()
        if self._drain_sleeps or self._journal_sleeps or not self._threads:
            self._stir()
        return len(step.changes)

    def known(self, event_id: str, reporter: str) -> Exposure | None:
        """What a recent event of this process showed, if it has been looked at already."""
        found = self._known.get(event_id)
        return found if found is not None and found.reporter == reporter else None

    def exposure(self, event_id: str, org: str | None = None) -> Exposure:
        """What an event showed: one of this process, or one that the store has.

        Raises:
            NotFound: there is no such event, or it is another organisation's.
            StoreUnavailable: it is not one of this process's last ones, and the store does not answer.
        """
        found = self._known.get(event_id) or self._queued(event_id)
        if found is None:
            words(event_id, "event")
            try:
                found = self._workers.run(lambda: exposure_of_event(self._database, event_id), _LOOK_UP_S)
            except (Overdue, Full) as error:
                raise StoreUnavailable(f"event {event_id}: {error}", retry_after_s=1.0) from error
        if found is None or (org is not None and found.org != org):
            raise NotFound(
                f"event {event_id!r:.80}: is not known here. Events can be reported once they are in the "
                "store; a receipt, roll.receipt(picked), can be at once and from anywhere"
            )
        return found

    def _queued(self, event_id: str) -> Exposure | None:
        while True:
            try:
                waiting = chain(self._queue, self._recent)
                found = next((one for one in waiting if one.event_id == event_id), None)
                return None if found is None else self._exposure_of(found)
            except RuntimeError:  # the queue moved on meanwhile
                known = self._known.get(event_id)
                if known is not None:
                    return known

    def flush(self, timeout_s: float) -> bool:
        """Whether all that came before is in the store; waits for it so long."""
        deadline = time.monotonic() + timeout_s
        if self._is_idle():
            return True
        self._stir()
        with self._progress:
            while not self._is_idle():
                left = deadline - time.monotonic()
                if left <= 0 or self._stop.is_set():
                    return False
                self._wake.set()
                self._progress.wait(min(left, 0.5))
        return True

    def close(self, timeout_s: float = 5.0) -> None:
        """Drains what it can in this time; the journal keeps the rest for the next process."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._threads:
            self.flush(timeout_s)
        self._stop.set()
        self._wake.set()
        self._called.set()
        for thread in self._threads:
            thread.join(timeout=timeout_s)
        self._journal.close()

    def take_over(self) -> None:
        """Begins at once if a process that is gone has left something."""
        if any(self._journal.folder.glob("*.alive")):
            self._stir()

    def health(self) -> dict[str, Any]:
        """How much waits, for how long, and what has failed."""
        since, failing = self._waiting_since, self._failing
        return {
            "events": {
                "waiting": len(self._queue) + len(self._rows),
                "written": self.counts.written,
                "dropped": self.counts.dropped,
            },
            "outcomes": {
                "waiting_bytes": self._journal.backlog_bytes,
                "waiting_s": 0.0 if since is None else round(time.monotonic() - since, 3),
                "counted": self.counts.counted,
                "repeated": self.counts.repeated,
                "refused": self.counts.refused,
                "damaged": self._journal.damage.stretches,
            },
            "failing": None if failing is None else str(failing),
        }

    # The threads.

    def _stir(self) -> None:
        """Has the threads look at once; starts them the first time."""
        if not self._threads and not self._stop.is_set():
            with self._starting:
                if not self._threads:
                    self._threads = [
                        threading.Thread(target=work, name=name, daemon=True)
                        for work, name in (
                            (self._drain_for_good, "toolroll-outcomes"),
                            (self._prepare_for_good, "toolroll-journal"),
                        )
                    ]
                    for thread in self._threads:
                        thread.start()
        self._wake.set()
        self._called.set()

    def _is_idle(self) -> bool:
        return not self._queue and not self._rows and self._journal.is_drained

    def _prepare_for_good(self) -> None:
        while not self._stop.is_set():
            self._called.clear()
            for work in (self._describe, self._journal.sync):
                try:
                    work()
                except StoreUnavailable as error:
                    _log.warning("%s", error)
                    self._stop.wait(_FIRST_WAIT_S)
            self._journal_sleeps = True
            if not self._queue and self._journal.is_synced:
                self._called.wait()
            self._journal_sleeps = False
            self._stop.wait(SYNC_EVERY_S)

    def _drain_for_good(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._stop.is_set():
            try:
                with self._at_work:
                    is_more = self._round()
                if self._failing is not None:
                    _log.warning("outcomes: the store takes them again")
                    self._failing = None
                wait_s = _FIRST_WAIT_S
            except Exception as error:  # whatever it is, what waits must not wait for good
                self._say(error)
                self._stop.wait(wait_s * (0.5 + os.urandom(1)[0] / 255))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                continue
            finally:
                with self._progress:
                    self._rounds += 1
                    self._progress.notify_all()
            if not is_more:
                self._rest()

    def _rest(self) -> None:
        """Sleeps until something comes, but takes what comes in batches."""
        self._wake.clear()
        self._drain_sleeps = True
        if not self._rows and self._journal.is_drained:
            self._wake.wait(_ADOPT_EVERY_S)
        self._drain_sleeps = False
        if not self._is_closed:
            self._stop.wait(DRAIN_EVERY_S)

    def _say(self, error: Exception) -> None:
        if self._failing is None:
            known = isinstance(error, ToolrollError)
            _log.warning("outcomes: wait until the store takes them: %s", error, exc_info=not known)
        self._failing = error

    # One round of draining.

    def _round(self) -> bool:
        """Drains one batch; whether there is more."""
        found = self._journal.waiting(_REPORTS)
        now = self._due()
        if self._rows or found or now is not None:
            events = self._rows[:_EVENTS]
            self._write(events, [one.record for one in found], now)
            del self._rows[: len(events)]
            if found:
                self._journal.drained(found[-1].end)
        if self._journal.is_drained:
            self._waiting_since = None
        if time.monotonic() - self._adopted_at >= _ADOPT_EVERY_S:
            self._adopt()
            self._adopted_at = time.monotonic()
        return bool(self._rows or not self._journal.is_drained)

    def _drop(self, why: str, error: Exception | None = None) -> None:
        if not self.counts.dropped:
            _log.warning("events: some are dropped: %s", why, exc_info=error)
        self.counts.dropped += 1

    def _due(self) -> float | None:
        """The time, when events that were left open may have to be closed."""
        if time.monotonic() - self._closed_at < _CLOSE_EVERY_S:
            return None
        self._closed_at, now = time.monotonic(), time.time()
        return now if is_due(self._database, now) else None

    def _describe(self) -> None:
        """Makes rows of the selections that wait."""
        if self._messages is _UNKNOWN and self._queue:
            assert self._messages_of is not None
            self._messages = self._messages_of()
        messages, yielder = self._messages, GilYielder()
        while self._queue and messages is not None and not self._stop.is_set():
            selection = self._queue[0]
            try:
                words(selection.turn.context.org, "org")
                exposure = self._exposure_of(selection)
                self._known[selection.event_id] = exposure
                if len(self._known) > _KNOWN:
                    self._known.popitem(last=False)
                if len(self._rows) < MOST_ROWS:
                    origin = self._origin_of(selection)
                    in_time = len(self._queue) < MOST_EVENTS // 4
                    row = event_row(selection, exposure, origin, messages, has_odds=in_time)
                    self._rows.append(row)
                    self._wake.set()
                else:
                    self._drop("the store has not taken those before for a while")
            except Exception as error:  # whatever it is, the next one may do
                self._drop("no row can be made of one", error)
            self._queue.popleft()
            yielder()

    def _write(self, events: list[dict[str, Any]], records: list[bytes], now: float | None) -> None:
        reports, yielder = [], GilYielder()
        for record in records:
            yielder()
            try:
                reports.append(Received.from_bytes(record))
            except (KeyError, TypeError, ValueError) as error:  # of another version, perhaps
                self._refuse(record, error)
        self._take(events, reports, now)

    def _take(self, events: list[dict[str, Any]], reports: list[Received], now: float | None = None) -> None:
        """Drains these; what the store will never take is set aside, so that the others get through."""
        try:
            done = drain(self._database, events, reports, window_s=self._window_s, now=now, known=self._cells)
        except StoreUnavailable:
            raise
        except (
            Exception
        ) as error:  # a value that cannot be kept; or a mistake of ours, for which all would wait
            if len(events) + len(reports) <= 1:
                for report in reports:
                    self._refuse(report.to_bytes(), error)
                if events:
                    self._drop("the store will not have one", error)
                return
            half, rest = len(events) // 2, len(reports) // 2
            if len(events) == 1:
                self._take(events, [])
                self._take([], reports)
                return
            self._take(events[:half], reports[:rest])
            self._take(events[half:], reports[rest:])
            return
        self._tally(done)

    def _tally(self, done: Drained) -> None:
        self.counts.written += done.events
        self.counts.counted += done.outcomes
        self.counts.repeated += done.repeated
        for report, error in done.refused:
            self._refuse(report.to_bytes(), error)
        if done.outcomes:
            self._drained(done.seqs)

    def _refuse(self, record: bytes, error: Exception) -> None:
        """Keeps a report that cannot be counted where somebody may look at it."""
        if not self.counts.refused:
            _log.warning("outcomes: one cannot be counted and is kept in %s: %s", self._refused_path, error)
        self.counts.refused += 1
        with suppress(OSError):
            path = self._refused_path
            if not path.exists() or path.stat().st_size < _MOST_REFUSED_BYTES:
                line = json.dumps({"error": str(error), "record": record.decode("utf-8", "replace")})
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
                with open(os.open(path, flags, 0o600), "a", encoding="utf-8") as file:
                    file.write(line + "\n")

    @property
    def _refused_path(self) -> Any:
        return self._journal.folder / "refused.jsonl"

    def _adopt(self) -> None:
        """Drains what processes that are gone have left, then clears it away."""
        for orphan in self._journal.orphans():
            batch: list[bytes] = []
            for record in orphan.records():
                batch.append(record)
                if len(batch) == _REPORTS:
                    self._write([], batch, None)
                    batch = []
            if batch:
                self._write([], batch, None)
            orphan.clear()


def _at_work(recorder: Recorder) -> Iterable[threading.Lock]:
    """Held while the database is at work."""
    return (recorder._at_work,) if recorder._threads else ()


def _begin_anew(recorder: Recorder) -> None:
    """What the parent has noted and written is the parent's to drain."""
    if not recorder._is_closed:
        recorder._journal.begin_anew()
        known = recorder._known
        recorder._begin()
        recorder._known = known
