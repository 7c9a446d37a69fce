"""Toolkits by the cosine of their descriptions with the message, for messages without a keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from toolroll._core import VectorIndex
from toolroll.catalog.tool_text import words
from toolroll.model.arrays import Rows, Vector
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.tools import Tool, Toolkit

_MOST_NAMED = 20  # names of tools that stand for a missing description


@dataclass(frozen=True, slots=True, eq=False)
class ToolkitIndex:
    """A vector for each toolkit, from its description.

    Attributes:
        names: of the toolkits, by row.
        shared: the index of a stacked catalog's shared part.
    """

    names: tuple[str, ...]
    vectors: VectorIndex
    shared: ToolkitIndex | None = None

    @classmethod
    def of(
        cls,
        toolkits: Mapping[str, Toolkit],
        tools: Sequence[Tool],
        below: Mapping[str, Rows],
        embedder: Embedder,
        shared: ToolkitIndex | None = None,
    ) -> ToolkitIndex | None:
        """Embeds the toolkits behind the shared ones; None if there are none.

        Raises EmbedderUnavailable if the embedder fails, or its answer is no vector.
        """
        if not toolkits:
            return shared
        texts = []
        for name, toolkit in toolkits.items():
            named = (words(tools[row].name) for row in below[name][:_MOST_NAMED].tolist())
            texts.append(f"{words(name)}: {toolkit.description or ', '.join(named)}")
        return cls(tuple(toolkits), VectorIndex.build(vectors_of(embedder, texts)), shared)

    def near(self, vector: Vector, threshold: float) -> dict[str, float]:
        """Toolkits whose cosine with the message is at least the threshold, nearest first."""
        scored = self._scored(vector)
        if self.shared is not None:
            scored = sorted(self.shared._scored(vector) + scored, key=itemgetter(1), reverse=True)
        return {name: score for name, score in scored if score >= threshold}

    def _scored(self, vector: Vector) -> list[tuple[str, float]]:
        """The own toolkits, nearest first."""
        rows, scores = self.vectors.search(vector, len(self.names))
        return [(self.names[row], score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]
