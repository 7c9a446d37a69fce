"""Totals that many threads add to: exact, and no thread waits for another.

To add is to append to a queue, which is atomic and costs 0.1 µs. One thread at a time takes what is in the
queue and adds it up: a reader, or the thread that made the queue long. `count += 1` on a value that threads
share could lose one of two additions at the same time, and a lock would make selections wait for each other.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

LONGEST_QUEUE = 1_024  # adding that many up takes 0.1 ms

T = TypeVar("T")


C = TypeVar("C")  # what a process has counted


class _Count(Generic[T, C]):
    """What one process has counted, and what it has not added up yet."""

    __slots__ = ("adding_up", "queue", "total")

    def __init__(self, total: C) -> None:
        self.queue: deque[T] = deque()
        self.adding_up = threading.Lock()  # held to take from the queue, and to read the total
        self.total = total


class ConcurrentTotal(ABC, Generic[T, C]):
    """The queue. Any thread may call the methods. The child of a fork begins at zero."""

    def __init__(self) -> None:
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

    def _add_up(self, count: _Count[T, C]) -> None:
        """Empties the queue; the caller holds the lock."""
        take = count.queue.popleft
        items = [take() for _ in range(len(count.queue))]
        if items:
            self._include(count.total, items)

    @abstractmethod
    def _zero(self) -> C:
        """A total of nothing."""

    @abstractmethod
    def _include(self, total: C, items: list[T]) -> None:
        """Adds the items to the total."""


class ConcurrentCounter(ConcurrentTotal[Hashable, Counter[Hashable]]):
    """How often each key was added."""

    def _zero(self) -> Counter[Hashable]:
        return Counter()

    def _include(self, total: Counter[Hashable], items: list[Hashable]) -> None:
        total.update(items)

    def totals(self) -> Counter[Hashable]:
        """Key → how often it was added so far."""
        count = self._counts.get(os.getpid()) or self._begin()
        with count.adding_up:
            self._add_up(count)
            return count.total.copy()


class ConcurrentHistogram(ConcurrentTotal[int, "NDArray[np.int64]"]):
    """How many of the numbers are in each bucket, and their sum."""

    def __init__(self, bounds: Sequence[int]) -> None:
        """bounds: the greatest number of each bucket, ascending; the last bucket has none."""
        self._bounds = np.asarray(bounds, np.int64)
        super().__init__()

    def _zero(self) -> NDArray[np.int64]:
        return np.zeros(len(self._bounds) + 2, np.int64)  # the last one is the sum

    def _include(self, total: NDArray[np.int64], items: list[int]) -> None:
        total[:-1] += np.bincount(np.searchsorted(self._bounds, items), minlength=len(total) - 1)
        total[-1] += sum(items)

    def totals(self) -> tuple[tuple[int, ...], int]:
        """The number of items in each bucket so far, and their sum."""
        count = self._counts.get(os.getpid()) or self._begin()
        with count.adding_up:
            self._add_up(count)
            *buckets, in_all = count.total.tolist()
        return tuple(buckets), in_all
