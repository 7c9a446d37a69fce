"""Input that no program should pass: one of our errors, with its place and of bounded length."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolroll import Context, Profile, Tool, Toolroll
from toolroll.errors import InvalidDefinition, InvalidInput, ToolrollError
from toolroll.formats.repair import repair
from toolroll.tools import Route

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


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
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


def test_a_pattern_with_half_a_surrogate_pair_is_named():
    with pytest.raises(InvalidDefinition, match=r"route to kit: pattern 'a\\ud800'"):
        Toolroll.from_tools(TOOLS, routes=[Route(("kit",), (), ("a\ud800",))])


@pytest.mark.parametrize(
    "schema",
    [
        {"const": HUGE},
        {"properties": {"a": {"const": HUGE}}, "required": ["a"]},
        {"properties": {"a": {"enum": [HUGE, "x"]}}},
        {"properties": {"a": {"type": "string", "const": HUGE}}},
        {"properties": {"a": {"minimum": HUGE, "maxLength": HUGE, "multipleOf": HUGE}}},
    ],
)
@pytest.mark.parametrize("arguments", ["{}", '{"a": 1}', {"a": "1"}, {"a": HUGE}])
def test_a_number_that_python_cannot_write_stops_no_repair(schema, arguments):
    assert set(repair(arguments, schema).arguments) == set({} if arguments == "{}" else "a")


def test_a_link_to_itself_among_toolkit_files_is_passed_over_and_told(tmp_path: Path, caplog):
    (tmp_path / "kit.json").write_text(json.dumps({"name": "kit", "tools": [{"name": "one"}]}))
    os.symlink("loop.json", tmp_path / "loop.json")
    roll = Toolroll.from_folder(tmp_path, embedder="none")
    assert "one" in roll.catalog.names and "loop.json: skipped" in caplog.text


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
