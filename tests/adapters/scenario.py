"""What every adapter is tested and measured with: 300 tools, a scripted model, and the laws of adapters.

A framework's file defines a `Harness`: it builds the framework's agent as the adapter's page says, with a model
that makes the calls it is told to make, and says what the model was sent.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from toolroll import Observer, Toolroll
from toolroll.lab.evaluation import workloads

CALLED: list[str] = []  # names of the functions that ran
FAILING: set[str] = set()  # names of those that raise
BROKEN = "the backend is down"

PAGES = Path(__file__).parents[2] / "docs" / "frameworks"
FEW, MANY = 100, 300  # tools that the laws are tested with, and the table is measured with

Step = Sequence[str]  # names of the tools that the model calls at once


class Reports(Observer):
    """Events and outcomes, in order. prefix: that the framework puts before the names of tools."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.events: list[str] = []
        self.outcomes: list[tuple[str, str]] = []
        self.final = 0

    def on_selection(self, selection):
        self.events.append(selection.event_id)

    def on_report(self, report):
        self.outcomes += [(name.removeprefix(self.prefix), one) for name, one in report.outcomes.items()]
        self.final += report.final


@dataclass
class Trace:
    """What happened in a turn.

    Attributes:
        sent: names of the tools in each request to the model.
        answers: texts of the results of calls, in order.
        reply: of the model.
    """

    sent: list[list[str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    reply: str = ""


class Harness:
    """An agent of a framework with the adapter. Subclasses define `build` and `say`.

    Attributes:
        refuses: whether calls of hidden tools are answered and not run.
        reports: whether outcomes are reported.
        fails: whether a failure reaches the adapter as one.
        keeps: whether a conversation has a name, so that its list stays.
        lines: how many lines of the user's program change.
        prefix: that the framework puts before the names of tools.
        hooks: of the adapter, which call nothing of the framework's: class and names. Their time counts.
    """

    refuses = reports = fails = keeps = True
    lines = 2
    prefix = ""
    hooks: tuple[tuple[type, tuple[str, ...]], ...] = ()
    stops_on_failure = False  # an exception of a tool ends the run

    def __init__(self, tools: Sequence[Any], roll: Toolroll, **options: Any) -> None:
        self.build(list(tools), roll, **options)

    @staticmethod
    def make_tool(function: Callable[[str], str]) -> Any:
        """The framework's tool that calls the function."""
        return function

    def build(self, tools: list[Any], roll: Toolroll, **options: Any) -> None:
        """Makes the agent. options: of the adapter, such as max_tools."""
        raise NotImplementedError

    def say(self, message: str, *steps: Step, conversation: str = "c") -> Trace:
        """One turn: the user's message, and the calls that the model makes in each step before it answers."""
        raise NotImplementedError


@cache
def tools_of(harness: type[Harness], count: int = FEW) -> tuple[Any, ...]:
    """The framework's tools, made once: some frameworks take a millisecond for each."""
    return tuple([harness.make_tool(function) for function in functions(count)])


@cache
def functions(count: int = FEW) -> tuple[Callable[[str], str], ...]:
    """Python functions, as most frameworks take them as tools."""
    return tuple([_function(tool["name"], tool["description"]) for tool in workloads.tools(count)])


def message_for(name: str) -> str:
    """What a user may write who needs the tool."""
    server, verb, *noun = name.split("_")
    return f"Could you {verb} the {' '.join(noun)} in {server.capitalize()} for me?"


def _function(name: str, text: str) -> Callable[[str], str]:
    def tool(target: str) -> str:
        CALLED.append(name)
        if name in FAILING:
            raise RuntimeError(BROKEN)
        return f"{name} is done"

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = f"{text}\n\nArgs:\n    target: which one"
    tool.__module__ = __name__
    return tool


def dialog(count: int = 60, tools: int = FEW) -> list[str]:
    """Names of the tools that the turns of a conversation need: some again, most for the first time."""
    names = [tool["name"] for tool in workloads.tools(tools)]
    draw = random.Random(21)
    found: list[str] = []
    for _ in range(count):
        found.append(draw.choice(found[-4:]) if found and draw.random() < 0.3 else draw.choice(names))
    return found


def run_page(page: str, **world: Any) -> dict[str, Any]:
    """Runs the Python of a page of docs/frameworks, one block after another, and returns its names."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, f"docs/frameworks/{page}.md", "exec"), world)
    return world


class Laws:
    """The laws of adapters, for a test file's class to inherit, with its `harness`."""

    harness: type[Harness]

    def _agent(self, **options: Any) -> tuple[Any, Reports]:
        CALLED.clear()
        FAILING.clear()
        reports = Reports(self.harness.prefix)
        roll = Toolroll.from_tools([], observers=[reports])
        return self.harness(tools_of(self.harness), roll, max_tools=12, **options), reports

    def test_a_few_tools_are_sent_and_the_right_one_is_among_them(self):
        agent, _ = self._agent()
        for name in dialog(5):
            trace = agent.say(message_for(name), [name])
            assert all(name in sent and len(sent) <= 12 for sent in trace.sent) and len(trace.sent) == 2
            assert trace.answers == [f"{name} is done"] and CALLED.pop() == name

    def test_further_steps_of_the_model_have_the_same_list_and_are_one_event(self):
        agent, reports = self._agent()
        name = dialog(1)[0]
        trace = agent.say(message_for(name), [name], [name], [name])
        assert len(trace.sent) == 4 and len(set(map(tuple, trace.sent))) == 1
        assert len(set(reports.events)) == 1

    def test_the_call_of_a_hidden_tool_is_answered_and_not_run(self):
        if not self.harness.refuses:
            return self._runs_hidden_tools()
        agent, reports = self._agent()
        name = dialog(1)[0]
        shown = agent.say(message_for(name)).sent[0]
        hidden = next(one.__name__ for one in functions() if one.__name__ not in shown)
        trace = agent.say(message_for(name) + " Now.", [hidden])
        assert CALLED == [] and reports.outcomes == []
        assert len(trace.sent) == 2 and hidden not in trace.sent[0]
        return None

    def _runs_hidden_tools(self) -> None:
        """What the page says of a framework without a hook for refusing: this test fails when it gets one."""
        agent, _ = self._agent()
        name = dialog(1)[0]
        shown = agent.say(message_for(name)).sent[0]
        hidden = next(one.__name__ for one in functions() if one.__name__ not in shown)
        agent.say(message_for(name) + " Now.", [hidden])
        assert [hidden] == CALLED

    def test_each_outcome_is_reported_and_a_failure_as_one(self):
        if not self.harness.reports:
            return
        agent, reports = self._agent()
        name = dialog(1)[0]
        agent.say(message_for(name), [name])
        assert reports.outcomes == [(name, "succeeded")]
        FAILING.add(name)
        trace = self._failed_turn(agent, message_for(name) + " Again.", name)
        assert reports.outcomes[1:] == [(name, "failed" if self.harness.fails else "called")]
        assert trace is None or len(trace.sent) == 2

    def _failed_turn(self, agent: Harness, message: str, name: str) -> Trace | None:
        if not self.harness.stops_on_failure:
            return agent.say(message, [name])
        try:
            agent.say(message, [name])
        except Exception as error:
            assert BROKEN in str(error) or BROKEN in str(error.__cause__) or BROKEN in repr(error.__context__)
        else:
            raise AssertionError("the framework goes on after a failure: set stops_on_failure to False")
        return None

    def test_parallel_calls_are_all_checked_and_reported(self):
        agent, reports = self._agent()
        name = dialog(1)[0]
        shown = agent.say(message_for(name)).sent[0]
        trace = agent.say(message_for(name) + " Both.", shown[:2])
        assert sorted(CALLED) == sorted(shown[:2]) and len(trace.answers) == 2
        if self.harness.reports:
            assert sorted(reports.outcomes) == sorted((one, "succeeded") for one in shown[:2])

    def test_conversations_are_apart(self):
        agent, _ = self._agent()
        first, second = dialog(2)
        one = agent.say(message_for(first), conversation="a")
        two = agent.say(message_for(second), conversation="b")
        assert first in one.sent[0] and second in two.sent[0]
        agent.say(message_for(first) + " Now.", [first], conversation="a")
        assert [first] == CALLED

    def test_a_tool_that_was_called_stays_in_the_next_turn(self):
        agent, _ = self._agent()
        first, second = dialog(2)
        agent.say(message_for(first), [first])
        trace = agent.say(message_for(second), [second])
        assert {first, second} <= set(trace.sent[0])
