"""Totals that many threads add to: exact, and no thread waits for another.

To add is to append to a queue, which is atomic and costs 0.1 µs. One thread at a time takes what is in the
queue and adds it up: a reader, or the thread that made the queue long. `count += 1` on a value that threads
share could lose one of two additions at the same time, and a lock would make selections wait for each other.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from toolroll._threads import survive_forks

LONGEST_QUEUE = 1_024  # adding that many up takes 0.1 ms

T = TypeVar("T")


class ConcurrentTotal(ABC, Generic[T]):
    """The queue. Any thread may call the methods. The child of a fork begins at zero."""

    def __init__(self) -> None:
        self._begin()
        survive_forks(self, lambda total: (), ConcurrentTotal._begin)

    def _begin(self) -> None:
        self._queue: deque[T] = deque()
        self._adding_up = threading.Lock()  # held to take from the queue, and to read what was added up
        self._clear()

    def add(self, item: T) -> None:
        """Adds an item, without waiting."""
        self.add_all((item,))

    def add_all(self, items: Sequence[T]) -> None:
        """Adds items, without waiting."""
        queue = self._queue
        queue.extend(items)
        if len(queue) >= LONGEST_QUEUE and self._adding_up.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._adding_up.release()

    def _add_up(self) -> None:
        """Empties the queue; the caller holds the lock."""
        take = self._queue.popleft
        items = [take() for _ in range(len(self._queue))]
        if items:
            self._include(items)

    @abstractmethod
    def _clear(self) -> None:
        """Sets the totals to zero."""

    @abstractmethod
    def _include(self, items: list[T]) -> None:
        """Adds the items to the totals."""


class ConcurrentCounter(ConcurrentTotal[Hashable]):
    """How often each key was added."""

    def _clear(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def _include(self, items: list[Hashable]) -> None:
        self._counts.update(items)

    def totals(self) -> Counter[Hashable]:
        """Key → how often it was added so far."""
        with self._adding_up:
            self._add_up()
            return self._counts.copy()


class ConcurrentHistogram(ConcurrentTotal[int]):
    """How many of the numbers are in each bucket, and their sum."""

    def __init__(self, bounds: Sequence[int]) -> None:
        """bounds: the greatest number of each bucket, ascending; the last bucket has none."""
        self._bounds = np.asarray(bounds, np.int64)
        super().__init__()

    def _clear(self) -> None:
        self._counts = np.zeros(len(self._bounds) + 1, np.int64)
        self._sum = 0

    def _include(self, items: list[int]) -> None:
        self._counts += np.bincount(np.searchsorted(self._bounds, items), minlength=len(self._counts))
        self._sum += sum(items)

    def totals(self) -> tuple[tuple[int, ...], int]:
        """The number of items in each bucket so far, and their sum."""
        with self._adding_up:
            self._add_up()
            return tuple(self._counts.tolist()), self._sum
