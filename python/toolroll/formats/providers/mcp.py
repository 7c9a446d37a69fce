"""A list of tools as an MCP server sends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolroll.formats.providers.form import Form
from toolroll.formats.providers.original import is_current_object, matches, mcp_fields, plain
from toolroll.formats.providers.provider import Provider
from toolroll.formats.providers.references import Notes
from toolroll.model.identity import object_schema
from toolroll.model.tools import Tool

_MORE = ("title", "outputSchema", "annotations", "icons", "_meta", "execution")
_KEYS = frozenset({"name", "description", "inputSchema", *_MORE})


def _write(tool: Tool, name: str, form: Form, lost: Notes) -> dict[str, Any]:
    """Writes ``{"name", "description", "inputSchema"}``.

    An object of an MCP library is written by that library, with its title, annotations and output schema.
    The object itself stays in `Tool.original`.
    """
    if name == tool.name and (original := _original(tool)) is not None:
        return original
    return {
        "name": name,
        "description": tool.description,
        "inputSchema": object_schema(tool.parameters),
        **mcp_fields(tool),
    }


def _original(tool: Tool) -> dict[str, Any] | None:
    original: Any = tool.original
    if isinstance(original, dict):
        is_mcp = "inputSchema" in original and original.keys() <= _KEYS
        is_current = is_mcp and matches(original, tool, "inputSchema") and _has_same_fields(original, tool)
        return original if is_current else None
    if not is_current_object(original, tool) or not hasattr(original, "model_dump"):
        return None
    written = plain(original)
    return dict(written) if isinstance(written, Mapping) and _has_same_fields(written, tool) else None


def _has_same_fields(original: Mapping[str, Any], tool: Tool) -> bool:
    """Whether the original's other MCP fields, such as title and annotations, equal the tool's."""
    fields = mcp_fields(tool)
    return all(original.get(key) == fields.get(key) for key in _MORE)


MCP = Provider("mcp", _write, re.compile(r"[a-zA-Z0-9_./-]{1,128}"), 128, carries=_MORE)
