"""The fields of a request beside its tools: which tools may be called, and answers to a model's search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolroll.formats.providers import PROVIDERS, provider_of
from toolroll.formats.schemas.form import Form, tools_of
from toolroll.formats.schemas.names import provider_name
from toolroll.formats.schemas.sent import convert_all
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool


def only(provider: str, sent: list[str], must_call: bool) -> dict[str, Any]:
    """Restricts the list to the tools with these sent names; without names, to none."""
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
    """OpenAI's own search, run by the caller, with the description and arguments of this tool."""
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool["description"],
        "parameters": tool["parameters"],
    }


def answer_search(provider: str, call: Any, found: Iterable[Tool], *, strict: bool = False) -> dict[str, Any]:
    """The answer to a model's search under "defer": references to the found tools, or the tools themselves.

    call: the model's own block, as the library's object or as a dictionary: Anthropic's ``tool_use`` of
        `search_tools` (the answer is a ``tool_result``, for the next user message), OpenAI's
        ``tool_search_call`` (the answer is a ``tool_search_output``, for the next input).
    found: best first; tools that this caller may see, such as those of a selection in the same context.
    strict: OpenAI's tools in strict mode, as in `Selection.schemas`.

    Raises:
        InvalidInput: the provider has no search of this kind, the call has no id, or `found` holds something
            other than tools.
    """
    if "defer" not in provider_of(provider).hows:
        can = " or ".join(name for name, other in PROVIDERS.items() if "defer" in other.hows)
        raise InvalidInput(f"provider is {provider!r}, must be {can} to search for tools")
    key = "id" if provider == "anthropic" else "call_id"
    call_id = call.get(key) if isinstance(call, Mapping) else getattr(call, key, None)
    if not isinstance(call_id, str) or not call_id:
        raise InvalidInput(f"call: has no {key}, must be the block with which the model searched")
    tools = list({tool.name: tool for tool in tools_of(found, "found")}.values())
    if provider == "anthropic":
        content: Any = [
            {"type": "tool_reference", "tool_name": provider_name(tool.name, provider)} for tool in tools
        ]
        return {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": content or "No tool fits. Say it in other words, or go on without a tool.",
        }
    loaded, _ = convert_all(tools, provider, Form(strict), [tool.name for tool in tools])
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": loaded,
    }
