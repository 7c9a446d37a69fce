"""Haystack's agent, with its own scripted generator."""

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
from toolroll import Toolroll

pytest.importorskip("haystack.hooks")
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.hooks.human_in_the_loop import (
    AlwaysAskPolicy,
    BlockingConfirmationStrategy,
    ConfirmationHook,
    ConfirmationUIResult,
    SimpleConsoleUI,
)
from haystack.tools import AgentTool, create_tool_from_function

from toolroll.adapters.haystack import SelectionHook, selection_hooks


class Haystack(Harness):
    hooks = ((SelectionHook, ("run",)),)
    make_tool = staticmethod(create_tool_from_function)
    named = True
    arguments: dict[str, Any] = {"target": "x"}  # noqa: RUF012 - of the next calls

    def build(self, tools, roll, **options):
        self.queue, self.sent, self.histories = [], [], {}
        generator = MockChatGenerator(response_fn=self.reply)
        # ---- what the user writes
        self.agent = Agent(
            chat_generator=generator,
            tools=tools,
            hooks=selection_hooks(roll, **options),
            raise_on_tool_invocation_failure=False,
        )

    def reply(self, messages, tools):
        self.sent.append([tool.name for tool in tools or []])
        calls = [
            ToolCall(name, self.arguments, id=f"{len(messages)}-{at}")
            for at, name in enumerate(self.queue.pop(0))
        ]
        return ChatMessage.from_assistant(tool_calls=calls) if calls else ChatMessage.from_assistant("done")

    def say(self, message, *steps, conversation="c"):
        self.queue[:], self.sent = [*steps, ()], []
        history = self.histories.get(conversation, [])
        more = {"hook_context": {"conversation": conversation}} if self.named else {}
        result = self.run([*history, ChatMessage.from_user(message)], **more)
        self.histories[conversation] = result["messages"]
        answers = [one.result for m in result["messages"][len(history) :] for one in m.tool_call_results]
        return Trace(self.sent, answers, result["last_message"].text)

    def run(self, messages, **more):
        return self.agent.run(messages, **more)


class HaystackAsync(Haystack):
    def run(self, messages, **more):
        return asyncio.run(self.agent.run_async(messages, **more))


class HaystackStream(Haystack):
    def run(self, messages, **more):
        parts = []
        result = self.agent.run(messages, streaming_callback=parts.append, **more)
        assert parts
        return result


class HaystackStateless(Haystack):
    named = False


HARNESS = Haystack


class TestHaystack(Laws):
    harness = Haystack


class TestHaystackStateless(Laws):
    harness = HaystackStateless


class TestHaystackAsync(Laws):
    harness = HaystackAsync


class TestHaystackStream(Laws):
    harness = HaystackStream


FIRST, SECOND = dialog(2)


@pytest.fixture
def reports() -> Reports:
    CALLED.clear()
    FAILING.clear()
    return Reports()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("action", ["confirm", "reject"])
def test_a_call_that_a_person_rejects_is_no_failure_of_the_tool(reports, action, is_async):
    class Person(SimpleConsoleUI):
        def get_user_confirmation(self, *_, **__):
            return ConfirmationUIResult(action=action)

    asks = BlockingConfirmationStrategy(confirmation_policy=AlwaysAskPolicy(), confirmation_ui=Person())
    harness = (HaystackAsync if is_async else Haystack)(
        tools_of(Haystack), Toolroll.from_tools([], observers=[reports]), max_tools=12
    )
    harness.agent.hooks["before_tool"] = [ConfirmationHook({"*": asks})]
    harness.say(message_for(FIRST), [FIRST])
    assert ([FIRST] if action == "confirm" else []) == CALLED
    assert reports.outcomes == [(FIRST, "succeeded" if CALLED else "called")]
    assert len(set(reports.events)) == 1


def test_a_sub_agent_has_a_catalog_and_turns_of_its_own(reports):
    roll = Toolroll.from_tools([], observers=[reports])
    inner = Haystack(tools_of(Haystack)[50:], roll, max_tools=3)
    inner.queue[:] = [(tools_of(Haystack)[60].name,), ()]
    specialist = AgentTool(
        inner.agent, name="ask_the_specialist", description="Gives a task to the specialist."
    )
    outer = Haystack(
        [*tools_of(Haystack)[:50], specialist], roll, max_tools=3, always_include=[specialist.name]
    )
    outer.arguments = {"messages": [{"role": "user", "content": message_for(tools_of(Haystack)[60].name)}]}
    trace = outer.say("Ask the specialist.", [specialist.name])
    assert len(trace.sent[0]) <= 4 and specialist.name in trace.sent[0] and len(inner.sent[0]) <= 3
    assert reports.outcomes == [(tools_of(Haystack)[60].name, "succeeded"), (specialist.name, "succeeded")]


def test_the_page_runs():
    harness = Haystack([], None)
    harness.queue = [()]
    generator = MockChatGenerator(response_fn=harness.reply)
    asked = [ChatMessage.from_user("Could you copy the message in Gcp for me?")]
    page = run_page("haystack", generator=generator, tools=list(tools_of(Haystack)), messages=asked)
    assert len(harness.sent[0]) <= 12 and page["result"]["last_message"].text == "done"
