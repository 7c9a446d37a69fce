"""Puts what fits in the order that outcomes taught, and draws where they have not taught enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from toolroll._core import Bitset, ToolKeys, Weights, thompson_sample
from toolroll.arrays import NO_ROWS, Rows
from toolroll.context import Turn
from toolroll.identity import scopes
from toolroll.selection.candidates import Candidates, Draw, Evidence, is_retrieved

Rule: TypeAlias = Literal["outcomes", "thompson"]


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """Soft. Reorders what retrieval found: its score, plus what outcomes say, in nats of one scale.

    See `Learned.rank` in learned.hpp for the rule, and docs/learning.md for the model. Where nothing has been
    learnt, it hands its input on.

    Attributes:
        keys: which statistics belong to which row.
        core: rows that are selected anyway and take nobody's place.
        weights: of what was learnt, and how much of it is drawn.
        temperature: units of score that are one nat.
        k: how many tools are shown, unless the turn says; None for all.
    """

    keys: ToolKeys
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
        most = min(self.weights.protected_leaders, places // 3)  # some places are left to learn
        guarded = leaders(candidates, most)
        order, drawn, mean, spread, show, _ = learned.rank(
            self.keys,
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
        found = Evidence(rows, (("outcomes", 1.0, drawn - scores),), draw=draw)
        return candidates.rescore(drawn, "learning.draw", None, found).reorder(order, "learning.order")


@dataclass(frozen=True, slots=True, eq=False)
class Thompson:
    """Soft. Seed 4's own rule: orders what was retrieved by one draw of Beta(1 + successes, 1 + failures).

    The counts are those of a tool in one tier on one page, whatever the message. It keeps the K - 1 best
    draws and the best of the rest, which together are the K best. Over more candidates than are shown it
    forgets how well a tool fits (docs/learning.md has the figures), so its profile retrieves what it shows.

    Attributes:
        keys: which statistics belong to which row.
    """

    keys: ToolKeys

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is not None or not len(candidates.rows):
            return candidates
        arms = self.keys.arms(candidates.rows)
        if turn.learned is None:
            alpha = beta = np.ones(len(arms))
        else:
            scope = scopes(turn.context.page, turn.context.tier, "").plain
            alpha, beta = turn.learned.plain(scope, arms)
        draws = thompson_sample(arms, alpha, beta, turn.seed)
        found = Evidence(candidates.rows, (("thompson", 1.0, draws.astype(np.float32)),))
        order = np.lexsort((candidates.rows, -draws))
        return candidates.rescore(draws.astype(np.float32), "learning.thompson", None, found).reorder(
            order, "learning.order"
        )


def leaders(candidates: Candidates, most: int) -> Rows:
    """int32[n]: the rows that retrieval would have put first, had nothing been learnt."""
    found = candidates.last(is_retrieved)
    first = None if found is None or found.evidence is None else found.evidence.leaders
    return NO_ROWS if first is None else first[:most]
