"""Totals that many threads add to: exact, and no thread waits for another.

An addition appends to a queue, which is atomic and costs 0.1 µs. One thread at a time empties the queue into
the total: a reader, or the thread that made the queue long. `count += 1` on a shared value could lose one of
two simultaneous additions, and a lock would make selections wait for each other.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

LONGEST_QUEUE = 1_024  # adding that many up takes 0.1 ms

T = TypeVar("T")
C = TypeVar("C")  # the total
R = TypeVar("R")


class _Count(Generic[T, C]):
    """The total of one process, and the items that are not in it yet."""

    __slots__ = ("adding_up", "queue", "total")

    def __init__(self, total: C) -> None:
        self.queue: deque[T] = deque()
        self.adding_up = threading.Lock()  # held to take from the queue, and to read the total
        self.total = total


class ConcurrentTotal(Generic[T, C]):
    """The queue. Any thread may call the methods. The child of a fork begins at zero."""

    def __init__(self, zero: Callable[[], C], include: Callable[[C, list[T]], object]) -> None:
        """zero: makes an empty total. include: adds items to a total in place."""
        self._zero, self._include = zero, include
        self._counts: dict[int, _Count[T, C]] = {}  # by process

    def add(self, item: T) -> None:
        """Adds an item, without waiting."""
        self.add_all((item,))

    def add_all(self, items: Sequence[T]) -> None:
        """Adds items, without waiting."""
        count = self._counts.get(os.getpid()) or self._begin()
        count.queue.extend(items)
        if len(count.queue) >= LONGEST_QUEUE and count.adding_up.acquire(blocking=False):
            try:
                self._add_up(count)
            finally:
                count.adding_up.release()

    def _begin(self) -> _Count[T, C]:
        return self._counts.setdefault(os.getpid(), _Count(self._zero()))

    def _add_up(self, count: _Count[T, C]) -> C:
        """Empties the queue into the total; the caller holds the lock."""
        take = count.queue.popleft
        if items := [take() for _ in range(len(count.queue))]:
            self._include(count.total, items)
        return count.total

    def _read(self, read: Callable[[C], R]) -> R:
        count = self._counts.get(os.getpid()) or self._begin()
        with count.adding_up:
            return read(self._add_up(count))


class ConcurrentCounter(ConcurrentTotal[Hashable, Counter[Hashable]]):
    """How often each key was added."""

    def __init__(self) -> None:
        super().__init__(Counter, Counter.update)

    def totals(self) -> Counter[Hashable]:
        """Key → how often it was added so far."""
        return self._read(Counter.copy)


class ConcurrentHistogram(ConcurrentTotal[int, "NDArray[np.int64]"]):
    """How many numbers are in each bucket, and their sum."""

    def __init__(self, bounds: Sequence[int]) -> None:
        """bounds: the greatest number of each bucket, ascending; the last bucket has none."""
        ends = np.asarray(bounds, np.int64)

        def include(total: NDArray[np.int64], items: list[int]) -> None:  # the last number is the sum
            total[:-1] += np.bincount(np.searchsorted(ends, items), minlength=len(total) - 1)
            total[-1] += sum(items)

        super().__init__(lambda: np.zeros(len(ends) + 2, np.int64), include)

    def totals(self) -> tuple[tuple[int, ...], int]:
        """The number of items in each bucket so far, and their sum."""
        *buckets, in_all = self._read(lambda total: total.tolist())
        return tuple(buckets), in_all
