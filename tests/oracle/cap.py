"""Cuts the list to the limits of the caller, the provider and the token budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import Candidates
from toolroll.catalog.stacked import Costs
from toolroll.model.context import Turn


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """Soft. Keeps core tools first, then the best by score, then the others by name.

    k bounds what retrieval adds. It counts neither core tools nor tools without a score, and where nothing
    was retrieved (the stage failed, or the profile has none) it does not apply. Where nothing matched, it
    counts the tools that stand in (`Fallback`), which have no score. `max_tools` and the budget
    bound everything, from the end. A tool over the budget is skipped; a cheaper one behind it may still fit.

    Attributes:
        core: rows of base toolkits and pinned tools → their place in front. It is the same on every turn, so
            a provider's prompt cache keeps its prefix.
        names: tool name → row, for the tools that a call always includes: they come behind the core.
        costs: int32[n], tokens of each tool's schema.
        k: how many retrieved tools, unless the turn says.
        max_tools: how many tools at the most, unless the turn says; None for no limit.
        provider_limits: provider → how many tools its API takes.
    """

    core: Mapping[int, int]
    names: Mapping[str, int]
    costs: Costs
    k: int | None
    max_tools: int | None
    provider_limits: Mapping[str, int | None]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is not None:
            candidates = self._in_tiers(candidates, self.core_of(turn))
        else:
            candidates = self.found(candidates, turn)
        limit = self.limit(turn)
        if limit is not None and len(candidates.rows) > limit:
            candidates = candidates.narrow(slice(0, limit), "cap.max_tools")
        if turn.budget_tokens is not None:
            candidates = self._within(candidates, turn.budget_tokens)
        return candidates

    def core_of(self, turn: Turn) -> Mapping[int, int]:
        """Rows that k does not count → their place in front."""
        if not turn.always_include:
            return self.core
        core = dict(self.core)
        for name in turn.always_include:
            if name in self.names:
                core.setdefault(self.names[name], len(core))
        return core

    def found(self, candidates: Candidates, turn: Turn) -> Candidates:
        """Columns cut to the k best, and to tools that k does not count."""
        return self._at_most_k(candidates, self.core_of(turn), turn.places(self.k))

    def limit(self, turn: Turn) -> int | None:
        """How many tools at the most; None for any number."""
        limits = (turn.max_tools, self.max_tools, self.provider_limits[turn.context.provider])
        return min((limit for limit in limits if limit is not None), default=None)

    def _in_tiers(self, candidates: Candidates, core: Mapping[int, int]) -> Candidates:
        """Makes columns of a pool: core, by score, by name (rows ascend with names)."""
        assert candidates.pool is not None
        rows = candidates.pool.rows()
        scores = np.zeros(candidates.pool.size, np.float32)
        scores[candidates.rows] = candidates.scores
        place = np.full(candidates.pool.size, len(core))
        place[list(core)] = list(core.values())
        order = np.lexsort((rows, -scores[rows], place[rows]))
        return candidates.narrow(rows[order], "cap.whole")

    def _at_most_k(self, candidates: Candidates, core_places: Mapping[int, int], k: int | None) -> Candidates:
        """Core in its places, then the k best that were retrieved. Tools without a score keep their place."""
        core: list[int] = []  # positions of core rows in the columns
        if core_places:
            rows = candidates.rows.tolist()
            core = [at for at, row in enumerate(rows) if row in core_places]
            core.sort(key=lambda at: core_places[rows[at]])
            if core != list(range(len(core))):
                behind = [at for at, row in enumerate(rows) if row not in core_places]
                candidates = candidates.reorder(np.array([*core, *behind]), "cap.core_first")
        if k is None or len(core) + k >= len(candidates.rows):
            return candidates
        scores = candidates.scores[len(core) :]
        found = np.count_nonzero(scores)
        if found == len(scores) or candidates.fallback is not None:
            return candidates.narrow(slice(0, len(core) + k), "cap.k")
        if found <= k:
            return candidates
        stays = (scores == 0) | (np.cumsum(scores != 0) <= k)
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
