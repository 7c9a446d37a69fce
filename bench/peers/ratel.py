"""ratel-ai (MIT, Rust core): BM25 in the process, over name, description and every key of the schema.

The latency bar. Its semantic mode wants an HTTP endpoint and is left out: the time would be the network's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def build(tools: list[dict[str, Any]], embed: Any) -> Callable[[str, int], list[str]]:
    from ratel_ai import ExecutableTool, ToolCatalog

    catalog = ToolCatalog(method="bm25")
    items = [
        ExecutableTool(
            id=tool["name"],
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["parameters"],
            output_schema={},
            execute=lambda arguments: {},
        )
        for tool in tools
    ]

    async def register() -> None:
        await catalog.register(items)

    asyncio.run(register())

    def select(message: str, k: int) -> list[str]:
        return [hit.tool_id for hit in catalog.search(message, k)]

    return select
