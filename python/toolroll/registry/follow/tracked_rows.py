"""Rows of a replica, with their changes since earlier replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Generic, TypeVar

from toolroll.runtime.gil import GilYielder

Value = TypeVar("Value")

_REMEMBERED = 64  # mappings before this one
_SLICE = 4_096


class TrackedRows(dict[str, Value], Generic[Value]):
    """Id → value, and the ids that changed since earlier mappings. Immutable once it is built.

    Comparing two mappings of 100,000 rows would take longer than everything else that one change costs.
    """

    __slots__ = ("_history", "_identity")

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Copies the values in slices; other threads can run in between."""
        super().__init__()
        items, yielder = iter(values.items()), GilYielder()
        while some := tuple(islice(items, _SLICE)):
            self.update(some)
            yielder()
        self._identity = object()
        self._history: tuple[tuple[object, frozenset[str]], ...] = ()

    def succeed(self, before: Mapping[str, Value], changed: Iterable[str]) -> None:
        """Records that only the values of these ids differ from another mapping."""
        if isinstance(before, TrackedRows):
            link = (before._identity, frozenset(changed))
            self._history = (*before._history, link)[-_REMEMBERED:]

    def changed_since(self, before: Mapping[str, Value] | None) -> frozenset[str] | None:
        """The ids whose values may differ from an earlier mapping; None if unknown."""
        if before is self:
            return frozenset()
        changed: set[str] = set()
        for identity, keys in reversed(self._history):
            changed |= keys
            if isinstance(before, TrackedRows) and identity is before._identity:
                return frozenset(changed)
        return None
