"""Removes what the rules deny to whoever asks."""

from __future__ import annotations

from dataclasses import dataclass

from toolroll.candidates import Candidates
from toolroll.context import Turn
from toolroll.policy import Policy


@dataclass(frozen=True, slots=True, eq=False)
class Visibility:
    """Hard. Forbids the rows that policy denies to the context.

    Attributes:
        policy: the rules in force; None where there are none.
        error: why the rules could not be read: raised on every turn, so that the pipeline fails closed.
    """

    policy: Policy | None
    error: Exception | None = None

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if self.error is not None:
            raise self.error.with_traceback(None)  # one error for all turns: else their frames pile up in it
        denied = None if self.policy is None else self.policy.denied(turn.context)
        return candidates if denied is None else candidates.forbid(denied, "policy.deny")
