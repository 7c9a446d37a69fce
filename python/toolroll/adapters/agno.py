"""Agno (`toolroll[agno]`): an `Agent` that selects and reports; Agno itself refuses.

    from toolroll.adapters.agno import SelectingAgent

    agent = SelectingAgent(model=model, tools=tools, max_tools=12)
    result = agent.run("Refund order 7", session_id="c-42")

It selects at the start of a run, from the tools of the agent, of its toolkits and of MCP servers.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agno.agent import Agent
from agno.exceptions import AgentRunException, RunCancelledException
from agno.tools import Function, Toolkit

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import checked_context
from toolroll.adapters.messages import failed_by_text
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.model.context import Context
from toolroll.roll import Toolroll

_OWN = ("agno.agent.", "agno.offload.", "agno.learn.", "agno.fs.", "agno.compression.", "agno.skills.")
_NO_FAILURE = (AgentRunException, RunCancelledException)


class SelectingAgent(Agent):  # type: ignore[misc]
    """Sends the tools that a message needs, and reports the outcomes of their calls.

    The run does not know tools that were not sent, so Agno answers their calls and does not run them. Each
    agent has its own conversation in an Agno session.
    """

    def __init__(
        self,
        *,
        roll: Toolroll | None = None,
        max_tools: int | None = None,
        always_include: Iterable[str] = (),
        k: int | None = None,
        selection_context: Context | None = None,
        **options: Any,
    ) -> None:
        """Reads the tools with the first message.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            max_tools: how many tools are sent at most, beside `always_include` and Agno's own.
            always_include: names of tools that every run has. Unknown names are ignored.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            selection_context: the caller; None takes the user of the run.
            options: of `Agent`.
        """
        self._selection_context = checked_context(selection_context, "selection_context")
        self._selector = ToolSelector(
            roll, k=k, max_tools=max_tools, always_include=always_include, read_tool=_describe
        )
        super().__init__(**options)
        hooks: Any = self
        hooks.tool_hooks, hooks.post_hooks = _with(hooks.tool_hooks, _report), _with(hooks.post_hooks, _end)

    def get_tools(self, run_response: Any, run_context: Any, session: Any, user_id: Any = None) -> list[Any]:
        """The selected tools of a run."""
        given: list[Any] = super().get_tools(run_response, run_context, session, user_id)
        tools, rest = _divided(given, is_async=False)
        if not tools:
            return given
        messages = _messages(run_response, session)
        turn = self._selector.turn(tools, messages, **self._arguments(run_response, run_context))
        return [*turn.tools, *rest, *_instructions(given, turn)]

    async def aget_tools(
        self,
        run_response: Any,
        run_context: Any,
        session: Any,
        user_id: Any = None,
        check_mcp_tools: bool = True,
    ) -> list[Any]:
        """The selected tools of a run."""
        given: list[Any] = await super().aget_tools(
            run_response, run_context, session, user_id, check_mcp_tools
        )
        tools, rest = _divided(given, is_async=True)
        if not tools:
            return given
        messages = _messages(run_response, session)
        turn = await self._selector.aturn(tools, messages, **self._arguments(run_response, run_context))
        return [*turn.tools, *rest, *_instructions(given, turn)]

    def deep_copy(self, *, update: dict[str, Any] | None = None) -> Any:
        """A copy with the same selector: AgentOS makes one for each request."""
        made = super().deep_copy(update=update)
        made._selector, made._selection_context = self._selector, self._selection_context
        return made

    def _arguments(self, run_response: Any, run_context: Any) -> dict[str, Any]:
        waiting = [call.tool_name for call in run_response.tools or () if call.result is None]
        return {
            "conversation": self._conversation(run_context),
            "run": run_context.run_id,
            "context": self._context_of(run_context),
            "always_include": [name for name in waiting if name],  # calls that wait for a person
        }

    def _conversation(self, run_context: Any) -> str:
        return f"{run_context.session_id}/{self.name or ''}"

    def _turn(self, run_context: Any) -> AgentTurn | None:
        name, context = self._conversation(run_context), self._context_of(run_context)
        return self._selector.find(conversation=name, context=context)

    def _context_of(self, run_context: Any) -> Context:
        return self._selection_context or Context(user=run_context.user_id or "")


# Agno copies an agent by the names of its constructor's arguments.
_SIGNATURE = inspect.signature(SelectingAgent.__init__)
_NAMED = [one for one in _SIGNATURE.parameters.values() if one.kind is not one.VAR_KEYWORD]
_INHERITED = list(inspect.signature(Agent.__init__).parameters.values())[1:]
setattr(  # noqa: B010 - mypy knows no such attribute
    SelectingAgent.__init__, "__signature__", _SIGNATURE.replace(parameters=[*_NAMED, *_INHERITED])
)


def _report(agent: Any, run_context: Any, function_name: str, function_call: Any, arguments: Any) -> Any:
    """A hook of Agno's around each call; `function_call` gives an awaitable in an asynchronous run."""
    turn = agent._turn(run_context) if isinstance(agent, SelectingAgent) else None
    if turn is None:
        return function_call(**arguments)
    if (refusal := turn.refusal(function_name)) is not None:  # policy has changed since
        return refusal
    call = f"{function_name} {id(arguments)}"
    turn.begin(call)
    try:
        result = function_call(**arguments)
    except BaseException as error:
        turn.report(function_name, _worked_after(error), turn.took(call))
        raise
    if inspect.isawaitable(result):
        return _areport(turn, function_name, result)
    turn.report(function_name, not failed_by_text(result), turn.took(call))
    return result


