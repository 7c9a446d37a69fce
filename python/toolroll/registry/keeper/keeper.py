"""The keeper of a registry: processes hosts' records, closes open events and deletes old ones.

Any number of processes may have a keeper; the holder of the lease works. A batch is one transaction: it
renews the lease, processes some records of the inbox and deletes them. So each record counts once, in the
order of their times, even if keepers are killed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import StoreUnavailable, ToolrollError
from toolroll.registry.events import hours, lease
from toolroll.registry.events.event_record import Event, from_bytes
from toolroll.registry.events.logged_tools import ToolNumbers
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.ingest import IngestResult, ingest_in, is_due
from toolroll.registry.keeper.maintenance import (
    HOURS_S,
    delete_old_counts,
    delete_old_events,
    delete_old_hours,
    delete_stray_events,
    drop_old_months,
    stored_bytes,
)
from toolroll.registry.store import tables
from toolroll.registry.store.database import CHANNEL, OUTCOMES, Database
from toolroll.registry.store.errors import DamagedRow
from toolroll.runtime.threads import Worker

_log = logging.getLogger("toolroll")

EVENTS_S = 30 * 86_400.0
_RECORDS = 512  # in a batch
_LOOK_S = 0.2  # between two looks at the inbox
_LONG_S, _OTHERS_S = 0.05, 0.12  # after so long a batch, so long a pause for other writers of a SQLite file
_MOST_MISSES = 3  # times in a row that a waiting keeper cannot ask for the lease, until it logs the error
_CLOSE_EVERY_S, _SUM_EVERY_S = 15.0, 60.0
_PRUNE_EVERY_S, _PRUNED, _PRUNE_PAUSE_S = 600.0, 200, 0.05  # how often, how many at a time, the pause between


class Keeper:
    """Keeps a registry in a thread, while no other keeper does.

    Attributes:
        holder: its name in the lease.
        is_held: whether it has the lease, as far as it knows.
        figures: its work since it took over.
    """

    def __init__(
        self,
        database: Database,
        *,
        window_s: float = LIFETIME_S,
        events_s: float | None = EVENTS_S,
        on_counted: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts no thread yet.

        window_s: how long after an event its outcomes count. events_s: the age at which events are deleted;
            None for never. on_counted: called after each write of outcomes.
        """
        self._database, self._window_s, self._events_s = database, window_s, events_s
        self._on_counted = on_counted
        self._begin()
        self._worker = Worker(self._step, "toolroll-keeper", subject="keeper")

    def _begin(self) -> None:
        self._pid, self.holder = os.getpid(), lease.new_holder()
        self._lose()

    def _lose(self) -> None:
        """Forgets the state that only the holder of the lease may keep."""
        self.is_held = False
        self._misses = 0  # failed attempts to ask for the lease, in a row
        self._renewed_at = self._closed_at = self._pruned_at = self._summed_at = float("-inf")  # monotonic
        self._numbers, self._is_done = ToolNumbers(), False  # whether the inbox was empty
        self.figures: dict[str, Any] = dict(lease.NO_FIGURES)

    def start(self) -> None:
        """Starts the thread, which works or waits for the lease."""
        self._worker.wake()

    def hurry(self) -> None:
        """Reads the inbox now."""
        self._worker.hurry()

    @property
    def failing(self) -> str | None:
        """The last error, or None."""
        return self._worker.error

    def drain(self, timeout_s: float) -> None:
        """Empties the inbox within this time, unless another keeper does so; then ends the lease."""
        if self._worker.is_started:
            self._is_done = False
            self._worker.flush(lambda: self._is_done, timeout_s)
        self._worker.request_stop()
        if self.is_held and self._pid == os.getpid() and self._worker.error is None:
            self._release()

    def close(self, timeout_s: float) -> None:
        """Stops after the running batch; waits up to this time for it."""
        self._worker.stop(timeout_s)

    def _release(self) -> None:
        if self._worker.lock.acquire(timeout=0.1):  # else the present batch goes on
            try:
                with suppress(StoreUnavailable):  # it ends by itself
                    lease.release(self._database, self.holder)
            finally:
                self._worker.lock.release()

    def _step(self) -> float:
        """Processes a batch, if this keeper has the lease; returns the seconds until the next one."""
        if self._pid != os.getpid():
            self._begin()
        began = time.monotonic()
        if began - self._renewed_at >= lease.RENEW_S:
            if not self._take_lease():
                if self.is_held:
                    self._lose()
                self._is_done = True
                return lease.RENEW_S
            if not self.is_held:
                self.figures["since"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
            self.is_held, self._renewed_at = True, began
        try:
            is_full = self._count_some()
            is_more = self._clean_up()
        except lease.LeaseLost as error:
            _log.warning("keeper: %s", error)
            self._lose()
            return lease.RENEW_S
        if self._database.dialect == "sqlite" and time.monotonic() - began > _LONG_S:
            time.sleep(_OTHERS_S)  # a writer that waits for the file asks every 0.1 s
        return 0.0 if is_full else _PRUNE_PAUSE_S if is_more else _LOOK_S

    def _take_lease(self) -> bool:
        """Takes or renews the lease. A keeper that only waits reports no error if the database is busy."""
        try:
            is_taken = lease.take(self._database, self.holder, self.figures)
        except StoreUnavailable:
            self._misses += 1
            if self.is_held or self._misses >= _MOST_MISSES:
                raise
            return False
        self._misses = 0
        return is_taken

    # Counting.

    def _count_some(self) -> bool:
        """Processes a batch of the inbox. Returns whether more may be left."""
        now = self._due()
        table = tables.inbox
        query = sa.select(table.c.id, table.c.record).order_by(table.c.at, table.c.id).limit(_RECORDS)
        with self._database.reading(is_single=True) as connection:
            records = [(row.id, bytes(row.record)) for row in connection.execute(query)]
        if records or now is not None:
            self._count(records, now)
        self._is_done = not records
        return len(records) == _RECORDS

    def _due(self) -> float | None:
        """The present time if it is time to close open events, else None."""
        if time.monotonic() - self._closed_at < _CLOSE_EVERY_S:
            return None
        self._closed_at, now = time.monotonic(), time.time()
        return now if is_due(self._database, now) else None

    def _count(self, records: Sequence[tuple[str, bytes]], now: float | None = None) -> None:
        """Processes these records, except records that the store refuses."""
        try:
            done, refusals = self._count_together(records, now)
        except Exception as error:
            self._numbers = ToolNumbers()
            if isinstance(error, StoreUnavailable) and not isinstance(error, DamagedRow):
                raise
            if now is not None and records:  # closing failed, or a record did
                self._count(records)
                self._count((), now)
                return
            # A value that cannot be stored, or a bug: the others must not wait for it.
            if len(records) <= 1:
                if not records:
                    raise
                self._discard(records[0], error)
                return
            half = len(records) // 2
            self._count(records[:half])
            self._count(records[half:])
            return
        figures = self.figures
        figures["events"] += done.events
        figures["counted"] += done.outcomes
        figures["repeated"] += done.repeated
        for refusal in refusals:
            self._refuse(refusal)
        if done.outcomes:
            self._on_counted()

    def _count_together(
        self, records: Sequence[tuple[str, bytes]], now: float | None
    ) -> tuple[IngestResult, list[str]]:
        """Processes these records in one transaction. Returns also the reasons why some are invalid."""
        events, reports, refusals = list[Event](), list[ReceivedReport](), list[str]()
        for _, record in records:
            try:
                made = from_bytes(record)
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
                refusals.append(f"{error}: {record[:200]!r}")
                continue
            (reports if isinstance(made, ReceivedReport) else events).append(made)  # type: ignore[arg-type]
        with self._database.recording() as connection:
            lease.renew_in(connection, self.holder, self.figures)
            done = ingest_in(
                connection, events, reports, window_s=self._window_s, now=now, numbers=self._numbers
            )
            _delete(connection, [one for one, _ in records])
            if done.outcomes and connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_notify(CHANNEL, OUTCOMES)))
        self._renewed_at = time.monotonic()
        return done, [*refusals, *(str(error) for _, error in done.refused)]

    def _discard(self, record: tuple[str, bytes], error: Exception) -> None:
        """Deletes a record that the store refuses."""
        with self._database.recording() as connection:
            lease.renew_in(connection, self.holder, self.figures)
            _delete(connection, [record[0]])
        self._refuse(f"{error}: {record[1][:200]!r}")

    def _refuse(self, why: str) -> None:
        """Counts and logs an invalid record; the lease's figures name the last one."""
        self.figures["refused"] += 1
        self.figures["last_refusal"] = why[:500]
        _log.warning("keeper: a record does not count: %s", why)

    # Cleaning up.

    def _clean_up(self) -> bool:
        """Sums hours, deletes old events and measures the rest. Returns whether more may be left."""
        try:
            if self._sum_hours():
                return True
        except lease.LeaseLost:
            raise
        except ToolrollError as error:  # nor must one hour keep records from being counted
            _log.info("keeper: hours are summed later: %s", error)
            self._summed_at = time.monotonic()
        if time.monotonic() - self._pruned_at < _PRUNE_EVERY_S:
            return False
        try:
            if self._delete_old_events():
                return True
            self.figures["stored_bytes"] = stored_bytes(self._database)
        except StoreUnavailable as error:  # neither is worth a pause of the keeper
            _log.info("keeper: old events are deleted later: %s", error)
        self._pruned_at = time.monotonic()
        return False

    def _sum_hours(self) -> bool:
        """Sums some past hours. Returns whether more may be left."""
        if time.monotonic() - self._summed_at < _SUM_EVERY_S:
            return False
        with self._database.recording() as connection:
            lease.renew_in(connection, self.holder, self.figures)
            is_more = hours.sum_changed(connection, datetime.now(timezone.utc))
        if not is_more:
            self._summed_at = time.monotonic()
        return is_more

    def _delete_old_events(self) -> bool:
        """Deletes some old events. Returns whether more may be left."""
        if self._events_s is None:
            return False
        now = datetime.now(timezone.utc)
        before = now - timedelta(seconds=self._events_s)
        if self._database.dialect == "postgresql":  # a month at a time
            self.figures["pruned"] += drop_old_months(self._database, before)
            gone = delete_stray_events(self._database, before, _PRUNED)
        else:
            gone = delete_old_events(self._database, before, _PRUNED)
        self.figures["pruned"] += gone
        if gone == _PRUNED:
            return True
        delete_old_counts(self._database, now)
        delete_old_hours(self._database, now - timedelta(seconds=HOURS_S))
        return False


def _delete(connection: sa.Connection, ids: Sequence[str]) -> None:
    connection.execute(sa.delete(tables.inbox).where(tables.inbox.c.id.in_(ids)))
