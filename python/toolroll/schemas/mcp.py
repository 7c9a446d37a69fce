"""Tool -> what an MCP server lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.schemas.canonical import object_schema
from toolroll.schemas.names import is_allowed, provider_name
from toolroll.schemas.original import says_the_same
from toolroll.tools import Tool

_KEYS = frozenset(
    {
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "icons",
        "_meta",
        "execution",
    }
)


def to_mcp(tool: Tool, name: str | None = None) -> dict[str, Any]:
    """``{"name", "description", "inputSchema"}``; the caller's own dictionary where it already is that.

    A tool that came as an object of an MCP library is written out by that library, with its title,
    annotations and output schema; the object itself stays in `Tool.original`.
    """
    if name in (None, tool.name) and is_allowed(tool.name, "mcp"):
        original = _original(tool)
        if original is not None:
            return original
    return {
        "name": name or provider_name(tool.name, "mcp"),
        "description": tool.description,
        "inputSchema": object_schema(tool.parameters),
    }


def _original(tool: Tool) -> dict[str, Any] | None:
    original: Any = tool.original
    if isinstance(original, dict):
        ours = "inputSchema" in original and original.keys() <= _KEYS
        return original if ours and says_the_same(original, tool, "inputSchema") else None
    schema = getattr(original, "inputSchema", None) or getattr(original, "input_schema", None)
    if schema is None or schema is not tool.parameters or not hasattr(original, "model_dump"):
        return None
    if original.name != tool.name or (original.description or "") != tool.description:
        return None
    written = original.model_dump(by_alias=True, exclude_none=True, mode="json")
    return dict(written) if isinstance(written, Mapping) else None
