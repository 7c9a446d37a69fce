"""LlamaIndex, with its own scripted model."""

from __future__ import annotations

import asyncio

import pytest

from tests.adapters.scenario import Harness, Laws, Trace, run_page, tools_of

pytest.importorskip("llama_index.core")
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool

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


def test_the_page_runs():
    harness = LlamaIndex([], None)
    llm = MockFunctionCallingLLM(response_generator=harness.reply)
    harness.agent = run_page("llama-index", llm=llm, tools=list(tools_of(LlamaIndex)))["agent"]
    harness.agent.streaming = False
    assert len(harness.say("Could you copy the message in Gcp for me?").sent[0]) <= 12
