"""The steps of a selection: each takes candidates and a turn, and returns new candidates.

A stage is a frozen dataclass whose fields are exactly the data that it reads. It sees no catalog, no clock
and no store, and it decides by the types of evidence that earlier stages left, never by their reasons.

To add a stage: write its file here; give it its place in `profiles.compose`, and its parameters a field with
metadata in `Profile`; describe each new reason in `explanation.KEPT` or `REMOVED`; add its name to `STAGES`
in tests/contract/test_stages.py. Where a later stage needs what it found, give it a type of `Evidence`.
"""

from __future__ import annotations

from typing import Protocol

from toolroll._core import Bitset
from toolroll.model.context import Turn
from toolroll.selection.candidates import Candidates


class Stage(Protocol):
    """One pure step: candidates in, candidates out, with a reason for each change."""

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        """Applies the stage. Only a hard stage forbids."""
        ...


class HardStage(Stage, Protocol):
    """A stage that forbids. Of a turn it reads `context` and `stored` alone: its answer is kept for these."""

    def could_forbid(self, turn: Turn) -> Bitset | None:
        """The rows that the stage could forbid; None for none. Asked where the stage itself has failed."""
        ...
