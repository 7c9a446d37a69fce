"""FastMCP's server with the transform, and FastMCP's client."""

from __future__ import annotations

import asyncio

import pytest

from tests.adapters import scenario
from tests.adapters.scenario import (
    BROKEN,
    CALLED,
    FAILING,
    FEW,
    Harness,
    Reports,
    Trace,
    message_for,
    run_page,
)
from toolroll import Context, InvalidInput, Rule, Toolroll

pytest.importorskip("fastmcp")
from fastmcp import Client, FastMCP
from fastmcp.tools import Tool

from toolroll.adapters.fastmcp import ToolSearchTransform

pytestmark = pytest.mark.filterwarnings("ignore")  # of its web server's imports
FIRST, SECOND = scenario.dialog(2, FEW)


class FastMCPSearch(Harness):
    """A client that searches with the user's message and calls what it needs."""

    lines = 2
    make_tool = staticmethod(Tool.from_function)

    def build(self, tools, roll, *, max_tools=12, **options):
        self.server = FastMCP("tools")
        for tool in tools:
            self.server.add_tool(tool)
        # ---- what the user writes
        self.server.add_transform(ToolSearchTransform(roll, max_results=max_tools, **options))

    def say(self, message, *steps, conversation="c"):
        return asyncio.run(self._say(message, steps))

    async def _say(self, message, steps):
        trace = Trace()
        async with Client(self.server) as client:
            found = await client.call_tool("search_tools", {"query": message})
            trace.sent.append([one["name"] for one in found.structured_content["result"]])
            for names in steps:
                for name in names:
                    given = {"name": name, "arguments": {"target": "x"}}
                    if name not in trace.sent[0]:  # a hidden one, by its name
                        reply = await client.call_tool(name, {"target": "x"}, raise_on_error=False)
                    else:
                        reply = await client.call_tool("call_tool", given, raise_on_error=False)
                    trace.answers.append(reply.content[0].text)
        return trace


HARNESS = FastMCPSearch


@pytest.fixture(autouse=True)
def nothing_called():
    CALLED.clear()
    FAILING.clear()


@pytest.fixture
def reports():
    return Reports()


def agent_of(reports, *, rules=(), **options):
    roll = Toolroll.from_tools([], rules=rules, observers=[reports])
    return FastMCPSearch(scenario.tools_of(FastMCPSearch), roll, **options)


def test_clients_see_two_tools_and_find_the_others(reports):
    agent = agent_of(reports)

    async def listed():
        async with Client(agent.server) as client:
            return [tool.name for tool in await client.list_tools()]

    assert asyncio.run(listed()) == ["search_tools", "call_tool"]
    assert FIRST in agent.say(message_for(FIRST)).sent[0]


def test_a_found_tool_runs_and_its_outcome_is_reported(reports):
    agent = agent_of(reports)
    trace = agent.say(message_for(FIRST), [FIRST])
    assert CALLED == [FIRST] and trace.answers == [f"{FIRST} is done"]
    assert reports.outcomes == [(FIRST, "succeeded")]


def test_a_failure_is_reported_as_one(reports):
    FAILING.add(FIRST)
    trace = agent_of(reports).say(message_for(FIRST), [FIRST])
    assert BROKEN in trace.answers[0] and reports.outcomes == [(FIRST, "failed")]


def test_a_hidden_tool_that_is_called_by_its_name_does_not_run(reports):
    agent = agent_of(reports, max_tools=1)
    hidden = next(one.__name__ for one in scenario.functions() if one.__name__ != FIRST)
    agent.say(message_for(FIRST), [hidden])
    assert CALLED == [] and reports.outcomes == []


def test_a_tool_that_policy_denies_is_neither_found_nor_run(reports):
    rules = [Rule("no", "deny", "org", {"org": ""}, tool=FIRST)]
    agent = agent_of(reports, rules=rules)

    async def call():
        async with Client(agent.server) as client:
            given = {"name": FIRST, "arguments": {"target": "x"}}
            return await client.call_tool("call_tool", given, raise_on_error=False)

    assert FIRST not in agent.say(message_for(FIRST)).sent[0]
    assert asyncio.run(call()).is_error and CALLED == []


def test_calls_at_once_are_all_checked_and_reported(reports):
    agent = agent_of(reports)

    async def run():
        async with Client(agent.server) as client:
            found = await client.call_tool("search_tools", {"query": message_for(FIRST)})
            first, second, *_ = [one["name"] for one in found.structured_content["result"]]
            wanted = [first, second, "no_such_tool"]
            given = [{"name": name, "arguments": {"target": "x"}} for name in wanted]
            replies = [client.call_tool("call_tool", one, raise_on_error=False) for one in given]
            return wanted[:2], [reply.is_error for reply in await asyncio.gather(*replies)]

    names, errors = asyncio.run(run())
    assert errors == [False, False, True] and sorted(CALLED) == sorted(names)
    assert sorted(reports.outcomes) == sorted((name, "succeeded") for name in names)


def test_each_user_has_what_the_rules_allow(reports):
    asking = Context()
    rules = [Rule("no", "deny", "user", {"user": "ann"}, tool=FIRST)]
    agent = agent_of(reports, rules=rules, context=lambda _: asking)
    for user in ("ann", "bob"):
        asking = Context(user=user)
        assert (FIRST in agent.say(message_for(FIRST), [FIRST]).sent[0]) is (user == "bob")
    assert [FIRST] == CALLED and reports.outcomes == [(FIRST, "succeeded")]


def test_the_page_runs():
    server = FastMCP("tools")
    for tool in scenario.tools_of(FastMCPSearch):
        server.add_tool(tool)
    run_page("fastmcp", server=server)

    async def listed():
        async with Client(server) as client:
            return [tool.name for tool in await client.list_tools()]

    assert asyncio.run(listed()) == ["search_tools", "call_tool"]


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="context"):
        ToolSearchTransform(context=wrong)


@pytest.mark.parametrize("wrong", [0, 21, "5"])
def test_a_number_of_results_that_no_search_has_is_refused(wrong):
    with pytest.raises(InvalidInput, match="max_results: is .*, must be a whole number from 1 to 20"):
        ToolSearchTransform(max_results=wrong)
