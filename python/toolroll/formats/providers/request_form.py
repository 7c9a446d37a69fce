"""`RequestForm`: the members of a request that hold its tools and its conversation, for the drop-in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NO_NAMES = frozenset({"auto", "none", "any", "required", "validated"})
_FREE = (None, "auto", "required")


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The form of one request. Its choice of tools is written as in OpenAI's or Anthropic's requests.

    Attributes:
        provider: name of the provider.
        path: matches the end of the URL's path.
        route: the path in metrics and traces.
        messages: possible names of the member with the conversation.
        tools: possible names of the member with the tools.
        choice: possible names of the member with the choice of tools.
        beside_tools: members that a request may have only beside tools.
        selects: whether tools are selected; otherwise all that the rules allow are sent.
    """

    provider: str
    path: re.Pattern[str]
    route: str
    messages: tuple[str, ...]
    tools: tuple[str, ...]
    choice: tuple[str, ...]
    beside_tools: tuple[str, ...] = ()
    selects: bool = True

    def chosen(self, choice: Any) -> tuple[str, ...]:
        """The names of the tools in the caller's choice."""
        if isinstance(choice, Mapping) and choice.keys() == {"type"} and isinstance(choice["type"], str):
            return (choice["type"],)  # a hosted tool has no other name; that of "auto" is no tool's
        return chosen_names(choice)

    def choice_without(self, choice: Any, gone: Iterable[str]) -> Any:
        """The caller's choice without these tools; None if no tool is left in it."""
        gone = frozenset(gone)
        if not isinstance(choice, dict):
            return None
        for key, holder in (("allowed_tools", choice.get("allowed_tools")), ("", choice)):
            if isinstance(holder, dict) and isinstance(tools := holder.get("tools"), list):
                kept = [tool for tool in tools if gone.isdisjoint(chosen_names(tool))]
                if not kept:
                    return None
                return {**choice, key: {**holder, "tools": kept}} if key else {**choice, "tools": kept}
        return None

    def is_free(self, choice: Any) -> bool:
        """Whether the caller's choice restricts the model to no tools."""
        return choice is None or (isinstance(choice, str) and choice in _FREE)

    def must_call(self, choice: Any) -> bool:
        """Whether the caller's choice requires a tool call."""
        return bool(choice == "required")

    def restricted(self, choice: Any, restriction: Mapping[str, Any]) -> Any:
        """The caller's choice with a restriction that `Provider.restrict` made."""
        return restriction[self.choice[0]]


def chosen_names(tool_choice: Any) -> tuple[str, ...]:
    """The names in a `tool_choice` of OpenAI, Anthropic or an agent framework; () if it names none."""
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
