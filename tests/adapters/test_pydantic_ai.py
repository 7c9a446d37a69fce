"""Pydantic-AI, with a scripted model."""

from __future__ import annotations

import asyncio
import re
from itertools import count

import pytest

from tests.adapters import scenario
from tests.adapters.scenario import (
    CALLED,
    FAILING,
    Harness,
    Laws,
    Reports,
    Trace,
    message_for,
    run_page,
    tools_of,
)
from toolroll import Context, InvalidInput, Rule, Toolroll

pytest.importorskip("pydantic_ai.capabilities")
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, Tool
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from tests.table import each_row
from toolroll.adapters.pydantic_ai import SearchStrategy, ToolSelection

IDS = count()


class Script:
    def __init__(self) -> None:
        self.queue: list[ModelResponse] = []
        self.sent: list[list[str]] = []
        self.model = FunctionModel(self.step, stream_function=self.stream)

    def then(self, *steps):
        self.sent.clear()
        self.queue[:] = [
            ModelResponse(
                [ToolCallPart(name, {"target": "x"}, tool_call_id=f"id{next(IDS)}") for name in names]
            )
            for names in steps
        ] + [ModelResponse([TextPart("done")])]
        return self

    def step(self, messages, info):
        self.sent.append([tool.name for tool in info.function_tools])
        return self.queue.pop(0)

    async def stream(self, messages, info):
        for at, part in enumerate(self.step(messages, info).parts):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {at: DeltaToolCall(part.tool_name, '{"target": "x"}', tool_call_id=part.tool_call_id)}


class PydanticAI(Harness):
    hooks = ((ToolSelection, ("prepare_tools",)),)
    stops_on_failure = True
    lines = 2
    make_tool = staticmethod(Tool)

    def build(self, tools, roll, **options):
        self.script, self.histories = Script(), {}
        # ---- what the user writes
        selection = ToolSelection(roll, **options)
        self.agent = Agent(self.script.model, tools=tools, capabilities=[selection])

    def say(self, message, *steps, conversation="c"):
        self.script.then(*steps)
        history = self.histories.get(conversation)
        result = asyncio.run(self.agent.run(message, message_history=history))
        self.histories[conversation] = result.all_messages()
        answers = [
            part.content
            for one in result.new_messages()
            for part in one.parts
            if part.part_kind == "tool-return"
        ]
        return Trace(self.script.sent[:], answers, result.output)


HARNESS = PydanticAI


class TestPydanticAI(Laws):
    harness = PydanticAI


FIRST, SECOND = scenario.dialog(2, scenario.FEW)
TOOLS = tools_of(PydanticAI)


@pytest.fixture(autouse=True)
def nothing_called():
    CALLED.clear()
    FAILING.clear()


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def roll(reports) -> Toolroll:
    return Toolroll.from_tools([], observers=[reports])


def agent_of(script: Script, roll: Toolroll, *more: Tool, max_tools: int = 12, **options) -> Agent:
    tools = [*TOOLS, *more]
    return Agent(
        script.model, tools=tools, capabilities=[ToolSelection(roll, max_tools=max_tools)], **options
    )


def test_a_call_that_waits_for_a_person_is_reported_when_it_ran(roll, reports):
    def wipe_the_disk(target: str) -> str:
        """Wipes the disk of the laptop."""
        return "wiped"

    script = Script().then(["wipe_the_disk"])
    tool = Tool(wipe_the_disk, requires_approval=True)
    agent = agent_of(script, roll, tool, output_type=[str, DeferredToolRequests])
    waiting = agent.run_sync("Wipe the disk of the laptop.")
    (call,) = waiting.output.approvals
    assert reports.outcomes == [] and reports.final == 0
    decided = DeferredToolResults(approvals={call.tool_call_id: True})
    agent.run_sync(message_history=waiting.all_messages(), deferred_tool_results=decided)
    assert reports.outcomes == [("wipe_the_disk", "succeeded")] and reports.final == 1
    assert len(set(reports.events)) == 1


