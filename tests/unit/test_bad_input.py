"""Input that no program should pass: one of our errors, with its place and of bounded length."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.table import each_row
from toolroll import (
    Context,
    Definitions,
    Experiment,
    Follow,
    PageMapping,
    Profile,
    Recording,
    Rule,
    Tool,
    Toolkit,
    Toolroll,
    read_folder,
    read_tools,
)
from toolroll.formats.repair import CostMonitor, acompact, compact, repair, repair_history
from toolroll.model.errors import InvalidDefinition, InvalidInput, NotFound, ToolrollError
from toolroll.model.tools import MAX_NAME, MAX_TEXT, Route

TOOLS = [Tool("one", "does a thing", toolkit="kit"), Tool("two", "does another")]
LONG = "z" * 1_000_000
HUGE = 10**5_000  # more digits than Python writes

CALLS: dict[str, Callable[[Toolroll], object]] = {
    "check": lambda roll: roll.select("a").check(LONG),
    "explain": lambda roll: roll.select("a").explain(LONG),
    "why": lambda roll: roll.why(LONG),
    "vector": lambda roll: roll.select("a", vector=[LONG]),
    "many dimensions": lambda roll: roll.select("a", vector=np.zeros((1,) * 30)),
    "profile": lambda roll: Toolroll.from_tools(TOOLS, profile=LONG),
    "field of a profile": lambda roll: Profile(retrieve=LONG),
    "embedder": lambda roll: Toolroll.from_tools(TOOLS, embedder=LONG),
    "provider": lambda roll: roll.select("a").deliver(LONG),
    "how": lambda roll: roll.select("a").deliver("openai", LONG),
    "own name": lambda roll: roll.select("a").deliver("openai").own_name(LONG),
    "session": lambda roll: roll.session(LONG),
    "call of a session": lambda roll: roll.session("talk").check(LONG),
    "meta-tool": lambda roll: roll.session("talk").answer(LONG, {}),
    "reported name": lambda roll: roll.record(roll.select("a"), called={LONG: True}),
    "reported event": lambda roll: roll.record(LONG, called={"one": True}),
    "k": lambda roll: roll.select("a", k=LONG),
    "tiers": lambda roll: Toolroll.from_tools(TOOLS, tiers=[LONG, LONG]),
    "roles": lambda roll: Context(roles=LONG),
    "folder": lambda roll: Toolroll.from_folder(LONG),
    "route to a long name": lambda roll: Toolroll.from_tools(TOOLS, routes=[Route((LONG,), ("a",))]),
    "keyword": lambda roll: Toolroll.from_tools(TOOLS, routes=[Route(("kit",), (LONG,))]),
    "pattern": lambda roll: Toolroll.from_tools(TOOLS, routes=[Route(("kit",), (), (f"({LONG}",))]),
}


@each_row("call", CALLS.values())
def test_an_error_quotes_the_beginning_of_long_input_only(call):
    roll = Toolroll.from_tools(TOOLS, embedder="none")
    roll.session("talk").select("a")
    with pytest.raises(ToolrollError) as raised:
        call(roll)
    assert 10 < len(str(raised.value)) < 1_000


@pytest.mark.parametrize("keyword", ["x" * 513, "é" * 300])
def test_a_keyword_that_is_too_long_is_named_with_the_limit(keyword):
    with pytest.raises(InvalidDefinition, match=r"keyword '.{20,}: has \d+ bytes.*512") as raised:
        Toolroll.from_tools(TOOLS, routes=[Route(("kit",), ("fine", keyword))])
    assert raised.value.field == "keywords"


HALF = "a\ud800"  # half of a surrogate pair
ADMINS = {"role": "admin"}
HALVES: dict[str, Callable[[], object]] = {
    "name": lambda: Tool(HALF),
    "description": lambda: Tool("one", HALF),
    "summary": lambda: Tool("one", summary=HALF),
    "toolkit": lambda: Tool("one", toolkit=HALF),
    "group": lambda: Tool("one", interchangeable=HALF),
    "tag": lambda: Tool("one", tags=(HALF,)),
    "example": lambda: Tool("one", examples=("fine", HALF)),
    "version": lambda: Tool("one", version=HALF),
    "text of a dictionary": lambda: read_tools([{"name": "one", "description": HALF}]),
    "example of a dictionary": lambda: read_tools([{"name": "one", "examples": [HALF]}]),
    "schema": lambda: Toolroll.from_tools([Tool("one", parameters={"title": HALF})], embedder="none"),
    "toolkit's name": lambda: Toolkit(HALF),
    "toolkit's description": lambda: Toolkit("kit", HALF),
    "parent": lambda: Toolkit("kit", parent=HALF),
    "setting": lambda: Toolkit("kit", settings_keys=(HALF,)),
    "member": lambda: Toolkit("kit", members=(HALF,)),
    "route": lambda: Route((HALF,), ("a",)),
    "keyword": lambda: Route(("kit",), (HALF,)),
    "pattern": lambda: Route(("kit",), (), (HALF,)),
    "page": lambda: Toolroll.from_tools(TOOLS, pages=[PageMapping(HALF, ("kit",))]),
    "toolkit of a page": lambda: Toolroll.from_tools(TOOLS, pages=[PageMapping("a", (HALF,))]),
    "rule": lambda: Toolroll.from_tools(TOOLS, rules=[Rule(HALF, "deny", "role", ADMINS, "one")]),
    "condition": lambda: Toolroll.from_tools(TOOLS, rules=[Rule("a", "deny", "role", {"role": HALF}, "one")]),
    "tier": lambda: Toolroll.from_tools(TOOLS, tiers=[HALF]),
    "experiment": lambda: Experiment(HALF, {"default": 0.5, "layers": 0.5}),
    "salt": lambda: Experiment("test", {"default": 0.5, "layers": 0.5}, salt=HALF),
}


@each_row("make", HALVES.values())
def test_a_definition_with_half_a_character_is_refused(make):
    with pytest.raises(InvalidInput, match=r"\\ud800.*surrogate"):
        make()


def test_a_request_with_half_a_character_fails_no_turn():
    roll = Toolroll.from_tools(TOOLS, rules=[Rule("a", "deny", "role", ADMINS, "one")], embedder="none")
    picked = roll.select(HALF, Context(HALF, HALF, (HALF,), HALF, HALF, session=HALF, exclude=(HALF,)))
    assert set(picked.names) == {"one", "two"} and not picked.degraded


LONG_NAMES: dict[str, Callable[[str], object]] = {
    "tool": Tool,
    "toolkit of a tool": lambda name: Tool("one", toolkit=name),
    "group": lambda name: Tool("one", interchangeable=name),
    "toolkit": Toolkit,
    "parent": lambda name: Toolkit("kit", parent=name),
    "tier": lambda name: Toolkit("kit", tier=name),
    "dictionary": lambda name: read_tools([{"name": name}]),
}


@each_row("make", LONG_NAMES.values())
def test_a_name_has_a_greatest_length(make):
    make("n" * MAX_NAME)
    for length in (MAX_NAME + 1, 1_000_000):
        with pytest.raises(InvalidDefinition, match="256 characters") as raised:
            make("n" * length)
        assert len(str(raised.value)) < 300


def test_a_text_has_a_greatest_length():
    Tool("one", "d" * MAX_TEXT, examples=("e" * MAX_TEXT,))
    for wrong in ({"description": LONG}, {"examples": (LONG,)}, {"tags": ("a", LONG)}, {"version": LONG}):
        with pytest.raises(InvalidDefinition, match=r"65,536 characters \(1,000,000 given\)"):
            Tool("one", **wrong)


def test_one_bad_tool_of_a_server_costs_no_other_its_place():
    bad = [
        {"name": "half", "description": HALF, "inputSchema": {}},
        {"name": "title", "inputSchema": {"title": HALF}},
        {"name": "set", "inputSchema": {"enum": {1, 2}}},
    ]
    read = read_tools([*bad, {"name": "good", "inputSchema": {}}])
    assert [(tool.name, tool.description) for tool in read.tools] == [("half", "a?"), ("good", "")]
    assert len(Toolroll.from_definitions(read, embedder="none")) == 2
    assert [error.tool for error in read.skipped] == ["title", "set"]
    assert all("inputSchema cannot be written as JSON" in error.problem for error in read.skipped)


def test_an_odd_name_refuses_no_list_of_a_request_and_evades_no_rule():
    everything = [Rule("none", "deny", "org", {"org": {"ne": "acme"}}, toolkit="*")]
    roll = Toolroll.from_tools([], rules=everything, embedder="none")
    tools = [{"name": name, "description": HALF, "parameters": {}} for name in ("ok", HALF, LONG)]
    assert roll.with_tools(tools).select("a", Context(org="other")).tools == ()
    assert len(roll.with_tools(tools).select("a", Context(org="acme")).tools) == 3


WRONG_KINDS: dict[str, Callable[[], object]] = {
    "toolkits": lambda: Toolroll.from_tools(TOOLS, toolkits=3),
    "toolkits of text": lambda: Toolroll.from_tools(TOOLS, toolkits=["kit"]),
    "routes": lambda: Toolroll.from_tools(TOOLS, routes=None),
    "rules": lambda: Toolroll.from_tools(TOOLS, rules=Rule("a", "deny", "role", ADMINS, "one")),
    "pages": lambda: Toolroll.from_tools(TOOLS, pages=3),
    "tiers": lambda: Toolroll.from_tools(TOOLS, tiers="free"),
    "observers": lambda: Toolroll.from_tools(TOOLS, observers=3),
    "one observer": lambda: Toolroll.from_tools(TOOLS, observers=[3]),
    "progress": lambda: Toolroll.from_tools(TOOLS, progress=3),
    "progress of a folder": lambda: Toolroll.from_folder(".", progress="x"),
    "progress of definitions": lambda: Toolroll.from_definitions(Definitions(), progress=[]),
    "progress of a refresh": lambda: Toolroll.from_tools(TOOLS).refresh(TOOLS, progress=3),
    "progress of a registry": lambda: Toolroll.open("sqlite:///none.db", follow=Follow(progress=3)),
    "organisations": lambda: Toolroll.from_tools(TOOLS).warm_up("acme"),
    "experiment": lambda: Toolroll.from_tools(TOOLS, experiment=3),
    "definitions": lambda: Toolroll.from_definitions(TOOLS),
    "on_pause": lambda: CostMonitor(on_pause=3),
    "clock": lambda: CostMonitor(clock=None),
    "limits": lambda: CostMonitor(limits={"enabled": True}),
    "summarise": lambda: compact([], "x"),
    "modes": lambda: Route(("kit",), ("a",), modes=3),
    "mode": lambda: Route(("kit",), ("a",), modes=([],)),
    "returns": lambda: Tool("one", returns=3),
    "execution_config": lambda: Tool("one", execution_config=3),
    "version": lambda: Tool("one", version=2),
    "base": lambda: Toolkit("kit", base="yes"),
    "toolkit's description": lambda: Toolkit("kit", 3),
}


@each_row("make", WRONG_KINDS.values())
def test_an_argument_of_the_wrong_kind_is_our_error(make):
    with pytest.raises(InvalidInput, match="must "):
        make()


def test_a_summary_that_is_awaited_needs_a_function():
    with pytest.raises(InvalidInput, match="summarise: is 3, must be a function"):
        asyncio.run(acompact([], 3))


def test_a_rule_or_page_that_names_nothing_of_the_catalog_is_told_once(caplog):
    rules = [
        Rule("kit", "deny", "role", ADMINS, toolkit="kitt"),
        Rule("tool", "deny", "role", ADMINS, tool="three"),
        Rule("all", "deny", "role", ADMINS, toolkit="*"),
        Rule("fine", "deny", "role", ADMINS, toolkit="kit"),
    ]
    roll = Toolroll.from_tools(TOOLS, rules=rules, pages=[PageMapping("a*", ("kip", "kit"))], embedder="none")
    told = [
        "rule 'kit': toolkit 'kitt' is not in the catalog; did you mean 'kit'?",
        "rule 'tool': tool 'three' is not in the catalog",
        "page mapping 'a*': toolkit 'kip' is not in the catalog; did you mean 'kit'?",
    ]
    assert caplog.messages == told
    roll.refresh(TOOLS)
    assert caplog.messages == told
    roll.refresh([TOOLS[1]])
    assert len(caplog.messages) == 5  # the toolkit has gone


def test_a_roll_for_the_tools_of_requests_misses_none_for_its_rules(caplog):
    Toolroll.from_tools([], rules=[Rule("a", "deny", "role", ADMINS, tool="mail")], embedder="none")
    assert not caplog.messages


@each_row("url", ["mysql://host/db", "tools.db", "sqlite://", 3, "postgresql:x"])
def test_a_wrong_address_of_a_registry_is_told_with_and_without_its_packages(url, monkeypatch):
    with pytest.raises(InvalidInput, match="registry URL: .* must be sqlite:///FILE"):
        Toolroll.open(url)
    for name in [name for name in sys.modules if name.startswith(("toolroll.registry", "toolroll.homes"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(InvalidInput, match="registry URL: .* must be sqlite:///FILE"):
        Toolroll.open(url)
    with pytest.raises(InvalidInput, match=r"pip install 'toolroll\[store\]'"):
        Toolroll.open("sqlite:///tools.db")


@each_row(
    "schema",
    [
        {"const": HUGE},
        {"properties": {"a": {"const": HUGE}}, "required": ["a"]},
        {"properties": {"a": {"enum": [HUGE, "x"]}}},
        {"properties": {"a": {"type": "string", "const": HUGE}}},
        {"properties": {"a": {"minimum": HUGE, "maxLength": HUGE, "multipleOf": HUGE}}},
    ],
)
@each_row("arguments", ["{}", '{"a": 1}', {"a": "1"}, {"a": HUGE}])
def test_a_number_that_python_cannot_write_stops_no_repair(schema, arguments):
    assert set(repair(arguments, schema).arguments) == set({} if arguments == "{}" else "a")


def test_a_link_to_itself_among_toolkit_files_is_passed_over_and_told(tmp_path: Path, caplog):
    (tmp_path / "kit.json").write_text(json.dumps({"name": "kit", "tools": [{"name": "one"}]}))
    os.symlink("loop.json", tmp_path / "loop.json")
    roll = Toolroll.from_folder(tmp_path, embedder="none")
    assert "one" in roll.catalog.names and "loop.json: skipped" in caplog.text


def deep_list() -> list[object]:
    deep: list[object] = []
    for _ in range(50_000):
        deep = [deep]
    return deep


ODD = {"huge": HUGE, "deep": deep_list(), "array": np.zeros((2, 2)), "list of huge": [HUGE], "set": {1, "a"}}
ARGUMENTS: dict[str, Callable[[Toolroll, object], object]] = {
    "name": lambda roll, odd: Tool(odd),
    "status": lambda roll, odd: Tool("one", status=odd),
    "icons": lambda roll, odd: Tool("one", icons=odd),
    "group": lambda roll, odd: Tool("one", interchangeable=odd),
    "members": lambda roll, odd: Toolkit("kit", members=odd),
    "tools": lambda roll, odd: read_tools(odd),
    "toolkit": lambda roll, odd: read_tools(TOOLS, odd),
    "on_bad_tool": lambda roll, odd: read_tools(TOOLS, on_bad_tool=odd),
    "path": lambda roll, odd: read_folder(odd),
    "tiers": lambda roll, odd: read_folder(".", odd),
    "roles": lambda roll, odd: Context(roles=odd),
    "user": lambda roll, odd: Context(user=odd),
    "routes": lambda roll, odd: Profile(routes=odd),
    "k of a profile": lambda roll, odd: Profile(k=odd),
    "experiment": lambda roll, odd: Experiment(odd, {"default": 0.5, "layers": 0.5}),
    "definitions": lambda roll, odd: Definitions(rules=odd),
    "embedder": lambda roll, odd: Toolroll.from_tools(TOOLS, embedder=odd),
    "profile": lambda roll, odd: Toolroll.from_tools(TOOLS, profile=odd),
    "message": lambda roll, odd: roll.select(odd),
    "history": lambda roll, odd: roll.select("a", history=odd),
    "sent": lambda roll, odd: roll.select("a", sent=odd),
    "strict": lambda roll, odd: roll.select("a", strict=odd),
    "vector": lambda roll, odd: roll.select("a", vector=odd),
    "explain": lambda roll, odd: roll.select("a").explain(odd),
    "why": lambda roll, odd: roll.why(odd),
    "unknown_values": lambda roll, odd: roll.unknown_values(odd),
    "how": lambda roll, odd: roll.select("a").deliver("openai", odd),
    "must_call": lambda roll, odd: roll.select("a").deliver("openai", must_call=odd),
    "own_name": lambda roll, odd: roll.select("a").deliver("openai").own_name(odd),
    "sent_name": lambda roll, odd: roll.select("a").deliver("openai").sent_name(odd),
    "called": lambda roll, odd: roll.record(roll.select("a"), {"one": odd}),
    "corrected": lambda roll, odd: roll.record(roll.select("a"), corrected={"one": odd}),
    "final": lambda roll, odd: roll.record(roll.select("a"), final=odd),
    "org": lambda roll, odd: roll.record(roll.select("a"), org=odd),
    "learns": lambda roll, odd: roll.session("talk", learns=odd),
    "meta-tool": lambda roll, odd: roll.session("talk").answer(odd, {}),
    "timeout_s": lambda roll, odd: roll.flush(odd),
    "keep_last": lambda roll, odd: compact([], lambda *old: "", keep_last=odd),
    "form": lambda roll, odd: repair_history([], form=odd),
    "record of a monitor": lambda roll, odd: CostMonitor.from_record(
        {"minute": None, "buckets": odd, "pause": None}
    ),
    "poll_s": lambda roll, odd: Toolroll.open("sqlite:///none.db", follow=Follow(poll_s=odd)),
    "messages": lambda roll, odd: Toolroll.open("sqlite:///none.db", recording=Recording(messages=odd)),
}


@each_row("odd", ODD)
@each_row("call", ARGUMENTS.values())
def test_a_value_that_cannot_be_written_or_compared_is_our_error_on_one_line(call, odd):
    roll = Toolroll.from_tools(TOOLS, embedder="static")
    with pytest.raises(ToolrollError) as raised:
        call(roll, ODD[odd])
    assert str(raised.value).isprintable() and len(str(raised.value)) < 1_000


def test_a_message_is_printable_whatever_the_path_and_the_name():
    for name in ("a\ud800", "a\n\x1b[31m", LONG):
        with pytest.raises(InvalidDefinition) as raised:
            read_folder(name)
        assert str(raised.value).isprintable() and len(str(raised.value)) < 1_000
    roll = Toolroll.from_tools(TOOLS, embedder="none")
    with pytest.raises(NotFound) as missing:
        roll.why("a\ud800\n")
    assert str(missing.value).isprintable()
    with pytest.raises(InvalidInput) as refused:
        repair(["a\ud800"], {})
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("call", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_cannot_be_pickled_says_what_to_do(call):
    roll = Toolroll.from_tools(TOOLS, embedder="none")
    for value, advice in (
        (roll, "open it in the other process"),
        (roll.select("a"), "receipt"),
        (roll.session("talk"), "open it by its name"),
    ):
        with pytest.raises(InvalidInput, match=advice):
            call(value)
