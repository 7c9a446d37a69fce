"""The providers' interfaces that have tools in their requests, and the members in which they have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolroll.adapters.tool_choice import chosen_names


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The form of a request.

    Attributes:
        provider: the name in `toolroll.formats.providers`.
        route: the end of the path, for metrics and traces. Gemini's streams count as `generateContent`.
        messages: names of the member with the conversation; a request has one of them.
        tools: names of the member with the tools.
        choice: names of the member that says which tools may be called.
        beside_tools: members that are errors in a request without tools.
        selects: whether tools are selected; otherwise all that the rules allow are sent.
    """

    provider: str
    route: str
    messages: tuple[str, ...]
    tools: tuple[str, ...]
    choice: tuple[str, ...]
    beside_tools: tuple[str, ...] = ()
    selects: bool = True

    def chosen(self, choice: Any) -> tuple[str, ...]:
        """Names of the tools that the caller's choice names."""
        if self.provider != "gemini":
            if isinstance(choice, Mapping) and choice.keys() == {"type"} and isinstance(choice["type"], str):
                return (choice["type"],)  # a hosted tool has no other name; that of "auto" is no tool's
            return chosen_names(choice)
        calling = function_calling(choice)
        names = calling.get("allowedFunctionNames", calling.get("allowed_function_names"))
        return tuple([name for name in names if isinstance(name, str)]) if isinstance(names, list) else ()

    def choice_without(self, choice: Any, gone: Iterable[str]) -> Any:
        """The caller's choice without the tools of these names; None where nothing is left of it."""
        gone = frozenset(gone)
        if self.provider == "gemini":
            return _gemini_choice_without(choice, gone)
        if not isinstance(choice, dict):
            return None
        for key, holder in (("allowed_tools", choice.get("allowed_tools")), ("", choice)):
            if isinstance(holder, dict) and isinstance(tools := holder.get("tools"), list):
                kept = [tool for tool in tools if gone.isdisjoint(chosen_names(tool))]
                if not kept:
                    return None
                return {**choice, key: {**holder, "tools": kept}} if key else {**choice, "tools": kept}
        return None


OPENAI = RequestForm(
    "openai",
    "/chat/completions",
    ("messages",),
    ("tools", "functions"),
    ("tool_choice", "function_call"),
    ("parallel_tool_calls",),
)
OPENAI_RESPONSES = RequestForm(
    "openai_responses", "/responses", ("input",), ("tools",), ("tool_choice",), ("parallel_tool_calls",)
)
ANTHROPIC = RequestForm("anthropic", "/messages", ("messages",), ("tools",), ("tool_choice",))
GEMINI = RequestForm(
    "gemini",
    "/models/{model}:generateContent",
    ("contents",),
    ("tools",),
    ("toolConfig", "tool_config"),
)

COMPLETIONS = replace(OPENAI, route="/completions", selects=False)
COMPACTION = replace(OPENAI_RESPONSES, route="/responses/compact", selects=False)
INPUT_TOKENS = replace(OPENAI_RESPONSES, route="/responses/input_tokens", selects=False)
COUNT_TOKENS = replace(ANTHROPIC, route="/messages/count_tokens", selects=False)

_PATHS = (
    (re.compile(r"/chat/completions/?\Z"), OPENAI),
    (re.compile(r"/responses/?\Z"), OPENAI_RESPONSES),
    (re.compile(r"(/v1|\A)/messages/?\Z"), ANTHROPIC),
    (re.compile(r"(/v1|\A)/completions/?\Z"), COMPLETIONS),
    (re.compile(r"/responses/compact/?\Z"), COMPACTION),
    (re.compile(r"/responses/input_tokens/?\Z"), INPUT_TOKENS),
    (re.compile(r"(/v1|\A)/messages/count_tokens/?\Z"), COUNT_TOKENS),
    (re.compile(r"/models/[^/]+:(streamG|g)enerateContent\Z"), GEMINI),
)


def form_of(method: str, path: str) -> RequestForm | None:
    """The form of the requests with this method and path; None if they are passed on as they are."""
    if method != "POST":
        return None
    return next((form for pattern, form in _PATHS if pattern.search(path)), None)


def function_calling(choice: Any) -> Mapping[str, Any]:
    """The settings of function calls in Gemini's `toolConfig`."""
    if not isinstance(choice, Mapping):
        return {}
    found = choice.get("functionCallingConfig", choice.get("function_calling_config"))
    return found if isinstance(found, Mapping) else {}


def _gemini_choice_without(choice: Any, gone: frozenset[str]) -> Any:
    calling = function_calling(choice)
    kept = {key: value for key, value in choice.items() if value is not calling}
    (key,) = [key for key, value in choice.items() if value is calling]
    for name in ("allowedFunctionNames", "allowed_function_names"):
        if isinstance(names := calling.get(name), list):
            left = [one for one in names if one not in gone]
            if left:  # without any, the mode would demand one of no tools
                kept[key] = {**calling, name: left}
    return kept or None
