"""Reads `tool_choice` of a request: a tool that it names has to be among those that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NO_NAMES = frozenset({"auto", "none", "any", "required", "validated"})


def chosen_names(tool_choice: Any) -> tuple[str, ...]:
    """The names in a `tool_choice` of OpenAI, Anthropic or an agent framework; () where it names none."""
    if isinstance(tool_choice, str):
        return () if tool_choice.lower() in _NO_NAMES else (tool_choice,)
    if not isinstance(tool_choice, Mapping):
        return ()
    inner = tool_choice.get("function") or tool_choice.get("custom") or tool_choice.get("allowed_tools")
    said = inner if isinstance(inner, Mapping) else tool_choice
    members = said.get("tools")
    if isinstance(members, (list, tuple)):
        return tuple([name for member in members for name in chosen_names(member)])
    name = said.get("name")
    return (name,) if isinstance(name, str) else ()
