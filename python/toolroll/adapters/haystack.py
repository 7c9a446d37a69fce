"""Haystack (`toolroll[haystack]`): hooks of its `Agent` that select and report; Haystack refuses.

    from haystack.components.agents import Agent
    from toolroll.adapters.haystack import selection_hooks

    agent = Agent(chat_generator=generator, tools=tools, hooks=selection_hooks(max_tools=12))
    result = agent.run(messages, hook_context={"conversation": "c-42"})

`conversation` may be left out: then each turn stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from haystack.components.agents.state.state import State
from haystack.dataclasses import ChatMessage

from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, Role
from toolroll.adapters.selection_options import SelectionOptions
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.context import Context
from toolroll.errors import InvalidInput
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool"}


def selection_hooks(
    roll: Toolroll | None = None,
    *,
    context: Context | None = None,
    **options: Unpack[SelectionOptions],
) -> dict[str, list[SelectionHook]]:
    """Hooks by the points at which they run; join lists where you have hooks of your own.

    Args:
        roll: whose rules apply, which learns, and which keeps conversations; None for one in memory.
        context: who asks.
        options: max_tools, always_include and k; see `SelectionOptions`.
    """
    selector = ToolSelector(
        roll,
        context=context,
        read_tool=_described,
        read_messages=read_messages,
        **options,
    )
    points: dict[str, Callable[[ToolSelector, State], None]] = {
        "before_llm": _narrow,
        "after_tool": _report,
        "after_run": _end,
    }
    return {point: [SelectionHook(selector, act, point)] for point, act in points.items()}


class SelectionHook:
    """One of the hooks of `selection_hooks`."""

    def __init__(
        self, selector: ToolSelector, act: Callable[[ToolSelector, State], None], point: str
    ) -> None:
        """act: what happens at this point of a run."""
        self.allowed_hook_points = (point,)
        self._selector, self._act = selector, act

    def run(self, state: State) -> None:
        """Called by the agent."""
        self._act(self._selector, state)

    def to_dict(self) -> dict[str, Any]:
        """Refuses: a `Toolroll` has threads and cannot be written down."""
        raise InvalidInput("haystack: a pipeline with selection hooks cannot be serialised; add them in code")


def read_messages(messages: Sequence[ChatMessage]) -> list[ReadMessage]:
    """Haystack's messages in the form that a selection reads."""
    read = []
    for message in messages:
        calls = [MadeCall(call.id or "", call.tool_name) for call in message.tool_calls]
        results = [
            CallResult(one.origin.id or "", one.origin.tool_name, not one.error)
            for one in message.tool_call_results
        ]
        role = _ROLES.get(message.role.value, "system")
        read.append(ReadMessage(role, message.text or "", tuple(calls), tuple(results)))
    return read


def _narrow(selector: ToolSelector, state: State) -> None:
    tools = state.data["tools"]
    if tools:  # the list that the agent sends, and runs tools of
        turn = selector.turn(tools, state.data["messages"], conversation=_conversation(state))
        tools[:] = turn.tools


def _report(selector: ToolSelector, state: State) -> None:
    messages = state.data["messages"]
    turn = selector.find(messages, conversation=_conversation(state))
    if turn is not None:
        turn.report_results(messages)


def _end(selector: ToolSelector, state: State) -> None:
    turn = selector.find(state.data["messages"], conversation=_conversation(state))
    if turn is not None:
        turn.end()


def _conversation(state: State) -> str | None:
    name = (state.data.get("hook_context") or {}).get("conversation")
    return name if isinstance(name, str) and name else None


def _described(tool: Any) -> tuple[str, str, Any]:
    return tool.name, tool.description, tool.parameters
