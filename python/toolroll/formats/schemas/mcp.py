"""Writes a tool as an MCP server lists it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.formats.schemas.form import PLAIN, Form
from toolroll.formats.schemas.names import is_allowed, provider_name
from toolroll.formats.schemas.original import is_current_object, matches, mcp_fields, plain
from toolroll.model.identity import object_schema
from toolroll.model.tools import Tool

_MORE = ("title", "outputSchema", "annotations", "icons", "_meta", "execution")
_KEYS = frozenset({"name", "description", "inputSchema", *_MORE})


def to_mcp(tool: Tool, name: str | None = None, form: Form = PLAIN) -> dict[str, Any]:
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
        **mcp_fields(tool),
    }


def _original(tool: Tool) -> dict[str, Any] | None:
    original: Any = tool.original
    if isinstance(original, dict):
        is_mcp = "inputSchema" in original and original.keys() <= _KEYS
        is_current = is_mcp and matches(original, tool, "inputSchema") and _says_the_same(original, tool)
        return original if is_current else None
    if not is_current_object(original, tool) or not hasattr(original, "model_dump"):
        return None
    written = plain(original)
    return dict(written) if isinstance(written, Mapping) and _says_the_same(written, tool) else None


def _says_the_same(original: Mapping[str, Any], tool: Tool) -> bool:
    """Whether title, annotations and all else are still the tool's own."""
    fields = mcp_fields(tool)
    return all(original.get(key) == fields.get(key) for key in _MORE)
