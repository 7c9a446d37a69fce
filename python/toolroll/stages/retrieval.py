"""Finds the tools whose text and examples are nearest to the message."""

from __future__ import annotations

from dataclasses import dataclass

from toolroll._core import Retriever
from toolroll.candidates import Candidates, Evidence
from toolroll.context import Turn


@dataclass(frozen=True, slots=True, eq=False)
class Retrieval:
    """Soft. Narrows to the best rows by dense plus lexical evidence, on top of what earlier stages found.

    A tool's score is `dense` times the cosine of message and tool, plus `lexical` times BM25, plus the
    score so far. A cosine over a temperature and BM25 are both close to linear in log-odds, so they add on
    one scale, the same on every catalog. A tool without evidence scores 0 and stays out.

    Attributes:
        retriever: the catalog's vectors and postings.
        dense, lexical: weights of the two terms.
        threshold: least score of a tool that is kept.
        candidates: how many rows are kept at the most; what exceeds k is cut later, with a reason.
        core: how many more, since so many may be core tools, which are selected anyway.
    """

    retriever: Retriever
    dense: float
    lexical: float
    threshold: float
    candidates: int
    core: int = 0

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is None:
            return candidates  # an earlier stage has chosen rows already
        wanted = self.candidates if turn.k is None else max(self.candidates, turn.k)
        n = min(wanted + self.core, candidates.allowed.size)
        rows, scores, dense, lexical = self.retriever.search(
            turn.query,
            turn.vector,
            candidates.pool,
            candidates.rows,
            candidates.scores,
            n,
            self.dense,
            self.lexical,
            self.threshold,
        )
        found = Evidence(rows, (("dense", self.dense, dense), ("lexical", self.lexical, lexical)))
        return candidates.narrow(rows, "retrieval.nearest").rescore(scores, "retrieval.score", None, found)
