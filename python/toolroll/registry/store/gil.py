"""Keeps work in the background from holding up selections in the same process.

A thread that is busy in Python gives way to another only every 5 ms, which is twenty selections. So loops
that run for longer let go of the interpreter by themselves, for a moment that is long enough for another
thread to take it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

_EVERY_S = 0.0003
_LETS_GO_S = 0.00005  # of no length at all, it would be taken again before another thread wakes


class GilYielder:
    """To be called in every turn of a loop: pauses where it was not called to pause for a while."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def __call__(self) -> None:
        """Lets another thread have the interpreter, if it is time."""
        if time.perf_counter() - self._since > _EVERY_S:
            time.sleep(_LETS_GO_S)
            self._since = time.perf_counter()


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Slices of at most `size` items; lets another thread have the interpreter between two of them."""
    yielder = GilYielder()
    for start in range(0, len(items), size):
        yield items[start : start + size]
        yielder()
