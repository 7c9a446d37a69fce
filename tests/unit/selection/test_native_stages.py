"""The core selects as its slow twin in `tests/oracle` does, to the last bit."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.test_stages import EMBEDDER, turns
from tests.oracle.candidates import Hits
from tests.oracle.pipeline import decide
from tests.strategies import PAGES, TIERS, definitions, parameters
from toolroll import Context, Tool, Toolroll
from toolroll._core import DELTA, Learned
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.context import Turn
from toolroll.model.conversation import Retention
from toolroll.model.identity import scopes, tool_key
from toolroll.model.tools import Definitions
from toolroll.selection.candidates import Candidates
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.picked_candidates import PickedCandidates
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import PROFILES, Profile
from toolroll.selection.selection import Selection

PICKS = int(os.environ.get("TOOLROLL_PICKS", "100"))  # examples of each property
T0, DAY = 1_700_000_000.0, 86_400.0
KEY = b"k" * 24
CATEGORIES = ("", "read", "write")


def any_profile() -> st.SearchStrategy[Profile]:
    """Every named profile, and all kinds of parameters."""
    return st.sampled_from(list(PROFILES.values())) | profiles_of_all_kinds()


@st.composite
def profiles_of_all_kinds(draw: st.DrawFn) -> Profile:
    profile = draw(parameters())
    return profile.with_(
        learning=draw(st.sampled_from(("outcomes", "outcomes", "outcomes", None, "thompson"))),
        max_tools=draw(st.none() | st.integers(0, 6)),
        route_weight=draw(st.sampled_from((0.0, 0.25))),
        services=draw(st.sampled_from((0.0, 0.15))),
        marks=draw(st.sampled_from((0.0, 0.1, 0.3))),
        rescored=draw(st.integers(0, 9)),
        exploration_scale=draw(st.sampled_from((0.0, 0.1, 1.0))),
        protected_leaders=draw(st.integers(0, 3)),
        explore=draw(st.sampled_from((0.0, 0.5, 1.0))),
        affinity=draw(st.sampled_from((0.0, 0.2))),
        sticky_turns=draw(st.integers(0, 4)),
        sticky_tools=draw(st.integers(0, 4)),
        sticky_count=draw(st.sampled_from(("called", "added"))),
        newcomers=draw(st.sampled_from((0.0, 0.5, 0.75, 2.0))),
        growth=draw(st.sampled_from((0.0, 0.5, 1.0, 3.0))),
        pass_through_tools=draw(st.sampled_from((0, 0, 2))),
    )


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Pipeline, Profile]:
    """Over one catalog, or an organisation's own tools behind a shared one; and their profile."""
    shared, profile = draw(definitions()), draw(any_profile())
    in_force = EffectivePolicy(PolicySource(shared.rules, shared.pages, shared.tiers))
    embedder, is_deferred = draw(st.sampled_from((EMBEDDER, EMBEDDER, None))), draw(st.booleans())
    builder = PipelineBuilder(embedder, profile, is_deferred=is_deferred)
    pipeline = builder.pipeline(shared, in_force)
    if draw(st.booleans()):
        return pipeline, profile
    own = tuple(replace(tool, name=f"own_{tool.name}") for tool in draw(definitions()).tools)
    return builder.stacked(pipeline, Definitions(own), in_force), profile


@st.composite
def learned_states(draw: st.DrawFn, tools: list[Tool]) -> Learned | None:
    """What a few reports on these tools have taught."""
    if not tools or draw(st.booleans()):
        return None
    reports = draw(
        st.lists(
            st.tuples(
                st.sampled_from(tools),
                st.sampled_from(("", *TIERS)),
                st.sampled_from(("", *PAGES)),
                st.sampled_from(CATEGORIES),
                st.booleans(),
                st.sampled_from((1, 1, 8)),
                st.integers(0, 4),
                st.integers(0, 40),
            ),
            max_size=30,
        )
    )
    deltas = np.zeros(len(reports), DELTA)
    for one, (tool, tier, page, category, works, times, reporter, days) in zip(deltas, reports, strict=True):
        where, keys = scopes(page, tier, category), tool_key(tool)
        one["at"], one["vector"], one["pull"] = T0 - days * DAY, draw(st.sampled_from((-1, 0, 1))), 1.0
        one["everywhere"], one["page"], one["leaf"], one["plain"] = where
        one["arm"], one["intent"], one["group"] = keys
        one["successes"], one["failures"] = (times, 0) if works else (0, times)
        one["verdict"] = 1 if works else -1
        one["calls"], one["expected"], one["reporter"] = works, 0.3, reporter
    vectors = np.stack([EMBEDDER.embed_query("rain mail"), EMBEDDER.embed_query("song")])
    return Learned(EMBEDDER.dim).fold(deltas, vectors)


