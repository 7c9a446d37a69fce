"""Haystack (`toolroll[haystack]`): hooks of its `Agent` that select and report; Haystack refuses.

    from haystack.components.agents import Agent
    from toolroll.adapters.haystack import selection_hooks

    agent = Agent(chat_generator=generator, tools=tools, hooks=selection_hooks(max_tools=12))
    result = agent.run(messages, hook_context={"conversation": "c-42"})

`conversation` may be left out: then each turn stands alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from haystack.components.agents.state.state import State
from haystack.dataclasses import ChatMessage

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import SelectionOptions
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, role_of
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Act = Callable[[ToolSelector, State], None]
_AsyncAct = Callable[[ToolSelector, State], Awaitable[None]]
_REJECTED = "was rejected by the user"  # how Haystack answers a call that a person does not want


def selection_hooks(
    roll: Toolroll | None = None, *, context: Context | None = None, **options: Unpack[SelectionOptions]
) -> dict[str, list[SelectionHook]]:
    """Hooks by the points at which they run; join the lists if you have your own hooks.

    Args:
        roll: applies rules, learns and keeps conversations; None for one in memory.
        context: the caller.
        options: max_tools, always_include and k; see `SelectionOptions`.
    """
    selector = ToolSelector(
        roll,
        context=context,
        read_tool=attrgetter("name", "description", "parameters"),
        read_messages=read_messages,
        **options,
    )
    points: dict[str, tuple[_Act, _AsyncAct]] = {
        "before_llm": (_narrow, _anarrow),
        "after_tool": (_report, _areport),
        "after_run": (_end, _aend),
    }
    return {point: [SelectionHook(selector, *acts, point)] for point, acts in points.items()}


class SelectionHook:
    """One of the hooks of `selection_hooks`."""

    def __init__(self, selector: ToolSelector, act: _Act, aact: _AsyncAct, point: str) -> None:
        """act, aact: run at this point of a run."""
        self.allowed_hook_points = (point,)
        self._selector, self._act, self._aact = selector, act, aact

    def run(self, state: State) -> None:
        """Called by the agent."""
        self._act(self._selector, state)

    async def run_async(self, state: State) -> None:
        """Called by the agent in an event loop."""
        await self._aact(self._selector, state)

    def to_dict(self) -> dict[str, Any]:
        """Always fails: a `Toolroll` has threads and cannot be serialised."""
        raise InvalidInput("haystack: a pipeline with selection hooks cannot be serialised; add them in code")


def read_messages(messages: Sequence[ChatMessage]) -> list[ReadMessage]:
    """Haystack's messages, as selection reads them."""
    read = []
    for message in messages:
        calls = [MadeCall(call.id or "", call.tool_name) for call in message.tool_calls]
        results = [
            CallResult(one.origin.id or "", one.origin.tool_name, _worked(one))
            for one in message.tool_call_results
        ]
        role = role_of(message.role) or "system"
        read.append(ReadMessage(role, message.text or "", tuple(calls), tuple(results)))
    return read


def _worked(result: Any) -> bool | None:
    """Whether the tool worked; None if a person has rejected the call."""
    if result.error and _REJECTED in str(result.result):
        return None
    return not result.error


def _narrow(selector: ToolSelector, state: State) -> None:
    tools = state.data["tools"]
    if tools:  # the list that the agent sends, and runs tools of
        turn = selector.turn(tools, state.data["messages"], conversation=_conversation(state))
        tools[:] = turn.tools


async def _anarrow(selector: ToolSelector, state: State) -> None:
    tools = state.data["tools"]
    if tools:
        turn = await selector.aturn(tools, state.data["messages"], conversation=_conversation(state))
        tools[:] = turn.tools


def _report(selector: ToolSelector, state: State) -> None:
    if (turn := _turn(selector, state)) is not None:
        turn.report_results(state.data["messages"])


async def _areport(selector: ToolSelector, state: State) -> None:
    if (turn := _turn(selector, state)) is not None:
        await turn.areport_results(state.data["messages"])


def _end(selector: ToolSelector, state: State) -> None:
    if (turn := _turn(selector, state)) is not None:
        turn.end()


async def _aend(selector: ToolSelector, state: State) -> None:
    if (turn := _turn(selector, state)) is not None:
        await turn.aend()


def _turn(selector: ToolSelector, state: State) -> AgentTurn | None:
    return selector.find(state.data["messages"], conversation=_conversation(state))


def _conversation(state: State) -> str | None:
    name = (state.data.get("hook_context") or {}).get("conversation")
    return name if isinstance(name, str) and name else None
