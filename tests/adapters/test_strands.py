"""Strands Agents, with a scripted model."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.adapters.scenario import (
    CALLED,
    FAILING,
    Harness,
    Laws,
    Reports,
    Trace,
    dialog,
    message_for,
    run_page,
    tools_of,
)
from toolroll import Toolroll

strands = pytest.importorskip("strands")
from pydantic import BaseModel  # noqa: E402
from strands import Agent, ToolContext  # noqa: E402
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent  # noqa: E402
from strands.models import Model  # noqa: E402

from toolroll.adapters.strands import ToolSelection, select_tools  # noqa: E402


class Script(Model):
    def __init__(self):
        self.queue, self.sent = [], []
        self.arguments = {"target": "x"}  # of the next calls

    def update_config(self, **_): ...

    def get_config(self):
        return {}

    async def structured_output(self, *_, **__):
        yield {}

    async def stream(self, messages, tool_specs=None, system_prompt=None, **_):
        self.sent.append([spec["name"] for spec in tool_specs or []])
        names = self.queue.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        for at, name in enumerate(names):
            use = {"name": name, "toolUseId": f"t{len(messages)}-{at}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(self.arguments)}}}}
            yield {"contentBlockStop": {}}
        if not names:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if names else "end_turn"}}


class Strands(Harness):
    hooks = ((ToolSelection, ("narrow", "check", "report", "end")),)
    make_tool = staticmethod(strands.tool)

    def build(self, tools, roll, **options):
        self.agents = {}

        def agent(model):
            # ---- what the user writes
            return select_tools(Agent(model=model, tools=tools, callback_handler=None), roll, **options)

        self.make = agent

    def say(self, message, *steps, conversation="c"):
        if conversation not in self.agents:
            model = Script()
            self.agents[conversation] = (self.make(model), model)
        agent, model = self.agents[conversation]
        model.queue[:] = [*map(list, steps), []]
        model.sent, before = [], len(agent.messages)
        reply = str(self.ask(agent, message))
        answers = [
            block["toolResult"]["content"][0]["text"]
            for one in agent.messages[before:]
            for block in one["content"]
            if "toolResult" in block
        ]
        return Trace(model.sent, answers, reply)

    def ask(self, agent, message):
        return agent(message)


class StrandsAsync(Strands):
    def ask(self, agent, message):
        return asyncio.run(agent.invoke_async(message))


class StrandsStream(Strands):
    def ask(self, agent, message):
        async def stream():
            return [event async for event in agent.stream_async(message)][-1]["result"]

        return asyncio.run(stream())


HARNESS = Strands


class TestStrands(Laws):
    harness = Strands


class TestStrandsAsync(Laws):
    harness = StrandsAsync


class TestStrandsStream(Laws):
    harness = StrandsStream


FIRST, SECOND = dialog(2)


@pytest.fixture
def reports() -> Reports:
    CALLED.clear()
    FAILING.clear()
    return Reports()


@pytest.fixture
def roll(reports) -> Toolroll:
    return Toolroll.from_tools([], observers=[reports])


def model_of(*steps) -> Script:
    model = Script()
    model.queue = [*map(list, steps), []]
    return model


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_call_that_waits_for_a_person_is_reported_when_it_ran(roll, reports, answer):
    def asks(event: BeforeToolCallEvent) -> None:
        if event.interrupt("approval", reason="sure?") != "yes":
            event.cancel_tool = "The user does not want it."

    agent = Agent(model=model_of([FIRST]), tools=list(tools_of(Strands)), callback_handler=None)
    select_tools(agent, roll, max_tools=12)
    agent.hooks.add_callback(BeforeToolCallEvent, asks)
    waiting = agent(message_for(FIRST))
    assert waiting.stop_reason == "interrupt" and CALLED == [] and reports.outcomes == []
    agent([{"interruptResponse": {"interruptId": waiting.interrupts[0].id, "response": answer}}])
    ran = [FIRST] if answer == "yes" else []
    assert ran == CALLED and reports.outcomes == [(name, "succeeded") for name in ran]
    assert len(set(reports.events)) == 1


def test_a_tool_that_interrupts_is_reported_once_it_is_through(roll, reports):
    @strands.tool(context=True)
    def ask_a_person(target: str, tool_context: ToolContext) -> str:
        """Asks a person for their opinion."""
        return str(tool_context.interrupt("opinion", reason=target))

    agent = Agent(
        model=model_of(["ask_a_person"]), tools=[*tools_of(Strands), ask_a_person], callback_handler=None
    )
    waiting = select_tools(agent, roll, max_tools=12)("Ask a person for their opinion.")
    assert reports.outcomes == []
    agent([{"interruptResponse": {"interruptId": waiting.interrupts[0].id, "response": "fine"}}])
    assert reports.outcomes == [("ask_a_person", "succeeded")] and len(set(reports.events)) == 1


def test_a_sub_agent_has_a_catalog_and_turns_of_its_own(roll, reports):
    name = tools_of(Strands)[60].tool_name
    inner_model = model_of([name])
    inner = Agent(
        model=inner_model, tools=list(tools_of(Strands)[50:]), name="specialist", callback_handler=None
    )
    select_tools(inner, roll, max_tools=3)
    model = model_of(["specialist"])
    model.arguments = {"input": message_for(name)}
    outer = Agent(model=model, tools=[*tools_of(Strands)[:50], inner.as_tool()], callback_handler=None)
    select_tools(outer, roll, max_tools=3, always_include=["specialist"])("Ask the specialist.")
    assert len(model.sent[0]) <= 4 and "specialist" in model.sent[0] and len(inner_model.sent[0]) <= 3
    assert reports.outcomes == [(name, "succeeded"), ("specialist", "succeeded")]


def test_a_call_that_is_tried_again_counts_as_it_ended(roll, reports):
    def again(event: AfterToolCallEvent) -> None:
        if event.result["status"] == "error":
            FAILING.clear()
            event.retry = True

    agent = Agent(model=model_of([FIRST]), tools=list(tools_of(Strands)), callback_handler=None)
    select_tools(agent, roll, max_tools=12)
    agent.hooks.add_callback(AfterToolCallEvent, again)
    FAILING.add(FIRST)
    agent(message_for(FIRST))
    assert reports.outcomes == [(FIRST, "failed"), (FIRST, "succeeded")]


def test_a_structured_answer_is_always_possible(roll):
    class Answer(BaseModel):
        """The answer."""

        target: str

    model = model_of(["Answer"])
    agent = Agent(model=model, tools=list(tools_of(Strands)), callback_handler=None)
    result = select_tools(agent, roll, max_tools=2)(message_for(FIRST), structured_output_model=Answer)
    assert result.structured_output == Answer(target="x") and len(model.sent[0]) <= 3


def test_the_page_runs():
    model = Script()
    model.queue = [[]]
    page = run_page("strands", model=model, tools=list(tools_of(Strands)))
    assert len(model.sent[0]) <= 12 and "done" in str(page["result"])
