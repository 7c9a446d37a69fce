"""Strands Agents, with a scripted model."""

from __future__ import annotations

import pytest

from tests.adapters.scenario import Harness, Laws, Trace, run_page, tools_of

strands = pytest.importorskip("strands")
from strands import Agent  # noqa: E402
from strands.models import Model  # noqa: E402

from toolroll.adapters.strands import ToolSelection, select_tools  # noqa: E402


class Script(Model):
    def __init__(self):
        self.queue, self.sent = [], []

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
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"target": "x"}'}}}}
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
        reply = str(agent(message))
        answers = [
            block["toolResult"]["content"][0]["text"]
            for one in agent.messages[before:]
            for block in one["content"]
            if "toolResult" in block
        ]
        return Trace(model.sent, answers, reply)


HARNESS = Strands


class TestStrands(Laws):
    harness = Strands


def test_the_page_runs():
    model = Script()
    model.queue = [[]]
    page = run_page("strands", model=model, tools=list(tools_of(Strands)))
    assert len(model.sent[0]) <= 12 and "done" in str(page["result"])
