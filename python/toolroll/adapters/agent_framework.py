"""Microsoft Agent Framework (`toolroll[agent-framework]`): three middlewares that select, refuse and report.

from agent_framework import Agent
from toolroll.adapters.agent_framework import tool_selection

agent = Agent(client=client, tools=tools, middleware=tool_selection(max_tools=12))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from agent_framework import (
    AgentContext,
    AgentMiddleware,
    ChatContext,
    ChatMiddleware,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    MiddlewareTermination,
)
from agent_framework.exceptions import UserInputRequiredException

from toolroll.adapters.arguments import SelectionOptions
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, failed_by_text, role_of
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.providers.request_form import chosen_names
from toolroll.model.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

_BAD_ARGUMENTS = "_FunctionArgumentValidationError"  # which the framework keeps to itself
_Run: TypeAlias = "ContextVar[str | None]"  # of one agent's middlewares: its tools may run other agents


def tool_selection(
    roll: Toolroll | None = None, *, context: Context | None = None, **options: Unpack[SelectionOptions]
) -> list[Any]:
    """The middlewares of an agent: for its runs, its model and its tools.

    A conversation is the agent's session (`agent.create_session()`). Without one, each run stands alone.

    Args:
        roll: applies rules, learns and keeps conversations; None for one in memory.
        context: the caller.
        options: max_tools, always_include and k; see `SelectionOptions`.
    """
    selector = ToolSelector(
        roll,
        context=context,
        read_tool=_describe,
        read_messages=read_messages,
        suspending=(MiddlewareTermination, UserInputRequiredException),
        **options,
    )
    run: _Run = ContextVar("toolroll_run", default=None)
    return [RunMiddleware(selector, run), ToolSelection(selector, run), CallReports(selector, run)]


class RunMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Assigns each turn to a run, and closes the turn when the run ends."""

    def __init__(self, selector: ToolSelector, run: _Run) -> None:
        """selector, run: shared with the other middlewares."""
        self._selector, self._run = selector, run

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Runs the agent."""
        run = uuid4().hex
        conversation = _conversation(context)

        async def end(result: Any) -> None:
            turn = self._selector.find(conversation=conversation, run=run)
            if turn is not None and not getattr(result, "user_input_requests", None):
                await turn.aend()

        token = self._run.set(run)
        if context.stream:  # the caller has yet to read it, in this very context
            context.stream_result_hooks.append(end)
            return await call_next()
        try:
            await call_next()
        finally:
            self._run.reset(token)
        return await end(context.result)


class ToolSelection(ChatMiddleware):  # type: ignore[misc]
    """Sends the tools that a message needs."""

    def __init__(self, selector: ToolSelector, run: _Run) -> None:
        """selector, run: shared with the other middlewares."""
        self._selector, self._run = selector, run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Selects, before the request goes to the model."""
        options = dict(context.options or {})
        if tools := options.get("tools"):
            turn = await self._selector.aturn(
                tools,
                context.messages,
                conversation=_conversation(context),
                run=self._run.get(),
                always_include=chosen_names(options.get("tool_choice")),
            )
            context.options = {**options, "tools": list(turn.tools)}
        await call_next()


class CallReports(FunctionMiddleware):  # type: ignore[misc]
    """Answers calls of tools that were not sent, and reports the outcomes of all other calls."""

    def __init__(self, selector: ToolSelector, run: _Run) -> None:
        """selector, run: shared with the other middlewares."""
        self._selector, self._run = selector, run

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """Checks the call, runs it and reports it."""
        turn = self._selector.find(conversation=_conversation(context), run=self._run.get())
        name = context.function.name
        if turn is None:
            await call_next()
        elif (refusal := await turn.arefusal(name)) is not None:
            context.result = f"Error: {refusal}"
        else:
            async with turn.acall(name) as outcome:
                try:
                    await call_next()
                except TypeError as error:
                    if type(error).__name__ == _BAD_ARGUMENTS:  # no fault of the tool's
                        outcome.worked = None
                    raise


def read_messages(messages: Sequence[Any]) -> list[ReadMessage]:
    """The framework's messages, as selection reads them."""
    read = []
    for message in messages:
        calls = [MadeCall(one.call_id, one.name) for one in message.contents if one.type == "function_call"]
        results = [
            CallResult(one.call_id, "", not (one.exception or failed_by_text(one.result)))
            for one in message.contents
            if one.type == "function_result"
        ]
        role = role_of(message.role) or "system"
        read.append(ReadMessage(role, message.text or "", tuple(calls), tuple(results)))
    return read


def _conversation(context: Any) -> str | None:
    session = context.session
    return None if session is None else session.session_id


def _describe(tool: Any) -> tuple[str, str, Any] | None:
    return (tool.name, tool.description, tool.parameters()) if isinstance(tool, FunctionTool) else None
