"""toolpicker (MIT): BM25, or with ``vectors=True`` BM25 and our vectors fused by reciprocal rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def build(tools: list[dict[str, Any]], embed: Any, vectors: bool = False) -> Callable[[str, int], list[str]]:
    from toolpicker import FunctionSchemaSource, ToolPicker

    class Ours:  # its EmbeddingProvider, by shape
        dimensions: int | None = None

        def embed(self, texts: Any) -> list[list[float]]:
            rows: list[list[float]] = embed(list(texts)).tolist()
            self.dimensions = len(rows[0])
            return rows

    source = FunctionSchemaSource(
        [{key: tool[key] for key in ("name", "description", "parameters")} for tool in tools]
    )
    embedder: Any = Ours() if vectors else None
    picker = ToolPicker(source, embedder=embedder)

    def select(message: str, k: int) -> list[str]:
        return [tool.name for tool in picker.select(message, k=k)]

    return select
