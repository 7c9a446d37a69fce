"""Indexes, and what it takes to search them with certain weights: measured once for a catalog.

How far greedy tools are damped and what a score means follow from the weights of retrieval, so they are
measured for those, by asking the catalog hundreds of its own texts. That takes longer than building it; so
what many organisations share is measured once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bm25Index, Fusion, Intents, Retriever, VectorIndex
from toolroll.arrays import Scores
from toolroll.catalog.calibration import AT_LARGE, Calibration, HeldOut, Trial
from toolroll.catalog.damping import Probed, Probes, damping
from toolroll.catalog.stacked import StackedColumn
from toolroll.catalog.tool2vec import Embedded
from toolroll.catalog.tool_text import FIELD_WEIGHTS, columns, example_texts
from toolroll.embedder import Embedder, vectors_of
from toolroll.tools import Tool


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
class CalibratedRetriever:
    """Retrieval with one set of weights.

    Attributes:
        retriever: the indexes, with the damping.
        damping: float32[n], what all evidence for a tool is multiplied by; None for 1.
        calibration: what a score says of whether any tool applies.
    """

    retriever: Retriever
    damping: Scores | StackedColumn[np.float32] | None
    calibration: Calibration

    @classmethod
    def of(
        cls,
        indexes: Indexes,
        tools: Sequence[Tool],
        probes: Probes,
        probed: Probed | None,
        is_english: bool,
        trial: Trial | None,
        fusion: Fusion,
        damped: bool,
    ) -> CalibratedRetriever:
        """Measures what the weights come to. damped: whether greedy tools are looked for."""
        factors = None
        if damped:
            found = probes.asked(probed, is_english, indexes.retriever(), fusion)
            factors = damping(tools, probes, *found)
            if (factors == 1).all():
                factors = None
        calibration = AT_LARGE if trial is None else trial.calibrate(fusion)
        return cls(indexes.retriever(factors), factors, calibration)

    @classmethod
    def stacked(cls, shared: CalibratedRetriever, own: CalibratedRetriever) -> CalibratedRetriever:
        """Both as one. Scores mean what they mean in the shared part where that could be measured."""
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


def trial_of(tools: Sequence[Tool], embedded: Embedded | None, embedder: Embedder | None) -> Trial | None:
    """A catalog of its own for messages that are held out of it."""
    held_out = HeldOut.of(tools)
    if held_out is None:
        return None
    vectors = intents = None
    if embedded is not None:
        rest = held_out.rest(embedded)
        vectors, intents = VectorIndex.build(rest.vectors()), rest.intents()
    world = held_out.world(tools)
    retriever = Retriever(len(world), vectors, Bm25Index.build(columns(world), FIELD_WEIGHTS), intents)
    return held_out.trial(tools, retriever, embedded, embedder)


def vectors_of_probes(
    probes: Probes, tools: Sequence[Tool], embedded: Embedded, embedder: Embedder
) -> Scores:
    """float32[m, dim], of the probes: nearly all were embedded with the tools whose texts they are."""
    vectors = np.empty((len(probes.texts), embedder.dim), np.float32)
    left = []
    texts: dict[int, list[str]] = {}
    for at, (text, (row, *_)) in enumerate(zip(probes.texts, probes.owners, strict=True)):
        if row not in texts:
            texts[row] = example_texts(tools[row])
        if text in texts[row]:
            vectors[at] = embedded.examples[embedded.begins[row] + texts[row].index(text)]
        elif not tools[row].examples:  # so it is the tool's description
            vectors[at] = embedded.texts[row]
        else:
            left.append(at)
    if left:
        vectors[left] = vectors_of(embedder, [probes.texts[at] for at in left])
    return vectors
