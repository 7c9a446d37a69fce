"""Haystack's agent, with its own scripted generator."""

from __future__ import annotations

import pytest

from tests.adapters.scenario import Harness, Laws, Trace, run_page, tools_of

pytest.importorskip("haystack.hooks")
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import create_tool_from_function

from toolroll.adapters.haystack import SelectionHook, selection_hooks


class Haystack(Harness):
    hooks = ((SelectionHook, ("run",)),)
    make_tool = staticmethod(create_tool_from_function)
    named = True

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
            ToolCall(name, {"target": "x"}, id=f"{len(messages)}-{at}")
            for at, name in enumerate(self.queue.pop(0))
        ]
        return ChatMessage.from_assistant(tool_calls=calls) if calls else ChatMessage.from_assistant("done")

    def say(self, message, *steps, conversation="c"):
        self.queue[:], self.sent = [*steps, ()], []
        history = self.histories.get(conversation, [])
        more = {"hook_context": {"conversation": conversation}} if self.named else {}
        result = self.agent.run([*history, ChatMessage.from_user(message)], **more)
        self.histories[conversation] = result["messages"]
        answers = [one.result for m in result["messages"][len(history) :] for one in m.tool_call_results]
        return Trace(self.sent, answers, result["last_message"].text)


class HaystackStateless(Haystack):
    named = False


HARNESS = Haystack


class TestHaystack(Laws):
    harness = Haystack


class TestHaystackStateless(Laws):
    harness = HaystackStateless


def test_the_page_runs():
    harness = Haystack([], None)
    harness.queue = [()]
    generator = MockChatGenerator(response_fn=harness.reply)
    asked = [ChatMessage.from_user("Could you copy the message in Gcp for me?")]
    page = run_page("haystack", generator=generator, tools=list(tools_of(Haystack)), messages=asked)
    assert len(harness.sent[0]) <= 12 and page["result"]["last_message"].text == "done"
