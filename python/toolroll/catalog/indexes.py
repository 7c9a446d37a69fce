"""The indexes that retrieval searches, over the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from toolroll._core import Bm25Index, Intents, Retriever, VectorIndex
from toolroll.arrays import Scores


@dataclass(frozen=True, slots=True, eq=False)
class Indexes:
    """Vectors and intents, which need an embedder, and postings."""

    size: int
    vectors: VectorIndex | None
    postings: Bm25Index
    intents: Intents | None

    def retriever(self, damping: Scores | None = None) -> Retriever:
        """All of them in one retriever. damping: float32[size], a factor for each tool's evidence."""
        return Retriever(self.size, self.vectors, self.postings, self.intents, damping)
