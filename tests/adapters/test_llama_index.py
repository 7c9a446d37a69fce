"""LlamaIndex, with its own scripted model."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.adapters.scenario import Harness, Laws, Reports, Trace, dialog, message_for, run_page, tools_of
from toolroll import Toolroll

pytest.importorskip("llama_index.core")
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from toolroll.adapters.llama_index import SelectingAgent

pytestmark = pytest.mark.filterwarnings("ignore")  # of pydantic, for what LlamaIndex calls


class LlamaIndex(Harness):
    make_tool = staticmethod(FunctionTool.from_defaults)

    def build(self, tools, roll, **options):
        self.queue, self.sent, self.memories = [], [], {}
        llm = MockFunctionCallingLLM(response_generator=self.reply)
        # ---- what the user writes
        self.agent = SelectingAgent(llm=llm, tools=tools, roll=roll, streaming=False, **options)

    def reply(self, messages, **given):
        self.sent.append([tool.metadata.name for tool in given.get("tools", [])])
        blocks = [
            ToolCallBlock(tool_call_id=f"{len(messages)}-{at}", tool_name=name, tool_kwargs={"target": "x"})
            for at, name in enumerate(self.queue.pop(0))
        ]
        return ChatMessage(role="assistant", blocks=blocks or [TextBlock(text="done")])

    def say(self, message, *steps, conversation="c"):
        self.queue[:], self.sent = [*steps, ()], []
        memory = self.memories.setdefault(conversation, ChatMemoryBuffer.from_defaults(token_limit=100_000))

        async def run():
            return await self.agent.run(message, memory=memory)

        result = asyncio.run(run())
        return Trace(self.sent, [call.tool_output.content for call in result.tool_calls], str(result))


HARNESS = LlamaIndex


class TestLlamaIndex(Laws):
    harness = LlamaIndex


def test_a_call_that_is_cancelled_is_reported_as_unknown():
    async def waits_forever(target: str) -> str:
        """Waits forever."""
        started.set()
        await asyncio.sleep(60)

    reports = Reports()
    tools = [FunctionTool.from_defaults(async_fn=waits_forever), *tools_of(LlamaIndex)]
    harness = LlamaIndex(tools, Toolroll.from_tools([], observers=[reports]), max_tools=5)
    harness.queue[:] = [("waits_forever",)]

    async def run():
        nonlocal started
        started = asyncio.Event()
        running = harness.agent.run("Wait forever.")
        await asyncio.wait_for(started.wait(), 20)
        await running.cancel_run()
        with contextlib.suppress(BaseException):
            await running

    started = None
    asyncio.run(run())
    assert reports.outcomes == [("waits_forever", "called")]


def test_a_run_after_one_that_failed_is_a_turn_of_its_own_in_the_same_context():
    reports = Reports()
    harness = LlamaIndex(tools_of(LlamaIndex), Toolroll.from_tools([], observers=[reports]), max_tools=5)

    async def run():
        context = Context(harness.agent)
        for name, steps in zip(dialog(2), ([(dialog(1)[0],)], [(dialog(2)[1],), ()]), strict=True):
            harness.queue[:] = steps
            with contextlib.suppress(IndexError):
                await harness.agent.run(message_for(name), ctx=context)

    asyncio.run(run())
    assert reports.outcomes == [(name, "succeeded") for name in dialog(2)]
    assert len(set(reports.events)) == 2


def test_the_page_runs():
    harness = LlamaIndex([], None)
    llm = MockFunctionCallingLLM(response_generator=harness.reply)
    harness.agent = run_page("llama-index", llm=llm, tools=list(tools_of(LlamaIndex)))["agent"]
    harness.agent.streaming = False
    assert len(harness.say("Could you copy the message in Gcp for me?").sent[0]) <= 12
