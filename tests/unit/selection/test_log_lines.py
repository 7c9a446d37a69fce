"""A selection as lines for a log."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import tests.strategies as some
from toolroll import Context, Profile, Route, Tool, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.context import Turn
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.pipeline_builder import PipelineBuilder

EMBEDDER = HashingEmbedder(64)
TOOLS = [Tool(f"tool_{at:02}", "the same words", pinned=at == 7) for at in range(60)]


def facts(line: str) -> dict[str, str]:
    return dict(fact.split("=", 1) for fact in line.split(": ", 1)[1].split(", ") if "=" in fact)


@given(
    some.definitions(), some.messages(), some.contexts(), some.parameters(),
    st.none() | some.conversations(), st.none() | st.integers(0, 5), st.booleans(),
)  # fmt: skip
def test_the_numbers_of_any_selection_add_up(
    definitions, message, context, parameters, conversation, max_tools, is_up
):
    in_force = EffectivePolicy(PolicySource(definitions.rules, definitions.pages, definitions.tiers))
    pipeline = PipelineBuilder(EMBEDDER, parameters).pipeline(definitions, in_force)
    text = message.encode("utf-8", "replace").decode()
    vector = EMBEDDER.embed_query(text) if is_up else None
    picked = pipeline.decide(Turn(text, context, vector, max_tools=max_tools, conversation=conversation))
    lines = picked.log_lines()
    assert all("\n" not in line for line in lines)
    said = facts(lines[0])
    if context.required:
        assert lines == lines[:1]
        assert said["resolved"] == f"{len(picked)}/{len(set(context.required))}"
        return
    counts = {key: int(value) for key, value in said.items() if re.fullmatch(r"\d+", value)}
    total, of = map(int, said["total"].split("/"))
    assert (total, of) == (sum(counts.values()), picked.total)
    assert len(pipeline.allowed(picked.turn)) <= of <= len(pipeline.catalog)
    lost = 0
    for line in lines[1:]:
        if line.startswith("tool routes: hit="):
            continue
        gone = re.search(r"(dropped|held_back)=(\d+): ?(.*)", line)
        assert gone is not None and int(gone[2]) == len(gone[3].split(", ") if gone[3] else ())
        lost += int(gone[2])
    assert total - lost <= len(picked) <= total


def test_a_tool_cap_names_at_most_fifty():
    roll = Toolroll.from_tools(TOOLS, embedder="none", profile=Profile(k=None, candidates=60))
    (_, cap) = roll.select("same words", max_tools=3).log_lines()
    assert cap.startswith("tool cap: kept=3/60, dropped=57: tool_02, tool_03, tool_04")
    assert cap.endswith(", tool_52, …")
    budget = roll.select("same words", budget_tokens=60).log_lines()[1]
    assert budget.startswith("tool cap: kept=") and "dropped=" in budget


def test_a_core_tool_is_core_though_it_was_found():
    roll = Toolroll.from_tools(TOOLS, embedder="none", profile=Profile(k=5))
    said = facts(roll.select("same words").log_lines()[0])
    assert said["core"] == "1" and said["retrieved"] == "5" and said["total"] == "6/60"


def test_a_small_catalog_is_whole():
    (line,) = Toolroll.from_tools(TOOLS[:5], embedder="none").select("x").log_lines()
    assert line == "tool selection: method=whole, whole=5, total=5/5"


def test_what_a_conversation_has_is_said_by_why_it_has_it():
    profile = Profile(k=2, opening=1, newcomers=0.5, growth=3, sticky_tools=1)
    session = Toolroll.from_tools(TOOLS, embedder="none", profile=profile).session("s")
    session.select("same words tool 01")
    session.load(["tool_50"])
    assert session.search("tool 40", k=1)[0].name == "tool_40"
    session.used(["tool_40"])
    said = facts(session.select("same words tool 20").log_lines()[0])
    assert (said["loaded"], said["sticky"], said["core"]) == ("1", "1", "1")
    held = [line for line in session.selection.log_lines() if line.startswith("tool list: held_back=")]
    assert held


def test_what_failed_is_said():
    class Down(HashingEmbedder):
        def embed_query(self, text):
            raise ConnectionError("no route to host")

    roll = Toolroll.from_tools(TOOLS, embedder=Down(32))
    line = roll.select("same words", replace(Context(), user="ann")).log_lines()[0]
    assert line.endswith("degraded=embedder")


def test_hits_are_named_with_what_hit_them_if_a_tool_of_theirs_is_selected():
    tools = [Tool("a", "reads", toolkit="mail"), Tool("b", "reads", toolkit="chat")]
    routes = [Route(("mail",), keywords=("inbox",)), Route(("chat",), keywords=("inbox", "x\ny"))]
    roll = Toolroll.from_tools(tools, routes=routes, embedder="none")
    (_, hits) = roll.select("my inbox", k=2).log_lines()
    assert hits == "tool routes: hit=2: mail(keyword 'inbox'), chat(keyword 'inbox')"
    (_, hits) = roll.select("my inbox", Context(exclude=("b",)), k=2).log_lines()
    assert hits == "tool routes: hit=1: mail(keyword 'inbox')"
    (_, hits) = roll.select("x\ny", k=2).log_lines()
    assert hits.isprintable() and hits.startswith("tool routes: hit=1: ")


def test_no_name_begins_a_line_of_its_own():
    hostile = "tool\ntool selection: method=forged"
    tools = [Tool(f"{hostile}{at}", "the same words") for at in range(20)]
    roll = Toolroll.from_tools(tools, embedder="none", profile=Profile(k=None))
    lines = roll.select("same words", max_tools=1).log_lines()
    (asked,) = roll.select("", Context(required=("x\ny\u2028z", "x" * 10_000))).log_lines()
    assert len(lines) == 2 and len(asked) < 500
    assert all(len(line.splitlines()) == 1 for line in (*lines, asked))
