"""Damping and calibration of a catalog's indexes for given weights of retrieval.

Both depend on the weights, so they are measured for each set of weights, with hundreds of searches for the
catalog's own texts. That takes longer than building the indexes, so the part that many organisations share is
measured once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Fusion, Retriever
from toolroll.catalog.calibration import AT_LARGE, Calibration, CalibrationSet, ExampleDigests
from toolroll.catalog.damping import Probes, damping
from toolroll.catalog.everyday import everyday_damping
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.stacked import StackedColumn
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import ToolText
from toolroll.model.arrays import Scores
from toolroll.model.embedder import Embedder


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedRetriever:
    """Retrieval with one set of weights.

    Attributes:
        retriever: the indexes, with the damping.
        damping: float32[n], a factor of all evidence for a tool; None for 1.
        calibration: turns a score into the confidence that some tool serves the message.
    """

    retriever: Retriever
    damping: Scores | StackedColumn[np.float32] | None
    calibration: Calibration

    @classmethod
    def of(
        cls,
        indexes: Indexes,
        probes: Probes,
        calibration_set: CalibrationSet | None,
        fusion: Fusion,
        damped: bool,
    ) -> CalibratedRetriever:
        """Measures damping and calibration. damped: whether hubs are damped."""
        factors = None
        if damped and probes.texts:
            undamped = indexes.retriever()
            factors = damping(probes, *probes.search(undamped, fusion))
            if probes.everyday is not None:
                everyday = everyday_damping(probes.everyday, probes.is_english, undamped, fusion)
                factors = np.minimum(factors, everyday)
            if (factors == 1).all():
                factors = None
        calibration = AT_LARGE if calibration_set is None else calibration_set.calibrate(fusion)
        return cls(indexes.retriever(factors), factors, calibration)

    def measures_as(self, other: CalibratedRetriever) -> bool:
        """Whether another retriever has the same damping and calibration. Not for stacked retrievers."""
        damping, others = self.damping, other.damping
        if isinstance(damping, np.ndarray) and isinstance(others, np.ndarray):
            if not np.array_equal(damping, others):
                return False
        elif damping is not others:
            return False
        one, two = self.calibration, other.calibration
        return np.array_equal(one.best, two.best) and np.array_equal(one.own, two.own)

    @classmethod
    def stacked(cls, shared: CalibratedRetriever, own: CalibratedRetriever) -> CalibratedRetriever:
        """Both as one. The shared part's calibration counts if there is one; otherwise the own part's."""
        damping = None
        if shared.damping is not None or own.damping is not None:
            damping = StackedColumn(
                *(
                    part.damping if isinstance(part.damping, np.ndarray) else _ones(part.retriever.size)
                    for part in (shared, own)
                )
            )
        return cls(
            Retriever.stacked(shared.retriever, own.retriever),
            damping,
            own.calibration if shared.calibration is AT_LARGE else shared.calibration,
        )


def _ones(size: int) -> Scores:
    """Ones in the memory of a single number."""
    ones: Scores = np.broadcast_to(np.float32(1), size)
    return ones


def calibration_set_of(
    digests: ExampleDigests, texts: Sequence[ToolText], vectors: ToolVectors | None, embedder: Embedder | None
) -> CalibrationSet | None:
    """Held-out messages over indexes that are built without them; None if there are too few."""
    held_out = digests.held_out()
    if held_out is None:
        return None
    indexes = Indexes.of(held_out.texts(texts), None if vectors is None else held_out.vectors(vectors))
    return held_out.calibration_set(texts, indexes, vectors, embedder)
