from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def within_seconds() -> Callable[[float], contextlib.AbstractContextManager[None]]:
    """Work that must not explode: a bound on the processor's time, far above what it takes."""

    @contextlib.contextmanager
    def within(limit: float) -> Iterator[None]:
        started = time.process_time()
        yield
        assert time.process_time() - started < limit

    return within
