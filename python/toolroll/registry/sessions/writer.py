"""Writes sessions in the background, and reads them together with what is not written yet.

Nobody waits for a write. A thread writes the latest record of each session, many in one transaction, and
tries again until that succeeds. If another process has written the same session meanwhile, the two records
are merged. A process that is killed loses its last records.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

from toolroll._counts import ConcurrentCounter
from toolroll._threads import CallPool, Full, Overdue, Worker, survive_forks
from toolroll.errors import InvalidInput, Overloaded, StoreUnavailable
from toolroll.registry.events.rows import instant
from toolroll.registry.sessions.backlog import Backlog, PendingRecord
from toolroll.registry.sessions.records import Key, Record, StoredSession, key_of, mark_of, new_mark
from toolroll.registry.sessions.store import Draft, Merge, SessionStore, WriteResult, merged
from toolroll.registry.store.errors import DamagedRow

_log = logging.getLogger("toolroll")

MOST_WAITING = 100_000  # sessions; beyond, the one that has waited longest is dropped
WRITE_EVERY_S = 0.2  # larger batches cost less, and of several records of a session only the last is written
READ_S = WRITE_S = 2.0
_BATCH = 256
_MOST_READ = 200_000  # sessions whose version is remembered
_READERS = 8
_PATIENCE_S = 1.0  # how long a call of an event loop waits for its thread
_SLOW_S, _AWAY_S = 1.0, 5.0  # a failure after so long is no answer; for how long nobody waits then
_MOST_LOOKS = 3  # at a session that is being written
_PRUNE_EVERY_S, _PRUNED = 3_600.0, 500  # how often, and how many at a time

T = TypeVar("T")


@dataclass(slots=True)
class Counts:
    """How many records were written, and how many were not.

    Attributes:
        written: writes of a session.
        merged: those of them that were merged with what another process had written.
        dropped: records that were not written: too many waited, or the writer was closed.
        refused: records that cannot be stored.
        expired: sessions that were deleted at the end of their lifetime.
    """

    written: int = 0
    merged: int = 0
    dropped: int = 0
    refused: int = 0
    expired: int = 0


class SessionWriter:
    """Writes the sessions of one process to one store. Safe to share between threads.

    `note` takes the whole state of a session in this process; it replaces the one before. It contains what
    other processes have written only if it was made from what `read` returned. The child of a fork starts
    with no waiting records.
    """

    def __init__(self, store: SessionStore, merge: Merge, *, most: int = MOST_WAITING) -> None:
        """Starts its thread with the first note.

        merge: makes one record of the stored one and the one of this process, in this order, that contains
            both. It must change neither. Merging the result with either of them again must not change it:
            that happens if nobody knows whether a write was committed.
        most: how many sessions may wait for the store.
        """
        if most < 1:
            raise InvalidInput(f"sessions: most is {most!r:.80}, must be at least 1")
        self._store, self._merge, self._most = store, merge, most
        self._read: OrderedDict[Key, int] = OrderedDict()  # session → the version that was read last
        self._is_closed = False
        self._calls = ConcurrentCounter()  # from many threads
        self._begin()
        self._worker = Worker(
            self._write_batch, "toolroll-sessions", subject="sessions", batch_s=WRITE_EVERY_S
        )
        survive_forks(self, lambda writer: (), SessionWriter._begin)

    def _begin(self) -> None:
        """Also in the child of a fork: the parent writes its own records."""
        self.counts = Counts()
        self._mark = new_mark()
        self._backlog = Backlog(self._most)
        self._pool = CallPool(_READERS, "toolroll-session", patience_s=_PATIENCE_S)
        self._pruned_at = time.monotonic()
        self._away_until = 0.0  # monotonic: until then nobody waits for a store that did not answer

    # Callers wait for these.

    def note(
        self, org: str, session: str, record: Record | Callable[[], Record], version: int | None = None
    ) -> None:
        """Takes the state of a session and returns at once. It is written soon, unless a newer one comes.

        Args:
            org: the session's organisation; "" for none.
            session: its id.
            record: plain JSON values, at most 64 kB of them; or a function that returns them, called in the
                background. The record must not change any more. One that cannot be stored is counted as
                refused.
            version: of the stored record that it was made from, if several threads read the same session;
                None for the one that was read last.

        Raises:
            InvalidInput: no session can have this id.
        """
        key = key_of(org, session)
        if self._is_closed:
            self._drop(1, "the writer is closed")
            return
        if self._backlog.put(key, record, self._read.get(key) if version is None else version):
            self._drop(1, f"{self._most:,} already wait for the store")
        self._worker.wake()

    def save(
        self, org: str, session: str, record: Callable[[], Record], timeout_s: float = WRITE_S
    ) -> Record | None:
        """Writes the state of a session now, and returns when every process that reads it sees it.

        record: returns the newest state; called once the session is this thread's to write.

        Returns:
            What the store has now, if another process had written the session since it was read here; else
            None.

        Raises:
            InvalidInput: the record cannot be stored, or no session can have this id.
            StoreUnavailable: the store does not answer in time; the record is written in the background.
        """
        key = key_of(org, session)
        if self._is_closed:
            raise StoreUnavailable(f"session {session!r:.80}: the registry is closed")
        return self._quickly(lambda: self._write_now(key, record, timeout_s), key)

    def _write_now(self, key: Key, record: Callable[[], Record], timeout_s: float) -> Record | None:
        if not self._backlog.claim(key, timeout_s):
            self._backlog.put(key, record, self._read.get(key))
            raise StoreUnavailable(f"session {key[1]!r:.80}: is still being written", retry_after_s=1.0)
        try:
            return self._write_one(Draft(key, record(), self._read.get(key), _now()))
        except StoreUnavailable:
            self._backlog.put(key, record, self._read.get(key))
            self._worker.wake()
            raise
        finally:
            self._backlog.release(key)

    def _write_one(self, draft: Draft) -> Record | None:
        version = self._store.replace(draft, self._mark)
        if version is not None:
            self._remember(draft.key, version)
            self.counts.written += 1
            return None
        return self._in_time(lambda: self._merge_one(draft), WRITE_S, draft.key)

    def _merge_one(self, draft: Draft) -> Record | None:
        """Writes a session that may have been written by another process since it was read here."""
        done: dict[Key, WriteResult | InvalidInput] = {}
        while draft.key not in done:  # two processes may begin a session at the same time
            done = self._store.write_all([draft], self._merge, self._mark)
        result = done[draft.key]
        if isinstance(result, InvalidInput):
            raise result
        self._remember(draft.key, result.version)
        self.counts.written += 1
        self.counts.merged += result.is_merged
        if not result.is_merged:
            return None
        found = self._store.read(*draft.key)
        return None if found is None else found.record

    async def asave(
        self, org: str, session: str, record: Callable[[], Record], timeout_s: float = WRITE_S
    ) -> Record | None:
        """`save` for an event loop."""
        key = key_of(org, session)
        if self._is_closed:
            raise StoreUnavailable(f"session {session!r:.80}: the registry is closed")
        try:
            return await self._ain_time(lambda: self._write_now(key, record, timeout_s), timeout_s, key)
        except StoreUnavailable:
            self._backlog.put(key, record, self._read.get(key))  # the call may not have begun
            self._worker.wake()
            raise

    def read(self, org: str, session: str) -> StoredSession | None:
        """The session from this process, from the store, or merged from both; None if there is none.

        If the store does not answer, the record that waits here is returned alone.

        Raises:
            InvalidInput: no session can have this id, or the two records cannot be merged.
            StoreUnavailable: no record waits here, and the store does not answer in time.
        """
        key = key_of(org, session)
        try:
            found, here = self._quickly(lambda: self._look(key), key)
        except StoreUnavailable as error:
            return self._waiting(key, error)
        return self._both(key, found, here)

    async def aread(self, org: str, session: str, timeout_s: float = READ_S) -> StoredSession | None:
        """`read` for an event loop."""
        key = key_of(org, session)
        try:
            found, here = await self._ain_time(lambda: self._look(key), timeout_s, key)
        except StoreUnavailable as error:
            return self._waiting(key, error)
        return self._both(key, found, here)

    def _look(self, key: Key) -> tuple[StoredSession | None, PendingRecord | None]:
        """The session in the store, and what waits here."""
        self._calls.add("reads")
        for _ in range(_MOST_LOOKS):
            here = self._backlog.of(key)
            found = self._store.read(*key)
            # A write during the read may be missing from its result.
            if here is None or self._backlog.of(key) is here:
                break
        return found, here

    def _waiting(self, key: Key, error: StoreUnavailable) -> StoredSession:
        """The record that waits here; raises the error of the store if there is none."""
        here = self._backlog.of(key)
        if here is None:
            raise error
        return here.stored(here.version or 0)

    def _both(
        self, key: Key, found: StoredSession | None, here: PendingRecord | None
    ) -> StoredSession | None:
        """The session in the store with what waits here."""
        version = 0 if found is None else found.version
        self._remember(key, version)
        here = self._backlog.of(key) or here
        if here is None:
            return found
        if found is None or version == here.version or mark_of(version) == self._mark:
            return here.stored(version)
        both = merged(self._merge, found.record, here.made(), key)
        return StoredSession(both, version, max(found.updated_at, instant(here.at)), found.problem)

    def forget(self, org: str, session: str, timeout_s: float = READ_S) -> bool:
        """Deletes the session here and in the store; whether there was one.

        Another process that continues the session writes it again.

        Raises:
            InvalidInput: no session can have this id.
            StoreUnavailable: it may still be in the store.
        """
        key = key_of(org, session)
        was_here = self._backlog.drop(key)
        return self._in_time(lambda: self._delete(key), timeout_s, key) or was_here

    def _delete(self, key: Key) -> bool:
        self._read.pop(key, None)
        with self._worker.lock:  # after a write that is under way
            self._backlog.drop(key)
            return self._store.forget(*key)

    async def aforget(self, org: str, session: str, timeout_s: float = READ_S) -> bool:
        """`forget` for an event loop."""
        key = key_of(org, session)
        was_here = self._backlog.drop(key)
        return await self._ain_time(lambda: self._delete(key), timeout_s, key) or was_here

    def flush(self, timeout_s: float) -> bool:
        """Whether all records so far are in the store, or refused; waits that long for it."""
        now = time.monotonic()
        return self._worker.flush(lambda: not self._backlog.has_before(now), timeout_s)

    def drain(self, timeout_s: float) -> None:
        """Writes what it can in this time, and drops later records; then stops writing soon."""
        if not self._is_closed:
            self._is_closed = True
            self.flush(timeout_s)
        self._worker.request_stop()

    def close(self, timeout_s: float = 5.0) -> None:
        """Writes what it can in this time, and drops later records. Reading still works."""
        deadline = time.monotonic() + timeout_s
        self.drain(timeout_s / 2)
        self._worker.stop(deadline - time.monotonic())
        self._pool.stop(deadline - time.monotonic())

    def health(self) -> dict[str, Any]:
        """How many records wait, for how long, the counts so far, and the last error."""
        calls = self._calls.totals()
        return {
            "waiting": len(self._backlog),
            "waiting_s": round(self._backlog.waited_s(), 3),
            "reads": calls["reads"],
            "timeouts": calls["timeouts"],
            "calls_refused": self._pool.refused,
            **asdict(self.counts),
            "failing": self._worker.error,
        }

    def _quickly(self, call: Callable[[], T], key: Key) -> T:
        """What the call returns, in the caller's thread: another thread would cost more than the call.

        The store gives up by itself after two seconds. After that nobody waits for it for a while.
        """
        if time.monotonic() < self._away_until:
            raise StoreUnavailable(f"session {key[1]!r:.80}: the store did not answer", retry_after_s=1.0)
        started = time.monotonic()
        try:
            return call()
        except StoreUnavailable:
            if time.monotonic() - started >= _SLOW_S:
                self._calls.add("timeouts")
                self._away_until = time.monotonic() + _AWAY_S
            raise

    def _in_time(self, call: Callable[[], T], timeout_s: float, key: Key) -> T:
        try:
            return self._pool.run(call, timeout_s)
        except (Overdue, Full) as error:
            raise self._overdue(key, error) from error
        except Overloaded as error:
            raise self._refused(key, error) from error

    async def _ain_time(self, call: Callable[[], T], timeout_s: float, key: Key) -> T:
        try:
            return await self._pool.arun(call, timeout_s)
        except (Overdue, Full) as error:
            raise self._overdue(key, error) from error
        except Overloaded as error:
            raise self._refused(key, error) from error

    def _refused(self, key: Key, error: Overloaded) -> StoreUnavailable:
        return StoreUnavailable(f"session {key[1]!r:.80}: {error}", retry_after_s=error.retry_after_s)

    def _overdue(self, key: Key, error: Exception) -> StoreUnavailable:
        self._calls.add("timeouts")
        return StoreUnavailable(f"session {key[1]!r:.80}: {error}", retry_after_s=1.0)

    def _remember(self, key: Key, version: int) -> None:
        self._read.pop(key, None)  # so that it goes to the end
        self._read[key] = version
        if len(self._read) > _MOST_READ:
            self._read.popitem(last=False)

    def _drop(self, count: int, why: str) -> None:
        if not self.counts.dropped:
            _log.warning("sessions: some are dropped: %s", why)
        self.counts.dropped += count

    # The thread.

    def _write_batch(self) -> float | None:
        """Writes one batch; returns when to write the next one."""
        is_more = self._prune()
        try:
            self._write(self._drafts(self._backlog.take(_BATCH)))
        finally:
            # Those that were not written, and those that another process began at the same time.
            if over := self._backlog.give_back():
                self._drop(over, f"{self._most:,} already wait for the store")
        waiting = len(self._backlog)
        if is_more or waiting >= _BATCH:
            return 0.0
        return WRITE_EVERY_S if waiting else None

    def _drafts(self, taken: Mapping[Key, PendingRecord]) -> list[Draft]:
        drafts = []
        for key, noted in taken.items():
            try:
                drafts.append(Draft(key, noted.made(), noted.version, instant(noted.at)))
            except Exception as error:  # a caller's function makes the record
                self._refuse(key, error)
        return drafts

    def _write(self, drafts: Sequence[Draft]) -> None:
        """Writes these. What the store will never take is set aside, so that the rest is written."""
        if not drafts:
            return
        try:
            done = self._store.write_all(drafts, self._merge, self._mark)
        except Exception as error:
            if isinstance(error, StoreUnavailable) and not isinstance(error, DamagedRow):
                raise
            # A value that cannot be stored, a damaged row, or a bug: the others must not wait for it.
            if len(drafts) == 1:
                self._refuse(drafts[0].key, error)
                return
            half = len(drafts) // 2
            self._write(drafts[:half])
            self._write(drafts[half:])
            return
        for key, result in done.items():
            if isinstance(result, WriteResult):
                self.counts.written += 1
                self.counts.merged += result.is_merged
            else:
                self._refuse(key, result)
        self._backlog.done(done)

    def _refuse(self, key: Key, error: Exception) -> None:
        if not self.counts.refused:
            _log.warning("sessions: one cannot be stored and is dropped: %s", error, exc_info=error.__cause__)
        self.counts.refused += 1
        self._backlog.done([key])

    def _prune(self) -> bool:
        """Deletes some expired sessions; whether there are more."""
        if time.monotonic() - self._pruned_at < _PRUNE_EVERY_S:
            return False
        gone = self._store.prune(most=_PRUNED)
        self.counts.expired += gone
        if gone == _PRUNED:
            return True
        self._pruned_at = time.monotonic()
        return False


def _now() -> datetime:
    return datetime.now(timezone.utc)