def test_a_call_that_another_program_runs_is_reported_from_its_result(roll, reports):
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import ExternalToolset

    external = ToolDefinition(name="scan_the_badge", description="Scans the badge of the visitor.")
    script = Script().then(["scan_the_badge"])
    agent = Agent(
        script.model,
        tools=TOOLS,
        toolsets=[ExternalToolset([external])],
        capabilities=[ToolSelection(roll, max_tools=5)],
        output_type=[str, DeferredToolRequests],
    )
    waiting = agent.run_sync("Scan the badge of the visitor.")
    (call,) = waiting.output.calls
    decided = DeferredToolResults(calls={call.tool_call_id: "scanned"})
    agent.run_sync(message_history=waiting.all_messages(), deferred_tool_results=decided)
    assert reports.outcomes == [("scan_the_badge", "succeeded")]


@pytest.mark.parametrize(
    ("error", "kind"), [(ModelRetry("other arguments"), "called"), (ToolFailed("no"), "failed")]
)
def test_a_tool_that_asks_for_other_arguments_has_not_failed(roll, reports, error, kind):
    def open_the_gate(target: str) -> str:
        """Opens the gate of the garage."""
        raise error

    script = Script().then(["open_the_gate"])
    agent_of(script, roll, Tool(open_the_gate), max_tools=3).run_sync("Open the gate of the garage.")
    assert reports.outcomes == [("open_the_gate", kind)]


def test_tools_of_toolsets_are_selected_from_with_the_others(roll):
    def open_the_gate(target: str) -> str:
        """Opens the gate of the garage."""
        return "open"

    script = Script().then(["open_the_gate"])
    toolset = FunctionToolset([open_the_gate])
    selects = ToolSelection(roll, max_tools=3)
    agent = Agent(script.model, tools=TOOLS, toolsets=[toolset], capabilities=[selects])
    agent.run_sync("Open the gate of the garage.")
    assert "open_the_gate" in script.sent[0] and len(script.sent[0]) == 3


def test_streamed_runs_select_and_report(roll, reports):
    script = Script().then([FIRST])
    agent = agent_of(script, roll)

    async def run():
        async with agent.run_stream(message_for(FIRST)) as result:
            assert await result.get_output() == "done"

    asyncio.run(run())
    assert FIRST in script.sent[0] and reports.outcomes == [(FIRST, "succeeded")]


def test_a_sub_agent_shares_the_capability_and_not_the_conversation(roll, reports):
    selects = ToolSelection(roll, max_tools=5)
    inner, outer = Script().then([FIRST]), Script()
    specialist = Agent(inner.model, tools=TOOLS, capabilities=[selects])

    async def ask_the_specialist(target: str) -> str:
        """Gives a task to the specialist for money."""
        return (await specialist.run(message_for(FIRST))).output

    outer.then(["ask_the_specialist"])
    agent = Agent(outer.model, tools=[*TOOLS[:50], ask_the_specialist], capabilities=[selects])
    agent.run_sync("Give a task to the specialist for money.")
    assert CALLED == [FIRST]
    assert reports.outcomes == [(FIRST, "succeeded"), ("ask_the_specialist", "succeeded")]


def test_the_dependencies_of_a_run_decide_what_its_user_may_have(reports):
    rules = [Rule("no", "deny", "user", {"user": "ann"}, tool=FIRST)]
    roll = Toolroll.from_tools([], rules=rules, observers=[reports])
    selects = ToolSelection(roll, max_tools=12, context=lambda ctx: Context(user=ctx.deps))
    script = Script()
    agent = Agent(script.model, tools=TOOLS, deps_type=str, capabilities=[selects])
    for user, has_it in (("ann", False), ("bob", True)):
        script.then([FIRST])
        agent.run_sync(message_for(FIRST), deps=user)
        assert (FIRST in script.sent[0]) is has_it and (FIRST in CALLED) is has_it


def searching(roll, *calls, **options):
    """An agent whose model searches, and then calls what it is told to call; the results of its calls."""
    script = Script()
    script.queue[:] = [
        *(ModelResponse([ToolCallPart(name, args, tool_call_id=f"id{next(IDS)}")]) for name, args in calls),
        ModelResponse([TextPart("done")]),
    ]
    search = SearchStrategy(roll, **options)
    deferred = [Tool(tool.function, defer_loading=True) for tool in TOOLS]
    agent = Agent(
        script.model, tools=deferred, deps_type=str, capabilities=[ToolSearch(strategy=search), search]
    )

    def run(user="", history=None):
        result = agent.run_sync("Please help.", deps=user, message_history=history)
        return [
            part
            for message in result.new_messages()
            for part in message.parts
            if part.part_kind in ("tool-return", "retry-prompt")
        ]

    return run, script


