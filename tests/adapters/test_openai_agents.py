"""The OpenAI Agents SDK, with its own scripted model."""

from __future__ import annotations

import asyncio
import gc
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

pytest.importorskip("agents")
from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    ModelSettings,
    RunConfig,
    Runner,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel
from agents.testing.model import assistant_message, function_call

from toolroll.adapters.openai_agents import SelectingAgent, run_config

set_tracing_disabled(True)
IDS = count()


def script(*steps) -> ScriptedModel:
    calls = [
        [function_call(name, {"target": "x"}, call_id=f"id{next(IDS)}") for name in names] for names in steps
    ]
    return ScriptedModel([*calls, [assistant_message("done")]])


def sent_to(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in call.tools] for call in model.calls]


class OpenAIAgents(Harness):
    lines = 3
    make_tool = staticmethod(function_tool)

    def build(self, tools, roll, **options):
        self.histories = {}
        # ---- what the user writes
        self.agent = SelectingAgent(name="a", tools=tools, roll=roll, **options)
        self.config = run_config()

    def say(self, message, *steps, conversation="c"):
        agent = self.agent
        agent.model = model = script(*steps)
        asked = [*self.histories.get(conversation, []), {"role": "user", "content": message}]
        result = asyncio.run(Runner.run(agent, asked, run_config=self.config))
        self.histories[conversation] = result.to_input_list()
        answers = [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
        return Trace(sent_to(model), answers, result.final_output)


class OpenAIAgentsNamed(OpenAIAgents):
    """With a name for each conversation, in the run's context."""

    def build(self, tools, roll, **options):
        self.histories = {}
        self.agent = SelectingAgent(
            name="a", tools=tools, roll=roll, conversation=lambda context: context.context, **options
        )
        self.config = run_config()

    def say(self, message, *steps, conversation="c"):
        self.agent.model = model = script(*steps)
        asked = [*self.histories.get(conversation, []), {"role": "user", "content": message}]
        result = asyncio.run(Runner.run(self.agent, asked, context=conversation, run_config=self.config))
        self.histories[conversation] = result.to_input_list()
        answers = [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
        return Trace(sent_to(model), answers, result.final_output)


HARNESS = OpenAIAgents


class TestOpenAIAgents(Laws):
    harness = OpenAIAgents


class TestOpenAIAgentsNamed(Laws):
    harness = OpenAIAgentsNamed


FIRST, SECOND = scenario.dialog(2, scenario.FEW)
TOOLS = list(tools_of(OpenAIAgents))


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


def run(agent: Agent, message: str, **options):
    return asyncio.run(Runner.run(agent, message, run_config=run_config(), **options))


def test_hosted_tools_are_sent_and_the_chosen_tool_is_there(roll):
    model = script()
    agent = SelectingAgent(
        name="a",
        model=model,
        tools=[*TOOLS, WebSearchTool()],
        roll=roll,
        max_tools=2,
        model_settings=ModelSettings(tool_choice=SECOND),
    )
    run(agent, message_for(FIRST))
    (sent,) = sent_to(model)
    assert sent[0] == "web_search" and {FIRST, SECOND} <= set(sent) and len(sent) == 4


def test_the_agents_own_hooks_and_the_users_formatter_are_still_called(roll, reports):
    seen = []

    class Hooks(AgentHooks):
        async def on_start(self, context, agent):
            seen.append("start")

        async def on_tool_start(self, context, agent, tool):
            seen.append(tool.name)

        async def on_tool_end(self, context, agent, tool, result):
            seen.append(result)

        async def on_llm_start(self, *_):
            seen.append("llm")

        async def on_llm_end(self, *_):
            seen.append("/llm")

        async def on_end(self, context, agent, output):
            seen.append(output)

    FAILING.add(FIRST)
    agent = SelectingAgent(
        name="a", model=script([FIRST]), tools=TOOLS, roll=roll, max_tools=12, hooks=Hooks()
    )
    config = run_config(RunConfig(tool_error_formatter=lambda given: f"our words for {given.tool_name}"))
    asyncio.run(Runner.run(agent, message_for(FIRST), run_config=config))
    assert seen == ["start", "llm", "/llm", FIRST, f"our words for {FIRST}", "llm", "/llm", "done"]
    assert reports.outcomes == [(FIRST, "failed")]


def test_a_copy_of_an_agent_reports_once(roll, reports):
    agent = SelectingAgent(name="a", tools=TOOLS, roll=roll, max_tools=12)
    copy = agent.clone(model=script([FIRST]))
    run(copy, message_for(FIRST))
    assert reports.outcomes == [(FIRST, "succeeded")]


def test_arguments_that_do_not_fit_are_no_failure_of_the_tool(roll, reports):
    model = ScriptedModel([[function_call(FIRST, {"goal": 3}, call_id="1")], [assistant_message("done")]])
    run(SelectingAgent(name="a", model=model, tools=TOOLS, roll=roll, max_tools=12), message_for(FIRST))
    assert reports.outcomes == [(FIRST, "called")] and CALLED == []


def test_a_call_that_waits_for_a_person_is_reported_when_it_ran(roll, reports):
    @function_tool(needs_approval=True)
    def wipe_the_disk(target: str) -> str:
        """Wipes the disk of the laptop."""
        return "wiped"

    agent = SelectingAgent(
        name="a", model=script(["wipe_the_disk"]), tools=[*TOOLS, wipe_the_disk], roll=roll, max_tools=5
    )
    waiting = run(agent, "Wipe the disk of the laptop.")
    state = waiting.to_state()
    assert reports.outcomes == [] and len(waiting.interruptions) == 1
    state.approve(waiting.interruptions[0])
    asyncio.run(Runner.run(agent, state, run_config=run_config()))
    assert reports.outcomes == [("wipe_the_disk", "succeeded")] and len(set(reports.events)) == 1


def test_a_sub_agent_with_the_same_words_has_a_turn_of_its_own(roll, reports):
    inner = SelectingAgent(name="inner", model=script([FIRST]), tools=TOOLS, roll=roll, max_tools=5)
    tool = inner.as_tool("ask_the_specialist", "Gives a task to the specialist.")
    words = message_for(FIRST) + " Ask the specialist."
    model = ScriptedModel(
        [[function_call("ask_the_specialist", {"input": words}, call_id="o")], [assistant_message("done")]]
    )
    outer = SelectingAgent(
        name="outer",
        model=model,
        tools=[*TOOLS[:50], tool],
        roll=roll,
        max_tools=5,
        always_include=["ask_the_specialist"],
    )
    run(outer, words)
    assert CALLED == [FIRST]
    assert reports.outcomes == [(FIRST, "succeeded"), ("ask_the_specialist", "succeeded")]


def test_an_agent_that_takes_over_has_a_catalog_and_a_turn_of_its_own(roll, reports):
    name = TOOLS[60].name
    specialist_model = script([name])
    specialist = SelectingAgent(
        name="specialist", model=specialist_model, tools=TOOLS[50:], roll=roll, max_tools=3
    )
    model = script(["transfer_to_specialist"])
    first = SelectingAgent(
        name="first", model=model, tools=TOOLS[:50], handoffs=[specialist], roll=roll, max_tools=3
    )
    run(first, message_for(name))
    assert [name] == CALLED and reports.outcomes == [(name, "succeeded")] and len(set(reports.events)) == 2
    assert len(sent_to(model)[0]) <= 3 and name in sent_to(specialist_model)[0]


def test_two_runs_at_once_are_apart(roll, reports):
    async def both():
        agents = [
            SelectingAgent(name="a", model=script([name]), tools=TOOLS, roll=roll, max_tools=5)
            for name in (FIRST, SECOND)
        ]
        asked = [message_for(FIRST), message_for(SECOND)]
        await asyncio.gather(
            *(
                Runner.run(agent, text, run_config=run_config())
                for agent, text in zip(agents, asked, strict=True)
            )
        )

    asyncio.run(both())
    assert sorted(CALLED) == sorted([FIRST, SECOND])
    assert sorted(reports.outcomes) == sorted([(FIRST, "succeeded"), (SECOND, "succeeded")])


def test_two_runs_at_once_with_the_same_words_are_both_reported(roll, reports):
    async def both():
        first, second = (
            SelectingAgent(name="a", model=model, tools=TOOLS, roll=roll, max_tools=5)
            for model in (script([FIRST]), script([FIRST], [FIRST], [FIRST]))
        )
        second._selector = first._selector
        await asyncio.gather(
            *(Runner.run(agent, message_for(FIRST), run_config=run_config()) for agent in (first, second))
        )

    asyncio.run(both())
    assert len(CALLED) == 4 and reports.outcomes == [(FIRST, "succeeded")] * 4


def test_what_an_exception_says_is_forgotten_with_its_call(roll, reports):
    @function_tool
    async def fails_at_once(target: str) -> str:
        """Fails at once."""
        raise RuntimeError(scenario.BROKEN)

    @function_tool(failure_error_function=None)
    async def ends_the_run(target: str) -> str:
        """Ends the run."""
        await asyncio.sleep(0.05)
        raise RuntimeError(scenario.BROKEN)

    async def waits(given):
        await asyncio.sleep(5)

    agent = SelectingAgent(
        name="a",
        model=script(["fails_at_once", "ends_the_run"]),
        tools=[*TOOLS, fails_at_once, ends_the_run],
        roll=roll,
        max_tools=5,
        always_include=["fails_at_once", "ends_the_run"],
    )
    config = run_config(RunConfig(tool_error_formatter=waits))
    with pytest.raises(Exception, match=scenario.BROKEN):
        asyncio.run(Runner.run(agent, "Fail.", run_config=config))
    gc.collect()
    assert len(agent.hooks.outcomes) == 0


def test_streamed_runs_select_and_report(roll, reports):
    model = script([FIRST])
    agent = SelectingAgent(name="a", model=model, tools=TOOLS, roll=roll, max_tools=12)

    async def stream():
        async for _ in Runner.run_streamed(
            agent, message_for(FIRST), run_config=run_config()
        ).stream_events():
            pass

    asyncio.run(stream())
    assert FIRST in sent_to(model)[0] and reports.outcomes == [(FIRST, "succeeded")] and reports.final == 1


def test_the_context_of_a_run_decides_what_its_user_may_have(reports):
    rules = [Rule("no", "deny", "user", {"user": "ann"}, tool=FIRST)]
    roll = Toolroll.from_tools([], rules=rules, observers=[reports])
    for user, has_it in (("ann", False), ("bob", True)):
        model = script([FIRST])
        agent = SelectingAgent(
            name="a",
            model=model,
            tools=TOOLS,
            roll=roll,
            max_tools=12,
            selection_context=lambda context: Context(user=context.context),
        )
        run(agent, message_for(FIRST), context=user)
        assert (FIRST in sent_to(model)[0]) is has_it and (FIRST in CALLED) is has_it


def test_the_sdks_own_tool_objects_are_sent(roll):
    model = script()
    run(SelectingAgent(name="a", model=model, tools=TOOLS, roll=roll, max_tools=5), message_for(FIRST))
    assert all(
        isinstance(tool, FunctionTool) and any(tool is own for own in TOOLS) for tool in model.calls[0].tools
    )


def test_the_page_runs():
    model = script()
    page = run_page("openai-agents", model=model, tools=TOOLS)
    assert len(sent_to(model)[0]) <= 12 and page["result"].final_output == "done"


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="selection_context"):
        SelectingAgent(name="a", selection_context=wrong)
