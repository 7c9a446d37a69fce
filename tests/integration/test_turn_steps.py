"""Thirty turns of which each step is taken by another process: the same lists, checks and outcomes as in one."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.integration import turn_worker
from tests.integration.scripted_model import check_openai_messages
from tests.integration.test_turns import counted
from toolroll import Tool, Toolroll
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.repair import check_claim, recover, repair_history, window
from toolroll.formats.schemas import provider_name
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database

jsonschema = pytest.importorskip("jsonschema")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TURNS, TOOLS, PROCESSES, K = 30, 300, 3, 10
META = {tool.name for tool in META_TOOLS}
WAYS = [
    ("openai", "replace"),
    ("openai", "allow"),
    ("openai", "meta-tools"),
    ("openai_responses", "replace"),
    ("openai_responses", "defer"),
    ("anthropic", "replace"),
    ("anthropic", "defer"),
    ("anthropic", "meta-tools"),
    ("gemini", "replace"),
    ("gemini", "allow"),
    ("gemini", "meta-tools"),
]
# The long tier takes every way on each database, the gate every other way on each.
EVERY_WAY = int(os.environ.get("TOOLROLL_INTERLEAVINGS", "100")) >= 10_000
FEW = 105  # tools for `allow`, whose whole list must fit into a request
LEAKS, CLAIMS, ORPHANS, LOST = (5, 14, 23), (4, 12, 25), (7, 19), (9, 21)

Take = Callable[[dict[str, Any]], Any]


def definitions() -> Definitions:
    """The demonstration's tools and as many others as it takes; some have names that no provider takes."""
    demo = Toolroll.demo().catalog.tools
    verbs, things = (
        ("paint", "weigh", "polish", "stack", "label"),
        ("boat", "lamp", "brick", "violin", "kayak"),
    )
    made = [
        Tool(
            f"{thing}.{verb}_{number}",
            f"{verb.capitalize()} the {thing} of room {number}.",
            SCHEMA,
            toolkit=thing,
        )
        for number in range(4)
        for thing in things
        for verb in verbs
    ]
    return Definitions((*demo, *made[: TOOLS - len(demo)]))


SCHEMA = {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}


