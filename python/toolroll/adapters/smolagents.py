"""smolagents (`toolroll[smolagents]`): a `ToolCallingAgent` that selects, refuses and reports.

    from toolroll.adapters.smolagents import SelectingAgent

    agent = SelectingAgent(tools=tools, model=model, max_tools=12)

The system prompt lists the selected tools only. A `CodeAgent` runs code, not calls: it is not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smolagents import ToolCallingAgent
from smolagents.agents import ActionStep, AgentToolCallError, AgentToolExecutionError
from smolagents.memory import TaskStep

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import checked_context
from toolroll.adapters.messages import MadeCall, ReadMessage
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.model.context import Context
from toolroll.roll import Toolroll

_FINAL = "final_answer"


class SelectingAgent(ToolCallingAgent):  # type: ignore[misc]
    """Sends the tools that a task needs, answers calls of others, and reports the outcomes of the calls."""

    tools: dict[str, Any]

    def __init__(
        self,
        *arguments: Any,
        roll: Toolroll | None = None,
        max_tools: int | None = None,
        always_include: Sequence[str] = (),
        k: int | None = None,
        selection_context: Context | None = None,
        **options: Any,
    ) -> None:
        """Reads the tools with the first task.

        Args:
            arguments: of `ToolCallingAgent`.
            roll: applies rules, learns and keeps conversations; None for one in memory.
            max_tools: how many tools are sent at most, beside `always_include`, `final_answer` and
                managed agents.
            always_include: names of tools that every run has. Unknown names are ignored.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            selection_context: the caller.
            options: of `ToolCallingAgent`.
        """
        self._selector = ToolSelector(
            roll,
            k=k,
            max_tools=max_tools,
            always_include=always_include,
            context=checked_context(selection_context, "selection_context"),
            read_messages=_read,
        )
        self._turn: AgentTurn | None = None
        super().__init__(*arguments, **options)

    @property
    def tools_and_managed_agents(self) -> list[Any]:
        """The tools and agents for the next request."""
        return [*self._selected().values(), *self.managed_agents.values()]

    def initialize_system_prompt(self) -> str:
        """The system prompt, with the selected tools."""
        tools, self.tools = self.tools, self._selected()
        try:
            return str(super().initialize_system_prompt())
        finally:
            self.tools = tools

    def run(self, task: str, *arguments: Any, **options: Any) -> Any:
        """Runs the agent for a task: one turn."""
        self.task = task  # the system prompt is made before the task is taken down
        self._end()
        result = super().run(task, *arguments, **options)
        if not options.get("stream"):
            self._end()
        return result

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Runs a call of a tool that was sent, and reports it."""
        turn = self._turn
        if turn is None or tool_name == _FINAL:
            return super().execute_tool_call(tool_name, arguments)
        # The answer of smolagents to an unknown name lists all tools.
        is_unknown = tool_name not in self.tools and tool_name not in self.managed_agents
        if (refusal := turn.refusal(tool_name, unknown=is_unknown)) is not None:
            raise AgentToolExecutionError(refusal, self.logger)
        with turn.call(tool_name) as outcome:
            try:
                return super().execute_tool_call(tool_name, arguments)
            except AgentToolCallError:  # arguments that do not fit
                outcome.worked = None
                raise

    def _selected(self) -> dict[str, Any]:
        task = getattr(self, "task", None)
        if not task:
            return dict(self.tools)
        if self._turn is None:
            tools = [tool for name, tool in self.tools.items() if name != _FINAL]
            steps = self.memory.steps if hasattr(self, "memory") else ()
            self._turn = self._selector.turn(tools, [*steps, task], run=object())
        chosen = {tool.name: tool for tool in self._turn.tools}
        return chosen | {name: tool for name, tool in self.tools.items() if name == _FINAL}

    def _end(self) -> None:
        if self._turn is not None:
            self._turn.end()
            self._turn = None


def _read(steps: Sequence[Any]) -> list[ReadMessage]:
    """The steps of an agent's memory in the form that a selection reads."""
    read = []
    for step in steps:
        if isinstance(step, str):
            read.append(ReadMessage("user", step))
        elif isinstance(step, TaskStep):
            read.append(ReadMessage("user", step.task))
        elif isinstance(step, ActionStep):
            calls = [MadeCall(call.id, call.name) for call in step.tool_calls or ()]
            said = step.action_output if isinstance(step.action_output, str) and step.is_final_answer else ""
            read.append(ReadMessage("assistant", said, tuple(calls)))
    return read
