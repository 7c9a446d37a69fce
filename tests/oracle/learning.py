"""Ranks by what outcomes taught, and draws where they have not taught enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import Candidates, Draw, RerankingResult
from toolroll._core import Bitset, ToolKeys, Weights, thompson_sample
from toolroll.model.arrays import NO_ROWS
from toolroll.model.context import Turn
from toolroll.model.identity import scopes
from toolroll.selection.compose import SPARE as SPARE

# Posterior mean below which a tool loses its place: seven failures and no success. One reporter, with three
# outcomes a day, needs three days for them.
_FAILING = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """Soft. Reorders what retrieval found: its score, plus what outcomes say, in nats of one scale.

    `Learned.rank` in learned.hpp has the rule, docs/learning.md the model. Where nothing has been learnt, the
    stage returns its input.

    Attributes:
        keys: which statistics belong to which row.
        core: rows that are selected anyway and take no place of k.
        weights: of what was learnt, and of the draw.
        temperature: units of score that are one nat.
        k: how many tools are shown, unless the turn says; None for all.
    """

    keys: Callable[[], ToolKeys]
    core: Bitset
    weights: Weights
    temperature: float
    k: int | None

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        learned = turn.learned
        if learned is None or candidates.pool is not None or not len(candidates.rows):
            return candidates
        rows, scores = candidates.rows, candidates.scores
        k = turn.places(self.k)
        places = len(rows) if k is None else min(k, len(rows))
        context = turn.context
        where = scopes(context.page, context.tier, turn.category)
        core = self.core.holds(rows)
        retrieved = candidates.retrieved
        leaders = NO_ROWS if retrieved is None else retrieved.leaders
        guarded = leaders[: min(self.weights.protected_leaders, places // 3)]  # some places are left to learn
        order, drawn, mean, spread, show, _ = learned.rank(
            self.keys(),
            rows,
            scores,
            guarded,
            core,
            where[:3],
            turn.at,
            turn.seed,
            places,
            self.temperature,
            self.weights,
        )
        draw = Draw(mean, spread, show, core, guarded, places, self.weights.explore)
        found = RerankingResult(rows, (("outcomes", 1.0, drawn - scores),), scores=drawn, draw=draw)
        return candidates.rescore(drawn, "learning.draw", None, found).reorder(order, "learning.order")


@dataclass(frozen=True, slots=True, eq=False)
class Thompson:
    """Soft. Adverant Nexus's own rule: one draw of Beta(1 + successes, 1 + failures) for each tool.

    The counts are those of a tool in one tier on one page, whatever the message. All but one of the places go
    to the nearest tools that do not fail, and the last to the best draw of the rest, which explores. The
    draws order them. The seed gives the first places to the best draws of all candidates: over more
    candidates than are shown, that rule forgets how well a tool fits (docs/learning.md has the figures). So
    there are only `SPARE` more, and a tool leaves its place only for failures. Where nothing has been learnt
    in this tier on this page, the stage returns its input.

    Attributes:
        keys: which statistics belong to which row.
        core: rows that are selected anyway and take no place of k.
        k: how many tools are shown, unless the turn says; None for all.
    """

    keys: Callable[[], ToolKeys]
    core: Bitset
    k: int | None

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        learned = turn.learned
        if learned is None or candidates.pool is not None or not len(candidates.rows):
            return candidates
        rows = candidates.rows
        arms = self.keys().arms(rows)
        alpha, beta = learned.plain(scopes(turn.context.page, turn.context.tier, "").plain, arms)
        if not (alpha + beta > 2).any():
            return candidates
        draws = thompson_sample(arms, alpha, beta, turn.seed)
        scores = draws.astype(np.float32)
        found = RerankingResult(rows, (("thompson", 1.0, scores),), scores=scores)
        is_behind = np.zeros(len(rows), bool)
        k = turn.places(self.k)
        if k is not None:
            is_behind = ~self.core.holds(rows)
            nearest = np.flatnonzero(is_behind & (alpha >= _FAILING * (alpha + beta)))
            is_behind[nearest[: max(k - 1, 0)]] = False
            if k and is_behind.any():
                is_behind[np.argmax(np.where(is_behind, draws, -1.0))] = False
        order = np.lexsort((rows, -draws, is_behind))
        return candidates.rescore(scores, "learning.thompson", None, found).reorder(order, "learning.order")
