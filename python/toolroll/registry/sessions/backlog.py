"""What was noted of sessions and is not written yet: the latest of each, and no more than so many."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from toolroll.registry.events.rows import instant
from toolroll.registry.sessions.records import Key, Record, StoredSession


@dataclass(frozen=True, slots=True, eq=False)
class PendingRecord:
    """What was noted last of a session.

    Attributes:
        record: what it holds, or what makes that.
        version: of what it was made from; 0 for nothing; None where nobody knows.
        at: when it was noted, seconds since the epoch.
        since: when the first note came that this one stands for, monotonic seconds.
    """

    record: Record | Callable[[], Record]
    version: int | None
    at: float
    since: float

    def made(self) -> Record:
        """The record."""
        return self.record() if callable(self.record) else self.record

    def stored(self, version: int) -> StoredSession:
        """As who reads wants it."""
        return StoredSession(self.made(), version, instant(self.at))


class Backlog:
    """Sessions that wait, and those that are being written.

    They are written in the order in which they began to wait, however often they are noted meanwhile. Any
    thread may use it; none waits for another for longer than some assignments take.
    """

    def __init__(self, most: int) -> None:
        """most: sessions that wait."""
        self._most = most
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Key, PendingRecord] = OrderedDict()
        self._writing: dict[Key, PendingRecord] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._writing)

    def put(self, key: Key, record: Record | Callable[[], Record], version: int | None) -> bool:
        """Takes a note in place of the one that waits; whether another session was dropped for it.

        That is the one that has waited longest.
        """
        since, at = time.monotonic(), time.time()
        with self._lock:
            before = self._waiting.get(key)
            self._waiting[key] = PendingRecord(record, version, at, since if before is None else before.since)
            if len(self._waiting) <= self._most:
                return False
            self._waiting.popitem(last=False)
            return True

    def of(self, key: Key) -> PendingRecord | None:
        """What was noted last of a session, unless it is written."""
        with self._lock:
            return self._waiting.get(key) or self._writing.get(key)

    def take(self, most: int) -> dict[Key, PendingRecord]:
        """Those that have waited longest, to be written: each is `done` with, or they are given back."""
        with self._lock:
            assert not self._writing, "one batch at a time"
            for _ in range(min(most, len(self._waiting))):
                key, noted = self._waiting.popitem(last=False)
                self._writing[key] = noted
            return dict(self._writing)

    def done(self, keys: Iterable[Key]) -> None:
        """Says that these are written, or never will be."""
        with self._lock:
            for key in keys:
                self._writing.pop(key, None)

    def give_back(self) -> int:
        """Has all that was taken and is not done with wait again, first. How many there was no room for."""
        with self._lock:
            for key, noted in reversed(self._writing.items()):
                newer = self._waiting.get(key)
                self._waiting[key] = noted if newer is None else replace(newer, since=noted.since)
                self._waiting.move_to_end(key, last=False)
            self._writing.clear()
            over = max(0, len(self._waiting) - self._most)
            for _ in range(over):
                self._waiting.popitem(last=False)
            return over

    def drop(self, key: Key) -> bool:
        """Lets a session go that waits; whether it did. One that is being written is."""
        with self._lock:
            return self._waiting.pop(key, None) is not None

    def has_before(self, at: float) -> bool:
        """Whether anything waits or is being written that came up to then, monotonic seconds."""
        with self._lock:
            return self._oldest() <= at

    def waited_s(self) -> float:
        """For how long the one has waited that has waited longest."""
        with self._lock:
            return max(0.0, time.monotonic() - self._oldest())

    def _oldest(self) -> float:
        noted = list(self._writing.values())
        if self._waiting:
            noted.append(next(iter(self._waiting.values())))
        return min((one.since for one in noted), default=float("inf"))
