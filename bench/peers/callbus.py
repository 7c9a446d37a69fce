"""callbus (Apache-2.0): BM25, dense, or both fused; the nearest to us in scope.

``mode``: "bm25" needs nothing, "dense" and "hybrid" take our encoder in place of the large model that it
serves from vLLM. What is called are the library's scorers; the product puts HTTP or MCP on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Encoder:
    name = "ours"

    def __init__(self, embed: Any) -> None:
        self._embed = embed

    def encode(self, texts: Any, *, kind: str = "document") -> Any:
        return self._embed(list(texts))


def build(tools: list[dict[str, Any]], embed: Any, mode: str = "hybrid") -> Callable[[str, int], list[str]]:
    from callbus.adapters.bm25 import BM25Scorer
    from callbus.adapters.dense import DenseScorer
    from callbus.adapters.hybrid import HybridScorer
    from callbus.domain import Query, Tool
    from callbus.ingest.text import tool_text

    scorer: Any = BM25Scorer()
    if mode != "bm25":
        dense = DenseScorer(_Encoder(embed), tool_format="documentation")
        scorer = dense if mode == "dense" else HybridScorer(dense, scorer)
    known = []
    for tool in tools:
        name, text, schema, server = tool["name"], tool["description"], tool["parameters"], tool["server"]
        doc = {"name": name, "description": text, "inputSchema": schema}
        documentation = tool_text(server, name, text, schema)
        known.append(Tool(id=name, doc=doc, documentation=documentation, category=server))
    scorer.index(known)

    def select(message: str, k: int) -> list[str]:
        ranked = scorer.rank([Query(id="q", text=message, qrels={})], k)[0]
        if mode == "bm25":  # bm25s fills up with tools that no word matches
            return [name for name, score in zip(ranked.tool_ids, ranked.scores, strict=True) if score > 0][:k]
        names: list[str] = ranked.top(k)
        return names

    return select
