"""Pydantic-AI (`toolroll[pydantic-ai]`): a capability that selects and reports; Pydantic-AI itself refuses.

    from pydantic_ai import Agent
    from toolroll.adapters.pydantic_ai import ToolSelection

    agent = Agent(model, tools=tools, capabilities=[ToolSelection(max_tools=12)])

It selects from all function tools of the agent, also of toolsets and MCP servers. With
`SearchStrategy`, the model searches: it is the strategy of Pydantic-AI's own `ToolSearch`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pydantic_ai import DeferredToolRequests, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolRetryError,
)
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.tools import ToolDefinition
from typing_extensions import Unpack

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import ContextOf, SelectionOptions, context_reader
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, failed_by_text
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.meta_tools import MOST_FOUND, MOST_QUERIES
from toolroll.model.argument_checks import check_number
from toolroll.model.context import Context
from toolroll.roll import Toolroll

# Of a `ToolDefinition`. They are new objects in each step, with the same contents.
_describe = attrgetter("name", "description", "parameters_json_schema")


@dataclass(init=False)
class ToolSelection(AbstractCapability[Any]):  # type: ignore[misc]
    """Sends the tools that a message needs, and reports the outcomes of their calls.

    The run does not know tools that were not sent, so Pydantic-AI answers their calls and does not run them.
    The conversation is the run's `conversation_id`, which the message history passes on.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        context: Context | ContextOf | None = None,
        **options: Unpack[SelectionOptions],
    ) -> None:
        """Reads the tools with the first message.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            context: the caller, or a function that makes it of the `RunContext`.
            options: max_tools, always_include and k; see `SelectionOptions`.
        """
        self._context = context_reader(context, "the RunContext")
        self.selector = ToolSelector(
            roll,
            read_tool=_describe,
            read_messages=read_messages,
            suspending=(ApprovalRequired, CallDeferred, SkipToolExecution),
            **options,
        )

    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        """Returns the selected tools, and reports the results of calls that ran elsewhere."""
        if not tool_defs:
            return tool_defs
        messages = [*ctx.messages] if ctx.messages else [_prompt(ctx)]
        turn = await self.selector.aturn(
            tool_defs, messages, conversation=ctx.conversation_id, run=ctx.run_id, context=self._context(ctx)
        )
        await turn.areport_results(messages)
        return list(turn.tools)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: Any,
        handler: Callable[[Any], Any],
    ) -> Any:
        """Reports the outcome of the call. A tool that asks for other arguments has not failed."""
        turn = self._turn(ctx)
        if turn is None:
            return await handler(args)
        turn.reported.add(call.tool_call_id)
        return await _report_call(turn, call.tool_name, handler(args))

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Any]) -> Any:
        """Closes the turn, unless calls wait for an approval or for another program."""
        result = await handler()
        if not isinstance(result.output, DeferredToolRequests) and (turn := self._turn(ctx)) is not None:
            await turn.aend()
        return result

    def _turn(self, ctx: RunContext[Any]) -> AgentTurn | None:
        context = self._context(ctx)
        return self.selector.find(conversation=ctx.conversation_id, run=ctx.run_id, context=context)


@dataclass(init=False)
class SearchStrategy(AbstractCapability[Any]):  # type: ignore[misc]
    """The strategy of a `ToolSearch`, and a capability that reports the outcomes of the calls.

        search = SearchStrategy()
        agent = Agent(model, tools=tools, capabilities=[ToolSearch(strategy=search), search])

    The model searches among the tools with `defer_loading`; its calls of found tools are reported.
    A tool that policy denies is not sent, not found and not run.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        max_results: int = 10,
        context: Context | ContextOf | None = None,
    ) -> None:
        """Reads the tools with the first search.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            max_results: how many tools a search finds, at most 20; `ToolSearch` has a limit of its own.
            context: the caller, or a function that makes it of the `RunContext`.
        """
        check_number(max_results, "max_results", 1, MOST_FOUND)
        self._context = context_reader(context, "the RunContext")
        self._max_results = max_results
        self.selector = ToolSelector(
            roll, read_tool=_describe, suspending=(ApprovalRequired, CallDeferred, SkipToolExecution)
        )

    async def __call__(
        self, ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        """Names of the tools that fit the queries best, best first."""
        said = [query for query in queries if query.strip()][:MOST_QUERIES]
        turn = await self._turn(ctx, tools)
        if not said or turn.session is None:
            return []
        return [tool.name for tool in await turn.session.asearch(*said, k=self._max_results)]

    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        """All tools that policy allows: the provider gets deferred tools, too."""
        deferred = [tool for tool in tool_defs if tool.defer_loading]
        if not deferred:
            return tool_defs
        turn = await self._turn(ctx, deferred)
        visible = turn.roll.visible(turn.context)
        return [tool for tool in tool_defs if tool.name in visible or not tool.defer_loading]

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: Any,
        handler: Callable[[Any], Any],
    ) -> Any:
        """Runs a tool that may be found, and reports the outcome of the call."""
        if not tool_def.defer_loading:
            return await handler(args)
        turn = await self._turn(ctx, [tool_def])
        if not turn.roll.may(call.tool_name, turn.context):
            raise ModelRetry(f"{call.tool_name!r} is not available.")
        return await _report_call(turn, call.tool_name, handler(args))

    async def _turn(self, ctx: RunContext[Any], tools: Sequence[ToolDefinition]) -> AgentTurn:
        name = ctx.conversation_id or ctx.run_id or ""
        return await self.selector.aresume(tools, name, context=self._context(ctx))


async def _report_call(turn: AgentTurn, name: str, running: Awaitable[Any]) -> Any:
    """Reports a call and returns its result. A tool that asks for other arguments has not failed."""
    async with turn.acall(name) as outcome:
        try:
            return await running
        except (ModelRetry, ToolRetryError):
            outcome.worked = None
            raise


def read_messages(messages: Sequence[ModelMessage]) -> list[ReadMessage]:
    """Pydantic-AI's messages, as selection reads them."""
    read: list[ReadMessage] = []
    for message in messages:
        if isinstance(message, ReadMessage):
            read.append(message)
        elif message.kind == "response":
            texts = [part.content for part in message.parts if part.part_kind == "text"]
            calls = [
                MadeCall(part.tool_call_id, part.tool_name)
                for part in message.parts
                if part.part_kind == "tool-call"
            ]
            read.append(ReadMessage("assistant", "\n".join(texts), tuple(calls)))
        else:
            read += _request_messages(message.parts)
    return read


def _request_messages(parts: Sequence[Any]) -> list[ReadMessage]:
    said = [_text(part.content) for part in parts if part.part_kind == "user-prompt"]
    results = [
        CallResult(part.tool_call_id, part.tool_name, _worked(part))
        for part in parts
        if part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name)
    ]
    read = [ReadMessage("tool", "", (), tuple(results))] if results else []
    return [*read, ReadMessage("user", "\n".join(said))] if said else read


def _worked(part: Any) -> bool | None:
    """Whether the tool worked; None if the call was refused, or the tool asked for other arguments."""
    if part.part_kind == "retry-prompt":
        return None
    outcome = getattr(part, "outcome", "success")
    if outcome != "success":
        return False if outcome == "failed" else None
    return not failed_by_text(part.content)


def _prompt(ctx: RunContext[Any]) -> ReadMessage:
    return ReadMessage("user", _text(ctx.prompt))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [one if isinstance(one, str) else getattr(one, "content", None) for one in content or ()]
    return "\n".join([text for text in texts if isinstance(text, str)])
