"""Adds what is wanted whatever the message says: base toolkits and pinned tools."""

from __future__ import annotations

from dataclasses import dataclass

from toolroll.arrays import Rows
from toolroll.context import Turn
from toolroll.selection.candidates import Candidates


@dataclass(frozen=True, slots=True, eq=False)
class AlwaysIncluded:
    """Soft. Admits core tools in front of what was found; those that a hard stage removed stay out.

    Attributes:
        base: rows of base toolkits.
        pinned: rows of pinned tools, heaviest first.
    """

    base: Rows
    pinned: Rows

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if len(self.base):
            candidates = candidates.admit(self.base, "base")
        if len(self.pinned):
            candidates = candidates.admit(self.pinned, "pinned")
        return candidates
