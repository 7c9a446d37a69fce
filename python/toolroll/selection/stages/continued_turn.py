"""Keeps what a turn has shown while the model works on it, and adds what it has loaded since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll.model.context import Turn
from toolroll.model.conversation import Retention
from toolroll.selection.candidates import Candidates
from toolroll.selection.stages.cap import Cap


@dataclass(frozen=True, slots=True, eq=False)
class ContinuedTurn:
    """Soft. A further step of the same turn: the tools that it has shown stay, in their order.

    A model may call any of them at any time, and several at once, so none may disappear before the turn is
    over. Tools that were loaded since come behind, as far as `max_tools`, the provider's limit and the budget
    leave room. Nothing is retrieved again.

    Attributes:
        names: tool name → row.
        cap: the limits.
        retention: how long called tools stay.
    """

    names: Mapping[str, int]
    cap: Cap
    retention: Retention

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        shown = self._rows(turn.shown or (), candidates)
        conversation, added = turn.conversation, list[int]()
        if conversation is not None and not turn.context.required:
            added = self._rows(conversation.held(self.retention), candidates)
            if conversation.is_whole:
                added += candidates.allowed.rows().tolist()
        there = set(shown)
        new = [row for row in dict.fromkeys(added) if row not in there]
        limit = self.cap.limit(turn)
        if limit is not None:
            new = new[: max(0, limit - len(shown))]
        if new and turn.budget_tokens is not None:
            new = self._affordable(new, turn.budget_tokens - self._cost(shown))
        rows = [*shown, *new]
        if candidates.pool is not None:
            return candidates.narrow(np.array(rows, np.int32), "shown")
        return candidates.arrange(rows, "shown")

    def _rows(self, names: tuple[str, ...], candidates: Candidates) -> list[int]:
        rows = np.array([row for name in names if (row := self.names.get(name)) is not None], np.int32)
        allowed: list[int] = rows[candidates.allowed.holds(rows)].tolist()
        return allowed

    def _affordable(self, rows: list[int], left: int) -> list[int]:
        """The rows that fit into so many tokens, one after the other."""
        chosen = []
        for row, cost in zip(rows, self.cap.costs[np.array(rows, np.int32)].tolist(), strict=True):
            if cost <= left:
                left -= cost
                chosen.append(row)
        return chosen

    def _cost(self, rows: list[int]) -> int:
        return int(self.cap.costs[np.array(rows, np.int32)].sum()) if rows else 0
