"""Writes a tool for OpenAI's chat completions and Responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.formats.schemas.form import PLAIN, Form
from toolroll.formats.schemas.names import is_allowed, provider_name
from toolroll.formats.schemas.original import additional_fields, matches
from toolroll.formats.schemas.references import Notes, rooted
from toolroll.formats.schemas.strict import NotStrictError, strict_schema
from toolroll.model.tools import Tool

_CHAT = frozenset({"type", "function"})
_RESPONSES = frozenset(
    [
        *("type", "name", "description", "parameters", "strict"),
        *("defer_loading", "output_schema", "allowed_callers"),
    ]
)


def to_openai(tool: Tool, name: str | None = None, form: Form = PLAIN) -> dict[str, Any]:
    """The chat completions form: ``{"type": "function", "function": {...}}``.

    A tool that came in this form goes out as that same object. `name` replaces a name that the provider
    does not allow.
    """
    original = tool.original
    if isinstance(original, dict) and original.keys() <= _CHAT and _is_sent(tool, name):
        function = original.get("function")
        if isinstance(function, Mapping) and matches(function, tool) and _fits(function, tool, form):
            return original
    parameters, is_strict = _parameters(tool, form)
    function = {
        "name": name or provider_name(tool.name, "openai"),
        "description": tool.description,
        "parameters": parameters,
    }
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def to_openai_responses(tool: Tool, name: str | None = None, form: Form = PLAIN) -> dict[str, Any]:
    """The Responses form: ``{"type": "function", "name": ..., "parameters": ..., "strict": ...}``."""
    original = tool.original
    if (
        isinstance(original, dict)
        and original.get("type") == "function"
        and original.keys() <= _RESPONSES
        and _is_sent(tool, name)
        and matches(original, tool)
        and _fits(original, tool, form)
    ):
        return original
    parameters, is_strict = _parameters(tool, form)
    made = {
        "type": "function",
        "name": name or provider_name(tool.name, "openai_responses"),
        "description": tool.description,
        "parameters": parameters,
        "strict": is_strict,
    }
    if form.returns and (returns := additional_fields(tool).get("outputSchema")) is not None:
        made["output_schema"] = returns
    return made


def _is_sent(tool: Tool, name: str | None) -> bool:
    return name in (None, tool.name) and is_allowed(tool.name, "openai")


def _parameters(tool: Tool, form: Form) -> tuple[Mapping[str, Any], bool]:
    """The schema of the arguments, and whether strict mode is on."""
    if form.strict:
        try:
            return strict_schema(tool.parameters)[0], True
        except NotStrictError:
            return rooted(tool.parameters or {}, Notes()), False
    # What its author wrote for strict mode of the one interface holds for the other.
    is_strict = additional_fields(tool).get("strict") is True and "input_schema" not in _keys(tool.original)
    return rooted(tool.parameters or {}, Notes()), is_strict


def _fits(original: Mapping[str, Any], tool: Tool, form: Form) -> bool:
    """Whether the original can be sent: without strict mode always, otherwise if it is strict itself."""
    if not form.strict:
        return True
    try:
        return original.get("strict") is True and strict_schema(tool.parameters)[0] == tool.parameters
    except NotStrictError:
        return original.get("strict") is not True


def _keys(original: object) -> Mapping[str, Any]:
    return original if isinstance(original, Mapping) else {}
