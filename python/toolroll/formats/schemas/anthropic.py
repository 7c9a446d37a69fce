"""Writes a tool for Anthropic's Messages."""

from __future__ import annotations

from typing import Any

from toolroll.formats.schemas.form import PLAIN, Form
from toolroll.formats.schemas.names import is_allowed, provider_name
from toolroll.formats.schemas.original import additional_fields, matches
from toolroll.formats.schemas.references import Notes, rooted
from toolroll.model.tools import Tool

_MORE = ("cache_control", "strict", "input_examples", "allowed_callers", "eager_input_streaming")
_KEYS = frozenset({"type", "name", "description", "input_schema", "defer_loading", *_MORE})


def to_anthropic(tool: Tool, name: str | None = None, form: Form = PLAIN) -> dict[str, Any]:
    """``{"name", "description", "input_schema"}``; the caller's own object where it already is that."""
    original = tool.original
    is_ours = isinstance(original, dict) and "input_schema" in original
    if (
        is_ours
        and name in (None, tool.name)
        and isinstance(original, dict)
        and original.keys() <= _KEYS
        and matches(original, tool, "input_schema")
        and is_allowed(tool.name, "anthropic")
    ):
        return original
    made: dict[str, Any] = {
        "name": name or provider_name(tool.name, "anthropic"),
        "description": tool.description,
        "input_schema": rooted(tool.parameters or {}, Notes()),
    }
    if is_ours:
        beside = additional_fields(tool)
        made |= {key: beside[key] for key in _MORE if key in beside}
    return made
