"""LangChain agents and LangGraph (`toolroll[langchain]`): a middleware that selects, refuses and reports.

    from langchain.agents import create_agent
    from toolroll.adapters.langchain import ToolSelectorMiddleware

    agent = create_agent(model, tools=tools, middleware=[ToolSelectorMiddleware(max_tools=12)])

It replaces LangChain's `LLMToolSelectorMiddleware` and takes the same arguments, but asks no model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import ModelRequest, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolInvocationError
from typing_extensions import NotRequired

from toolroll.adapters.agent_turn import AgentTurn, CallOutcome
from toolroll.adapters.arguments import ContextOf, check_conversation, context_reader
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, read_message
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.providers.request_form import chosen_names
from toolroll.model.context import Context
from toolroll.roll import Toolroll

# The beginnings of the two answers of LangGraph's ToolNode to wrong arguments.
_BAD_ARGUMENTS = ("Error invoking tool ", "Error: ToolInvocationError(")


class SelectorState(AgentState):  # type: ignore[misc]
    """The agent's state, with the run that a turn belongs to."""

    toolroll_run: NotRequired[Annotated[str, PrivateStateAttr]]  # type: ignore[valid-type]


class ToolSelectorMiddleware(AgentMiddleware):  # type: ignore[misc]
    """Sends the tools that a message needs, answers calls of others, and reports the outcomes of the calls.

    The `thread_id` of the config names the conversation. Without it, each run of the agent stands alone.
    Several agents may share one middleware; agents that run inside a tool have conversations of their own.
    """

    state_schema = SelectorState

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        model: object = None,
        system_prompt: object = None,
        max_tools: int | None = None,
        always_include: Iterable[str] | None = None,
        max_retries: int = 1,
        on_parsing_failure: object = "error",
        k: int | None = None,
        context: Context | ContextOf | None = None,
    ) -> None:
        """Reads the tools with the first message.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            model: accepted for compatibility with `LLMToolSelectorMiddleware`, without effect, like the next
                three.
            system_prompt: see `model`.
            max_retries: see `model`.
            on_parsing_failure: see `model`.
            max_tools: how many tools are sent at most, beside `always_include` and the provider's own.
            always_include: names of tools that every turn has. Unknown names are ignored.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            context: the caller, or a function that makes it of the run's `Runtime`.
        """
        super().__init__()
        self._context = context_reader(context, "the run's Runtime")
        self.selector = ToolSelector(
            roll,
            k=k,
            max_tools=max_tools,
            always_include=always_include or (),
            read_messages=read_messages,
            suspending=(GraphBubbleUp,),
        )

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """A run begins."""
        return {"toolroll_run": uuid4().hex}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """A run begins."""
        return self.before_agent(state, runtime)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Sends the selected tools."""
        if not request.tools:
            return handler(request)
        turn = self.selector.turn(request.tools, request.messages, **self._arguments(request))
        return handler(request.override(tools=list(turn.tools)))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Sends the selected tools."""
        if not request.tools:
            return await handler(request)
        turn = await self.selector.aturn(request.tools, request.messages, **self._arguments(request))
        return await handler(request.override(tools=list(turn.tools)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Runs the call of a sent tool and reports its outcome; answers any other call."""
        turn = self._turn_of_call(request)
        if turn is None and (conversation := _conversation()) is not None:
            turn = self.selector.resume(_tools(request), conversation, context=self._context(request.runtime))
        if turn is None:
            return handler(request)
        name = request.tool_call["name"]
        if (refusal := turn.refusal(name, unknown=request.tool is None)) is not None:
            return _refused(request, refusal)
        with turn.call(name) as outcome:
            with _excuse_arguments(outcome):
                result = handler(request)
            outcome.worked = _worked(result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Runs the call of a sent tool and reports its outcome; answers any other call."""
        turn = self._turn_of_call(request)
        if turn is None and (conversation := _conversation()) is not None:
            context = self._context(request.runtime)
            turn = await self.selector.aresume(_tools(request), conversation, context=context)
        if turn is None:
            return await handler(request)
        name = request.tool_call["name"]
        if (refusal := await turn.arefusal(name, unknown=request.tool is None)) is not None:
            return _refused(request, refusal)
        async with turn.acall(name) as outcome:
            with _excuse_arguments(outcome):
                result = await handler(request)
            outcome.worked = _worked(result)
        return result

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Closes the turn at the end of the run."""
        if (turn := self._turn(state, runtime)) is not None:
            turn.end()

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Closes the turn at the end of the run."""
        if (turn := self._turn(state, runtime)) is not None:
            await turn.aend()

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "conversation": _conversation(),
            "run": _run(request.state),
            "context": self._context(request.runtime),
            "always_include": chosen_names(request.tool_choice),
        }

    def _turn(self, state: Any, runtime: Any) -> AgentTurn | None:
        """The last turn of the conversation."""
        context = self._context(runtime)
        return self.selector.find(conversation=_conversation(), run=_run(state), context=context)

    def _turn_of_call(self, request: ToolCallRequest) -> AgentTurn | None:
        """The turn that the call belongs to; None if another process has begun it."""
        turn = self._turn(request.state, request.runtime)
        return turn if turn is not None and turn.run == _run(request.state) else None


def read_messages(messages: Sequence[Any]) -> list[ReadMessage]:
    """LangChain's messages, as selection reads them; the general reader takes ten times as long."""
    read: list[ReadMessage] = []
    for message in messages:
        kind = getattr(message, "type", None)
        if kind == "human":
            read.append(ReadMessage("user", _text(message)))
        elif kind in ("ai", "AIMessageChunk"):
            calls = [MadeCall(call["id"] or "", call["name"]) for call in message.tool_calls]
            read.append(ReadMessage("assistant", _text(message), tuple(calls)))
        elif kind == "tool":
            outcome = CallResult(message.tool_call_id, message.name or "", message.status != "error")
            read.append(ReadMessage("tool", "", (), (outcome,)))
        elif (other := read_message(message)) is not None:
            read.append(other)
    return read


def _text(message: Any) -> str:
    content = message.content
    return content if isinstance(content, str) else str(message.text)


def _conversation() -> str | None:
    """The name of the conversation: the thread, and a sub-agent's tool call. None without a thread."""
    try:
        configurable = get_config().get("configurable", {})
    except RuntimeError:  # not called by LangGraph
        return None
    thread = configurable.get("thread_id")
    if thread is None:
        return None
    check_conversation(str(thread), "thread_id")
    above = str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]
    return f"{thread}/{above}" if above else str(thread)


def _run(state: Any) -> str | None:
    return state.get("toolroll_run") if isinstance(state, dict) else None


def _tools(request: ToolCallRequest) -> Sequence[Any]:
    known = getattr(request.runtime, "tools", None) or ()
    return known or ([] if request.tool is None else [request.tool])


def _refused(request: ToolCallRequest, text: str) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")


@contextmanager
def _excuse_arguments(outcome: CallOutcome) -> Iterator[None]:
    """Makes wrong arguments no failure of the tool."""
    try:
        yield
    except ToolInvocationError:
        outcome.worked = None
        raise


def _worked(result: Any) -> bool | None:
    """Whether the tool worked, by its result; None if only the arguments were wrong."""
    if getattr(result, "status", "success") != "error":
        return True
    return None if str(result.content).startswith(_BAD_ARGUMENTS) else False
