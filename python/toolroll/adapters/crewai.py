"""CrewAI (`toolroll[crewai]`): an `Agent` that selects, refuses and reports.

    from toolroll.adapters.crewai import SelectingAgent

    agent = SelectingAgent(role="clerk", goal="help", backstory="", llm=llm, tools=tools, max_tools=12)

It selects at the start of a task, or of a `kickoff` of the agent by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from crewai import Agent
from crewai.hooks import register_after_tool_call_hook, register_before_tool_call_hook
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import checked_context
from toolroll.adapters.messages import failed_by_text
from toolroll.adapters.tool_selector import ToolSelector

_OWN = ("crewai.tools.agent_tools.", "crewai.tools.memory_tools", "crewai.skills.")
_NOT_RUN = ("Tool not found", "Tool execution blocked by hook", "Tool '")  # the last one has a limit of uses


def _no_turn() -> ContextVar[AgentTurn | None]:
    return ContextVar("toolroll_turn", default=None)


class SelectingAgent(Agent):  # type: ignore[misc]
    """Sends the tools that a task needs, answers calls of others, and reports the outcomes of the calls.

    Attributes:
        roll: applies rules, learns and keeps conversations; None for one in memory.
        max_tools: how many tools are sent at most, beside `always_include` and CrewAI's own.
        always_include: names of tools that every task has. Unknown names are ignored.
        k: how many tools retrieval finds, as in `Toolroll.select`.
        selection_context: the caller.
        conversation: its name, so that the list of tools stays stable from task to task. None: each task
            stands alone.
    """

    roll: Any = None
    max_tools: int | None = None
    always_include: Sequence[str] = ()
    k: int | None = None
    selection_context: Any = None
    conversation: str | None = None

    _selector: ToolSelector | None = PrivateAttr(default=None)
    # Of the run that asks: an agent may run several times at once.
    _turn: ContextVar[AgentTurn | None] = PrivateAttr(default_factory=_no_turn)
    _preparing: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def create_agent_executor(self, tools: Any = None, task: Any = None) -> None:
        """Creates the executor of a task, with the selected tools."""
        agent: Any = self
        given = list(agent.tools or () if tools is None else tools)
        if task is not None:
            given = self._selected(given, [task.description], str(task.id))
        super().create_agent_executor(tools=given, task=task)

    def execute_task(self, task: Any, context: str | None = None, tools: Any = None) -> Any:
        """Executes a task: one turn."""
        result = super().execute_task(task, context, tools)
        if (turn := self._turn.get()) is not None:
            turn.end()
        return result

    async def aexecute_task(self, task: Any, context: str | None = None, tools: Any = None) -> Any:
        """Executes a task: one turn."""
        result = await super().aexecute_task(task, context, tools)
        if (turn := self._turn.get()) is not None:
            await turn.aend()
        return result

    def _prepare_kickoff(self, messages: Any, *arguments: Any, **options: Any) -> Any:
        """Creates a `kickoff`'s executor. CrewAI adds tools of `mcps` and `apps` inside: all are sent."""
        agent: Any = self
        said = [messages] if isinstance(messages, str) else messages
        with self._preparing:  # CrewAI reads the agent's tools
            tools = agent.tools
            agent.tools = self._selected(list(tools or ()), said, uuid4().hex)
            try:
                return super()._prepare_kickoff(messages, *arguments, **options)
            finally:
                agent.tools = tools

    def _selected(self, tools: list[Any], messages: Sequence[Any], run: str) -> list[Any]:
        if self._selector is None:
            self._selector = ToolSelector(
                self.roll,
                k=self.k,
                max_tools=self.max_tools,
                always_include=[sanitize_tool_name(name) for name in self.always_include],
                context=checked_context(self.selection_context, "selection_context"),
                read_tool=_describe,
            )
        turn = self._selector.turn(tools, messages, conversation=self.conversation, run=run)
        self._turn.set(turn)
        return list(turn.tools)


def _describe(tool: Any) -> tuple[str, str, Any] | None:
    """Describes a tool; None for CrewAI's own, such as one that hands a task to another agent."""
    if type(tool).__module__.startswith(_OWN):
        return None
    schema = None if tool.args_schema is None else tool.args_schema.model_json_schema()
    return sanitize_tool_name(tool.name), tool.description, schema


def _turn_of(call: Any) -> AgentTurn | None:
    return call.agent._turn.get() if isinstance(call.agent, SelectingAgent) else None


def _check(call: Any) -> bool | None:
    """A hook before each call of any agent: False stops it."""
    if (turn := _turn_of(call)) is None:
        return None
    if turn.refusal(call.tool_name) is not None:
        return False
    turn.begin(_key(call))
    return None


def _key(call: Any) -> str:
    """Distinguishes calls that run at once: CrewAI gives them no ids, and runs each in a thread."""
    return f"{call.tool_name} {threading.get_ident()}"


def _report(call: Any) -> None:
    """A hook after each call of any agent."""
    turn = _turn_of(call)
    result = call.raw_tool_result
    if turn is None or (isinstance(result, str) and result.startswith(_NOT_RUN)):
        return
    worked = not (isinstance(result, ToolFailure) or failed_by_text(result))
    turn.report(call.tool_name, worked, turn.took(_key(call)))


register_before_tool_call_hook(_check)
register_after_tool_call_hook(_report)
