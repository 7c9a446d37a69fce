"""Finds the tools whose texts and examples are nearest to the message."""

from __future__ import annotations

import operator
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from toolroll._core import Fusion, Retriever, ToolKeys
from toolroll.arrays import NO_ROWS, Scores
from toolroll.catalog.calibration import AT_LARGE, Calibration
from toolroll.catalog.stacked import StackedColumn
from toolroll.context import Turn
from toolroll.selection.candidates import Candidates, Evidence
from toolroll.selection.stages.affinity import AFFINITY

OnNoTool: TypeAlias = Literal["tell", "empty"]

_TERMS = ("dense", "examples", "lexical", "clause", "earlier turns")
# A turn that sees so much of the catalog is measured against the best of the whole: on MetaTool it refuses
# 4.8 % of served messages where it sees 60 % of the tools, and would 6.8 % where it sees 30 %.
_WHOLE = 0.4


@dataclass(frozen=True, slots=True, eq=False)
class Retrieval:
    """Soft. Narrows to the best rows by dense plus lexical evidence, on top of what earlier stages found.

    The terms of a tool's score are those of `Retriever` in fusion.hpp: the cosine of message and tool, how
    near the nearest group of the tool's examples is, BM25, what a clause of the message adds to the message
    as a whole, and what was said before. A tool without evidence scores 0 and stays out.

    Attributes:
        retriever: the catalog's vectors, intents and postings, and the damping below.
        damping: float32[n], what all evidence for a tool is multiplied by; None for 1.
        fusion: weights of the terms.
        threshold: least score of a tool that is kept.
        minimum: so many are kept even below the threshold.
        candidates: how many rows are kept at the most; what exceeds k is cut later, with a reason.
        core: how many more, since so many may be core tools, which are selected anyway.
        calibration: what the best score says of whether any tool applies.
        least_confidence: below it the answer is that none does.
        on_no_tool: what follows from that: "tell" says so and keeps the nearest, "empty" keeps none.
        keys: which learned vectors belong to which row; None where outcomes have no say.
        rescored: how many rows are kept where outcomes will put them in another order.
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
    keys: ToolKeys | None = None
    rescored: int = 0

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is None:
            return candidates  # an earlier stage has chosen rows already
        wanted = max(self.candidates, turn.places(self.candidates) or 0)
        learned = turn.learned if self.keys is not None else None
        if learned is not None:
            wanted = max(wanted, self.rescored)
        size = candidates.allowed.size
        rows, scores, terms, best, leaders = self.retriever.search(
            turn.query,
            turn.vector,
            turn.trust,
            turn.clauses,
            turn.earlier,
            candidates.pool,
            candidates.rows,
            candidates.scores,
            min(wanted + self.core, size),
            self.fusion,
            learned,
            None if learned is None else self.keys,
            turn.at,
        )
        kept = rows
        if self.threshold:
            enough = max(bisect_right(scores.tolist(), -self.threshold, key=operator.neg), self.minimum)
            kept = rows[:enough]
        said = candidates if candidates.reason != AFFINITY or candidates.before is None else candidates.before
        if len(said.rows):  # a keyword is evidence that some tool applies, too; what was called before is not
            best += float(said.scores.max())
        confidence = self.calibration.confidence(
            best, len(candidates.pool) >= _WHOLE * size, None if turn.vector is None else turn.trust
        )
        is_dense = turn.vector is not None and turn.trust > 0
        asked = (is_dense, is_dense, True, turn.clauses, turn.earlier)
        columns = [
            (name, 1.0, column)
            for name, column, is_asked in zip(_TERMS, terms, asked, strict=True)
            if is_asked
        ]
        if self.damping is not None:
            damped = (self.damping[rows] - 1) * np.sum(terms, axis=0, dtype=np.float32)
            columns.append(("damped", 1.0, damped))
        found = Evidence(
            rows,
            tuple(columns),
            confidence=confidence,
            has_match=confidence >= self.least_confidence,
            leaders=leaders,
        )
        ranked = candidates.narrow(rows, "retrieval.nearest").rescore(scores, "retrieval.score", None, found)
        if len(kept) < len(rows):
            ranked = ranked.narrow(slice(len(kept)), "retrieval.threshold")
        if not found.has_match and self.on_no_tool == "empty":
            ranked = ranked.narrow(NO_ROWS, "retrieval.no_tool")
        return ranked
