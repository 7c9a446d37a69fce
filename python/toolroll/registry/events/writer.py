"""Writes events and outcomes to the store in the background.

A selection is appended to a queue, without waiting. The more events wait, the smaller is the share of them
that is logged: those that are dropped, and counted, are a fair sample.
An event loop that selects makes rows of its selections between its other work. A report is appended to
the journal, from where it gets to the store even if the process is killed or the database is away for a
while. Two threads do the rest. One makes rows of all other selections and syncs the journal to the disk; it
asks the database for the key of message digests, once, and for nothing else. The other writes both to the
store, or has another process do so, tries again until that succeeds, and takes over the journals of processes
that have ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import threading
import time
import zlib
from asyncio import _get_running_loop as _running_loop  # get_running_loop without an exception
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from toolroll._gil import GilYielder
from toolroll._threads import CallPool, Full, Overdue, Worker, survive_forks
from toolroll.errors import NotFound, StoreUnavailable
from toolroll.learning.deduplication import NEW_EVENT, EventState, Step, deduplicate
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.registry.events.batch_writer import Batches, BatchWriter
from toolroll.registry.events.event_row import SelectionOrigin, event_row
from toolroll.registry.events.ingest import is_due
from toolroll.registry.events.journal import SYNC_EVERY_S, Journal
from toolroll.registry.events.maintenance import (
    HOURS_S,
    delete_old_counts,
    delete_old_events,
    delete_old_hours,
    delete_stray_events,
    drop_old_months,
    stored_bytes,
)
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.row_bytes import to_bytes
from toolroll.registry.events.rows import Messages, ReceivedReport, check_steps, exposure_of_event, normal
from toolroll.registry.keeper import hours
from toolroll.registry.store.database import Database, words
from toolroll.selection.recent_selections import RecentSelections
from toolroll.selection.selection import Selection

_log = logging.getLogger("toolroll")

MOST_EVENTS = 1_024  # selections in the queue; more are dropped
MOST_ROWS = 8_192  # rows of events that wait for the store, of some 4 kB each; more are dropped
_LARGE = 100_000  # tools; selections from a larger catalog are larger, so fewer may wait
DELIVERED_WITHIN_S = 0.05  # a delivery later than this is not in the event
WRITE_EVERY_S = 0.2  # larger batches cost less
# Where many processes write outcomes of one organisation, each one pauses for so many times as long as it has
# waited for the others, so that few wait at the same time and the batches are larger.
_PAUSES, _LONGEST_PAUSE_S = 10, 30.0
# Of its queue an event loop makes an eighth in one go, so that no request waits long; half of a long one.
_PART, _LARGE_PART = 8, 2
# How full the queue or the list of rows is, and the share of events that are logged up to there.
_SHARES = ((0.5, 1.0), (0.75, 0.5), (0.875, 0.25), (math.inf, 0.125))
_LATE_S = 1.0  # after which the thread makes rows that an event loop was to make
_REPORTS = 512  # in a batch
_REMEMBERED = 4_096  # events whose exposure, and reports whose result, stay in memory
_LONG_S, _OTHERS_S = 0.05, 0.12  # after so long a batch, so long a pause for other writers of a SQLite file
_ADOPT_EVERY_S, _CLOSE_EVERY_S = 5.0, 15.0
_PRUNE_EVERY_S, _PRUNED, _PRUNE_PAUSE_S = 600.0, 200, 0.05  # how often, how many at a time, the pause between
_SUM_EVERY_S = 60.0  # hours that are over
_LOOK_UP_S = 5.0
_MOST_REFUSED_BYTES = 16 * 2**20
_LARGEST_LEFT_OUT = 1 << 20  # bytes of a request's tools with which a selection waits for a report
_UNKNOWN = Messages("dropped")  # until the key for hashes has been read from the store


@dataclass(slots=True)
class Counts:
    """How many events and reports were written, and how many were not.

    Attributes:
        written: events.
        dropped: events that were not written: too many waited, or no row could be made.
        sampled_out: events that sampling has left out, and that no report has brought back.
        pruned: events that this process has deleted because of their age.
        counted: reports that changed the statistics.
        repeated: reports that said nothing new.
        refused: reports that the store would not take. A file beside the journal keeps them.
    """

    written: int = 0
    dropped: int = 0
    sampled_out: int = 0
    pruned: int = 0
    counted: int = 0
    repeated: int = 0
    refused: int = 0


class EventWriter:
    """Writes the events and outcomes of one process to one store. Safe to share between threads.

    The child of a fork starts with an empty queue and a journal of its own.
    """

    def __init__(
        self,
        database: Database,
        journal: Journal,
        exposure_of: Callable[[Selection], Exposure],
        *,
        messages: Callable[[], Messages] | None,
        batches: Callable[[], Batches] | None = None,
        origin_of: Callable[[Selection], SelectionOrigin] = lambda selection: SelectionOrigin(),
        on_written: Callable[[Mapping[str, int]], None] = lambda seqs: None,
        window_s: float = LIFETIME_S,
        events_s: float | None = None,
        sample: float = 1.0,
    ) -> None:
        """Starts its threads with the first event or report.

        exposure_of: what a selection showed, with the user in its context as the reporter. messages: returns
            how to store messages; None writes no events at all. batches: makes what writes batches; None for
            the writer's own thread. origin_of: what the selection itself does not
            know about its origin. on_written: called with organisation → number of its last outcome when
            outcomes were written. window_s: how long after an event its outcomes count. events_s: the age
            at which events are deleted; None for never. sample: the share of selections that are logged
            before anybody reports on them.
        """
        self._database, self._journal = database, journal
        self._exposure_of, self._origin_of, self._on_written = exposure_of, origin_of, on_written
        self._messages_of, self._messages = messages, None if messages is None else _UNKNOWN
        self._batches_of = batches or (lambda: BatchWriter(database, window_s))
        self._events_s, self._sample = events_s, sample
        self._is_closed = False
        self._exposures: OrderedDict[str, Exposure] = OrderedDict()  # of recent events
        self._begin()
        # The disk must not wait longer for a sync than it does in health.
        self._preparer = Worker(
            self._prepare,
            "toolroll-journal",
            subject="journal",
            batch_s=SYNC_EVERY_S,
            retry_s=(0.1, 0.1),
            holds_forks=False,
        )
        self._writer = Worker(
            self._write_batch, "toolroll-outcomes", subject="outcomes", batch_s=WRITE_EVERY_S
        )
        survive_forks(self, lambda writer: (), EventWriter._reset)

    def _begin(self) -> None:
        self.counts = Counts()
        self._queue: deque[_Noted] = deque()
        self._recent = RecentSelections(self._exposure_of)  # where no events are written
        self._left_out: OrderedDict[str, Selection] = OrderedDict()  # by sampling, while a report may come
        self._batches = self._batches_of()
        self._rows: list[bytes] = []  # events that are not in the store yet
        # event → its reports in this process, and how many of them said something new
        self._settled: OrderedDict[str, tuple[EventState, int]] = OrderedDict()
        self._recording, self._making = threading.Lock(), threading.Lock()
        self._loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()  # that are going to make rows
        # When one of them last did, and when a flush wants to be done; monotonic.
        self._looped_at = self._flushed_by = 0.0
        self._waiting_since: float | None = None  # monotonic
        self._pause_s = 0.0  # after a batch, because others write the same organisations
        self._pool = CallPool(2, "toolroll-lookup")
        self._adopted_at = self._closed_at = 0.0  # monotonic
        self._pruned_at = self._measured_at = -_PRUNE_EVERY_S
        self._summed_at = -_SUM_EVERY_S
        # From its start on: the first batches have more to do.
        self._stored_bytes: int | None = None

    def _reset(self) -> None:
        """In the child of a fork: the parent writes what it has queued and recorded."""
        self._batches.abandon()
        if not self._is_closed:
            self._journal.reset_in_child()
            self._begin()

    # Callers wait for these.

    def note(self, selection: Selection) -> None:
        """Queues a selection. Never waits and never fails."""
        if self._messages is None:
            self._recent.append(selection)
            return
        if self._is_closed:
            return
        share = self._share_now(selection)
        if _is_within(share, selection.event_id):
            self._enqueue(selection, share)
            return
        if self._sample >= 1:
            self._drop("more come than can be written; the others stand for them")
            return
        self.counts.sampled_out += 1
        tool_list = selection.turn.tool_list
        if tool_list is not None and tool_list.memory_bytes > _LARGEST_LEFT_OUT:
            return
        self._left_out[selection.event_id] = selection
        if len(self._left_out) > _most_selections(selection):
            with suppress(KeyError):  # another thread may have removed the last one
                self._left_out.popitem(last=False)

    def _share_now(self, selection: Selection) -> float:
        """The share of events that are logged now: less than the usual one if many wait."""
        full = max(len(self._queue) / _most_selections(selection), len(self._rows) / MOST_ROWS)
        return self._sample * next(share for bound, share in _SHARES if full < bound)

    def _enqueue(self, selection: Selection, share: float) -> None:
        waiting = len(self._queue)
        if waiting > 64 and waiting >= _most_selections(selection):
            self._drop("selections come faster than rows can be made")
            return
        self._queue.append(_Noted(time.monotonic(), selection, share))
        loop = _running_loop()
        if loop is None:
            self._preparer.wake()
        elif loop not in self._loops:
            self._loops.add(loop)
            self._looped_at = time.monotonic()
            loop.call_later(DELIVERED_WITHIN_S, self._make_in_loop, loop)
            self._writer.wake()  # which sees to it that rows are made, should the loop end before

    def _make_in_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Makes rows in the event loop that selects, a few at a time.

        A thread would compete with the loop for the GIL, and either of them would wait up to 5 ms for it.
        Selections that are slow to be made rows of are left to the thread: that work needs no GIL.
        """
        self._looped_at = time.monotonic()
        waiting = len(self._queue)
        if self._messages is _UNKNOWN or (waiting and _is_slow(self._queue[0].selection)):
            self._preparer.wake()
            pause_s: float | None = DELIVERED_WITHIN_S if waiting else None
        else:
            pause_s = self._make_rows(1 + waiting // (_PART if waiting < MOST_EVENTS // 4 else _LARGE_PART))
        if pause_s is None:
            self._loops.discard(loop)
        else:
            loop.call_later(pause_s, self._make_in_loop, loop)

    def _is_left_to_loop(self) -> bool:
        """Whether an event loop, which is alive, is going to make the next row, and nobody waits for it."""
        now = time.monotonic()
        return (
            bool(self._loops)
            and now - self._looped_at < _LATE_S
            and not (self._is_closed or now < self._flushed_by)
            and not (self._queue and _is_slow(self._queue[0].selection))
        )

    def record(
        self,
        exposure: Exposure,
        report: Report,
        now: float | None = None,
        selection: Selection | None = None,
    ) -> Step:
        """Takes a report. When this returns, the report is on disk and will count exactly once.

        now: seconds since the epoch, by the clock of the exposure's time; None for the system clock.
        selection: which the report is about, if the caller has it: then its event is logged even if sampling
        has left it out.

        Returns:
            What the report adds, as far as this process knows.

        Raises:
            InvalidInput: it names a tool that was not shown, cannot be stored, or is one of too many about
                this event.
            StoreUnavailable: the journal is full or cannot be written; nothing was recorded.
        """
        words(exposure.org, "org")
        exposure = normal(exposure)
        event_id = exposure.event_id
        left_out = self._left_out.get(event_id)
        is_logged = self._sample < 1 and (
            selection is not None or left_out is not None or event_id in self._exposures
        )
        with self._recording:
            before, steps = self._settled.get(event_id, (NEW_EVENT, 0))
            step = deduplicate(exposure, before, report)
            if step.is_new and not step.closes:  # an event closes once
                check_steps(exposure, steps)
            # A repeated report is written, too: another process may have recorded something else since.
            at = time.time() if now is None else now
            self._journal.append(ReceivedReport(exposure, report, at, is_logged).to_bytes())
            self._settled[event_id] = step.settled, steps + step.is_new
            if len(self._settled) > _REMEMBERED:
                self._settled.popitem(last=False)
            if self._waiting_since is None:
                self._waiting_since = time.monotonic()
        self._log_reported(event_id, selection or left_out)
        self._preparer.wake()
        self._writer.wake()
        return step

    def _log_reported(self, event_id: str, selection: Selection | None) -> None:
        """Logs an event that sampling has left out, because somebody reports on it."""
        if self._left_out.pop(event_id, None) is not None:
            self.counts.sampled_out -= 1
        elif self._messages is None or _is_within(self._sample, event_id) or event_id in self._exposures:
            return
        if selection is not None:
            self._enqueue(selection, 1.0)

    def known(self, event_id: str, reporter: str) -> Exposure | None:
        """What a recent event of this process showed, if its row has been made."""
        found = self._exposures.get(event_id)
        return found if found is not None and found.reporter == reporter else None

    def exposure(self, event_id: str, org: str | None = None) -> Exposure:
        """What an event of this process or of the store showed.

        Raises:
            NotFound: there is no such event, or it belongs to another organisation.
            StoreUnavailable: the event is not a recent one of this process, and the store does not answer.
        """
        found = self._exposures.get(event_id) or self._queued(event_id)
        if found is None:
            words(event_id, "event")
            try:
                found = self._pool.run(lambda: exposure_of_event(self._database, event_id, org), _LOOK_UP_S)
            except (Overdue, Full) as error:
                raise StoreUnavailable(f"event {event_id}: {error}", retry_after_s=1.0) from error
        if found is None or (org is not None and found.org != org):
            raise NotFound(
                f"event {event_id!r:.80}: is not known here. An event can be reported by its id once it is "
                "in the store; a receipt, roll.receipt(picked), works at once and from anywhere"
            )
        return found

    def _queued(self, event_id: str) -> Exposure | None:
        left_out = self._left_out.get(event_id)
        if left_out is not None:
            return self._exposure_of(left_out)
        while True:
            try:
                waiting = (one.selection for one in self._queue)
                found = next((one for one in waiting if one.event_id == event_id), None)
                recent = self._recent.find(event_id) if found is None else found
                return recent if recent is None or isinstance(recent, Exposure) else self._exposure_of(recent)
            except RuntimeError:  # another thread changed the queue
                known = self._exposures.get(event_id)
                if known is not None:
                    return known

    def flush(self, timeout_s: float) -> bool:
        """Whether all events and reports so far are in the store; waits that long for it."""
        self._flushed_by = time.monotonic() + timeout_s
        if self._queue:
            self._preparer.wake()  # an event loop that waits here makes no rows
        try:
            return self._writer.flush(self._is_idle, timeout_s)
        finally:
            self._flushed_by = 0.0

    def drain(self, timeout_s: float) -> None:
        """Takes no more events and writes what it can in this time; then stops writing soon."""
        if not self._is_closed:
            self._is_closed = True
            if self._writer.is_started or self._preparer.is_started:
                self.flush(timeout_s)
        self._writer.request_stop()
        self._preparer.request_stop()

    def close(self, timeout_s: float = 5.0) -> None:
        """Writes what it can in this time; the journal keeps the rest for the next process."""
        deadline = time.monotonic() + timeout_s
        self.drain(timeout_s / 2)
        self._writer.stop(deadline - time.monotonic())
        self._preparer.stop(deadline - time.monotonic())
        self._batches.close(deadline - time.monotonic())
        self._pool.stop(deadline - time.monotonic())
        self._journal.close()

    def take_over(self) -> None:
        """Gets ready to write, and starts at once if a process that has ended left a journal."""
        self._batches.start()
        if any(self._journal.folder.glob("*.alive")):
            self._writer.wake()

    def health(self) -> dict[str, Any]:
        """How much waits, for how long, and the last error."""
        since = self._waiting_since
        return {
            "events": {
                "waiting": len(self._queue) + len(self._rows),
                "written": self.counts.written,
                "dropped": self.counts.dropped,
                "sampled_out": self.counts.sampled_out,
                "pruned": self.counts.pruned,
                "stored_bytes": self._stored_bytes,
            },
            "outcomes": {
                "waiting_bytes": self._journal.backlog_bytes,
                "waiting_s": 0.0 if since is None else round(time.monotonic() - since, 3),
                "counted": self.counts.counted,
                "repeated": self.counts.repeated,
                "refused": self.counts.refused,
                "damaged": self._journal.damage.stretches,
            },
            "journal": self._journal.problem(),
            "failing": self._writer.error or self._preparer.error,
        }

    def _is_idle(self) -> bool:
        return not self._queue and not self._rows and self._journal.is_empty

    # The thread that makes rows.

    def _prepare(self) -> float | None:
        try:
            if self._messages is _UNKNOWN and self._queue:
                assert self._messages_of is not None
                self._messages = self._messages_of()
            return None if self._is_left_to_loop() else self._make_rows()
        finally:
            self._journal.sync()

    def _make_rows(self, most: int | None = None) -> float | None:
        """Makes rows of at most so many selections in the queue; returns when to go on, None if it is empty.

        A delivery right after the selection decides which tools were shown, so each selection waits a moment.
        """
        if not self._making.acquire(blocking=False):  # another thread or an event loop does it
            return DELIVERED_WITHIN_S
        try:
            return self._make_some_rows(most)
        finally:
            self._making.release()

    def _make_some_rows(self, most: int | None) -> float | None:
        messages, yielder = self._messages, GilYielder()
        made = 0
        while self._queue and messages is not None and not self._preparer.is_stopped:
            since, selection, share = self._queue[0]
            if most is not None and (made == most or _is_slow(selection)):
                return 0.0
            wait_s = since + DELIVERED_WITHIN_S - time.monotonic()
            if wait_s > 0 and not self._is_closed:
                return wait_s
            try:
                words(selection.turn.context.org, "org")
                exposure = self._exposure_of(selection)
                self._exposures[selection.event_id] = exposure
                if len(self._exposures) > _REMEMBERED:
                    self._exposures.popitem(last=False)
                if len(self._rows) < MOST_ROWS:
                    origin = self._origin_of(selection)
                    in_time = len(self._queue) < MOST_EVENTS // 4
                    row = event_row(selection, exposure, origin, messages, has_odds=in_time, share=share)
                    self._rows.append(to_bytes(row))
                    self._writer.wake()
                    if len(self._rows) == self._batches.most_events:
                        self._writer.hurry()  # no pause makes a full batch larger
                else:
                    self._drop("the store has taken none for a while")
            except Exception as error:  # one selection must not hold up the next ones
                self._drop("no row can be made of one", error)
            self._queue.popleft()
            made += 1
            if most is None:
                yielder()
        return None

    def _drop(self, why: str, error: Exception | None = None) -> None:
        if not self.counts.dropped:
            _log.warning("events: some are dropped: %s", why, exc_info=error)
        self.counts.dropped += 1

    # The thread that writes.

    def _write_batch(self) -> float:
        """Writes one batch; returns the seconds until the next one."""
        began = time.monotonic()
        if self._queue and began - self._queue[0].at > _LATE_S:
            self._preparer.wake()
        found = self._journal.peek(_REPORTS)
        now = self._due()
        is_idle = not self._rows and not found and now is None
        if not is_idle:
            events = self._rows[: self._batches.most_events]
            self._write(events, [one.record for one in found], now)
            del self._rows[: len(events)]
            if found:
                self._journal.acknowledge(found[-1].end)
        if self._journal.is_empty:
            self._waiting_since = None
        if time.monotonic() - self._adopted_at >= _ADOPT_EVERY_S:
            self._adopt()
            self._adopted_at = time.monotonic()
        if self._maintain():
            return _PRUNE_PAUSE_S
        if not self._rows and self._journal.is_empty:
            return _ADOPT_EVERY_S
        if self._database.dialect == "sqlite" and time.monotonic() - began > _LONG_S:
            time.sleep(_OTHERS_S)  # a writer that waits for the file asks every 0.1 s
        is_full = len(self._rows) >= self._batches.most_events or len(found) == _REPORTS
        return 0.0 if is_full or self._pause_s < WRITE_EVERY_S else self._pause_s

    def _maintain(self) -> bool:
        """Sums hours, deletes old events and measures the rest, if it is time; whether there may be more."""
        try:
            is_more = self._sum_hours() or self._prune()
            if not is_more:
                self._measure()
        except StoreUnavailable as error:  # neither is worth a pause of the writer
            _log.info("events: old ones are deleted later: %s", error)
            self._summed_at = self._pruned_at = self._measured_at = time.monotonic()
            return False
        return is_more

    def _sum_hours(self) -> bool:
        """Sums some hours that are over; whether there may be more."""
        if time.monotonic() - self._summed_at < _SUM_EVERY_S:
            return False
        with self._database.recording() as connection:
            is_more = hours.sum_changed(connection, datetime.now(timezone.utc))
        if not is_more:
            self._summed_at = time.monotonic()
        return is_more

    def _prune(self) -> bool:
        """Deletes some old events; whether there may be more."""
        if self._events_s is None or time.monotonic() - self._pruned_at < _PRUNE_EVERY_S:
            return False
        now = datetime.now(timezone.utc)
        before = now - timedelta(seconds=self._events_s)
        if self._database.dialect == "postgresql":  # a month at a time
            self.counts.pruned += drop_old_months(self._database, before)
            gone = delete_stray_events(self._database, before, _PRUNED)
        else:
            gone = delete_old_events(self._database, before, _PRUNED)
        self.counts.pruned += gone
        if gone == _PRUNED:
            return True
        delete_old_counts(self._database, now)
        delete_old_hours(self._database, now - timedelta(seconds=HOURS_S))
        self._pruned_at = time.monotonic()
        return False

    def _measure(self) -> None:
        if time.monotonic() - self._measured_at >= _PRUNE_EVERY_S:
            self._stored_bytes = stored_bytes(self._database)
            self._measured_at = time.monotonic()

    def _due(self) -> float | None:
        """The time, if events that were left open may have to be closed."""
        if time.monotonic() - self._closed_at < _CLOSE_EVERY_S:
            return None
        self._closed_at, now = time.monotonic(), time.time()
        return now if is_due(self._database, now) else None

    def _write(self, events: list[bytes], records: list[bytes], now: float | None) -> None:
        done = self._batches.write(events, records, now)
        self.counts.written += done.events
        self.counts.counted += done.outcomes
        self.counts.repeated += done.repeated
        for why in done.dropped:
            self._drop(why)
        self._pause_s = min(_PAUSES * done.waited_s, _LONGEST_PAUSE_S)
        self._writer.batch_s = max(WRITE_EVERY_S, self._pause_s)
        for record, refusal in done.refused:
            self._refuse(record, refusal)
        if done.outcomes:
            self._on_written(done.seqs)

    def _refuse(self, record: bytes, why: str) -> None:
        """Keeps a report that cannot be counted in a file, for somebody to look at."""
        if not self.counts.refused:
            _log.warning("outcomes: one cannot be counted and is kept in %s: %s", self._refused_path, why)
        self.counts.refused += 1
        with suppress(OSError):
            path = self._refused_path
            if not path.exists() or path.stat().st_size < _MOST_REFUSED_BYTES:
                line = json.dumps({"error": why, "record": record.decode("utf-8", "replace")})
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
                with open(os.open(path, flags, 0o600), "a", encoding="utf-8") as file:
                    file.write(line + "\n")

    @property
    def _refused_path(self) -> Path:
        return self._journal.folder / "refused.jsonl"

    def _adopt(self) -> None:
        """Writes what processes that have ended left in their journals, then deletes these."""
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


class _Noted(NamedTuple):
    """A selection in the queue.

    Attributes:
        at: when it came; monotonic.
        share: the probability with which such a selection is logged.
    """

    at: float
    selection: Selection
    share: float


def _is_within(share: float, event_id: str) -> bool:
    """Whether an event is in a sample of this share: the same answer in every process and at any time.

    A larger sample has all of a smaller one.
    """
    return share >= 1 or zlib.crc32(event_id.encode()) < share * 2**32


def _is_slow(selection: Selection) -> bool:
    """Whether the row takes long to make: the propensities of a draw have to be computed."""
    reranked = selection.candidates.reranked
    return reranked is not None and reranked.draw is not None


def _most_selections(selection: Selection) -> int:
    """How many selections like this one may wait in memory."""
    return MOST_EVENTS * _LARGE // max(_LARGE, len(selection.catalog))
