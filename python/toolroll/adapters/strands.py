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

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import SelectionOptions
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.providers.request_form import chosen_names
from toolroll.model.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Spec(NamedTuple):
    """A tool in Strands' form: a name, a description, and a schema inside a dictionary."""

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
        roll: applies rules, learns and keeps conversations; None for one in memory.
        context: the caller.
        conversation: its name, so that another process can continue it; None for a private one.
        options: max_tools, always_include and k; see `SelectionOptions`.
    """
    selector = ToolSelector(roll, context=context, read_tool=_describe, **options)
    selection = ToolSelection(selector, uuid4().hex if conversation is None else conversation)
    agent.add_middleware(InvokeModelStage.Input, selection.narrow)
    agent.hooks.add_callback(BeforeToolCallEvent, selection.check)
    agent.hooks.add_callback(AfterToolCallEvent, selection.report)
    agent.hooks.add_callback(AfterInvocationEvent, selection.end)
    return agent


class ToolSelection:
    """The middleware and the hooks of one agent."""

    def __init__(self, selector: ToolSelector, conversation: str) -> None:
        """conversation: the name of the agent's."""
        self._selector, self._conversation = selector, conversation
        self._known: dict[str, _Spec] = {}

    async def narrow(self, request: Any) -> Any:
        """Sends the selected tools."""
        if not request.tool_specs:
            return request
        choice = request.tool_choice or {}
        own = request.agent.tool_registry.dynamic_tools  # such as the form of a structured answer
        turn = await self._selector.aturn(
            self._same_objects(request),
            request.messages,
            conversation=self._conversation,
            always_include=(*chosen_names(choice.get("tool")), *own),
        )
        by_name = {spec["name"]: spec for spec in request.tool_specs}
        return request.replace(tool_specs=[by_name[spec.content["name"]] for spec in turn.tools])

    async def check(self, event: BeforeToolCallEvent) -> None:
        """Cancels the call of a tool that was not sent."""
        if (turn := self._turn()) is None:
            return
        if (text := await turn.arefusal(event.tool_use["name"])) is not None:
            event.cancel_tool = text
        else:
            turn.begin(event.tool_use["toolUseId"])

    async def report(self, event: AfterToolCallEvent) -> None:
        """Reports the outcome of a call."""
        if (turn := self._turn()) is not None and not event.cancel_message:
            worked = event.result.get("status") != "error"
            await turn.areport(event.tool_use["name"], worked, turn.took(event.tool_use["toolUseId"]))

    async def end(self, event: AfterInvocationEvent) -> None:
        """Closes the turn, unless the agent waits for a person."""
        if (turn := self._turn()) is not None and getattr(event.result, "stop_reason", "") != "interrupt":
            await turn.aend()

    def _turn(self) -> AgentTurn | None:
        return self._selector.find(conversation=self._conversation)

    def _same_objects(self, request: Any) -> list[_Spec]:
        """The same objects for the same tools each time: Strands copies the tools for each request."""
        registry, known, tools = request.agent.tool_registry, self._known, []
        for spec in request.tool_specs:
            name = spec["name"]
            tool = registry.registry.get(name) or registry.dynamic_tools.get(name)
            own = spec if tool is None else tool.tool_spec
            if (one := known.get(name)) is None or one.content is not own:
                one = known[name] = _Spec(own)
            tools.append(one)
        return tools


def _describe(spec: _Spec) -> tuple[str, str, Any]:
    schema = spec.content.get("inputSchema")
    return spec.content["name"], spec.content.get("description", ""), (schema or {}).get("json")
