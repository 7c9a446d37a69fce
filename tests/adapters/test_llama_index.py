"""LlamaIndex, with its own scripted model."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.adapters.scenario import Harness, Laws, Reports, Trace, dialog, message_for, run_page, tools_of
from toolroll import InvalidInput, Toolroll

pytest.importorskip("llama_index.core")
from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from toolroll.adapters.llama_index import SelectingAgent

pytestmark = pytest.mark.filterwarnings("ignore")  # of pydantic, for what LlamaIndex calls


class LlamaIndex(Harness):
    make_tool = staticmethod(FunctionTool.from_defaults)
    streaming = False
    arguments: dict[str, str] = {"target": "x"}  # noqa: RUF012 - of the next calls

    def build(self, tools, roll, **options):
        self.queue, self.sent, self.memories = [], [], {}
        llm = MockFunctionCallingLLM(response_generator=self.reply)
        # ---- what the user writes
        self.agent = SelectingAgent(llm=llm, tools=tools, roll=roll, streaming=self.streaming, **options)

    def reply(self, messages, **given):
        self.sent.append([tool.metadata.name for tool in given.get("tools", [])])
        blocks = [
            ToolCallBlock(tool_call_id=f"{len(messages)}-{at}", tool_name=name, tool_kwargs=self.arguments)
            for at, name in enumerate(self.queue.pop(0))
        ]
        return ChatMessage(role="assistant", blocks=blocks or [TextBlock(text="done")])

    def say(self, message, *steps, conversation="c"):
        self.queue[:], self.sent = [*steps, ()], []
        memory = self.memories.setdefault(conversation, ChatMemoryBuffer.from_defaults(token_limit=100_000))

        async def run():
            running = self.agent.run(message, memory=memory)
            self.events = [event async for event in running.stream_events()]
            return await running

        result = asyncio.run(run())
        return Trace(self.sent, [call.tool_output.content for call in result.tool_calls], str(result))


class LlamaIndexStream(LlamaIndex):
    streaming = True


HARNESS = LlamaIndex


class TestLlamaIndex(Laws):
    harness = LlamaIndex


class TestLlamaIndexStream(Laws):
    harness = LlamaIndexStream


async def ask_a_person(ctx: Context, target: str) -> str:
    """Asks a person for their opinion."""
    asked = InputRequiredEvent(prefix="sure?")
    return (await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked)).response


ask_a_person.__annotations__["ctx"] = Context  # LlamaIndex does not read it as a text


def test_a_call_that_waits_for_a_person_is_reported_when_it_ran():
    reports = Reports()
    tools = [FunctionTool.from_defaults(async_fn=ask_a_person), *tools_of(LlamaIndex)]
    harness = LlamaIndex(tools, Toolroll.from_tools([], observers=[reports]), max_tools=5)
    harness.queue[:] = [("ask_a_person",), ()]

    async def run():
        running = harness.agent.run("Ask a person for their opinion.")
        async for event in running.stream_events():
            if isinstance(event, InputRequiredEvent):
                assert reports.outcomes == []
                running.ctx.send_event(HumanResponseEvent(response="fine"))
        return await running

    asyncio.run(run())
    assert reports.outcomes == [("ask_a_person", "succeeded")] and len(set(reports.events)) == 1


def test_a_sub_agent_has_a_catalog_and_turns_of_its_own():
    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    inner, name = (
        LlamaIndex(tools_of(LlamaIndex)[50:], roll, max_tools=3),
        tools_of(LlamaIndex)[60].metadata.name,
    )

    async def specialist(task: str) -> str:
        """Gives a task to the specialist."""
        inner.queue[:] = [(name,), ()]
        return str(await inner.agent.run(task))

    tools = [*tools_of(LlamaIndex)[:50], FunctionTool.from_defaults(async_fn=specialist)]
    outer = LlamaIndex(tools, roll, max_tools=3, always_include=["specialist"])
    outer.arguments = {"task": message_for(name)}
    trace = outer.say("Ask the specialist.", ["specialist"])
    assert len(trace.sent[0]) <= 4 and "specialist" in trace.sent[0] and len(inner.sent[0]) <= 3
    assert reports.outcomes == [(name, "succeeded"), ("specialist", "succeeded")]


def test_in_a_workflow_of_several_agents_tools_are_selected_and_that_is_all():
    """What the page says: this test fails when LlamaIndex lets its agents run their tools there."""
    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    first = LlamaIndex(tools_of(LlamaIndex)[:50], roll, max_tools=3)
    second = LlamaIndex(tools_of(LlamaIndex)[50:], roll, max_tools=3)
    name = tools_of(LlamaIndex)[60].metadata.name
    for harness, called in ((first, "first"), (second, "second")):
        harness.agent.name, harness.agent.description = called, "An agent."
    workflow = AgentWorkflow(agents=[first.agent, second.agent], root_agent="first")
    first.arguments = {"to_agent": "second", "reason": "it knows"}
    first.queue[:], second.queue[:] = [("handoff",)], [(name,), ()]

    async def run():
        return await workflow.run(user_msg=message_for(name))

    asyncio.run(run())
    assert "handoff" in first.sent[0] and len(first.sent[0]) <= 4
    assert name in second.sent[0] and len(second.sent[0]) <= 4 and reports.outcomes == []


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


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="selection_context"):
        SelectingAgent(llm=MockFunctionCallingLLM(), selection_context=wrong)
