"""Tool -> what Anthropic's Messages interface takes."""

from __future__ import annotations

from typing import Any

from toolroll.schemas.canonical import object_schema
from toolroll.schemas.names import is_allowed, provider_name
from toolroll.schemas.original import says_the_same
from toolroll.tools import Tool

_KEYS = frozenset(
    {
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "defer_loading",
        "strict",
        "input_examples",
        "allowed_callers",
        "eager_input_streaming",
    }
)


def to_anthropic(tool: Tool, name: str | None = None) -> dict[str, Any]:
    """``{"name", "description", "input_schema"}``; the caller's own object where it already is that."""
    original = tool.original
    if (
        name in (None, tool.name)
        and isinstance(original, dict)
        and "input_schema" in original
        and original.keys() <= _KEYS
        and says_the_same(original, tool, "input_schema")
        and is_allowed(tool.name, "anthropic")
    ):
        return original
    return {
        "name": name or provider_name(tool.name, "anthropic"),
        "description": tool.description,
        "input_schema": object_schema(tool.parameters),
    }
