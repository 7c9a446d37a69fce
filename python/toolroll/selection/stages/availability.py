"""Removes toolkits without their settings, and tools that the caller excludes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.switches import Switches
from toolroll.model.context import Turn
from toolroll.selection.candidates import Candidates


@dataclass(frozen=True, slots=True, eq=False)
class Availability:
    """Hard. Forbids toolkits that lack their settings, and tools that the caller excludes by name.

    Attributes:
        switches: toolkits that need settings.
        names: tool name → row.
    """

    switches: Switches
    names: Mapping[str, int]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        context = turn.context
        if not context.everything:
            off = self.switches.off(turn)
            if off is not None:
                candidates = candidates.forbid(off, "settings.missing")
        if context.exclude:
            candidates = candidates.forbid(self._rows(context.exclude), "caller.excluded")
        if context.only:
            outside = candidates.allowed - self._rows(context.only)
            candidates = candidates.forbid(outside, "caller.outside")
        return candidates

    def could_forbid(self, turn: Turn) -> Bitset | None:
        """The rows of toolkits that need settings, and the rows that the caller excludes; or None."""
        context = turn.context
        if context.only:
            outside = Bitset.full(self.switches.size) - self._rows(context.only)
        else:
            outside = Bitset.empty(self.switches.size)
        return self.switches.all_needing() | self._rows(context.exclude) | outside

    def _rows(self, names: tuple[str, ...]) -> Bitset:
        """The rows of these names. A name that the catalog lacks is ignored."""
        rows = [self.names[name] for name in names if name in self.names]
        return Bitset.of(self.switches.size, np.array(rows, np.int32))