async def _areport(turn: AgentTurn, name: str, running: Awaitable[Any]) -> Any:
    async with turn.acall(name) as outcome:
        try:
            result = await running
        except Exception as error:
            outcome.worked = _worked_after(error)
            raise
        outcome.worked = not failed_by_text(result)
        return result


def _worked_after(error: BaseException) -> bool | None:
    """Not a failure: the tool asks for another attempt or ends the run, or the run is cancelled."""
    return False if isinstance(error, Exception) and not isinstance(error, _NO_FAILURE) else None


def _end(agent: Any, run_context: Any) -> None:
    """A hook of Agno's after the answer: the turn is over."""
    if isinstance(agent, SelectingAgent) and (turn := agent._turn(run_context)) is not None:
        turn.end()


def _with(hooks: list[Any] | None, hook: Callable[..., Any]) -> list[Any]:
    known = list(hooks or ())
    return known if hook in known else [*known, hook]


def _divided(given: Iterable[Any], *, is_async: bool) -> tuple[list[Any], list[Any]]:
    """The tools to select from, with the tools of toolkits; and Agno's own tools, always sent."""
    tools: list[Any] = []
    for one in given:
        if isinstance(one, Toolkit):
            tools += (one.get_async_functions() if is_async else one.get_functions()).values()
        else:
            tools.append(one)
    own = [tool for tool in tools if _module(tool).startswith(_OWN)]
    return [tool for tool in tools if not _module(tool).startswith(_OWN)], own


def _instructions(given: Iterable[Any], turn: AgentTurn) -> list[Toolkit]:
    """Empty toolkits with the instructions of the selected tools' toolkits."""
    sent = set(turn.names)
    return [
        Toolkit(name=one.name, instructions=one.instructions, add_instructions=True)
        for one in given
        if isinstance(one, Toolkit) and one.add_instructions and one.instructions
        if not sent.isdisjoint(one.get_async_functions())
    ]


def _module(tool: Any) -> str:
    function = tool.entrypoint if isinstance(tool, Function) else tool
    return getattr(function, "__module__", None) or ""


def _messages(run_response: Any, session: Any) -> list[Any]:
    """The user's new messages, and all messages of earlier runs."""
    runs = [run for run in session.runs or () if run.run_id != run_response.run_id]
    before = list(runs[-1].messages or ()) if runs else []
    said = run_response.input.input_content
    if isinstance(said, list) and not all(isinstance(one, str) for one in said):
        return [*before, *said]
    return [*before, run_response.input.input_content_string()]


def _describe(tool: Any) -> tuple[Any, Any, Any]:
    """Describes a `Function`, which Agno completes from its entrypoint for each run, or a Python function."""
    if not isinstance(tool, Function):
        made = Function.from_callable(tool)
        return made.name, made.description, made.parameters
    parameters = tool.parameters
    if tool.entrypoint is None or tool.skip_entrypoint_processing or parameters.get("properties"):
        return tool.name, tool.description, parameters
    made = Function.from_callable(tool.entrypoint, name=tool.name)
    return tool.name, tool.description or made.description, made.parameters
