"""FastMCP's BM25SearchTransform (Apache-2.0): the tool search that most Python MCP servers would reach for.

What is called is the search that the transform runs for ``search_tools``; a client waits longer, since
calling it through the server lists, filters and serialises the catalog first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def build(tools: list[dict[str, Any]], embed: Any) -> Callable[[str, int], list[str]]:
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools import Tool
    from fastmcp.tools.base import ToolResult

    class Silent(Tool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            return ToolResult(content="")

    known = [
        Silent(name=tool["name"], description=tool["description"], parameters=tool["parameters"])
        for tool in tools
    ]
    transform = BM25SearchTransform(max_results=50)
    loop = asyncio.new_event_loop()

    def select(message: str, k: int) -> list[str]:
        return [tool.name for tool in loop.run_until_complete(transform._search(known, message))][:k]

    return select
