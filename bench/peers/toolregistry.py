"""toolregistry (MIT): BM25F over name, description, tags and parameters, behind its ``discover_tools``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def build(tools: list[dict[str, Any]], embed: Any) -> Callable[[str, int], list[str]]:
    from toolregistry import Tool, ToolRegistry
    from toolregistry.llm.discovery import ToolDiscoveryTool

    def run(**arguments: Any) -> None:
        return None

    registry = ToolRegistry()
    for tool in tools:
        made = Tool.from_function(run, name=tool["name"], description=tool["description"])
        object.__setattr__(made, "parameters", tool["parameters"])
        registry._tools[tool["name"]] = made
    discovery = ToolDiscoveryTool(registry)

    def select(message: str, k: int) -> list[str]:
        return [hit["name"] for hit in discovery.discover(message, top_k=k)]

    return select
