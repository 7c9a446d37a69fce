"""The processor time of a request: of its steps in the event loop, and of what it runs in threads."""

from __future__ import annotations

import functools
import inspect
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
        began = time.thread_time()
        try:
            return self._steps.send(value)
        finally:
            self._on_step(time.thread_time() - began)

    def throw(self, *error: Any) -> Any:
        """The next step, which begins with an exception."""
        began = time.thread_time()
        try:
            return self._steps.throw(*error)
        finally:
            self._on_step(time.thread_time() - began)

    def close(self) -> None:
        """Ends the coroutine."""
        self._steps.close()


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

    # The framework reads the types of the arguments, which are texts in the module of the function.
    timed.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return timed
