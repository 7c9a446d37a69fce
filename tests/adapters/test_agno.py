"""Agno, with a scripted model."""

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
    functions,
    message_for,
    run_page,
    tools_of,
)
from toolroll import InvalidInput, Toolroll

agno = pytest.importorskip("agno")
from agno.exceptions import RetryAgentRun, RunCancelledException  # noqa: E402
from agno.models.base import Model  # noqa: E402
from agno.models.response import ModelResponse  # noqa: E402
from agno.team import Team  # noqa: E402
from agno.tools import Function, Toolkit  # noqa: E402

from toolroll.adapters.agno import SelectingAgent  # noqa: E402


class Script(Model):
    def __init__(self):
        super().__init__(id="script")
        self.queue, self.sent, self.systems = [], [], []
        self.arguments = {"target": "x"}  # of the next calls

    def invoke(self, messages, *_, tools=None, **__):
        self.sent.append([tool["function"]["name"] for tool in tools or []])
        self.systems.append("".join(str(one.content) for one in messages if one.role == "system"))
        names = self.queue.pop(0)
        calls = [
            {
                "id": f"{len(messages)}-{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(self.arguments)},
            }
            for at, name in enumerate(names)
        ]
        return ModelResponse(role="assistant", content=None if calls else "done", tool_calls=calls)

    async def ainvoke(self, *given, **options):
        return self.invoke(*given, **options)

    def invoke_stream(self, *given, **options):
        yield self.invoke(*given, **options)

    async def ainvoke_stream(self, *given, **options):
        yield self.invoke(*given, **options)

    def _parse_provider_response(self, response, **_):
        return response

    def _parse_provider_response_delta(self, response):
        return response


class Agno(Harness):
    lines = 2

    def build(self, tools, roll, **options):
        self.model = Script()
        # ---- what the user writes
        self.agent = SelectingAgent(model=self.model, tools=tools, roll=roll, telemetry=False, **options)

    def run(self, message, conversation):
        return self.agent.run(message, session_id=conversation)

    def say(self, message, *steps, conversation="c"):
        self.model.queue[:] = [*steps, ()]
        self.model.sent = []
        result = self.run(message, conversation)
        answers = [str(one.content) for one in result.messages if one.role == "tool"]
        return Trace(self.model.sent, answers, result.content)


class AgnoAsync(Agno):
    def run(self, message, conversation):
        return asyncio.run(self.agent.arun(message, session_id=conversation))


class AgnoStream(Agno):
    def run(self, message, conversation):
        return list(self.agent.run(message, session_id=conversation, stream=True, yield_run_output=True))[-1]


class AgnoToolkit(Agno):
    def build(self, tools, roll, **options):
        self.model = Script()
        kits = [
            Toolkit(name="first", tools=tools[:50], instructions="Mind the first.", add_instructions=True),
            Toolkit(name="second", tools=tools[50:]),
        ]
        self.agent = SelectingAgent(model=self.model, tools=kits, roll=roll, telemetry=False, **options)


HARNESS = Agno


class TestAgno(Laws):
    harness = Agno


class TestAgnoAsync(Laws):
    harness = AgnoAsync


class TestAgnoStream(Laws):
    harness = AgnoStream


class TestAgnoToolkit(Laws):
    harness = AgnoToolkit


def test_instructions_of_a_toolkit_are_sent_with_its_tools():
    harness = AgnoToolkit(functions(), Toolroll.from_tools([]), max_tools=1)
    first, second = functions()[0].__name__, functions()[60].__name__
    harness.say(message_for(first), conversation="a")
    harness.say(message_for(second), conversation="b")
    assert ["Mind the first." in system for system in harness.model.systems] == [True, False]


