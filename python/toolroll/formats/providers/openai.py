"""OpenAI's chat completions and Responses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolroll.formats.providers.form import Form
from toolroll.formats.providers.openai_history import ChatHistory
from toolroll.formats.providers.original import marks, matches
from toolroll.formats.providers.provider import Provider, ToolSearch
from toolroll.formats.providers.references import Notes, rooted
from toolroll.formats.providers.request_form import RequestForm
from toolroll.formats.providers.responses_history import ResponsesHistory
from toolroll.formats.providers.strict import NotStrictError, strict_schema
from toolroll.model.tools import Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHAT = frozenset({"type", "function"})
_RESPONSES = frozenset(
    [
        *("type", "name", "description", "parameters", "strict"),
        *("defer_loading", "output_schema", "allowed_callers"),
    ]
)


def _write_chat(tool: Tool, name: str, form: Form, lost: Notes) -> dict[str, Any]:
    """Writes ``{"type": "function", "function": {...}}``."""
    original = tool.original
    if isinstance(original, dict) and original.keys() <= _CHAT and name == tool.name:
        function = original.get("function")
        if isinstance(function, Mapping) and matches(function, tool) and _fits(function, tool, form):
            return original
    parameters, is_strict = _parameters(tool, form, lost)
    function = {"name": name, "description": tool.description, "parameters": parameters}
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _write_responses(tool: Tool, name: str, form: Form, lost: Notes) -> dict[str, Any]:
    """Writes ``{"type": "function", "name": ..., "parameters": ..., "strict": ...}``."""
    original = tool.original
    if (
        isinstance(original, dict)
        and original.get("type") == "function"
        and original.keys() <= _RESPONSES
        and name == tool.name
        and matches(original, tool)
        and _fits(original, tool, form)
    ):
        return original
    parameters, is_strict = _parameters(tool, form, lost)
    made = {
        "type": "function",
        "name": name,
        "description": tool.description,
        "parameters": parameters,
        "strict": is_strict,
    }
    if form.returns and tool.returns is not None:
        made["output_schema"] = tool.returns
    return made


def _parameters(tool: Tool, form: Form, lost: Notes) -> tuple[Mapping[str, Any], bool]:
    """The schema of the arguments, and whether strict mode is on."""
    if form.strict:
        try:
            schema, dropped = strict_schema(tool.parameters)
            lost += dropped
            return schema, True
        except NotStrictError as error:
            lost.append((error.where, f"{error.why}: sent without strict mode"))
            return rooted(tool.parameters or {}, lost), False
    # What its author wrote for strict mode of the one interface holds for the other.
    is_strict = marks(tool, "openai").get("strict") is True
    return rooted(tool.parameters or {}, lost), is_strict


def _fits(original: Mapping[str, Any], tool: Tool, form: Form) -> bool:
    """Whether the original can be sent. In strict mode it must be strict itself."""
    if not form.strict:
        return True
    try:
        return original.get("strict") is True and strict_schema(tool.parameters)[0] == tool.parameters
    except NotStrictError:
        return original.get("strict") is not True


def _restrict_chat(sent: list[str], must_call: bool) -> dict[str, Any]:
    if not sent:
        return {"tool_choice": "none"}
    tools = [{"type": "function", "function": {"name": name}} for name in sent]
    mode = "required" if must_call else "auto"
    return {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}}


def _restrict_responses(sent: list[str], must_call: bool) -> dict[str, Any]:
    if not sent:
        return {"tool_choice": "none"}
    tools = [{"type": "function", "name": name} for name in sent]
    return {
        "tool_choice": {"type": "allowed_tools", "mode": "required" if must_call else "auto", "tools": tools}
    }


def _client_search(tool: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's own search, run by the caller, with the description and arguments of this tool."""
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool["description"],
        "parameters": tool["parameters"],
    }


def _answer(call_id: str, names: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": tools,
    }


def _error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": "toolroll"}}


_COMPLETIONS = RequestForm(
    "openai",
    re.compile(r"/chat/completions/?\Z"),
    "/chat/completions",
    ("messages",),
    ("tools", "functions"),
    ("tool_choice", "function_call"),
    ("parallel_tool_calls",),
)
_RESPONSE = RequestForm(
    "openai_responses",
    re.compile(r"/responses/?\Z"),
    "/responses",
    ("input",),
    ("tools",),
    ("tool_choice",),
    ("parallel_tool_calls",),
)


def _unselected(form: RequestForm, path: str, route: str) -> RequestForm:
    """The form of a request at another path, in which tools are not selected."""
    return replace(form, path=re.compile(path), route=route, selects=False)


OPENAI = Provider(
    "openai",
    _write_chat,
    _NAME,
    64,
    128,
    restrict=_restrict_chat,
    require={"tool_choice": "required"},
    history=ChatHistory(),
    requests=(
        _COMPLETIONS,
        _unselected(_COMPLETIONS, r"(/v1|\A)/completions/?\Z", "/completions"),
    ),
    error=_error,
    takes_strict=True,
    dialect="openai",
    carries=("strict",),
)
OPENAI_RESPONSES = Provider(
    "openai_responses",
    _write_responses,
    _NAME,
    64,
    128,
    restrict=_restrict_responses,
    require={"tool_choice": "required"},
    search=ToolSearch("call_id", sends_all=False, answer=_answer, tool=_client_search),
    history=ResponsesHistory(),
    requests=(
        _RESPONSE,
        _unselected(_RESPONSE, r"/responses/compact/?\Z", "/responses/compact"),
        _unselected(_RESPONSE, r"/responses/input_tokens/?\Z", "/responses/input_tokens"),
    ),
    error=_error,
    takes_strict=True,
    dialect="openai",
    carries=("strict", "outputSchema", "allowed_callers"),
)
