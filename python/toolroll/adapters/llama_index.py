"""LlamaIndex (`toolroll[llama-index]`): a `FunctionAgent` that selects, refuses and reports.

    from toolroll.adapters.llama_index import SelectingAgent

    agent = SelectingAgent(llm=llm, tools=tools, max_tools=12)
    result = await agent.run("Refund order 7")

An `AgentWorkflow` of several agents runs their tools itself. Tools are selected there, but calls are neither
refused nor reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import ToolOutput
from pydantic import PrivateAttr
from workflows.runtime.types.results import WaitingForEvent  # of a tool that asks a person: it runs once more

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import checked_context
from toolroll.adapters.messages import MadeCall, ReadMessage, role_of
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.model.context import Context
from toolroll.roll import Toolroll

_RUN = "toolroll_run"


class SelectingAgent(FunctionAgent):  # type: ignore[misc]
    """Sends the tools that a message needs, answers calls of others, and reports outcomes."""

    _selector: ToolSelector = PrivateAttr()

    def __init__(
        self,
        *,
        roll: Toolroll | None = None,
        max_tools: int | None = None,
        always_include: Sequence[str] = (),
        k: int | None = None,
        selection_context: Context | None = None,
        **options: Any,
    ) -> None:
        """Reads the tools with the first message.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            max_tools: how many tools are sent at most, beside `always_include`.
            always_include: names of tools that every turn has. Unknown names are ignored.
            k: how many tools retrieval finds, as in `Toolroll.select`.
            selection_context: the caller.
            options: of `FunctionAgent`.
        """
        super().__init__(**options)
        self._selector = ToolSelector(
            roll,
            k=k,
            max_tools=max_tools,
            always_include=(*always_include, "handoff"),
            context=checked_context(selection_context, "selection_context"),
            read_messages=read_messages,
            suspending=(WaitingForEvent,),
        )

    async def take_step(self, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> Any:
        """Asks the model, with the selected tools."""
        if not tools:
            return await super().take_step(ctx, llm_input, tools, memory)
        run = await ctx.store.get(_RUN, default=None)
        if run is None:
            await ctx.store.set(_RUN, run := uuid4().hex)
        turn = await self._selector.aturn(tools, llm_input, run=run)
        return await super().take_step(ctx, llm_input, list(turn.tools), memory)

    async def _call_tool(self, ctx: Any, tool: Any, tool_input: dict[str, Any]) -> Any:
        turn, name = await self._turn(ctx), tool.metadata.name
        if turn is None:
            return await super()._call_tool(ctx, tool, tool_input)
        if (refusal := await turn.arefusal(name)) is not None:
            return ToolOutput(
                content=refusal, tool_name=name, raw_input=tool_input, raw_output=refusal, is_error=True
            )
        async with turn.acall(name) as outcome:  # LlamaIndex may cancel it, and makes a failure an output
            output = await super()._call_tool(ctx, tool, tool_input)
            outcome.worked = not output.is_error
        return output

    async def finalize(self, ctx: Any, output: Any, memory: Any) -> Any:
        """Closes the turn with the run."""
        if (turn := await self._turn(ctx)) is not None:
            await turn.aend()
        await ctx.store.set(_RUN, None)
        return await super().finalize(ctx, output, memory)

    async def _turn(self, ctx: Any) -> AgentTurn | None:
        run = await ctx.store.get(_RUN, default=None)
        return None if run is None else self._selector.find(run=run)


def read_messages(messages: Sequence[Any]) -> list[ReadMessage]:
    """LlamaIndex's messages, as selection reads them."""
    read = []
    for message in messages:
        if isinstance(message, str):
            read.append(ReadMessage("user", message))
            continue
        calls = [
            MadeCall(block.tool_call_id or "", block.tool_name)
            for block in message.blocks
            if block.block_type == "tool_call"
        ]
        role = role_of(message.role) or "system"
        read.append(ReadMessage(role, message.content or "", tuple(calls)))
    return read