def test_a_call_that_waits_for_a_person_is_reported_after_it_ran():
    CALLED.clear()
    name = dialog(1)[0]
    tools = [Function.from_callable(one) for one in functions()]
    next(tool for tool in tools if tool.name == name).requires_confirmation = True
    reports = Reports()
    harness = Agno(tools, Toolroll.from_tools([], observers=[reports]), max_tools=12)
    harness.model.queue[:] = [(name,), ()]
    waiting = harness.agent.run(message_for(name), session_id="c")
    assert waiting.is_paused and CALLED == [] and reports.outcomes == []
    for requirement in waiting.active_requirements:
        requirement.confirm()
    result = harness.agent.continue_run(run_response=waiting, requirements=waiting.requirements)
    assert result.content == "done" and [name] == CALLED
    assert reports.outcomes == [(name, "succeeded")] and len(set(reports.events)) == 1


def test_a_tool_that_asks_for_another_attempt_has_not_failed():
    tries = []

    def approve_invoice(number: str) -> str:
        """Approves an invoice."""
        tries.append(number)
        if len(tries) == 1:
            raise RetryAgentRun("say the year as well")
        return "approved"

    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    harness = Agno([approve_invoice, *functions()], roll, max_tools=12)
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "approve_invoice", "arguments": '{"number": "7"}'},
        }
    ]
    replies = [
        ModelResponse(role="assistant", tool_calls=calls),
        ModelResponse(role="assistant", content="done"),
    ]
    harness.model.invoke = lambda *_, **__: replies.pop(0)
    harness.agent.run("approve the invoice", session_id="c")
    assert tries == ["7"] and ("approve_invoice", "failed") not in reports.outcomes


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_that_is_cancelled_in_a_tool_is_no_failure_of_the_tool(is_async):
    def ask_a_colleague(target: str) -> str:
        """Asks a colleague, an agent whose run may be cancelled."""
        raise RunCancelledException("cancelled")

    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    harness = (AgnoAsync if is_async else Agno)([ask_a_colleague, *functions()], roll, max_tools=12)
    harness.model.queue[:] = [("ask_a_colleague",), ()]
    harness.run("ask a colleague", "c")
    assert reports.outcomes == [("ask_a_colleague", "called")]


def test_members_of_a_team_have_catalogs_and_turns_of_their_own():
    CALLED.clear()
    reports = Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    tools, leader = tools_of(Agno), Script()
    members = []
    for role, own in (("clerk", tools[:50]), ("specialist", tools[50:])):
        harness = Agno([], roll)
        harness.agent = SelectingAgent(
            model=harness.model, name=role, id=role, tools=list(own), roll=roll, max_tools=3, telemetry=False
        )
        members.append(harness)
    clerk, specialist = members
    name = tools[60].__name__
    specialist.model.queue[:], leader.queue[:] = [(name,), ()], [("delegate_task_to_member",), ()]
    leader.arguments = {"member_id": "specialist", "task": message_for(name)}
    team = Team(model=leader, members=[clerk.agent, specialist.agent], telemetry=False)
    assert team.run("Ask the specialist.").content == "done"
    assert [name] == CALLED and reports.outcomes == [(name, "succeeded")] and clerk.model.sent == []
    assert name in specialist.model.sent[0] and len(specialist.model.sent[0]) <= 3


def test_a_copy_of_the_agent_selects_as_well():
    FAILING.clear()
    harness = Agno(functions(), Toolroll.from_tools([]), max_tools=12)
    copied = harness.agent.deep_copy()
    harness.model.queue[:] = [()]
    copied.run(message_for(dialog(1)[0]), session_id="c")
    assert 0 < len(harness.model.sent[0]) <= 12


def test_tools_that_agno_adds_are_always_sent():
    model = Script()
    model.queue[:] = [()]
    agent = SelectingAgent(
        model=model, tools=list(functions()), max_tools=12, read_chat_history=True, telemetry=False
    )
    agent.run(message_for(dialog(1)[0]), session_id="c")
    assert "get_chat_history" in model.sent[0] and len(model.sent[0]) <= 13


def test_the_page_runs():
    model = Script()
    model.queue[:] = [()]
    page = run_page("agno", model=model, tools=list(tools_of(Agno)))
    assert len(model.sent[0]) <= 12 and page["result"].content == "done"


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="selection_context"):
        SelectingAgent(selection_context=wrong)