def dialog() -> list[tuple[str, list[str]]]:
    """(message, names of the tools that it needs) of each turn."""
    lines = (ROOT / "tests/data/demo_messages.jsonl").read_text("utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return [(one["message"], one["gold"]) for one in read if one["gold"]][::3][:TURNS]


def arguments_for(tool: Tool) -> dict[str, Any]:
    """Valid arguments, but every number and boolean as text, and a parameter that the tool does not have."""
    made: dict[str, Any] = {"invented": None}
    schema = tool.parameters or {}
    for name, one in schema.get("properties", {}).items():
        if one.get("type") in ("integer", "number", "boolean") or name in schema.get("required", ()):
            made[name] = _value(one)
    return made


def _value(schema: dict[str, Any]) -> Any:
    match schema.get("type"):
        case "array":
            return [_value(schema.get("items", {}))] * max(1, schema.get("minItems", 1))
        case "object":
            needed = schema.get("required", ())
            return {name: _value(one) for name, one in schema.get("properties", {}).items() if name in needed}
        case "integer" | "number":
            return str(schema.get("minimum", 1))
        case "boolean":
            return "true"
        case _:
            return schema["enum"][0] if "enum" in schema else "x"


@dataclass
class Expected:
    """What a conversation may call, and its outcomes, worked out with dictionaries.

    Attributes:
        shown: tools of the turn's delivery.
        found: newest first.
        loaded: name → turn in which it was loaded or called last.
        outcomes: event → tool → outcome.
    """

    shown: set[str] = field(default_factory=set)
    found: list[str] = field(default_factory=list)
    loaded: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def granted(self) -> set[str]:
        return {*self.shown, *self.found, *self.loaded}

    def find(self, names: Sequence[str]) -> None:
        self.found = list(dict.fromkeys((*names, *self.found)))[:64]

    def begin(self, turn: int) -> None:
        self.loaded = {name: at for name, at in self.loaded.items() if turn - 1 - at <= 5}


@dataclass
class Conversation:
    """A conversation of thirty turns and the model in it."""

    take_step: Take
    name: str
    provider: str
    how: str
    tools: dict[str, Tool]
    exclude: tuple[str, ...]
    expected: Expected = field(default_factory=Expected)
    messages: list[dict[str, Any]] = field(default_factory=list)
    lists: list[Any] = field(default_factory=list)  # all that the steps have answered
    met: int = 0

    def step(self, do: str, **more: Any) -> Any:
        fixed = {"session": self.name, "exclude": self.exclude, "provider": self.provider, "how": self.how}
        return self.take_step({"do": do, **fixed, **more})

    def play(self, turns: Sequence[tuple[str, list[str]]]) -> None:
        randomly = random.Random(self.name)
        for number, (message, needs) in enumerate(turns, 1):
            self.turn(number, message, [name for name in needs if name not in self.exclude], randomly)

    def turn(self, number: int, message: str, needs: list[str], randomly: random.Random) -> None:
        history = repair_history(window(self.messages, 400), "openai").messages
        check_openai_messages([*history, {"role": "user", "content": message}])
        sent = self.step("select", message=message, k=K, history=history)
        event = sent.pop("event")
        assert sent["turn"] == number
        self.lists.append(sent)
        self.expected.begin(number)
        self.expected.shown = {*sent["allowed"]} - META
        self.check(randomly)

        pairs: list[tuple[str, bool | None]] = []
        refused: list[str] = []
        self.messages.append({"role": "user", "content": message})
        if number in CLAIMS:  # the model is asked again, and has to call a tool
            assert check_claim("I've sent the email to Anna.", called=False) is not None
            forced = self.step("deliver", must_call=True)
            assert _tools(forced["request"]) == _tools(sent["request"])
            assert forced["request"] != sent["request"] and forced["allowed"] == sent["allowed"]
        for name in needs:
            self.reach(name, message, number)
            pairs += self.call(name, number, randomly)
        if number % 5 == 0:
            others = sorted({*self.tools} - self.expected.granted)
            for name in ("made_up_tool", randomly.choice(others)):
                assert self.step("call", name=name, arguments={}) == {"refused": "Denied"}
                pairs.append((name, False))
                refused.append(name)
        assert self.step("report", called=pairs) == refused
        self.note(event, number, [pair for pair in pairs if pair[0] not in refused])
        again = self.step("deliver")
        before = _tools(sent["request"])
        assert _tools(again["request"])[: len(before)] == before  # nothing is withdrawn within the turn
        self.lists.append(again)
        self.check(randomly)
        self.lists.append(self.step("end"))
        self.messages.append({"role": "assistant", "content": "Good."})

    def check(self, randomly: random.Random) -> None:
        """Every offered call passes, by its own and its sent name; all others are refused."""
        granted = self.expected.granted
        offered = [*granted, *(provider_name(name, self.provider) for name in granted)]
        others = randomly.sample(sorted({*self.tools} - granted), 10)
        others += ["made_up_tool", *(provider_name(name, self.provider) for name in others)]
        assert self.step("check", names=offered) == offered
        assert self.step("check", names=others) == []

    def reach(self, name: str, message: str, number: int) -> None:
        """A search, and a load where that has not found the tool, unless the tool was offered."""
        if name in self.expected.granted:
            return
        found = self.step("call", name="search_tools", arguments={"query": message, "limit": "3"})
        self.lists.append(found)
        self.expected.find(found["tools"])
        if name not in self.expected.granted and number % 2:
            loaded = self.step("call", name="manage_tools", arguments={"mode": "load", "tools": name})
            assert loaded["tools"] == [name]
            self.expected.loaded[name] = number

    def call(self, name: str, number: int, randomly: random.Random) -> list[tuple[str, bool | None]]:
        """The call as the model makes it, and its outcome; a failing one is made twice."""
        tool, sent = self.tools[name], provider_name(name, self.provider)
        given: Any = arguments_for(tool)
        if name not in self.expected.granted:
            sent, given = "call_tool", {"name": name, "arguments": given}
            self.expected.find([name])
        elif number in LEAKS:
            leaked = f"Well.\n<tool_call>{json.dumps({'name': sent, 'arguments': given})}</tool_call>"
            ((sent, given),) = recover(leaked, [sent]).calls
        else:
            given = json.dumps(given)
        made = self.step("call", name=sent, arguments=given)
        assert made["tool"] == name
        jsonschema.Draft202012Validator(tool.parameters or {}).validate(made["arguments"])
        self.met += 1
        call_id = f"call_{len(self.messages)}"
        function = {"name": sent, "arguments": json.dumps(given)}
        calls = [{"id": call_id, "type": "function", "function": function}]
        self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        if number not in LOST:
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": "ok"})
        if number in ORPHANS:
            self.messages.append({"role": "tool", "tool_call_id": "call_of_nobody", "content": "ok"})
        worked = randomly.choice((True, True, False, None))
        return [(name, False), (name, True)] if worked is False else [(name, worked)]

    def note(self, event: str, number: int, pairs: Sequence[tuple[str, bool | None]]) -> None:
        """The outcomes of a turn; those of tools that the delivery did not send are of wanted ones."""
        for name, worked in pairs:
            if name in self.expected.loaded:
                self.expected.loaded[name] = number
            kinds = {True: "succeeded", False: "failed", None: "called"}
            if name not in self.expected.shown:
                kinds = {True: "wanted_succeeded", False: "wanted_failed", None: "wanted"}
            self.expected.outcomes.setdefault(event, {})[name] = kinds[worked]


def _tools(request: dict[str, Any]) -> list[Any]:
    tools: list[Any] = request.get("tools", [])
    return tools[0]["function_declarations"] if tools and "function_declarations" in tools[0] else tools


class Pool:
    """Processes that take steps in turn."""

    def __init__(self, url: str, folder: Path) -> None:
        path = os.pathsep.join([str(ROOT), *sys.path])
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.integration.turn_worker", url, str(folder / str(number))],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]
        self._at = count()

    def take(self, step: dict[str, Any]) -> Any:
        process = self.processes[next(self._at) % PROCESSES]
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(step) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def close(self) -> None:
        """Ends the processes; all that they have recorded is in the store then."""
        for process in self.processes:
            process.communicate(timeout=60)
            assert process.returncode == 0


@pytest.fixture
def pool(database_url: str, tmp_path: Path) -> Iterator[Pool]:
    """Processes over a registry with the tools."""
    database = Database.open(database_url, create=False, migrate=False)
    Registry(database, actor="ann").import_(definitions())
    database.close()
    made = Pool(database_url, tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def test_steps_in_other_processes_select_check_and_count_like_one_process(
    pool: Pool, database_url: str
) -> None:
    in_memory = Toolroll.from_definitions(definitions(), profile=turn_worker.PROFILE)
    tools = {tool.name: tool for tool in in_memory.catalog.tools}
    assert len(tools) == TOOLS
    turns = dialog()
    assert len(turns) == TURNS
    outcomes: dict[str, dict[str, str]] = {}
    ways = WAYS if EVERY_WAY else WAYS[database_url.startswith("sqlite") :: 2]
    for provider, how in ways:
        needed = [name for _, names in turns for name in names]
        others = [name for name in tools if name not in needed]
        exclude = tuple(others[FEW - len({*needed}) :]) if how == "allow" else ()
        both = [
            Conversation(take, f"{provider}-{how}", provider, how, tools, exclude)
            for take in (lambda step: _through_json(turn_worker.take(in_memory, step)), pool.take)
        ]
        for conversation in both:
            conversation.play(turns)
            assert conversation.met == len(needed)
        assert both[0].lists == both[1].lists, (provider, how)
        outcomes |= both[1].expected.outcomes
    pool.close()
    assert counted(database_url) == outcomes
    print(f"{len(ways) * TURNS} turns, {sum(map(len, outcomes.values()))} outcomes")


def _through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
