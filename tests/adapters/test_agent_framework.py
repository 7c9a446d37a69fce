"""Microsoft Agent Framework, with a scripted model."""

from __future__ import annotations

import asyncio
import contextlib

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
from toolroll import Toolroll

framework = pytest.importorskip("agent_framework")
from agent_framework import (  # noqa: E402
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
    Message,
    ResponseStream,
)

from toolroll.adapters.agent_framework import tool_selection  # noqa: E402


class Script(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    def __init__(self):
        super().__init__()
        self.queue, self.sent = [], []
        self.arguments = {"target": "x"}  # of the next calls

    def _inner_get_response(self, *, messages, stream, options, **_):
        async def reply():
            self.sent.append([tool.name for tool in options.get("tools") or []])
            names, step = self.queue.pop(0), len(self.sent)
            contents = [
                Content.from_function_call(call_id=f"{step}-{at}", name=name, arguments=self.arguments)
                for at, name in enumerate(names)
            ]
            return ChatResponse(messages=[Message(role="assistant", contents=contents or ["done"])])

        async def updates():
            for message in (await reply()).messages:
                yield ChatResponseUpdate(role="assistant", contents=message.contents)

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else reply()


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
        result = asyncio.run(self.run(message, session))
        answers = [
            str(one.result) for m in result.messages for one in m.contents if one.type == "function_result"
        ]
        return Trace(self.client.sent, answers, result.text)

    async def run(self, message, session):
        return await self.agent.run(message, session=session)


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


class AgentFrameworkStream(AgentFramework):
    async def run(self, message, session):
        stream = self.agent.run(message, session=session, stream=True)
        await _collected(stream)
        return await stream.get_final_response()


HARNESS = AgentFramework


class TestAgentFramework(Laws):
    harness = AgentFramework


class TestAgentFrameworkStream(Laws):
    harness = AgentFrameworkStream


class TestAgentFrameworkStateless(Laws):
    harness = AgentFrameworkStateless


def test_a_streamed_run_ends_its_turn():
    reports, name = Reports(), dialog(1)[0]
    roll = Toolroll.from_tools([], observers=[reports])
    harness = AgentFrameworkStream(tools_of(AgentFramework), roll, max_tools=12)
    harness.say(message_for(name), [name])
    assert reports.outcomes == [(name, "succeeded")] and reports.final == 1


async def _collected(stream):
    async for _ in stream:
        pass


@pytest.mark.parametrize("how", ["raises", "streams"])
def test_an_agent_that_runs_in_a_tool_does_not_hide_the_outer_run(how):
    reports, inner_client, client = Reports(), Script(), Script()
    name = dialog(1)[0]
    inner = Agent(client=inner_client, tools=list(tools_of(AgentFramework)), middleware=tool_selection())

    class Outer(FunctionMiddleware):
        async def process(self, context, call_next):
            if how == "streams":
                inner_client.queue[:] = [()]
                await _collected(inner.run("hello", stream=True))
            else:
                with contextlib.suppress(IndexError):
                    await inner.run("hello")  # the script is empty
            await call_next()

    roll = Toolroll.from_tools([], observers=[reports])
    middleware = [Outer(), *tool_selection(roll, max_tools=12)]
    outer = Agent(client=client, tools=list(tools_of(AgentFramework)), middleware=middleware)
    client.queue[:] = [(name,), ()]
    asyncio.run(outer.run(message_for(name)))
    assert reports.outcomes == [(name, "succeeded")] and reports.final == 1


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_call_that_waits_for_a_person_is_reported_when_it_ran(is_approved):
    CALLED.clear()

    @framework.tool(approval_mode="always_require")
    def wipe_the_disk(target: str) -> str:
        """Wipes the disk of the laptop."""
        CALLED.append("wipe_the_disk")
        return "wiped"

    reports, client = Reports(), Script()
    roll = Toolroll.from_tools([], observers=[reports])
    tools = [wipe_the_disk, *tools_of(AgentFramework)]
    agent = Agent(client=client, tools=tools, middleware=tool_selection(roll, max_tools=5))
    session = agent.create_session()
    client.queue[:] = [("wipe_the_disk",), ()]

    async def run():
        waiting = await agent.run("Wipe the disk of the laptop.", session=session)
        (request,) = waiting.user_input_requests
        assert CALLED == [] and reports.outcomes == []
        answer = Message(role="user", contents=[request.to_function_approval_response(approved=is_approved)])
        return await agent.run(answer, session=session)

    assert asyncio.run(run()).text == "done"
    assert len(CALLED) == is_approved and len(set(reports.events)) == 1
    assert reports.outcomes == [("wipe_the_disk", "succeeded")][:is_approved]


def test_an_agent_that_is_a_tool_has_a_catalog_and_turns_of_its_own():
    reports, inner_client, client = Reports(), Script(), Script()
    roll = Toolroll.from_tools([], observers=[reports])
    tools = tools_of(AgentFramework)
    name = tools[60].name
    inner = Agent(
        client=inner_client,
        name="specialist",
        tools=list(tools[50:]),
        middleware=tool_selection(roll, max_tools=3),
    )
    middleware = tool_selection(roll, max_tools=3, always_include=["specialist"])
    outer = Agent(
        client=client,
        tools=[*tools[:50], inner.as_tool(approval_mode="never_require")],
        middleware=middleware,
    )
    inner_client.queue[:], client.queue[:] = [(name,), ()], [("specialist",), ()]
    client.arguments = {"task": message_for(name)}
    asyncio.run(outer.run("Ask the specialist."))
    assert len(client.sent[0]) <= 4 and "specialist" in client.sent[0] and len(inner_client.sent[0]) <= 3
    assert reports.outcomes == [(name, "succeeded"), ("specialist", "succeeded")]


def test_arguments_that_do_not_fit_are_no_failure_of_the_tool():
    CALLED.clear()
    reports, client, name = Reports(), Script(), dialog(1)[0]
    roll = Toolroll.from_tools([], observers=[reports])
    agent = Agent(
        client=client, tools=list(tools_of(AgentFramework)), middleware=tool_selection(roll, max_tools=5)
    )
    client.queue[:], client.arguments = [(name,), ()], {"wrong": "x"}
    asyncio.run(agent.run(message_for(name)))
    assert CALLED == [] and reports.outcomes == [(name, "called")]


def test_the_page_runs():
    client = Script()
    client.queue = [()]

    async def run():
        return await run_page("agent-framework", client=client, tools=list(tools_of(AgentFramework)))[
            "running"
        ]

    assert asyncio.run(run()).text == "done" and len(client.sent[0]) <= 12
