"""Tool -> what OpenAI's two interfaces take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.schemas.canonical import object_schema
from toolroll.schemas.names import is_allowed, provider_name
from toolroll.schemas.original import says_the_same
from toolroll.tools import Tool

_CHAT = frozenset({"type", "function"})
_RESPONSES = frozenset({"type", "name", "description", "parameters", "strict", "defer_loading"})


def to_openai(tool: Tool, name: str | None = None) -> dict[str, Any]:
    """The chat completions form: ``{"type": "function", "function": {...}}``.

    A tool that came in this form goes out as that same object. `name` replaces a name that the provider
    does not allow.
    """
    original = _original(tool, name, (_is_chat,))
    return original or {"type": "function", "function": _function(tool, name)}


def to_openai_responses(tool: Tool, name: str | None = None) -> dict[str, Any]:
    """The Responses form: ``{"type": "function", "name": ..., "parameters": ...}``, not in strict mode."""
    original = _original(tool, name, (_is_responses,))
    return original or {"type": "function", **_function(tool, name), "strict": False}


def _function(tool: Tool, name: str | None) -> dict[str, Any]:
    return {
        "name": name or provider_name(tool.name, "openai"),
        "description": tool.description,
        "parameters": object_schema(tool.parameters),
    }


def _original(tool: Tool, name: str | None, forms: tuple[Any, ...]) -> dict[str, Any] | None:
    original = tool.original
    if name not in (None, tool.name) or not isinstance(original, dict) or not is_allowed(tool.name, "openai"):
        return None
    return original if any(form(original, tool) for form in forms) else None


def _is_chat(original: Mapping[str, Any], tool: Tool) -> bool:
    function = original.get("function")
    return original.keys() <= _CHAT and isinstance(function, Mapping) and says_the_same(function, tool)


def _is_responses(original: Mapping[str, Any], tool: Tool) -> bool:
    return (
        original.get("type") == "function" and original.keys() <= _RESPONSES and says_the_same(original, tool)
    )
