"""Removes the tools that the rules deny to the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolroll._core import Bitset
from toolroll.model.context import Context, Turn
from toolroll.selection.candidates import Candidates
from toolroll.selection.policy.policy import Policy


@dataclass(frozen=True, slots=True, eq=False)
class Visibility:
    """Hard. Forbids the rows that policy denies to the context; if policy is damaged, all but public ones.

    Attributes:
        policy: the rules in force; None without rules.
        closed: organisation → why its contexts see public tools only; "" for all contexts.
        not_public: the rows of tools that are not public; None if `closed` is empty.
    """

    policy: Policy | None
    closed: Mapping[str, str] = field(default_factory=dict)
    not_public: Bitset | None = None

    def closes(self, row: int, org: str) -> str | None:
        """Why this row is closed to the organisation's contexts; None if it is open."""
        closed = self._closed(org)
        return self.closed["" if "" in self.closed else org] if closed is not None and row in closed else None

    def could_forbid(self, turn: Turn) -> Bitset | None:
        """The rows that some rule could hide from the organisation; None if none."""
        org = turn.context.org
        return _both(None if self.policy is None else self.policy.could_deny(org), self._closed(org))

    def hidden(self, context: Context) -> Bitset | None:
        """All rows that the stage forbids to this context; None if none."""
        return _both(None if self.policy is None else self.policy.denied(context), self._closed(context.org))

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        denied = None if self.policy is None else self.policy.denied(turn.context)
        if denied is not None:
            assert self.policy is not None
            above = self.policy.above(turn.context.tier)
            if above is not None:  # apart from the rules, so that an explanation can tell them
                candidates = candidates.forbid(above, "policy.tier")
            candidates = candidates.forbid(denied, "policy.deny")
        closed = self._closed(turn.context.org)
        return candidates if closed is None else candidates.forbid(closed, "failed.closed")

    def _closed(self, org: str) -> Bitset | None:
        """The rows that are closed to the organisation's contexts; None if none."""
        return self.not_public if self.closed and ("" in self.closed or org in self.closed) else None


def _both(one: Bitset | None, other: Bitset | None) -> Bitset | None:
    return other if one is None else one if other is None else one | other
