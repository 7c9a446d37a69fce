"""Values that a catalog computes at their first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from toolroll.catalog.tokens import estimate_tokens
from toolroll.model.arrays import Rows
from toolroll.model.errors import InvalidDefinition
from toolroll.model.identity import schema_text
from toolroll.model.tools import Tool

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that its first call computes. Two threads may both compute it; they get equal values."""

    __slots__ = ("_earlier", "_make", "_value")

    def __init__(self, make: Callable[[], T], earlier: T | None = None) -> None:
        """make: computes the value, and returns the same one each time. earlier: a value to begin with."""
        self._make: Callable[[], T] | None = make
        self._earlier = earlier

    @classmethod
    def of(cls, value: T) -> Deferred[T]:
        """A value that is computed already."""
        deferred: Deferred[T] = cls(lambda: value)
        deferred()
        return deferred

    def __call__(self) -> T:
        """The value."""
        if (make := self._make) is not None:
            self._value = make()
            self._make = self._earlier = None  # releases everything that the value was made from
        return self._value

    @property
    def known(self) -> T | None:
        """The value; None if it is not computed yet."""
        return self._value if self._make is None else None

    @property
    def earlier(self) -> T | None:
        """The value that the computation begins with; None without one, or after the computation."""
        return self._earlier


class DeferredCosts:
    """Estimated tokens of each tool's schema, computed for the rows that are read."""

    __slots__ = ("_costs", "_tools")

    def __init__(self, tools: Sequence[Tool]) -> None:
        """tools: by row."""
        self._tools = tools
        self._costs = np.full(len(tools), -1, np.int32)

    def __getitem__(self, rows: Rows) -> npt.NDArray[np.int32]:
        costs = self._costs[rows]
        for at in np.flatnonzero(costs < 0).tolist():
            row = int(rows[at])
            costs[at] = self._costs[row] = estimate_tokens(readable_schema(self._tools[row]))
        return costs

    def __len__(self) -> int:
        return len(self._tools)


def readable_schema(tool: Tool) -> str:
    """`schema_text`, or Python's own form if the schema has none in JSON."""
    try:
        return schema_text(tool)
    except InvalidDefinition:
        return repr(tool)
