"""Keeps the tools that a turn has shown while the model works on it, and adds tools loaded since."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolroll.model.context import Turn
from toolroll.model.conversation import Retention
from toolroll.selection.candidates import Candidates
from toolroll.selection.limits import Limits


@dataclass(frozen=True, slots=True, eq=False)
class ContinuedTurn:
    """Soft. In a further step of the same turn, keeps the tools that it has shown, in order.

    A model may call any of them at any time, and several at once, so none may disappear before the turn is
    over. Tools that were loaded since come after them, within `max_tools`, the provider's limit and the
    budget. Nothing is retrieved again.

    Attributes:
        limits: of tools and tokens.
        retention: how long called tools stay.
    """

    limits: Limits
    retention: Retention

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        limits, shown = self.limits, self._rows(turn.shown or (), candidates)
        conversation, added = turn.conversation, list[int]()
        if conversation is not None and not turn.context.required:
            added = self._rows(conversation.held(self.retention), candidates)
            if conversation.is_whole:
                added += candidates.allowed.rows().tolist()
        there = set(shown)
        new = [row for row in dict.fromkeys(added) if row not in there]
        if (most := limits.most(turn)) is not None:
            new = new[: max(0, most - len(shown))]
        if new and turn.budget_tokens is not None:
            new = limits.affordable(new, turn.budget_tokens - limits.cost(shown))
        rows = [*shown, *new]
        if candidates.pool is not None:
            return candidates.narrow(np.array(rows, np.int32), "shown")
        return candidates.arrange(rows, "shown")

    def _rows(self, names: tuple[str, ...], candidates: Candidates) -> list[int]:
        """The allowed rows of these names."""
        known = self.limits.names
        rows = np.array([known[name] for name in names if name in known], np.int32)
        allowed: list[int] = rows[candidates.allowed.holds(rows)].tolist()
        return allowed
