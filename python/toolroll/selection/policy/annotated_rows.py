"""The rows of a catalog whose annotations satisfy the conditions of rules.

A rule may read annotations of its tools. They do not depend on the context, so a policy reads them once, when
it is compiled. A rule then becomes one part for each kind of tool, and a selection reads no annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.stacked import StackedTools
from toolroll.model.tools import Tool
from toolroll.runtime.gil import GilYielder
from toolroll.selection.policy.conditions import Annotated

Truths: TypeAlias = Mapping[Annotated, "bool | None"]


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedRows:
    """The rows of a catalog by their annotations. Safe to use from many threads; the cache needs no lock.

    Attributes:
        tools: by row; empty if no rule reads annotations.
        shared: the rows of the shared catalog, computed once for all catalogs over it.
    """

    size: int
    tools: Sequence[Tool]
    shared: AnnotatedRows | None
    _rows: dict[Annotated, tuple[Bitset, Bitset]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, size: int, tools: Sequence[Tool], below: AnnotatedRows | None = None) -> AnnotatedRows:
        """below: of a catalog that may be the shared one; used if it is."""
        is_below = below is not None and isinstance(tools, StackedTools) and tools.shared is below.tools
        return cls(size, tools, below if is_below else None)

    def truths(self, row: int, asked: Iterable[Annotated]) -> dict[Annotated, bool | None]:
        """Comparison → whether it is true of this tool; None for unknown."""
        hints = self.tools[row].hints if row < len(self.tools) else {}
        return {one: one.holds(hints) for one in asked}

    def kinds(self, asked: Iterable[Annotated]) -> list[tuple[Truths, Bitset]]:
        """Disjoint sets of rows, each with the truth of the comparisons for its tools."""
        kinds: list[tuple[dict[Annotated, bool | None], Bitset]] = [({}, Bitset.full(self.size))]
        for one in asked:
            true, false = self._rows_of(one)
            kinds = [
                ({**truths, one: truth}, part)
                for truths, rows in kinds
                for truth, part in ((True, rows & true), (False, rows & false), (None, rows - (true | false)))
                if part
            ]
        return list(kinds)

    def _rows_of(self, asked: Annotated) -> tuple[Bitset, Bitset]:
        """The rows for which a comparison is true, and the rows for which it is false."""
        found = self._rows.get(asked)
        if found is not None:
            return found
        behind = 0 if self.shared is None else self.shared.size
        rows: dict[bool, list[int]] = {True: [], False: []}
        yielder = GilYielder()
        for row, tool in enumerate(self.tools[behind:]):
            if tool.annotations and (truth := asked.holds(tool.hints)) is not None:
                rows[truth].append(row)
            yielder()
        true, false = (
            Bitset.of(self.size - behind, np.array(rows[truth], np.int32)) for truth in (True, False)
        )
        if self.shared is not None:
            shared = self.shared._rows_of(asked)
            true, false = Bitset.join(shared[0], true), Bitset.join(shared[1], false)
        self._rows[asked] = true, false
        return true, false