@dataclass(frozen=True, repr=False, eq=False)
class World:
    """A pipeline and turns over it; without its repr, which would be a megabyte."""

    pipeline: Pipeline
    profile: Profile
    turns: list[Turn]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A pipeline, and turns that the core decides: nothing is required."""
    pipeline, profile = draw(pipelines())
    tools = list(pipeline.catalog.tools)
    learned = draw(learned_states(tools))
    names = st.lists(st.sampled_from(["unheard_of", *pipeline.catalog.names]), max_size=3)
    asked = []
    for turn in draw(st.lists(turns(), min_size=1, max_size=4)):
        context = replace(turn.context, required=())
        shown = draw(st.sampled_from((None, None, None, ())))
        asked.append(
            replace(
                turn,
                context=context,
                seed=draw(st.integers(0, 2**64 - 1)),
                at=T0,
                learned=learned,
                category=draw(st.sampled_from(CATEGORIES)),
                always_include=tuple(draw(names)),
                is_search=draw(st.sampled_from((False, False, False, True))),
                shown=shown if shown is None else tuple(draw(names)),
                query=draw(st.sampled_from(("", "rain at home"))),
            )
        )
    return World(pipeline, profile, asked)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays to the last bit."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(other, Hits):  # the core keeps no sum of them: it adds to the confidence, which is compared
        return all(same(getattr(one, name), getattr(other, name)) for name in ("rows", "terms", "words"))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    return bool(one == other)


def step(candidates: Candidates) -> tuple[object, ...]:
    """One step of a trail, without those before it."""
    names = ("verb", "reason", "allowed", "pool", "rows", "scores", "evidence")
    return tuple(getattr(candidates, name) for name in names)


def questions(candidates: Candidates) -> tuple[object, ...]:
    """Everything that a set of candidates can be asked."""
    names = (
        "retrieved",
        "fallback",
        "reranked",
        "before_list",
        "in_order",
    )
    rows = range(candidates.allowed.size)
    return (
        *(getattr(candidates, name) for name in names),
        len(candidates),
        tuple(candidates.in_play(row) for row in rows),
        tuple(candidates.score(row) for row in rows),
        candidates.packed_calls(lambda rows: [KEY] * len(rows), temperature=0.1, calls=0.9, elsewhere=0.1),
        step(candidates.matched),
    )


def differences(one: Selection, other: Selection) -> list[str]:
    """Where two selections differ."""
    found = [] if one.names == other.names else [f"names: {one.names} and {other.names}"]
    mine, theirs = [*one.candidates.trail()], [*other.candidates.trail()]
    for a, b in zip(mine, theirs, strict=False):
        if not same(step(a), step(b)):
            found.append(f"step: {step(a)} and {step(b)}")
    if len(mine) != len(theirs):
        found.append(f"steps: {[at.reason for at in mine]} and {[at.reason for at in theirs]}")
    if not same(questions(one.candidates), questions(other.candidates)):
        found.append(f"questions: {questions(one.candidates)} and {questions(other.candidates)}")
    for name in ("confidence", "has_match", "degraded", "activated", "missing_required", "total"):
        if getattr(one, name) != getattr(other, name):
            found.append(f"{name}: {getattr(one, name)} and {getattr(other, name)}")
    if one.log_lines() != other.log_lines():
        found.append(f"log lines: {one.log_lines()} and {other.log_lines()}")
    if one.explain() != other.explain():
        found.append(f"explanation: {one.explain()} and {other.explain()}")
    return found


def assert_counts_turns(selection: Selection, retention: Retention) -> None:
    """The core's list of a conversation is the one that `Conversation.sent` makes."""
    turns, conversation = selection.candidates.list_turns, selection.turn.conversation
    has_list = conversation is not None and not selection.turn.is_search
    assert (turns is not None) == (is_native(selection) and has_list)
    if turns is not None:
        selected = selection.catalog.names_of(selection.candidates.before_list.tolist())
        expected = conversation.sent(selection.names, {*conversation.held(retention), *selected})
        assert conversation.listing(selection.names, turns) == expected


