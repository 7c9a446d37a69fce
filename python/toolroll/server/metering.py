"""The cost of a request: the time of its steps in the event loop, and the processor time of its threads.

A step waits for nothing, so its whole time delays other requests. The processor's clock takes longer to read,
and a service on a busy host would look idle by it.
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


class TimedSteps:
    """Wraps an awaitable and times its steps."""

    def __init__(self, awaitable: Awaitable[Any], spend: Spend) -> None:
        """spend: called with the seconds of each step, and of each function that `in_thread` wraps."""
        self._steps: Any = awaitable.__await__()
        self._on_step = spend
        _spend.set(spend)

    def __await__(self) -> TimedSteps:
        return self

    def __iter__(self) -> TimedSteps:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Runs the next step."""
        began = time.perf_counter()
        try:
            return self._steps.send(value)
        finally:
            self._on_step(time.perf_counter() - began)

    def throw(self, *error: Any) -> Any:
        """Throws an exception into the next step."""
        began = time.perf_counter()
        try:
            return self._steps.throw(*error)
        finally:
            self._on_step(time.perf_counter() - began)

    def close(self) -> None:
        """Ends the coroutine."""
        self._steps.close()


async def in_task(awaitable: Awaitable[_T]) -> _T:
    """Wraps a further task of a request, so that its steps count for the request."""
    spend = _spend.get()
    if spend is None:
        return await awaitable
    answer: _T = await TimedSteps(awaitable, spend)
    return answer


def in_thread(function: Callable[..., _T]) -> Callable[..., _T]:
    """Wraps a function of a thread, so that its processor time counts for the request."""

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
