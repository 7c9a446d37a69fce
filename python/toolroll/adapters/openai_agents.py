"""The OpenAI Agents SDK (`toolroll[openai-agents]`): an agent that selects and reports; the SDK refuses.

    from agents import Runner
    from toolroll.adapters.openai_agents import SelectingAgent, run_config

    agent = SelectingAgent(name="assistant", tools=tools, max_tools=12)
    result = await Runner.run(agent, "Refund order 7", run_config=run_config())

Without `run_config`, the SDK ends a run in which the model calls a tool that it was not sent.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from agents import Agent, AgentHooks, FunctionTool, ModelBehaviorError, RunConfig, RunContextWrapper, Tool

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import context_reader
from toolroll.adapters.messages import failed_by_text
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.providers.request_form import chosen_names
from toolroll.model.context import Context
from toolroll.roll import Toolroll

_MOST_RUNS = 1_024  # under way at once; of others, the messages tell the turn
_FAILED = "An error occurred while running the tool"  # how the SDK's own answer for an exception begins


@dataclass
class SelectingAgent(Agent[Any]):  # type: ignore[misc]
    """An `Agent` that sends the tools that a message needs, and reports the outcomes of their calls.

    Tools of MCP servers are selected from like the others. Hosted tools are always sent.

    Attributes:
        roll: applies rules, learns and keeps conversations; None for one in memory.
        max_tools: how many tools are sent at most, beside `always_include` and hosted ones.
        always_include: names of tools that every turn has. Unknown names are ignored.
        k: how many tools retrieval finds, as in `Toolroll.select`.
        selection_context: the caller, or a function that makes it of the run's context.
        conversation: a function that makes the conversation's name from the run's context, so that the list
            of tools stays stable, also in another process. None: each turn stands alone, known by its
            messages.
    """

    roll: Toolroll | None = None
    max_tools: int | None = None
    always_include: Sequence[str] = ()
    k: int | None = None
    selection_context: Context | Callable[[RunContextWrapper[Any]], Context] | None = None
    conversation: Callable[[RunContextWrapper[Any]], str | None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        about = "the run's context"
        self._context_of = context_reader(self.selection_context, about, argument="selection_context")
        self._selector = ToolSelector(
            self.roll,
            k=self.k,
            max_tools=self.max_tools,
            always_include=self.always_include,
            read_tool=_describe,
        )
        self._runs: OrderedDict[int, tuple[Any, AgentTurn]] = OrderedDict()
        hooks: AgentHooks[Any] | None = getattr(self, "hooks", None)
        if isinstance(hooks, ReportingHooks):  # of the agent that this one is a copy of
            hooks = hooks.inner
        self.hooks = ReportingHooks(self, hooks)

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        """The selected tools, and all tools that are not functions."""
        tools = await super().get_all_tools(run_context)
        if not any(isinstance(tool, FunctionTool) for tool in tools):
            return tools  # type: ignore[no-any-return]
        turn = await self._selector.aturn(
            tools,
            run_context.turn_input,
            conversation=self._conversation(run_context),
            context=self._context_of(run_context),
            always_include=chosen_names(self.model_settings.tool_choice),
        )
        # All contexts of a run share its usage object. It is kept, so that its id is not used again.
        self._runs[id(run_context.usage)] = run_context.usage, turn
        if len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)
        return list(turn.tools)

    def turn(self, context: RunContextWrapper[Any]) -> AgentTurn | None:
        """The turn of this run."""
        if (known := self._runs.get(id(context.usage))) is not None:
            return known[1]
        return self._selector.find(
            context.turn_input, conversation=self._conversation(context), context=self._context_of(context)
        )

    def forget(self, context: RunContextWrapper[Any]) -> None:
        """Forgets the run, which is over."""
        self._runs.pop(id(context.usage), None)

    def _conversation(self, context: RunContextWrapper[Any]) -> str | None:
        name = None if self.conversation is None else self.conversation(context)
        return (
            None if name is None else f"{name}/{self.name}"
        )  # agents that call each other share the context


class ReportingHooks(AgentHooks[Any]):  # type: ignore[misc]
    """Reports outcomes, and forwards every event to the agent's own hooks."""

    def __init__(self, agent: SelectingAgent, inner: AgentHooks[Any] | None) -> None:
        """inner: the agent's own hooks."""
        self.inner = inner
        self.outcomes: MutableMapping[Any, bool | None] = WeakKeyDictionary()  # of failed calls
        self._agent = agent

    async def on_start(self, context: Any, agent: Any) -> None:
        """Forwards the event."""
        if self.inner is not None:
            await self.inner.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        """Closes the turn at the end of the run."""
        if (turn := self._agent.turn(context)) is not None:
            await turn.aend()
        self._agent.forget(context)
        if self.inner is not None:
            await self.inner.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        """Forwards the event."""
        if self.inner is not None:
            await self.inner.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Notes when the call begins."""
        if (call := _call_id(context)) and (turn := self._agent.turn(context)) is not None:
            turn.begin(call)
        if self.inner is not None:
            await self.inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Reports the call: as failed if it raised an exception, or if its text says so."""
        worked = self.outcomes.pop(context, True)
        if worked and isinstance(result, str):
            worked = not (result.startswith(_FAILED) or failed_by_text(result))
        if isinstance(tool, FunctionTool) and (turn := self._agent.turn(context)) is not None:
            await turn.areport(tool.name, worked, turn.took(_call_id(context)))
        if self.inner is not None:
            await self.inner.on_tool_end(context, agent, tool, result)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """Forwards the event."""
        if self.inner is not None:
            await self.inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Forwards the event."""
        if self.inner is not None:
            await self.inner.on_llm_end(context, agent, response)


def _call_id(context: Any) -> str:
    """The id of a hook's call; "" in versions of the SDK that do not pass it."""
    return getattr(context, "tool_call_id", None) or ""


def run_config(config: RunConfig | None = None) -> RunConfig:
    """The run's configuration: the SDK answers calls of tools that were not sent with an error.

    It also tells the agents which calls raised an exception, even if the model gets another text.
    """
    config = RunConfig() if config is None else config
    theirs = config.tool_error_formatter

    async def tool_error_formatter(given: Any) -> str | None:
        hooks = getattr(getattr(given.run_context, "agent", None), "hooks", None)
        if given.kind == "tool_exception" and isinstance(hooks, ReportingHooks):
            hooks.outcomes[given.run_context] = None if isinstance(given.error, ModelBehaviorError) else False
        text = None if theirs is None else theirs(given)
        return await text if inspect.isawaitable(text) else text

    return replace(
        config, tool_not_found_behavior="return_error_to_model", tool_error_formatter=tool_error_formatter
    )


def _describe(tool: Any) -> tuple[str, str, Any] | None:
    is_function = isinstance(tool, FunctionTool)
    return (tool.name, tool.description, tool.params_json_schema) if is_function else None
