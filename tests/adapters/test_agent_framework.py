"""Microsoft Agent Framework, with a scripted model."""

from __future__ import annotations

import asyncio

import pytest

from tests.adapters.scenario import Harness, Laws, Trace, run_page, tools_of

framework = pytest.importorskip("agent_framework")
from agent_framework import (  # noqa: E402
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from toolroll.adapters.agent_framework import tool_selection  # noqa: E402


class Script(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    def __init__(self):
        super().__init__()
        self.queue, self.sent = [], []

    def _inner_get_response(self, *, messages, stream, options, **_):
        async def reply():
            self.sent.append([tool.name for tool in options.get("tools") or []])
            names, step = self.queue.pop(0), len(self.sent)
            contents = [
                Content.from_function_call(call_id=f"{step}-{at}", name=name, arguments={"target": "x"})
                for at, name in enumerate(names)
            ]
            return ChatResponse(messages=[Message(role="assistant", contents=contents or ["done"])])

        return reply()


class AgentFramework(Harness):
    make_tool = staticmethod(framework.tool(approval_mode="never_require"))
    with_session = True

    def build(self, tools, roll, **options):
        self.client, self.sessions = Script(), {}
        # ---- what the user writes
        self.agent = Agent(client=self.client, tools=tools, middleware=tool_selection(roll, **options))

    def say(self, message, *steps, conversation="c"):
        self.client.queue[:] = [*steps, ()]
        self.client.sent = []
        session = self.sessions.setdefault(conversation, self.agent.create_session())
        result = asyncio.run(self.agent.run(message, session=session))
        answers = [
            str(one.result) for m in result.messages for one in m.contents if one.type == "function_result"
        ]
        return Trace(self.client.sent, answers, result.text)


class AgentFrameworkStateless(AgentFramework):
    def say(self, message, *steps, conversation="c"):
        self.client.queue[:] = [*steps, ()]
        self.client.sent = []
        history = self.sessions.setdefault(conversation, [])
        history.append(Message(role="user", contents=[message]))
        result = asyncio.run(self.agent.run(history))
        history += result.messages
        answers = [
            str(one.result) for m in result.messages for one in m.contents if one.type == "function_result"
        ]
        return Trace(self.client.sent, answers, result.text)


HARNESS = AgentFramework


class TestAgentFramework(Laws):
    harness = AgentFramework


class TestAgentFrameworkStateless(Laws):
    harness = AgentFrameworkStateless


def test_the_page_runs():
    client = Script()
    client.queue = [()]

    async def run():
        return await run_page("agent-framework", client=client, tools=list(tools_of(AgentFramework)))[
            "running"
        ]

    assert asyncio.run(run()).text == "done" and len(client.sent[0]) <= 12
