"""The steps of a selection: each takes candidates and a turn and returns new candidates.

A stage is a frozen dataclass whose fields are exactly the data it reads; it sees no catalog, no clock and
no store. Which stages run, and in which order, is said in `profiles.compose` and nowhere else.
"""

from __future__ import annotations

from typing import Protocol

from toolroll.context import Turn
from toolroll.selection.candidates import Candidates


class Stage(Protocol):
    """One pure step: candidates in, candidates out, with a reason for whatever changed."""

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        """Applies the stage. A soft stage never forbids."""
        ...
