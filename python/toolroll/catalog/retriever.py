"""Damping and calibration of a catalog's indexes for given weights of retrieval.

Both follow from the weights, so they are measured for each set of weights, with hundreds of searches for the
catalog's own texts. That takes longer than building the indexes; so the part that many organisations share is
measured once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bm25Index, Fusion, Retriever, VectorIndex
from toolroll.arrays import Scores
from toolroll.catalog.calibration import AT_LARGE, Calibration, CalibrationSet, HeldOut
from toolroll.catalog.damping import Probes, damping
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.stacked import StackedColumn
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import FIELD_WEIGHTS, ToolText, columns
from toolroll.embedder import Embedder


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
        """Measures both. damped: whether hubs are damped."""
        factors = None
        if damped and probes.texts:
            factors = damping(probes, *probes.search(indexes.retriever(), fusion))
            if (factors == 1).all():
                factors = None
        calibration = AT_LARGE if calibration_set is None else calibration_set.calibrate(fusion)
        return cls(indexes.retriever(factors), factors, calibration)

    @classmethod
    def stacked(cls, shared: CalibratedRetriever, own: CalibratedRetriever) -> CalibratedRetriever:
        """Both as one. The calibration is that of the shared part, if it has one."""
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
    """Takes the memory of one."""
    ones: Scores = np.broadcast_to(np.float32(1), size)
    return ones


def calibration_set_of(
    texts: Sequence[ToolText], vectors: ToolVectors | None, embedder: Embedder | None
) -> CalibrationSet | None:
    """Held-out messages over indexes that are built without them; None where there are too few."""
    held_out = HeldOut.of(texts)
    if held_out is None:
        return None
    rest = held_out.texts(texts)
    index = intents = None
    if vectors is not None:
        known = held_out.vectors(vectors)
        index, intents = VectorIndex.build(known.vectors()), known.intents()
    indexes = Indexes(len(rest), index, Bm25Index.build(columns(rest), FIELD_WEIGHTS), intents)
    return held_out.calibration_set(texts, indexes, vectors, embedder)
