"""Indexes, and what it takes to search them with certain weights: measured once for a catalog.

How far greedy tools are damped and what a score means follow from the weights of retrieval, so they are
measured for those, by asking the catalog hundreds of its own texts. That takes longer than building it; so
what many organisations share is measured once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolroll._core import Bm25Index, Intents, Retriever, StackedRetriever, VectorIndex
from toolroll.calibration import AT_LARGE, Calibration
from toolroll.candidates import Scores
from toolroll.stacking import StackedColumn


@dataclass(frozen=True, slots=True, eq=False)
class Indexes:
    """What retrieval searches: vectors and intents, which need an embedder, and postings."""

    size: int
    vectors: VectorIndex | None
    postings: Bm25Index
    intents: Intents | None

    def retriever(self, damping: Scores | None = None) -> Retriever:
        """All of them as one. damping: float32[size], a factor for each tool's evidence."""
        return Retriever(self.size, self.vectors, self.postings, self.intents, damping)


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """Retrieval with one set of weights.

    Attributes:
        retriever: the indexes, with the damping.
        damping: float32[n], what all evidence for a tool is multiplied by; None for 1.
        calibration: what a score says of whether any tool applies.
    """

    retriever: Retriever | StackedRetriever
    damping: Scores | StackedColumn[np.float32] | None
    calibration: Calibration

    @classmethod
    def stacked(cls, shared: Tuned, own: Tuned) -> Tuned:
        """Both as one. Scores mean what they mean in the shared part where that could be measured."""
        assert isinstance(shared.retriever, Retriever)
        assert isinstance(own.retriever, Retriever)
        damping = None
        if shared.damping is not None or own.damping is not None:
            damping = StackedColumn(
                *(
                    part.damping if isinstance(part.damping, np.ndarray) else _ones(part.retriever.size)
                    for part in (shared, own)
                )
            )
        return cls(
            StackedRetriever(shared.retriever, own.retriever),
            damping,
            own.calibration if shared.calibration is AT_LARGE else shared.calibration,
        )


def _ones(size: int) -> Scores:
    """Takes the memory of one."""
    ones: Scores = np.broadcast_to(np.float32(1), size)
    return ones
