"""smolagents, with a scripted model."""

from __future__ import annotations

import pytest

from tests.adapters.scenario import (
    CALLED,
    Harness,
    Laws,
    Reports,
    Trace,
    dialog,
    message_for,
    run_page,
    tools_of,
)
from toolroll import InvalidInput, Toolroll

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
        self.arguments = {"target": "x"}  # of the next calls

    def generate(self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **_):
        self.sent.append([tool.name for tool in tools_to_call_from])
        self.prompts.append(str(messages[0].content))
        names = self.queue.pop(0)
        made = [(name, self.arguments) for name in names] or [("final_answer", {"answer": "done"})]
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
        reply = self.run(agent, message, reset=before == 0)
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

    def run(self, agent, message, **options):
        return agent.run(message, **options)


class SmolAgentsStream(SmolAgents):
    def run(self, agent, message, **options):
        return list(agent.run(message, stream=True, **options))[-1].output


HARNESS = SmolAgents


class TestSmolAgents(Laws):
    harness = SmolAgents


class TestSmolAgentsStream(Laws):
    harness = SmolAgentsStream


def test_a_managed_agent_has_a_catalog_and_turns_of_its_own():
    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    tools, inner_model, model = tools_of(SmolAgents), Script(), Script()
    name = tools[60].name
    inner = SelectingAgent(
        tools=list(tools[50:]), model=inner_model, roll=roll, max_tools=3, verbosity_level=0,
        name="specialist", description="Knows hard cases.",
    )  # fmt: skip
    outer = SelectingAgent(
        tools=list(tools[:50]), model=model, roll=roll, max_tools=3, verbosity_level=0, managed_agents=[inner]
    )
    inner_model.queue[:], model.queue[:] = [(name,), ()], [("specialist",), ()]
    model.arguments = {"task": message_for(name)}
    outer.run("Ask the specialist.")
    assert len(model.sent[0]) <= 5 and "specialist" in model.sent[0] and len(inner_model.sent[0]) <= 4
    assert reports.outcomes == [(name, "succeeded")] and name in inner_model.sent[0]


def test_arguments_that_do_not_fit_are_no_failure_of_the_tool():
    CALLED.clear()
    reports, model, name = Reports(), Script(), dialog(1)[0]
    roll = Toolroll.from_tools([], observers=[reports])
    agent = SelectingAgent(
        tools=list(tools_of(SmolAgents)), model=model, roll=roll, max_tools=5, verbosity_level=0
    )
    model.queue[:], model.arguments = [(name,), ()], {"wrong": "x"}
    agent.run(message_for(name))
    assert CALLED == [] and reports.outcomes == [(name, "called")]


def test_the_page_runs():
    model = Script()
    model.queue = [()]
    page = run_page("smolagents", model=model, tools=list(tools_of(SmolAgents)))
    assert page["answer"] == "done" and len(model.sent[0]) <= 13


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="selection_context"):
        SelectingAgent(tools=[], model=Script(), selection_context=wrong)


def test_an_unknown_name_is_answered_with_the_names_that_were_sent_and_no_others():
    model = Script()
    agent = SelectingAgent(tools=list(tools_of(SmolAgents)), model=model, max_tools=3, verbosity_level=0)
    model.queue[:] = [("no_such_tool",), ()]
    agent.run(message_for(dialog(1)[0]))
    text = str(next(step.error for step in agent.memory.steps if getattr(step, "error", None)))
    assert "was not offered" in text and any(name in text for name in model.sent[0])
    assert not [name for name in agent.tools if name not in model.sent[0] and name in text]
