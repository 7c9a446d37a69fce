"""CrewAI, with a scripted model."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time

import pytest

from tests.adapters.scenario import (
    CALLED,
    FAILING,
    Harness,
    Laws,
    Reports,
    Trace,
    dialog,
    functions,
    message_for,
    run_page,
    tools_of,
)
from toolroll import Toolroll

crewai = pytest.importorskip("crewai")
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp()  # CrewAI writes a database there
from crewai import BaseLLM, Crew, Task  # noqa: E402
from crewai.tools import tool as crewai_tool  # noqa: E402
from crewai.tools.tool_failure import ToolFailure  # noqa: E402
from pydantic import Field  # noqa: E402

from toolroll.adapters.crewai import SelectingAgent  # noqa: E402

# CrewAI reads fields of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning:crewai")


class Script(BaseLLM):
    queue: list = Field(default_factory=list)
    sent: list = Field(default_factory=list)
    answers: list = Field(default_factory=list)
    with_calls: bool = True

    def supports_function_calling(self):
        return self.with_calls

    def call(self, messages, tools=None, **_):
        self.sent.append([tool["function"]["name"] for tool in tools or []])
        results = [str(one["content"]) for one in messages if one.get("role") == "tool"]
        self.answers[:] = results
        names = self.queue.pop(0) if self.queue else ()
        return [
            {
                "id": f"{len(self.sent)}-{at}",
                "type": "function",
                "function": {"name": name, "arguments": '{"target": "x"}'},
            }
            for at, name in enumerate(names)
        ] or "done"

    async def acall(self, messages, tools=None, **options):
        return self.call(messages, tools, **options)


def make(model, tools, **options):
    # ---- what the user writes
    return SelectingAgent(role="clerk", goal="help", backstory="b", llm=model, tools=tools, **options)


class CrewAI(Harness):
    hooks = ((SelectingAgent, ("_selected",)),)
    lines = 2

    @staticmethod
    def make_tool(function):
        return crewai_tool(function)

    def build(self, tools, roll, **options):
        self.model, self.agents = Script(model="script"), {}
        self.make = lambda name: make(self.model, tools, roll=roll, conversation=name, **options)

    def run(self, agent, message):
        task = Task(description=message, expected_output="an answer", agent=agent)
        return Crew(agents=[agent], tasks=[task]).kickoff().raw

    def say(self, message, *steps, conversation="c"):
        if conversation not in self.agents:
            self.agents[conversation] = self.make(conversation)
        self.model.queue[:] = [*steps]
        self.model.sent, self.model.answers = [], []
        reply = self.run(self.agents[conversation], message)
        return Trace(self.model.sent, list(self.model.answers), reply)


class CrewAIAsync(CrewAI):
    def run(self, agent, message):
        task = Task(description=message, expected_output="an answer", agent=agent)
        return asyncio.run(Crew(agents=[agent], tasks=[task]).akickoff()).raw


class CrewAIAgentAlone(CrewAI):
    def run(self, agent, message):
        return agent.kickoff(message).raw


HARNESS = CrewAI


class TestCrewAI(Laws):
    harness = CrewAI


class TestCrewAIAsync(Laws):
    harness = CrewAIAsync


class TestCrewAIAgentAlone(Laws):
    harness = CrewAIAgentAlone


def test_the_calls_of_other_agents_are_none_of_its_business():
    FAILING.clear()
    name = dialog(1)[0]
    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    tools = list(tools_of(CrewAI))
    model = Script(model="script")
    make(model, tools, roll=roll, max_tools=12)
    model.queue[:], model.sent = [(name,)], []
    other = crewai.Agent(role="clerk", goal="help", backstory="b", llm=model, tools=tools)
    other.kickoff(message_for(name))
    assert len(model.sent[0]) == len(tools) and reports.outcomes == []


def test_a_tool_that_returns_a_failure_has_failed():
    @crewai_tool
    def approve_invoice(target: str) -> str:
        """Approves an invoice."""
        return ToolFailure(message="the period is closed")

    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    model = Script(model="script")
    model.queue[:], model.sent = [("approve_invoice",)], []
    make(model, [approve_invoice, *tools_of(CrewAI)], roll=roll, max_tools=12).kickoff("approve the invoice")
    assert reports.outcomes == [("approve_invoice", "failed")]


def test_tools_that_hand_a_task_to_another_agent_are_always_sent():
    model = Script(model="script")
    model.queue[:], model.sent = [], []
    first = make(model, list(tools_of(CrewAI)), max_tools=12, allow_delegation=True)
    second = crewai.Agent(role="cook", goal="cook", backstory="b", llm=model)
    task = Task(description=message_for(dialog(1)[0]), expected_output="an answer", agent=first)
    Crew(agents=[first, second], tasks=[task]).kickoff()
    assert "delegate_work_to_coworker" in model.sent[0] and len(model.sent[0]) <= 14


def test_a_model_without_function_calls_has_the_selected_tools_in_its_prompt():
    CALLED.clear()
    FAILING.clear()
    name = dialog(1)[0]
    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    model = Script(model="script", with_calls=False)
    seen = []
    replies = [
        f'Thought: x\nAction: {name}\nAction Input: {{"target": "x"}}',
        "Thought: y\nFinal Answer: done",
    ]
    object.__setattr__(model, "call", lambda messages, **_: (seen.append(str(messages)), replies.pop(0))[1])
    make(model, list(tools_of(CrewAI)), roll=roll, max_tools=12).kickoff(message_for(name))
    named = [one.__name__ for one in functions() if one.__name__ in seen[0]]
    assert name in named and len(named) <= 13  # one more may be part of another's description
    assert [name] == CALLED and reports.outcomes == [(name, "succeeded")]


class ByMessage(Script):
    """Calls the tool that the message needs, once."""

    def call(self, messages, tools=None, **_):
        self.sent.append([tool["function"]["name"] for tool in tools or []])
        if any(one.get("role") == "tool" for one in messages):
            return "done"
        name = next(name for name in dialog(2) if message_for(name) in str(messages))
        function = {"name": name, "arguments": '{"target": "x"}'}
        return [{"id": name, "type": "function", "function": function}]

    async def acall(self, messages, tools=None, **options):
        await asyncio.sleep(0.05)
        return self.call(messages, tools, **options)


def test_runs_of_one_agent_at_once_are_apart(monkeypatch):
    CALLED.clear()
    FAILING.clear()
    names, reports = dialog(2), Reports()
    tools = list(tools_of(CrewAI))
    agent = make(
        ByMessage(model="script"), tools, roll=Toolroll.from_tools([], observers=[reports]), max_tools=2
    )
    prepare = crewai.Agent._prepare_kickoff

    def slow(*given, **options):
        time.sleep(0.05)
        return prepare(*given, **options)

    async def loop():
        await asyncio.gather(*(agent.kickoff_async(message_for(name)) for name in names))

    asyncio.run(loop())
    assert sorted(CALLED) == sorted(names)
    assert sorted(reports.outcomes) == sorted((name, "succeeded") for name in names)
    monkeypatch.setattr(crewai.Agent, "_prepare_kickoff", slow)
    threads = [threading.Thread(target=agent.kickoff, args=(message_for(name),)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(CALLED) == sorted(2 * names) and len(agent.tools) == len(tools)


def test_a_copy_of_the_agent_selects_as_well():
    model = Script(model="script")
    model.queue[:], model.sent = [], []
    roll = Toolroll.from_tools([])
    copied = make(model, list(tools_of(CrewAI)), roll=roll, max_tools=12).copy()
    copied.kickoff(message_for(dialog(1)[0]))
    assert copied.roll is roll and 0 < len(model.sent[0]) <= 12


def test_the_page_runs():
    model = Script(model="script")
    model.queue[:], model.sent = [], []
    page = run_page("crewai", llm=model, tools=list(tools_of(CrewAI)))
    assert 0 < len(model.sent[0]) <= 12 and page["result"].raw == "done"
