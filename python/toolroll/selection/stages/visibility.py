"""Removes the tools that the rules deny to the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolroll._core import Bitset
from toolroll.context import Context, Turn
from toolroll.selection.candidates import Candidates
from toolroll.selection.policy.policy import Policy


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """What rules hide that cannot be read.

    Attributes:
        rows: hidden from every context that these rules concern.
        problem: why they cannot be read.
    """

    rows: Bitset
    problem: str


@dataclass(frozen=True, slots=True, eq=False)
class Visibility:
    """Hard. Forbids the rows that policy denies to the context, and those that unreadable rules hide.

    Attributes:
        policy: the rules in force; None where there are none.
        closed: organisation → what its unreadable rules hide; "" for the platform's, which concern all.
    """

    policy: Policy | None
    closed: Mapping[str, Closed] = field(default_factory=dict)

    def closes(self, row: int, org: str) -> Closed | None:
        """The unreadable rules that hide this row from the organisation's contexts; None for none."""
        for closed in self._closed(org):
            if row in closed.rows:
                return closed
        return None

    def could_forbid(self, turn: Turn) -> Bitset | None:
        """The rows that some rule could hide from the organisation; None for none."""
        rows = None if self.policy is None else self.policy.could_deny(turn.context.org)
        for closed in self._closed(turn.context.org):
            rows = closed.rows if rows is None else rows | closed.rows
        return rows

    def hidden(self, context: Context) -> Bitset | None:
        """All rows that it forbids; None for none."""
        rows = None if self.policy is None else self.policy.denied(context)
        for closed in self._closed(context.org):
            rows = closed.rows if rows is None else rows | closed.rows
        return rows

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        denied = None if self.policy is None else self.policy.denied(turn.context)
        if denied is not None:
            assert self.policy is not None
            above = self.policy.above(turn.context.tier)
            if above is not None:  # apart from the rules, so that an explanation can tell them
                candidates = candidates.forbid(above, "policy.tier")
            candidates = candidates.forbid(denied, "policy.deny")
        if self.closed:
            for closed in self._closed(turn.context.org):
                candidates = candidates.forbid(closed.rows, "failed.closed")
        return candidates

    def _closed(self, org: str) -> list[Closed]:
        return [self.closed[owner] for owner in dict.fromkeys(("", org)) if owner in self.closed]
