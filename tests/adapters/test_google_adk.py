"""Google ADK, with a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

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
from toolroll import InvalidInput, Toolroll

pytest.importorskip("google.adk")
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from toolroll.adapters.google_adk import ToolSelectionPlugin

pytestmark = pytest.mark.filterwarnings("ignore")  # ADK warns of its own experimental parts


class Script(BaseLlm):
    queue: list[Any]
    sent: list[Any]
    arguments: dict[str, str] = {"target": "x"}  # noqa: RUF012 - of the next calls

    async def generate_content_async(self, llm_request, stream=False):
        found = llm_request.config.tools or []
        self.sent.append([one.name for group in found for one in group.function_declarations or []])
        names = self.queue.pop(0)
        parts = [types.Part.from_function_call(name=name, args=self.arguments) for name in names]
        if stream and not names:
            yield LlmResponse(
                content=types.Content(role="model", parts=[types.Part(text="do")]), partial=True
            )
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))


class GoogleADK(Harness):
    hooks = (
        (
            ToolSelectionPlugin,
            ("before_model_callback", "before_tool_callback", "after_tool_callback", "after_agent_callback"),
        ),
    )
    make_tool = staticmethod(FunctionTool)
    stops_on_failure = True
    config = None

    def build(self, tools, roll, **options):
        self.model, self.sessions = Script(model="m", queue=[], sent=[]), {}
        agent = LlmAgent(name="a", model=self.model, tools=tools)
        # ---- what the user writes
        self.runner = InMemoryRunner(agent=agent, plugins=[ToolSelectionPlugin(roll, **options)])

    def say(self, message, *steps, conversation="c"):
        return asyncio.run(self._say(message, steps, conversation))

    async def _say(self, message, steps, conversation):
        self.model.queue[:] = [*steps, ()]
        said = types.Content(role="user", parts=[types.Part(text=message)])
        return await self.send(said, conversation)

    async def send(self, said, conversation="c"):
        self.model.sent = []
        service, name = self.runner.session_service, self.runner.app_name
        if conversation not in self.sessions:
            self.sessions[conversation] = await service.create_session(app_name=name, user_id="u")
        answers, reply, self.events = [], "", []
        session = self.sessions[conversation]
        async for event in self.runner.run_async(
            user_id="u", session_id=session.id, new_message=said, run_config=self.config
        ):
            self.events.append(event)
            for part in (event.content.parts if event.content else None) or ():
                if part.function_response:
                    answers.append(
                        str(part.function_response.response.get("result", part.function_response.response))
                    )
                reply = part.text or reply
        return Trace(self.model.sent, answers, reply)


class GoogleADKStream(GoogleADK):
    config = RunConfig(streaming_mode=StreamingMode.SSE)


HARNESS = GoogleADK


class TestGoogleADK(Laws):
    harness = GoogleADK


class TestGoogleADKStream(Laws):
    harness = GoogleADKStream


FIRST, SECOND = dialog(2)


@pytest.fixture
def reports() -> Reports:
    CALLED.clear()
    FAILING.clear()
    return Reports()


@pytest.fixture
def roll(reports) -> Toolroll:
    return Toolroll.from_tools([], observers=[reports])


@pytest.mark.parametrize(("is_confirmed", "is_elsewhere"), [(True, False), (False, False), (True, True)])
def test_a_call_that_waits_for_a_person_is_reported_when_it_ran(roll, reports, is_confirmed, is_elsewhere):
    def wipe_the_disk(target: str) -> str:
        """Wipes the disk of the laptop."""
        CALLED.append("wipe_the_disk")
        return "wiped"

    wipes = FunctionTool(wipe_the_disk, require_confirmation=True)
    harness = GoogleADK([wipes, *tools_of(GoogleADK)], roll, max_tools=5)
    harness.say("Wipe the disk of the laptop.", ["wipe_the_disk"])
    assert CALLED == [] and reports.outcomes == []
    calls = [call for event in harness.events for call in event.get_function_calls()]
    (asked,) = [call for call in calls if call.name == "adk_request_confirmation"]
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": is_confirmed})
    harness.model.queue[:] = [()]
    if is_elsewhere:  # another process: the plugin has seen nothing, the roll's store has
        harness.runner.plugin_manager.plugins[:] = [ToolSelectionPlugin(roll, max_tools=5)]
    asyncio.run(harness.send(types.Content(role="user", parts=[types.Part(function_response=answer)])))
    assert len(CALLED) == is_confirmed and len(set(reports.events)) == 1
    assert reports.outcomes == [("wipe_the_disk", "succeeded")][:is_confirmed]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_call_that_is_tried_again_counts_as_it_ended(roll, reports, is_first):
    plugins = [ToolSelectionPlugin(roll, max_tools=5), ReflectAndRetryToolPlugin()]
    harness = GoogleADK(tools_of(GoogleADK), roll, max_tools=5)
    harness.runner = InMemoryRunner(
        agent=harness.runner.agent, plugins=plugins if is_first else plugins[::-1]
    )
    FAILING.add(FIRST)
    harness.say(message_for(FIRST), [FIRST], [FIRST])
    assert reports.outcomes == [(FIRST, "failed")] * 2
    FAILING.clear()
    harness.say(message_for(FIRST) + " Again.", [FIRST])
    assert reports.outcomes == [(FIRST, "failed"), (FIRST, "failed"), (FIRST, "succeeded")]


def test_arguments_that_do_not_fit_are_no_failure_of_the_tool(roll, reports):
    harness = GoogleADK(tools_of(GoogleADK), roll, max_tools=5)
    harness.model.arguments = {}
    harness.say(message_for(FIRST), [FIRST])
    assert CALLED == [] and reports.outcomes == [(FIRST, "called")]


def test_agents_that_hand_over_or_are_tools_have_catalogs_of_their_own(roll, reports):
    inner_tools, inner = (
        [wrapped for wrapped in tools_of(GoogleADK)[50:]],
        Script(model="m", queue=[], sent=[]),
    )
    specialist = LlmAgent(name="specialist", description="For hard cases.", model=inner, tools=inner_tools)
    clerk = LlmAgent(name="clerk", description="Does it all.", model=inner, tools=inner_tools)
    model = Script(model="m", queue=[], sent=[])
    outer = LlmAgent(
        name="outer",
        model=model,
        tools=[*tools_of(GoogleADK)[:50], AgentTool(clerk)],
        sub_agents=[specialist],
    )
    plugin = ToolSelectionPlugin(roll, max_tools=3, always_include=["clerk"])
    harness = GoogleADK([], roll)
    harness.model, harness.runner = model, InMemoryRunner(agent=outer, plugins=[plugin])
    name = inner_tools[10].name
    inner.queue[:] = [(name,), ()]
    model.arguments = {"request": message_for(name)}
    harness.say("Ask the clerk.", ["clerk"])
    assert reports.outcomes == [(name, "succeeded"), ("clerk", "succeeded")]
    assert "transfer_to_agent" in model.sent[0] and "clerk" in model.sent[0] and len(model.sent[0]) <= 5
    inner.queue[:] = [(name,), ()]
    model.arguments = {"agent_name": "specialist"}
    harness.say(message_for(name), ["transfer_to_agent"])
    assert [name] * 2 == CALLED and reports.outcomes[2:].count((name, "succeeded")) == 1
    assert all(len(sent) <= 5 and name in sent for sent in inner.sent)


def test_the_page_runs():
    harness = GoogleADK([], None)
    agent = LlmAgent(name="a", model=harness.model, tools=list(tools_of(GoogleADK)))
    harness.runner = run_page("google-adk", agent=agent)["runner"]
    assert len(harness.say("Could you copy the message in Gcp for me?").sent[0]) <= 12


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="context"):
        ToolSelectionPlugin(context=wrong)


def test_an_unknown_name_is_answered_with_the_names_that_were_sent_and_no_others():
    harness = GoogleADK(list(tools_of(GoogleADK)), Toolroll.from_tools([]), max_tools=3)
    trace = harness.say(message_for(dialog(1)[0]), ("no_such_tool",))
    (answer,) = trace.answers
    offered = answer.split("offered:")[-1]
    assert "was not offered" in answer and all(name in offered for name in trace.sent[0])
    assert not [
        one.name for one in tools_of(GoogleADK) if one.name not in trace.sent[0] and one.name in offered
    ]
