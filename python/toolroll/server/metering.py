"""What a request costs: the time of its steps in the event loop, and the processor time of its threads.

Nothing waits in a step, so it costs the others as long as it takes. The processor's clock takes longer to
read, and would find a service idle to which the host leaves too little of a processor.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")
Spend = Callable[[float], object]  # of seconds

_spend: ContextVar[Spend | None] = ContextVar("spend", default=None)


class Metered:
    """Something to await, whose steps are timed."""

    def __init__(self, awaitable: Awaitable[Any], spend: Spend) -> None:
        """spend: called with the seconds of each step, and of each function that `in_thread` wraps."""
        self._steps: Any = awaitable.__await__()
        self._on_step = spend
        _spend.set(spend)

    def __await__(self) -> Metered:
        return self

    def __iter__(self) -> Metered:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """The next step."""
        began = time.perf_counter()
        try:
            return self._steps.send(value)
        finally:
            self._on_step(time.perf_counter() - began)

    def throw(self, *error: Any) -> Any:
        """The next step, which begins with an exception."""
        began = time.perf_counter()
        try:
            return self._steps.throw(*error)
        finally:
            self._on_step(time.perf_counter() - began)

    def close(self) -> None:
        """Ends the coroutine."""
        self._steps.close()


async def in_task(awaitable: Awaitable[_T]) -> _T:
    """The same for a task that a request starts beside its own: its steps count, too."""
    spend = _spend.get()
    if spend is None:
        return await awaitable
    answer: _T = await Metered(awaitable, spend)
    return answer


def in_thread(function: Callable[..., _T]) -> Callable[..., _T]:
    """The same function, whose processor time counts for the request that calls it in a thread."""

    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> _T:
        spend = _spend.get()
        if spend is None:
            return function(*arguments, **named)
        began = time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            spend(time.thread_time() - began)

    return timed
