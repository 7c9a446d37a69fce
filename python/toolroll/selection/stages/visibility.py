"""Removes the tools that the rules deny to the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolroll.context import Turn
from toolroll.selection.candidates import Candidates
from toolroll.selection.policy.policy import Policy


@dataclass(frozen=True, slots=True, eq=False)
class Visibility:
    """Hard. Forbids the rows that policy denies to the context.

    Attributes:
        policy: the rules in force; None where there are none.
        closed: organisation → why its rules could not be read; "" for the platform's, which concern all. The
            stage raises it on every such turn, so the pipeline fails closed.
    """

    policy: Policy | None
    closed: Mapping[str, Exception] = field(default_factory=dict)

    def closes(self, org: str) -> Exception | None:
        """Why this organisation sees only public tools; None where it sees all that the rules show."""
        return self.closed.get("") or self.closed.get(org)

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if self.closed and (error := self.closes(turn.context.org)) is not None:
            raise error.with_traceback(None)  # one error for all turns: else their frames pile up in it
        denied = None if self.policy is None else self.policy.denied(turn.context)
        return candidates if denied is None else candidates.forbid(denied, "policy.deny")
