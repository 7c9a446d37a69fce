"""Writes sessions in the background, and reads them with what is not written yet.

Whoever notes a session waits for nothing. A thread of the keeper's own writes what was noted last of each,
many in one transaction, and tries again for as long as it takes. Where another process has written the same
session meanwhile, the two records are merged. A process that is killed loses what it noted in its last
moments.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from toolroll._threads import Full, Overdue, Workers, survive_forks
from toolroll.errors import InvalidInput, StoreUnavailable, ToolrollError
from toolroll.registry.events.rows import instant
from toolroll.registry.sessions.backlog import Backlog, Noted
from toolroll.registry.sessions.records import Key, Record, Stored, key_of, mark_of, new_mark
from toolroll.registry.sessions.store import Draft, Merge, SessionStore, Written, merged

_log = logging.getLogger("toolroll")

MOST_WAITING = 100_000  # sessions; the one that has waited longest is dropped for a new one
WRITE_EVERY_S = 0.2  # larger batches cost less, and what is noted again meanwhile is written once
READ_S = 2.0
_BATCH = 256
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 10.0  # between tries while the store is away
_MOST_READ = 200_000  # sessions whose version is remembered
_READERS = 8
_MOST_LOOKS = 3  # at a session that is being written
_PRUNE_EVERY_S, _PRUNED = 3_600.0, 500  # how often, and how many at a time

T = TypeVar("T")


@dataclass(slots=True)
class Counts:
    """What has become of what was noted.

    Attributes:
        written: sessions that were written, each as often as it was.
        merged: those of them that another process had written meanwhile.
        dropped: noted and not written: too many waited, or the keeper was closed.
        refused: noted and not written, since they cannot be kept.
        expired: deleted, since nobody had written to them for their lifetime.
    """

    written: int = 0
    merged: int = 0
    dropped: int = 0
    refused: int = 0
    expired: int = 0


class SessionKeeper:
    """Of one store and one process. Any thread may use it; a child of a fork begins by itself.

    What is noted of a session is its state in this process: each note holds what was noted here before, and
    takes its place. What other processes have written is in it as far as it was made from what `read` gave.
    """

    def __init__(self, store: SessionStore, merge: Merge, *, most: int = MOST_WAITING) -> None:
        """Begins with the first note.

        merge: makes one record of what is in the store and what was noted here, in this order, and holds what
            is in either. Merging what is merged already with one of the two must not change it: it happens
            where nobody knows whether a write was committed. It must change neither record.
        most: sessions that may wait for the store.
        """
        if most < 1:
            raise InvalidInput(f"sessions: most is {most!r:.80}, must be at least 1")
        self._store, self._merge, self._most = store, merge, most
        self._read: OrderedDict[Key, int] = OrderedDict()  # the version that was read last
        self._is_closed = False
        self._begin()
        survive_forks(self, _at_work, _begin_anew)

    def _begin(self) -> None:
        self.counts = Counts()
        self._mark = new_mark()
        self._backlog = Backlog(self._most)
        self._at_work = threading.Lock()  # held while the database is
        self._starting = threading.Lock()
        self._stop, self._wake, self._hurry = threading.Event(), threading.Event(), threading.Event()
        self._sleeps = False  # until somebody wakes it
        self._progress = threading.Condition()
        self._thread: threading.Thread | None = None
        self._failing: Exception | None = None
        self._workers = Workers(_READERS, "toolroll-session")
        self._pruned_at = time.monotonic()

    # What callers wait for.

    def note(
        self, org: str, session: str, record: Record | Callable[[], Record], version: int | None = None
    ) -> None:
        """Takes what a session holds now. Waits for nothing; it is written soon, if nothing newer comes.

        Args:
            org: whose it is; "" for nobody's.
            session: its id.
            record: plain JSON values, at most 64 kB of them; or what makes it, called when it is written. It
                must not change any more. One that cannot be kept is not written, and counted as refused.
            version: of the `Stored` that it was made from, where several threads read the same session;
                None for what was read last.

        Raises:
            InvalidInput: no session can have this id.
        """
        key = key_of(org, session)
        if self._is_closed:
            self._drop(1, "the keeper is closed")
            return
        if self._backlog.put(key, record, self._read.get(key) if version is None else version):
            self._drop(1, f"{self._most:,} wait for the store already")
        if self._sleeps or self._thread is None:
            self._stir()

    def read(self, org: str, session: str, timeout_s: float = READ_S) -> Stored | None:
        """What the session holds: here, in the store, or in both; None if there is none.

        What waits here is merged with what others have written meanwhile. While the store does not answer,
        what waits here is all there is.

        Raises:
            InvalidInput: no session can have this id, or what is here and in the store cannot be merged.
            StoreUnavailable: nothing waits here, and the store does not answer in time.
        """
        key, deadline = key_of(org, session), time.monotonic() + timeout_s
        for _ in range(_MOST_LOOKS):
            here = self._backlog.of(key)
            try:
                found = self._in_time(partial(self._store.read, *key), deadline, key)
            except StoreUnavailable:
                if here is None:
                    raise
                return here.stored(here.version or 0)
            # What was written while it was read may not be in what was found.
            if here is None or self._backlog.of(key) is here:
                break
        version = 0 if found is None else found.version
        self._remember(key, version)
        here = self._backlog.of(key) or here
        if here is None:
            return found
        if found is None or version == here.version or mark_of(version) == self._mark:
            return here.stored(version)
        both = merged(self._merge, found.record, here.made(), key)
        return Stored(both, version, max(found.updated_at, instant(here.at)))

    def forget(self, org: str, session: str, timeout_s: float = READ_S) -> bool:
        """Deletes the session, here and in the store; whether there was one.

        A process that goes on with it writes it anew.

        Raises:
            InvalidInput: no session can have this id.
            StoreUnavailable: it may still be in the store.
        """
        key = key_of(org, session)
        was_here = self._backlog.drop(key)
        self._read.pop(key, None)

        def delete() -> bool:
            with self._at_work:  # behind what is being written, or is given back
                self._backlog.drop(key)
                return self._store.forget(*key)

        return self._in_time(delete, time.monotonic() + timeout_s, key) or was_here

    def flush(self, timeout_s: float) -> bool:
        """Whether all that was noted before is in the store, or refused; waits for it so long."""
        now = time.monotonic()
        deadline = now + timeout_s
        while self._backlog.has_before(now):
            left = deadline - time.monotonic()
            if left <= 0 or self._stop.is_set():
                return False
            self._stir()
            self._hurry.set()
            with self._progress:
                if self._backlog.has_before(now):
                    self._progress.wait(min(left, 0.5))
        return True

    def close(self, timeout_s: float = 5.0) -> None:
        """Writes what it can in this time; what is noted afterwards is dropped. Reading goes on."""
        if self._is_closed:
            return
        self._is_closed = True
        self.flush(timeout_s)
        self._stop.set()
        self._wake.set()
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)

    def health(self) -> dict[str, Any]:
        """How many wait, for how long, what has become of the others, and what fails."""
        counts, failing = self.counts, self._failing
        return {
            "waiting": len(self._backlog),
            "waiting_s": round(self._backlog.waited_s(), 3),
            "written": counts.written,
            "merged": counts.merged,
            "dropped": counts.dropped,
            "refused": counts.refused,
            "expired": counts.expired,
            "failing": None if failing is None else str(failing),
        }

    def _in_time(self, call: Callable[[], T], deadline: float, key: Key) -> T:
        try:
            return self._workers.run(call, max(0.0, deadline - time.monotonic()))
        except (Overdue, Full) as error:
            raise StoreUnavailable(f"session {key[1]!r:.80}: {error}", retry_after_s=1.0) from error

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

    def _stir(self) -> None:
        """Has the thread look at once; starts it the first time."""
        if self._thread is None and not self._stop.is_set():
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(
                        target=self._write_for_good, name="toolroll-sessions", daemon=True
                    )
                    with suppress(RuntimeError):  # no more threads just now; the next note tries again
                        thread.start()
                        self._thread = thread
        self._wake.set()

    def _write_for_good(self) -> None:
        wait_s = _FIRST_WAIT_S
        self._rest()
        while not self._stop.is_set():
            try:
                with self._at_work:
                    is_more = self._round()
                if self._failing is not None:
                    _log.warning("sessions: the store takes them again")
                    self._failing = None
                wait_s = _FIRST_WAIT_S
            except Exception as error:  # whatever it is, what waits must not wait for good
                self._say(error)
                is_more = True
                self._pause(wait_s * (0.5 + os.urandom(1)[0] / 255))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            with self._progress:
                self._progress.notify_all()
            if not is_more:
                self._rest()

    def _pause(self, seconds: float) -> None:
        """Waits, unless somebody waits for the thread."""
        self._hurry.wait(seconds)
        self._hurry.clear()

    def _rest(self) -> None:
        """Sleeps until something comes, but takes what comes in batches."""
        self._wake.clear()
        self._sleeps = True
        if not len(self._backlog):
            self._wake.wait()
        self._sleeps = False
        if not self._stop.is_set():
            self._pause(WRITE_EVERY_S)

    def _say(self, error: Exception) -> None:
        if self._failing is None:
            known = isinstance(error, ToolrollError)
            _log.warning("sessions: wait until the store takes them: %s", error, exc_info=not known)
        self._failing = error

    def _round(self) -> bool:
        """Writes one batch; whether there is enough for another one."""
        is_more = self._prune()
        try:
            self._write(self._drafts(self._backlog.take(_BATCH)))
        finally:
            # Those that were not written, and those that were new here and elsewhere at once.
            if over := self._backlog.give_back():
                self._drop(over, f"{self._most:,} wait for the store already")
        return is_more or len(self._backlog) >= _BATCH

    def _drafts(self, taken: Mapping[Key, Noted]) -> list[Draft]:
        drafts = []
        for key, noted in taken.items():
            try:
                drafts.append(Draft(key, noted.made(), noted.version, instant(noted.at)))
            except Exception as error:  # what makes the record is not ours
                self._refuse(key, error)
        return drafts

    def _write(self, drafts: Sequence[Draft]) -> None:
        """Writes these; what the store will never take is set aside, so that the others get through."""
        if not drafts:
            return
        try:
            done = self._store.write_all(drafts, self._merge, self._mark)
        except StoreUnavailable:
            raise
        except (
            Exception
        ) as error:  # a value that cannot be kept, or a mistake of ours for which all would wait
            if len(drafts) == 1:
                self._refuse(drafts[0].key, error)
                return
            half = len(drafts) // 2
            self._write(drafts[:half])
            self._write(drafts[half:])
            return
        for key, result in done.items():
            if isinstance(result, Written):
                self.counts.written += 1
                self.counts.merged += result.is_merged
            else:
                self._refuse(key, result)
        self._backlog.done(done)

    def _refuse(self, key: Key, error: Exception) -> None:
        if not self.counts.refused:
            _log.warning("sessions: one cannot be kept and is not: %s", error, exc_info=error.__cause__)
        self.counts.refused += 1
        self._backlog.done([key])

    def _prune(self) -> bool:
        """Clears expired sessions away, some at a time; whether there are more."""
        if time.monotonic() - self._pruned_at < _PRUNE_EVERY_S:
            return False
        gone = self._store.prune(most=_PRUNED)
        self.counts.expired += gone
        if gone == _PRUNED:
            return True
        self._pruned_at = time.monotonic()
        return False


def _at_work(keeper: SessionKeeper) -> Iterable[threading.Lock]:
    """Held while the database is at work."""
    return (keeper._at_work,) if keeper._thread is not None else ()


def _begin_anew(keeper: SessionKeeper) -> None:
    """What the parent has noted is the parent's to write."""
    keeper._begin()
