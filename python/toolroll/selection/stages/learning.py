"""Ranks by what outcomes taught, and draws where they have not taught enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from toolroll._core import Bitset, ToolKeys, Weights, thompson_sample
from toolroll.arrays import NO_ROWS
from toolroll.context import Turn
from toolroll.identity import scopes
from toolroll.selection.candidates import Candidates, Draw, RerankingResult

LearningRule: TypeAlias = Literal["outcomes", "thompson"]


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
    """Soft. Seed 4's own rule: orders what was retrieved by one draw of Beta(1 + successes, 1 + failures).

    The counts are those of a tool in one tier on one page, whatever the message. The seed keeps the K - 1
    best draws and the best of the rest, which together are the K best. Over more candidates than are shown,
    the rule forgets how well a tool fits (docs/learning.md has the figures), so its profile retrieves only as
    many.

    Attributes:
        keys: which statistics belong to which row.
    """

    keys: Callable[[], ToolKeys]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is not None or not len(candidates.rows):
            return candidates
        arms = self.keys().arms(candidates.rows)
        if turn.learned is None:
            alpha = beta = np.ones(len(arms))
        else:
            scope = scopes(turn.context.page, turn.context.tier, "").plain
            alpha, beta = turn.learned.plain(scope, arms)
        draws = thompson_sample(arms, alpha, beta, turn.seed)
        scores = draws.astype(np.float32)
        found = RerankingResult(candidates.rows, (("thompson", 1.0, scores),), scores=scores)
        order = np.lexsort((candidates.rows, -draws))
        return candidates.rescore(scores, "learning.thompson", None, found).reorder(order, "learning.order")
