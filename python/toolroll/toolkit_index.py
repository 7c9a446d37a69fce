"""Toolkits by meaning: what a message that names no keyword of a toolkit is still near to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolroll._core import VectorIndex
from toolroll.candidates import Rows
from toolroll.context import Vector
from toolroll.ports import Embedder
from toolroll.tool_text import words
from toolroll.tools import Tool, Toolkit
from toolroll.vectors import vectors_of

_MOST_NAMED = 20  # tools that speak for a toolkit which does not describe itself


@dataclass(frozen=True, slots=True, eq=False)
class ToolkitIndex:
    """A vector for each toolkit, from its description.

    Attributes:
        names: of the toolkits, by row.
        vectors: float32[len(names), dim].
    """

    names: tuple[str, ...]
    vectors: VectorIndex

    @classmethod
    def of(
        cls,
        toolkits: Mapping[str, Toolkit],
        tools: Sequence[Tool],
        below: Mapping[str, Rows],
        embedder: Embedder,
    ) -> ToolkitIndex | None:
        """Embeds the toolkits; None where there are none.

        Raises:
            EmbedderUnavailable: the embedder fails, or answers what is no vector.
        """
        if not toolkits:
            return None
        texts = []
        for name, toolkit in toolkits.items():
            named = (words(tools[row].name) for row in below[name][:_MOST_NAMED].tolist())
            texts.append(f"{words(name)}: {toolkit.description or ', '.join(named)}")
        return cls(tuple(toolkits), VectorIndex.build(vectors_of(embedder, texts)))

    def near(self, vector: Vector, threshold: float) -> dict[str, str]:
        """Toolkits at least so near to the message, nearest first, and how that reads in an explanation."""
        rows, scores = self.vectors.search(vector, len(self.names))
        return {
            self.names[row]: f"dense {score:.2f}"
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
            if score >= threshold
        }
