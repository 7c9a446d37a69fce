"""The stages in Python: the hard stages, which forbid, and two that replace or follow the ranking.

A stage is a frozen dataclass whose fields are exactly the data that it reads. It sees no catalog, no clock
and no store. The soft stages run in the core (`Selector` in selector.hpp).
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
    """A stage that forbids. Its answer is kept for the only inputs: a turn's `context` and `stored`."""

    def could_forbid(self, turn: Turn) -> Bitset | None:
        """The rows that the stage could forbid; None if there are none. Called after the stage has failed."""
        ...
