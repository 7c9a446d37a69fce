"""Two parts as one: the part that all organisations share, and an organisation's own part after it.

Each value holds references to its two parts and copies neither, so the shared part is in memory once for a
thousand organisations. The n rows of the shared part come first and keep their numbers; row r of the own
part becomes n + r.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from toolroll.catalog.deferred import DeferredCosts
from toolroll.model.arrays import Rows
from toolroll.model.tools import Tool

Value = TypeVar("Value")
Number = TypeVar("Number", bound=np.generic)
NumberOut = TypeVar("NumberOut", bound=np.generic, covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class StackedTools(Sequence[Tool]):
    """Tools by row."""

    shared: Sequence[Tool]
    own: Sequence[Tool]

    @overload
    def __getitem__(self, row: int) -> Tool: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[Tool, ...]: ...
    def __getitem__(self, row: int | slice) -> Tool | tuple[Tool, ...]:
        if isinstance(row, slice):
            return tuple(self[at] for at in range(*row.indices(len(self))))
        behind = len(self.shared)
        if row < 0:
            row += len(self)
            if row < 0:
                raise IndexError("row is out of range")
        return self.shared[row] if row < behind else self.own[row - behind]

    def __len__(self) -> int:
        return len(self.shared) + len(self.own)

    def __iter__(self) -> Iterator[Tool]:
        return chain(self.shared, self.own)


def layered(first: Mapping[str, Value], then: Mapping[str, Value]) -> Mapping[str, Value]:
    """Two mappings as one. If both have a key, the first one's value counts."""
    return ChainMap(cast("dict[str, Value]", first), cast("dict[str, Value]", then))


class StackedRows(Mapping[str, Rows]):
    """Toolkit → rows, ascending. If both parts have some, each read joins them.

    The result is not kept: a toolkit of the platform may be large, and organisations many.
    """

    __slots__ = ("own", "shared")

    def __init__(self, shared: Mapping[str, Rows], own: Mapping[str, Rows]) -> None:
        """own: rows over both parts, since an own toolkit may have shared members."""
        self.shared, self.own = shared, own

    def __getitem__(self, toolkit: str) -> Rows:
        own = self.own.get(toolkit)
        if own is None:
            return self.shared[toolkit]
        shared = self.shared.get(toolkit)
        if shared is None or not len(shared):
            return own
        if not len(own):
            return shared
        rows = np.concatenate((shared, own)) if shared[-1] < own[0] else np.union1d(shared, own)
        rows.flags.writeable = False
        return rows

    def __contains__(self, toolkit: object) -> bool:
        return toolkit in self.shared or toolkit in self.own

    def __iter__(self) -> Iterator[str]:
        yield from self.shared
        yield from (toolkit for toolkit in self.own if toolkit not in self.shared)

    def __len__(self) -> int:
        return len(self.shared) + len(self.own) - len(self.shared.keys() & self.own.keys())


class Column(Protocol[NumberOut]):
    """A number for each row."""

    def __getitem__(self, rows: Rows, /) -> npt.NDArray[NumberOut]:
        """The numbers of these rows."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class StackedColumn(Generic[Number]):
    """A number for each row, read by an array of rows."""

    shared: Column[Number]
    own: Column[Number]

    def __getitem__(self, rows: Rows) -> npt.NDArray[Number]:
        behind = len(self.shared)
        is_own = rows >= behind
        if not is_own.any():
            return self.shared[rows]
        own = self.own[rows[is_own] - behind]
        numbers = np.empty(len(rows), own.dtype)
        numbers[is_own] = own
        is_shared = ~is_own
        numbers[is_shared] = self.shared[rows[is_shared]]
        return numbers

    def __len__(self) -> int:
        return len(self.shared) + len(self.own)


Costs: TypeAlias = npt.NDArray[np.int32] | DeferredCosts | StackedColumn[np.int32]
