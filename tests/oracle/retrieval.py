"""Finds the tools whose texts and examples are nearest to the message."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from tests.oracle.candidates import Candidates, RetrievalResult
from tests.oracle.confidence import confidence as confidence_of
from toolroll._core import Bitset, Fusion, Retriever, ToolKeys
from toolroll.catalog.calibration import AT_LARGE, Calibration
from toolroll.catalog.stacked import StackedColumn
from toolroll.model.arrays import NO_ROWS, NO_SCORES, Rows, Scores
from toolroll.model.context import Turn
from toolroll.selection.picked_candidates import terms_of
from toolroll.selection.profiles import OnNoTool

# A turn that sees so much of the catalog is measured against the best of the whole: on MetaTool it refuses
# 4.8 % of served messages where it sees 60 % of the tools, and would 6.8 % where it sees 30 %.
_WHOLE = 0.4


@dataclass(frozen=True, slots=True, eq=False)
class Retrieval:
    """Soft. Narrows to the best rows by dense and lexical evidence, added to what earlier stages found.

    The terms of a score are those of `Retriever` in fusion.hpp: the cosine of message and tool, that of the
    nearest group of the tool's examples, BM25, what the best clause adds, and the turns before. A tool
    without evidence scores 0 and stays out.

    Attributes:
        retriever: the catalog's vectors, intents and postings, and the damping below.
        damping: float32[n], a factor of all evidence for a tool; None for 1.
        fusion: weights of the terms.
        threshold: least score of a tool that is kept.
        minimum: so many are kept even below the threshold.
        candidates: how many rows are kept at the most; a later stage cuts to k, with a reason.
        core: how many more, since so many may be core tools, which are selected anyway.
        calibration: turns the best score into the confidence that some tool serves the message.
        least_confidence: below it no tool does.
        on_no_tool: then "tell" says so and keeps the nearest, "empty" keeps none.
        keys: which learned vectors belong to which row; None where outcomes have no say.
        rescored: how many rows are kept where outcomes will put them in another order.
        spare: how many more rows than are shown, for a rule that chooses among them.
    """

    retriever: Retriever
    fusion: Fusion
    threshold: float
    minimum: int
    candidates: int
    core: int = 0
    calibration: Calibration = AT_LARGE
    least_confidence: float = 0.0
    on_no_tool: OnNoTool = "tell"
    damping: Scores | StackedColumn[np.float32] | None = None
    keys: Callable[[], ToolKeys] | None = None
    rescored: int = 0
    spare: int = 0

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is None:
            return candidates  # an earlier stage has chosen rows already
        found = self.search(candidates.pool, turn, candidates.rows, candidates.scores, candidates.hits)
        rows = found.rows
        kept = len(rows)
        if self.threshold:
            enough = bisect_right(found.scores.tolist(), -self.threshold, key=operator.neg)
            kept = min(kept, max(enough, self.minimum))
            if not kept:
                found = replace(found, has_match=False)
        ranked = candidates.narrow(rows, "retrieval.nearest", found, found.scores)
        if kept < len(rows):
            ranked = ranked.narrow(slice(kept), "retrieval.threshold")
        if not found.has_match and self.on_no_tool == "empty":
            ranked = ranked.narrow(NO_ROWS, "retrieval.no_tool")
        return ranked

    def search(
        self,
        pool: Bitset,
        turn: Turn,
        known_rows: Rows = NO_ROWS,
        known_scores: Scores = NO_SCORES,
        hits: float = 0.0,
    ) -> RetrievalResult:
        """The best rows of the pool, whatever the threshold.

        known_rows, known_scores: evidence of earlier stages. hits: the part of it that speaks for some tool.
        """
        wanted = max(self.candidates, turn.places(self.candidates) or 0) + self.spare
        learned = turn.learned if self.keys is not None else None
        if learned is not None:
            wanted = max(wanted, self.rescored)
        size = pool.size
        rows, scores, terms, best, leaders = self.retriever.search(
            turn.query,
            turn.vector,
            turn.trust,
            turn.clauses,
            turn.earlier,
            pool,
            known_rows,
            known_scores,
            min(wanted + self.core, size),
            self.fusion,
            learned,
            None if learned is None or self.keys is None else self.keys(),
            turn.at,
        )
        best += hits  # what was called before is no evidence, a keyword is
        confidence = confidence_of(
            self.calibration, best, len(pool) >= _WHOLE * size, None if turn.vector is None else turn.trust
        )
        damped = None
        if self.damping is not None:
            damped = (self.damping[rows] - 1) * reduce(operator.add, terms)
        return RetrievalResult(
            rows,
            terms_of(turn, terms, damped),
            scores=scores,
            confidence=confidence,
            has_match=len(rows) > 0 and confidence >= self.least_confidence,
            leaders=leaders,
        )
