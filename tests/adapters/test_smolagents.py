"""smolagents, with a scripted model."""

from __future__ import annotations

import pytest

from tests.adapters.scenario import Harness, Laws, Trace, run_page, tools_of

pytest.importorskip("smolagents")
from smolagents import Tool
from smolagents.memory import ActionStep
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    Model,
)

from toolroll.adapters.smolagents import SelectingAgent


def make_tool(function):
    class Made(Tool):
        name, description = function.__name__, function.__doc__
        inputs = {"target": {"type": "string", "description": "which one"}}  # noqa: RUF012
        output_type = "string"

        def forward(self, target: str) -> str:
            return function(target)

    return Made()


class Script(Model):
    def __init__(self):
        super().__init__()
        self.queue, self.sent, self.prompts = [], [], []

    def generate(self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **_):
        self.sent.append([tool.name for tool in tools_to_call_from])
        self.prompts.append(str(messages[0].content))
        names = self.queue.pop(0)
        made = [(name, {"target": "x"}) for name in names] or [("final_answer", {"answer": "done"})]
        calls = [
            ChatMessageToolCall(
                id=f"{len(messages)}-{at}",
                type="function",
                function=ChatMessageToolCallFunction(name=name, arguments=arguments),
            )
            for at, (name, arguments) in enumerate(made)
        ]
        return ChatMessage(role="assistant", content="", tool_calls=calls)


class SmolAgents(Harness):
    hooks = ((SelectingAgent, ("_selected",)),)
    make_tool = staticmethod(make_tool)
    keeps = False

    def build(self, tools, roll, **options):
        self.agents = {}

        def agent(model):
            # ---- what the user writes
            return SelectingAgent(tools=tools, model=model, roll=roll, verbosity_level=0, **options)

        self.make = agent

    def say(self, message, *steps, conversation="c"):
        if conversation not in self.agents:
            model = Script()
            self.agents[conversation] = (self.make(model), model)
        agent, model = self.agents[conversation]
        model.queue[:], model.sent = [*steps, ()], []
        before = len(agent.memory.steps)
        reply = agent.run(message, reset=before == 0)
        for prompt, sent in zip(model.prompts[-len(model.sent) :], model.sent, strict=True):
            listed = [name for name in agent.tools if f"{name}:" in prompt]
            assert set(listed) <= set(sent), "the system prompt names tools that are not sent"
        answers = [
            line
            for step in agent.memory.steps[before:]
            if isinstance(step, ActionStep) and step.observations
            for line in step.observations.splitlines()
            if line != "done"
        ]
        sent = [[name for name in names if name != "final_answer"] for names in model.sent]
        return Trace(sent, answers, reply)


HARNESS = SmolAgents


class TestSmolAgents(Laws):
    harness = SmolAgents


def test_the_page_runs():
    model = Script()
    model.queue = [()]
    page = run_page("smolagents", model=model, tools=list(tools_of(SmolAgents)))
    assert page["answer"] == "done" and len(model.sent[0]) <= 13
