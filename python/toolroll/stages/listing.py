"""Keeps the list of a conversation's tools steady, so that a provider's prompt cache keeps its prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll.candidates import Candidates
from toolroll.context import Turn
from toolroll.conversation import Retention
from toolroll.stages.cap import Cap

PICKED = "listing.picked"

_BATCH = 1 / 3  # of a list that is full goes at once: what is cached behind the first gap is lost anyway


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Soft. Brings back what was sent before, and lets in the best of what is new.

    A tool that was sent costs a tenth while the cache holds it, and a new one costs that tool. So what this
    turn selected stays where it is core, held by the conversation or sent already; of the rest, which a
    changed message has always some of, the first few come in. When the list is too long, or over
    `max_tools`, the provider's limit or the budget, what was selected longest ago goes, a third at once.

    Attributes:
        names: tool name → row.
        cap: how many, and which of them k does not count.
        retention: how long the list may grow, and by how much in a turn.
    """

    names: Mapping[str, int]
    cap: Cap
    retention: Retention

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        conversation = turn.conversation
        if conversation is None or not conversation.listed or not self.retention.growth:
            return candidates
        k = turn.places(self.cap.k)
        if conversation.is_whole or k is None or candidates.pool is not None:
            return candidates
        allowed = candidates.allowed
        sent = {
            self.names[name]: at
            for at, name in enumerate(conversation.listed)
            if name in self.names and self.names[name] in allowed
        }
        held = self.cap.ahead(turn)
        room = round(k * self.retention.newcomers)
        kept: list[int] = []
        for row in candidates.rows.tolist():
            if row in held:
                kept.append(row)
                continue
            room -= 1
            if row in sent or room >= 0:
                kept.append(row)
        candidates = candidates.narrow(np.array(kept, np.int32), PICKED)
        present = set(kept)
        back = [row for row in sent if row not in present]
        back.sort(key=lambda row: -conversation.picked[sent[row]])  # stable: of one turn, as they were sent
        back = self._within(back, kept, held, k, turn)
        return candidates.admit(np.array(back, np.int32), "listing.sent")

    def _within(
        self, back: list[int], kept: list[int], held: Mapping[int, int], k: int, turn: Turn
    ) -> list[int]:
        """As many of those that were sent, latest picked first, as there is room for."""
        counted = sum(1 for row in kept if row not in held)
        most = math.ceil(k * self.retention.growth)
        if counted + len(back) > most:
            back = back[: max(0, math.floor(most * (1 - _BATCH)) - counted)]
        limit = self.cap.limit(turn)
        if limit is not None and len(kept) + len(back) > limit:
            back = back[: max(0, math.floor(limit * (1 - _BATCH)) - len(kept))]
        if turn.budget_tokens is not None:
            costs = self.cap.costs
            left = turn.budget_tokens - int(costs[np.array(kept, np.int32)].sum())
            spent = np.cumsum(costs[np.array(back, np.int32)])
            if len(back) and spent[-1] > left:
                left -= math.floor(turn.budget_tokens * _BATCH)
                back = back[: int(np.searchsorted(spent, left, side="right"))]
        return back
