"""Anthropic's Messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolroll.formats.providers.anthropic_history import AnthropicHistory
from toolroll.formats.providers.form import Form
from toolroll.formats.providers.original import marks, matches
from toolroll.formats.providers.provider import Provider, ToolSearch
from toolroll.formats.providers.references import Notes, rooted
from toolroll.formats.providers.request_form import RequestForm
from toolroll.model.tools import Tool

_MORE = ("cache_control", "strict", "input_examples", "allowed_callers", "eager_input_streaming")
_KEYS = frozenset({"type", "name", "description", "input_schema", "defer_loading", *_MORE})
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


def _write(tool: Tool, name: str, form: Form, lost: Notes) -> dict[str, Any]:
    """Writes ``{"name", "description", "input_schema"}``."""
    original = tool.original
    if (
        isinstance(original, dict)
        and "input_schema" in original
        and name == tool.name
        and original.keys() <= _KEYS
        and matches(original, tool, "input_schema")
    ):
        return original
    made: dict[str, Any] = {
        "name": name,
        "description": tool.description,
        "input_schema": rooted(tool.parameters or {}, lost),
    }
    beside = marks(tool, "anthropic")
    return made | {key: beside[key] for key in _MORE if key in beside}


def _answer(call_id: str, names: Sequence[str], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    content: Any = [{"type": "tool_reference", "tool_name": name} for name in names]
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content or "No tool fits. Say it in other words, or go on without a tool.",
    }


def _error(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}


def _request(path: str, route: str, selects: bool = True) -> RequestForm:
    return RequestForm(
        "anthropic", re.compile(path), route, ("messages",), ("tools",), ("tool_choice",), (), selects
    )


ANTHROPIC = Provider(
    "anthropic",
    _write,
    re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    128,
    most_deferred=10_000,  # the corpus of its own tool search; far more than a request should carry
    require={"tool_choice": {"type": "any"}},
    search=ToolSearch("id", sends_all=True, answer=_answer),
    history=AnthropicHistory(),
    requests=(
        _request(r"(/v1|\A)/messages/?\Z", "/messages"),
        _request(r"(/v1|\A)/messages/count_tokens/?\Z", "/messages/count_tokens", selects=False),
    ),
    error=_error,
    dialect="anthropic",
    carries=_MORE,
)
