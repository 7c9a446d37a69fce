"""Strands Agents (`toolroll[strands]`): a middleware and three hooks that select, refuse and report.

from strands import Agent
from toolroll.adapters.strands import select_tools

agent = select_tools(Agent(model=model, tools=tools), max_tools=12)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from strands import Agent
from strands.hooks import AfterInvocationEvent, AfterToolCallEvent, BeforeToolCallEvent
from strands.middleware import InvokeModelStage

from toolroll.adapters.selection_options import SelectionOptions
from toolroll.adapters.tool_choice import chosen_names
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Spec(NamedTuple):
    """A tool as Strands sends it: a name, a description, and a schema in a dictionary of its own."""

    content: dict[str, Any]


def select_tools(
    agent: Agent,
    roll: Toolroll | None = None,
    *,
    context: Context | None = None,
    conversation: str | None = None,
    **options: Unpack[SelectionOptions],
) -> Agent:
    """Makes the agent select its tools, refuse calls of others and report outcomes. Returns the agent.

    Args:
        agent: an agent object holds one conversation.
        roll: whose rules apply, which learns, and which keeps conversations; None for one in memory.
        context: who asks.
        conversation: its name, where another process goes on with it; None for one of its own.
        options: max_tools, always_include and k; see `SelectionOptions`.
    """
    selector = ToolSelector(roll, context=context, read_tool=_described, **options)
    name = uuid4().hex if conversation is None else conversation

    async def narrow(request: Any) -> Any:
        if not request.tool_specs:
            return request
        specs = [_Spec(spec) for spec in request.tool_specs]
        choice = request.tool_choice or {}
        turn = await selector.aturn(
            specs, request.messages, conversation=name, always_include=chosen_names(choice.get("tool"))
        )
        return request.replace(tool_specs=[spec.content for spec in turn.tools])

    async def check(event: BeforeToolCallEvent) -> None:
        turn = selector.find(conversation=name)
        if turn is not None and (text := await turn.arefusal(event.tool_use["name"])) is not None:
            event.cancel_tool = text

    async def report(event: AfterToolCallEvent) -> None:
        turn = selector.find(conversation=name)
        if turn is not None and not event.cancel_message:
            await turn.areport(event.tool_use["name"], event.result.get("status") != "error")

    async def end(event: AfterInvocationEvent) -> None:
        turn = selector.find(conversation=name)
        if turn is not None and getattr(event.result, "stop_reason", "") != "interrupt":
            await turn.aend()

    agent.add_middleware(InvokeModelStage.Input, narrow)
    agent.hooks.add_callback(BeforeToolCallEvent, check)
    agent.hooks.add_callback(AfterToolCallEvent, report)
    agent.hooks.add_callback(AfterInvocationEvent, end)
    return agent


def _described(spec: _Spec) -> tuple[str, str, Any]:
    schema = spec.content.get("inputSchema")
    return spec.content["name"], spec.content.get("description", ""), (schema or {}).get("json")
