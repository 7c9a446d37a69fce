"""What stands beside the list of tools in a request: which may be called, and who searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def only(provider: str, sent: list[str], must_call: bool) -> dict[str, Any]:
    """Restricts a list to the tools of these sent names; to none of them where there are none."""
    if provider == "gemini":
        mode = "NONE" if not sent else "ANY" if must_call else "VALIDATED"
        names = {"allowed_function_names": sent} if sent else {}
        return {"tool_config": {"function_calling_config": {"mode": mode, **names}}}
    if not sent:
        return {"tool_choice": "none"}
    mode = "required" if must_call else "auto"
    if provider == "openai":
        functions = [{"type": "function", "function": {"name": name}} for name in sent]
        return {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": functions}}}
    named = [{"type": "function", "name": name} for name in sent]
    return {"tool_choice": {"type": "allowed_tools", "mode": mode, "tools": named}}


def required(provider: str) -> dict[str, Any]:
    """Makes the model call a tool."""
    if provider == "gemini":
        return {"tool_config": {"function_calling_config": {"mode": "ANY"}}}
    return {"tool_choice": {"type": "any"} if provider == "anthropic" else "required"}


def client_search(tool: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's own search, carried out by the caller, with the words and arguments of this tool."""
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool["description"],
        "parameters": tool["parameters"],
    }