@settings(max_examples=PICKS, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_the_core_and_its_oracle_give_the_same_selection_and_trail(world):
    for turn in world.turns:
        selection = world.pipeline.decide(turn)
        assert differences(selection, decide(world.pipeline, world.profile, turn)) == []
        assert_counts_turns(selection, world.pipeline.retention)


TOOLS = tuple(Tool(f"tool_{at}", f"{word} at home") for at, word in enumerate(("rain", "mail", "song") * 8))


def pipeline_of(profile: Profile = PROFILES["default"]) -> Pipeline:
    return PipelineBuilder(EMBEDDER, profile).pipeline(Definitions(TOOLS), EffectivePolicy())


def is_native(selection: Selection) -> bool:
    return isinstance(selection.candidates, PickedCandidates)


@pytest.mark.parametrize("name", PROFILES)
def test_the_core_runs_every_profile(name):
    turn = Turn("rain at home", Context(), EMBEDDER.embed_query("rain at home"), seed=1)
    assert is_native(pipeline_of(PROFILES[name]).decide(turn))


class Raising:
    """Stands for a selector of the core that fails."""

    def pick(self, turn: object) -> object:
        raise RuntimeError("out of order")


def broken(pipeline: Pipeline) -> Pipeline:
    """The pipeline whose core fails, whatever it is asked for."""
    pickers = {
        name: replace(getattr(pipeline, name), selector=Raising())
        for name in ("soft", "whole", "everything", "search")
    }
    return replace(pipeline, **pickers)


@given(worlds())
def test_a_core_that_fails_leaves_allowed_tools_with_core_tools_first(world):
    pipeline = broken(world.pipeline)
    for turn in world.turns:
        selection = pipeline.decide(turn)
        continues = turn.shown is not None and not turn.text and not turn.is_search
        assert selection.degraded == (() if continues else ("pick",))
        allowed = pipeline.catalog.names_of(selection.candidates.allowed.rows().tolist())
        assert set(selection.names) <= set(allowed)
        if turn.shown is None:
            core = [pipeline.catalog.tools[row].name for row in pipeline.limits.core]
            first = [*dict.fromkeys((*core, *turn.always_include))]
            expected = [name for name in first if name in allowed]
            expected += [name for name in allowed if name not in first]
            if turn.budget_tokens is None:
                assert list(selection.names) == expected[: pipeline.limits.most(turn)]
            else:
                assert set(selection.names) <= set(expected)


def test_a_core_that_fails_is_logged_as_a_bug_and_counted(caplog):
    roll = Toolroll.from_definitions(Definitions((*TOOLS, Tool("core", pinned=True))), embedder="none")
    snapshot = roll._engine.snapshot
    roll._engine.swap(replace(snapshot, shared=broken(snapshot.shared)))
    with caplog.at_level(logging.ERROR, "toolroll"):
        picked = roll.select("rain at home", k=3, always_include=("tool_3",))
    assert picked.names[:3] == ("core", "tool_3", "tool_0") and picked.degraded == ("pick",)
    assert sorted(picked.names) == sorted([tool.name for tool in TOOLS] + ["core"])
    assert "out of order" in picked.explain() and "could not rank" in picked.explain("core")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "bug in toolroll" in caplog.text and "RuntimeError: out of order" in caplog.text
    assert roll.counters().degraded == {"pick": 1}


def test_numbers_beyond_those_of_the_core_are_numbers_all_the_same():
    pipeline = pipeline_of()
    turn = Turn("rain", Context(), k=10**30, max_tools=10**20, budget_tokens=10**25)
    selection = pipeline.decide(turn)
    assert selection.degraded == () and len(selection) == 8
    assert differences(selection, decide(pipeline, PROFILES["default"], turn)) == []


def test_candidates_of_the_core_cannot_be_changed_and_know_no_other_fields():
    candidates = pipeline_of().decide(Turn("rain", Context())).candidates
    assert isinstance(candidates, PickedCandidates)
    with pytest.raises(AttributeError):
        candidates.rows = candidates.rows  # type: ignore[misc]
    assert not hasattr(candidates, "unheard_of")


@pytest.mark.parametrize("embedder", [EMBEDDER, StaticEmbedder(), None], ids=["own", "built-in", "none"])
@pytest.mark.parametrize(
    "history", [(), ("play a song", "and the mail?")], ids=["alone", "in a conversation"]
)
@pytest.mark.parametrize(
    "message",
    ["rain at home", "rian at hoem", "", "   ", "\ud800 rain", "rain at home, then mail at home today"],
)
def test_a_turn_that_the_core_has_read_is_decided_as_its_copy_in_python(message, history, embedder):
    roll = Toolroll.from_definitions(Definitions(TOOLS), embedder=embedder or "none")
    selection = roll.select(message, k=3, history=history)
    copied = replace(selection.turn)
    assert selection.turn.reading is not None and copied.reading is None
    assert is_native(selection)
    pipeline = roll._home.engine.snapshot.shared
    assert differences(pipeline.decide(copied), selection) == []
