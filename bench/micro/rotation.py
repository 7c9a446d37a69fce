"""A benchmark's call, with other arguments each time: no cache and no branch predictor learns them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, TypeVar

T = TypeVar("T")

#: What is timed; one call of it.
Call = Callable[[], object]


def each(function: Callable[[T], Any], arguments: Sequence[T]) -> Call:
    """Calls the function with the next argument, from the first again behind the last."""
    following = cycle(arguments).__next__
    return lambda: function(following())