def test_the_model_searches_and_calls_what_it_found(roll, reports):
    FAILING.add(SECOND)
    first, second = ({"queries": [message_for(name)]} for name in (FIRST, SECOND))
    run, script = searching(
        roll, ("search_tools", first), (FIRST, {"target": "x"}), ("search_tools", second), max_results=3
    )
    found, called, other = run()
    names = [one["name"] for one in found.content["discovered_tools"]]
    assert names[0] == FIRST and len(names) == 3
    assert called.content == f"{FIRST} is done" and other.content["discovered_tools"][0]["name"] == SECOND
    assert [FIRST] == CALLED and reports.outcomes == [(FIRST, "succeeded")]
    script.queue[:] = [
        ModelResponse([ToolCallPart("search_tools", second, tool_call_id="s")]),
        ModelResponse([ToolCallPart(SECOND, {"target": "x"}, tool_call_id="t")]),
    ]
    with pytest.raises(RuntimeError, match=scenario.BROKEN):
        run()
    assert reports.outcomes == [(FIRST, "succeeded"), (SECOND, "failed")]


def test_a_search_without_words_or_with_many_is_no_error(roll):
    queries = [message_for(FIRST)] * 9
    run, _ = searching(
        roll, ("search_tools", {"queries": [" "]}), ("search_tools", {"queries": queries}), max_results=2
    )
    nothing, found = run()
    assert "discovered_tools" not in str(nothing.content) or not nothing.content["discovered_tools"]
    assert found.content["discovered_tools"][0]["name"] == FIRST


def test_a_tool_that_policy_denies_is_not_found_and_not_run(reports):
    rules = [Rule("no", "deny", "user", {"user": "ann"}, tool=FIRST)]
    roll = Toolroll.from_tools([], rules=rules, observers=[reports])
    asked = ("search_tools", {"queries": [message_for(FIRST)]})
    context = {"context": lambda ctx: Context(user=ctx.deps)}
    for user, has_it in (("ann", False), ("bob", True)):
        run, _ = searching(roll, asked, (FIRST, {"target": "x"}), **context)
        found, _ = run(user)
        assert (FIRST in str(found.content)) is has_it and (FIRST in CALLED) is has_it
    assert reports.outcomes == [(FIRST, "succeeded")]


def test_the_page_runs():
    script = Script().then()
    page = run_page("pydantic-ai", model=script.model, tools=TOOLS)
    assert len(script.sent[0]) <= 12 and page["result"].output == "done"
    script.then()
    assert page["searching"].run_sync("Copy a message.").output == "done"
    assert "search_tools" in script.sent[0]


@pytest.mark.parametrize("wrong", [{}, {"user": "ann"}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="context"):
        ToolSelection(context=wrong)
    with pytest.raises(InvalidInput, match="context"):
        SearchStrategy(context=wrong)


@each_row("wrong", [0, 21, "5", True, None])
def test_a_number_of_results_that_no_search_has_is_refused(wrong):
    with pytest.raises(InvalidInput, match="max_results: is .*, must be a whole number from 1 to 20"):
        SearchStrategy(max_results=wrong)


def test_the_search_of_the_page_takes_functions_and_keeps_the_names_of_tools():
    def copy_it(target: str) -> str:
        """Copies a message."""
        return target

    script = Script().then()
    named = Tool(copy_it, name="copy_message", description="Copies a message in Gcp.")
    page = run_page("pydantic-ai", model=script.model, tools=[copy_it, named])
    script.queue[:] = [
        ModelResponse([ToolCallPart("search_tools", {"queries": ["copy a message"]}, tool_call_id="1")]),
        ModelResponse([TextPart("done")]),
    ]
    result = page["searching"].run_sync("Copy a message.")
    assert {"copy_it", "copy_message"} <= set(
        re.findall(r"\w+", str(result.new_messages()[2].parts[0].content))
    )
