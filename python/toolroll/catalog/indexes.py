"""The indexes that retrieval searches, over the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bm25Index, Intents, Retriever, RowChanges, VectorIndex
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import FIELD_WEIGHTS, ToolText, columns
from toolroll.model.arrays import Rows, Scores


@dataclass(frozen=True, slots=True, eq=False)
class Indexes:
    """The indexes that retrieval searches: postings, and vectors and intents, which need an embedder."""

    size: int
    vectors: VectorIndex | None
    postings: Bm25Index
    intents: Intents | None

    @classmethod
    def of(cls, texts: Sequence[ToolText], vectors: ToolVectors | None) -> Indexes:
        """Over these tools, without a graph."""
        postings = Bm25Index.build(columns(texts), FIELD_WEIGHTS)
        if vectors is None:
            return cls(len(texts), None, postings, None)
        return cls(len(texts), VectorIndex.build(vectors.vectors()), postings, vectors.intents())

    def retriever(self, damping: Scores | None = None) -> Retriever:
        """One retriever over all indexes. damping: float32[size], a factor for each tool's evidence."""
        return Retriever(self.size, self.vectors, self.postings, self.intents, damping)

    def with_changes(self, sources: Rows, texts: Sequence[ToolText], vectors: ToolVectors | None) -> Indexes:
        """Over the kept rows and the added ones; searches like indexes that are built whole.

        The memory is copied without the interpreter; the kept tools are not read. There is no graph.

        sources: see `RowChanges`. texts, vectors: of the added rows; vectors are None without an embedder.
        """
        changes = RowChanges(self.size, sources)
        postings = self.postings.with_changes(changes, columns(texts), FIELD_WEIGHTS)
        if self.vectors is None or vectors is None:
            return Indexes(len(sources), None, postings, None)
        index = self.vectors.with_changes(changes, vectors.vectors())
        return Indexes(len(sources), index, postings, self._intents(changes, sources, vectors))

    def _intents(self, changes: RowChanges, sources: Rows, vectors: ToolVectors) -> Intents | None:
        groups = vectors.groups()
        if self.intents is not None:
            begins, centres, weights = groups or vectors.no_groups()
            intents = self.intents.with_changes(changes, begins, centres, weights)
            return intents if intents.count else None
        if groups is None:
            return None
        counts = np.zeros(len(sources), np.int64)
        counts[sources < 0] = np.diff(groups[0])
        return Intents.build(np.concatenate(([0], np.cumsum(counts))), *groups[1:])
