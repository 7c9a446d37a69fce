"""Adds tools whatever the message says: base toolkits, pinned tools and those that the call names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import Candidates
from toolroll.model.arrays import Rows
from toolroll.model.context import Turn


@dataclass(frozen=True, slots=True, eq=False)
class AlwaysIncluded:
    """Soft. Admits core tools in front of the retrieved ones; what a hard stage removed stays out.

    Attributes:
        base: rows of base toolkits.
        pinned: rows of pinned tools, heaviest first.
        names: tool name → row.
    """

    base: Rows
    pinned: Rows
    names: Mapping[str, int]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if turn.always_include:
            rows = [self.names[name] for name in dict.fromkeys(turn.always_include) if name in self.names]
            if rows:
                candidates = candidates.admit(np.array(rows, np.int32), "always_include")
        if len(self.base):
            candidates = candidates.admit(self.base, "base")
        if len(self.pinned):
            candidates = candidates.admit(self.pinned, "pinned")
        return candidates
