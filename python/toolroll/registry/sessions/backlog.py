"""Records of sessions that are not written yet: the latest of each session, up to a limit."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from toolroll.registry.events.rows import instant
from toolroll.registry.sessions.records import Key, Record, StoredSession


@dataclass(frozen=True, slots=True, eq=False)
class PendingRecord:
    """The latest record of a session.

    Attributes:
        record: the record, or a function that returns it.
        version: of the stored record that it was made from; 0 if there was none; None if it is not known.
        at: when it came, in seconds since the epoch.
        since: when the session began to wait, in monotonic seconds.
    """

    record: Record | Callable[[], Record]
    version: int | None
    at: float
    since: float

    def made(self) -> Record:
        """The record."""
        return self.record() if callable(self.record) else self.record

    def stored(self, version: int) -> StoredSession:
        """The record as a reader gets it."""
        return StoredSession(self.made(), version, instant(self.at))


class Backlog:
    """Sessions that wait, and those that are being written.

    They are written in the order in which they began to wait; a newer record keeps the place of the older
    one. Safe to share between threads: the lock is held for a few assignments.
    """

    def __init__(self, most: int) -> None:
        """most: how many sessions may wait."""
        self._most = most
        self._lock = threading.Condition()
        self._claimed: set[Key] = set()
        self._waiting: OrderedDict[Key, PendingRecord] = OrderedDict()
        self._writing: dict[Key, PendingRecord] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._writing)

    def put(self, key: Key, record: Record | Callable[[], Record], version: int | None) -> bool:
        """Replaces the session's record; whether the session that has waited longest was dropped for it."""
        since, at = time.monotonic(), time.time()
        with self._lock:
            before = self._waiting.get(key)
            self._waiting[key] = PendingRecord(record, version, at, since if before is None else before.since)
            if len(self._waiting) <= self._most:
                return False
            self._waiting.popitem(last=False)
            return True

    def claim(self, key: Key, timeout_s: float) -> bool:
        """Takes the session out, for a caller that writes it; `take` passes over it until `release`.

        Waits until no other thread writes the session. Whether that was in time.
        """
        with self._lock:
            if not self._lock.wait_for(
                lambda: key not in self._claimed and key not in self._writing, timeout_s
            ):
                return False
            self._claimed.add(key)
            self._waiting.pop(key, None)
            return True

    def release(self, key: Key) -> None:
        """Ends a claim."""
        with self._lock:
            self._claimed.discard(key)
            self._lock.notify_all()

    def of(self, key: Key) -> PendingRecord | None:
        """The latest record of a session, unless it is written."""
        with self._lock:
            return self._waiting.get(key) or self._writing.get(key)

    def take(self, most: int) -> dict[Key, PendingRecord]:
        """The sessions that have waited longest. Call `done` for the written ones, then `give_back`."""
        with self._lock:
            assert not self._writing, "one batch at a time"
            free = (key for key in self._waiting if key not in self._claimed)
            for key in list(islice(free, most)):
                self._writing[key] = self._waiting.pop(key)
            return dict(self._writing)

    def done(self, keys: Iterable[Key]) -> None:
        """Removes sessions that are written, or never will be."""
        with self._lock:
            for key in keys:
                self._writing.pop(key, None)
            self._lock.notify_all()

    def give_back(self) -> int:
        """Lets the taken sessions that are not done wait again, first. Returns how many had no room."""
        with self._lock:
            for key, noted in reversed(self._writing.items()):
                newer = self._waiting.get(key)
                self._waiting[key] = noted if newer is None else replace(newer, since=noted.since)
                self._waiting.move_to_end(key, last=False)
            self._writing.clear()
            self._lock.notify_all()
            over = max(0, len(self._waiting) - self._most)
            for _ in range(over):
                self._waiting.popitem(last=False)
            return over

    def drop(self, key: Key) -> bool:
        """Removes a session that waits, not one that is being written; whether there was one."""
        with self._lock:
            return self._waiting.pop(key, None) is not None

    def has_before(self, at: float) -> bool:
        """Whether a session waits or is being written since before this time, in monotonic seconds."""
        with self._lock:
            return self._oldest() <= at

    def waited_s(self) -> float:
        """How long the oldest session has waited."""
        with self._lock:
            return max(0.0, time.monotonic() - self._oldest())

    def _oldest(self) -> float:
        noted = list(self._writing.values())
        if self._waiting:
            noted.append(next(iter(self._waiting.values())))
        return min((one.since for one in noted), default=float("inf"))
