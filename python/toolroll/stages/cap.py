"""Cuts to what the caller, the provider and the token budget allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from toolroll.candidates import Candidates
from toolroll.context import Turn
from toolroll.conversation import Retention
from toolroll.stacking import Costs
from toolroll.stages.additions import loaded_rows, sticky_rows

_RETENTION = Retention()


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """Soft. Keeps core tools first, then the best by score, then the others by name.

    k bounds what retrieval adds, so it does not touch core tools nor what was put beside them without a
    score, and where nothing was retrieved (the stage failed, or the profile has none) it does not apply.
    `max_tools` and the budget bound everything, from the end; a tool that does not fit the budget is passed
    over and cheaper ones behind it still have their chance.

    Attributes:
        core: rows that k does not count, base toolkits and pinned tools → their place in front: the same on
            every turn, so that a provider's prompt cache keeps its prefix.
        costs: int32[n], tokens of each tool's schema.
        k: how many retrieved tools, unless the turn says.
        max_tools: how many tools at the most, unless the turn says; None for no limit.
        names: tool name → row.
        retention: how long a conversation keeps its tools, which k does not count either.
        unranked: how many tools at the most where nothing could be ranked; None where nothing was to be.
        provider_limits: provider → how many tools its API takes.
    """

    core: Mapping[int, int]
    costs: Costs
    k: int | None
    max_tools: int | None
    unranked: int | None
    provider_limits: Mapping[str, int]
    names: Mapping[str, int] = field(default_factory=dict)
    retention: Retention = _RETENTION

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        ahead = self.ahead(turn)
        unranked = None
        if candidates.pool is not None:
            candidates = self._in_tiers(candidates, ahead)
            unranked = self.unranked
        else:
            is_whole = turn.conversation is not None and turn.conversation.is_whole
            candidates = self._at_most_k(candidates, None if is_whole else turn.places(self.k), ahead)
        limit = self.limit(turn, unranked)
        if limit is not None and len(candidates.rows) > limit:
            candidates = candidates.narrow(slice(0, limit), "cap.max_tools")
        if turn.budget_tokens is not None:
            candidates = self._within(candidates, turn.budget_tokens)
        return candidates

    def limit(self, turn: Turn, unranked: int | None = None) -> int | None:
        """How many tools at the most; None for any number."""
        limits = (turn.max_tools, self.max_tools, self.provider_limits.get(turn.context.provider), unranked)
        return min((limit for limit in limits if limit is not None), default=None)

    def ahead(self, turn: Turn) -> Mapping[int, int]:
        """Rows that k does not count → their places in front: core, loaded, called in the last turns."""
        conversation = turn.conversation
        if conversation is None or not (conversation.loaded or conversation.called):
            return self.core
        places = dict(self.core)
        for rows in (
            loaded_rows(conversation, self.names),
            sticky_rows(conversation, self.names, self.retention),
        ):
            for row in rows.tolist():
                places.setdefault(row, len(places))
        return places

    def _in_tiers(self, candidates: Candidates, ahead: Mapping[int, int]) -> Candidates:
        """Makes columns of a pool: core, by score, by name (rows ascend with names)."""
        assert candidates.pool is not None
        rows = candidates.pool.rows()
        scores = np.zeros(candidates.pool.size, np.float32)
        scores[candidates.rows] = candidates.scores
        place = np.full(candidates.pool.size, len(ahead))
        place[list(ahead)] = list(ahead.values())
        order = np.lexsort((rows, -scores[rows], place[rows]))
        return candidates.narrow(rows[order], "cap.whole" if self.unranked is None else "cap.unranked")

    def _at_most_k(self, candidates: Candidates, k: int | None, ahead: Mapping[int, int]) -> Candidates:
        """What k does not count in its places, then the k best of what was retrieved, in order already.

        What has no score was not retrieved: it stays, where it is.
        """
        core: list[int] = []  # positions of such rows in the columns
        if ahead:
            rows = candidates.rows.tolist()
            core = [at for at, row in enumerate(rows) if row in ahead]
            core.sort(key=lambda at: ahead[rows[at]])
            if core != list(range(len(core))):
                behind = [at for at, row in enumerate(rows) if row not in ahead]
                candidates = candidates.reorder(np.array([*core, *behind]), "cap.core_first")
        if k is None or len(core) + k >= len(candidates.rows):
            return candidates
        retrieved = candidates.scores[len(core) :] != 0
        if retrieved.all():
            return candidates.narrow(slice(0, len(core) + k), "cap.k")
        stays = ~retrieved | (np.cumsum(retrieved) <= k)
        if stays.all():
            return candidates
        kept = np.concatenate((candidates.rows[: len(core)], candidates.rows[len(core) :][stays]))
        return candidates.narrow(kept, "cap.k")

    def _within(self, candidates: Candidates, budget: int) -> Candidates:
        kept = []
        for row, cost in zip(candidates.rows.tolist(), self.costs[candidates.rows].tolist(), strict=True):
            if cost <= budget:
                budget -= cost
                kept.append(row)
        if len(kept) == len(candidates.rows):
            return candidates
        return candidates.narrow(np.array(kept, np.int32), "cap.budget")
