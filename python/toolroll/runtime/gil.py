"""Keeps background work from delaying selections in the same process.

A thread that is busy in Python yields the GIL only every 5 ms, the time of twenty selections. So long loops
yield it themselves, for long enough that another thread can take it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

is_shared = True  # whether other threads of this process want the GIL
_EVERY_S = 0.0003
_PAUSE_S = 0.00005  # with 0, this thread would take the GIL again before another one wakes up


class GilYielder:
    """Pauses a loop that calls it in every iteration, if the last pause was some time ago.

    While other threads are busy in Python, each pause lasts 5 ms for each of them, and a loop that holds
    a database's lock would hold it for seconds. So after a pause, the loop runs for at least as long
    without another.
    """

    __slots__ = ("_every_s", "_since")

    def __init__(self) -> None:
        self._since, self._every_s = time.perf_counter(), _EVERY_S

    def __call__(self) -> None:
        """Yields the GIL if the last pause was more than 0.3 ms ago, or longer ago than it lasted."""
        now = time.perf_counter()
        if now - self._since > self._every_s:
            if not is_shared or threading.active_count() == 1:  # no other thread waits for it
                self._since = now
                return
            time.sleep(_PAUSE_S)
            self._since = time.perf_counter()
            self._every_s = max(_EVERY_S, self._since - now)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`. Other threads may run between two lists."""
    rest, yielder = iter(items), GilYielder()
    while some := list(islice(rest, size)):
        yield some
        yielder()
