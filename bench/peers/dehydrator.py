"""dehydrator (MIT): rank-bm25 behind its ``tool_search``, without the hosted re-ranker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def build(tools: list[dict[str, Any]], embed: Any) -> Callable[[str, int], list[str]]:
    from dehydrator import ToolIndex

    index = ToolIndex.from_mcp(
        [
            {"name": tool["name"], "description": tool["description"], "inputSchema": tool["parameters"]}
            for tool in tools
        ],
        top_k=50,
    )

    def select(message: str, k: int) -> list[str]:
        names: list[str] = index.search(message)[:k]
        return names

    return select
