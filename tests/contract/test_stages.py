"""Laws that hold for every selection and every hard stage, on whatever catalog, context and message."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import contexts, conversations, definitions, messages, parameters, texts
from toolroll import Context
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.arrays import Part
from toolroll.model.context import Turn
from toolroll.selection.candidates import Candidates
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import Profile

pytestmark = pytest.mark.slow


class Remembering(HashingEmbedder):
    """Hashes each text once: a thousand small catalogs share their words."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.embed_query = cache(super().embed_query)


EMBEDDER = Remembering(64)
DEFAULT = Profile()
HARD = ("Visibility", "Availability")
STAGES = (*HARD, "Required", "ContinuedTurn")


def pipeline_of(definitions_, parameters_=DEFAULT) -> Pipeline:
    in_force = EffectivePolicy(PolicySource(definitions_.rules, definitions_.pages, definitions_.tiers))
    return PipelineBuilder(EMBEDDER, parameters_).pipeline(definitions_, in_force)


def stages_of(pipeline: Pipeline) -> dict[str, object]:
    stages = (*pipeline.hard, pipeline.required, pipeline.continued)
    return {type(stage).__name__: stage for stage in stages}


@st.composite
def parts(draw: st.DrawFn) -> Part:
    """A clause, or a turn before this one; its vector may have failed."""
    text = draw(texts())
    vector = draw(st.sampled_from((EMBEDDER.embed_query(text), None)))
    return text, vector, draw(st.sampled_from((0.0, 0.5, 1.0))), draw(st.floats(0, 1, width=32))


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    text = draw(messages())
    return Turn(
        text.encode("utf-8", "replace").decode(),
        draw(contexts()),
        draw(st.sampled_from((EMBEDDER.embed_query(text), None))),
        k=draw(st.none() | st.integers(0, 9)),
        max_tools=draw(st.none() | st.integers(0, 9)),
        budget_tokens=draw(st.none() | st.integers(0, 400)),
        sent=tuple(draw(st.lists(st.sampled_from([f"tool_{i}" for i in range(8)]), unique=True))),
        trust=draw(st.sampled_from((0.0, 0.5, 1.0))),
        clauses=tuple(draw(st.lists(parts(), max_size=4))),
        earlier=tuple(draw(st.lists(parts(), max_size=3))),
        conversation=draw(st.none() | conversations()),
        room=draw(st.sampled_from((1.0, 1.5))),
    )


def in_play(candidates: Candidates) -> list[int]:
    return (candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist()


def state(candidates: Candidates) -> tuple[list[int], list[int], list[int], list[float]]:
    return (
        candidates.allowed.rows().tolist(),
        in_play(candidates),
        candidates.rows.tolist(),
        candidates.scores.tolist(),
    )


def arrivals(pipeline: Pipeline, turn: Turn, name: str) -> Candidates:
    """The candidates as they reach the stage."""
    candidates = Candidates.everything(len(pipeline.catalog))
    for stage in pipeline.hard:
        if type(stage).__name__ == name:
            return candidates
        candidates = stage(candidates, turn)
    return candidates


@pytest.mark.parametrize("name", STAGES)
@given(definitions(), turns(), parameters())
def test_a_stage_answers_the_same_twice_and_leaves_its_input_alone(name, definitions_, turn, parameters_):
    pipeline = pipeline_of(definitions_, parameters_)
    stage, candidates = stages_of(pipeline)[name], arrivals(pipeline, turn, name)
    before = state(candidates)
    first, second = stage(candidates, turn), stage(candidates, turn)
    assert state(first) == state(second)
    assert state(candidates) == before
    if name not in HARD:
        assert first.allowed == candidates.allowed
    assert set(in_play(first)) <= set(candidates.allowed.rows().tolist())
    nothing = candidates.forbid(candidates.allowed, "all")
    assert in_play(stage(nothing, turn)) == []


@given(definitions(), turns(), parameters())
def test_each_row_is_selected_or_its_leaving_has_a_reason(definitions_, turn, parameters_):
    pipeline = pipeline_of(definitions_, parameters_)
    selection = pipeline.decide(turn)
    for row, tool in enumerate(pipeline.catalog.tools):
        if tool.name in selection:
            continue
        left = [
            step.reason
            for step in selection.candidates.trail()
            if step.before is not None and step.before.in_play(row) and not step.in_play(row)
        ]
        assert left and left[-1]


@given(definitions(), turns(), parameters())
def test_rows_in_a_selection_are_unique_and_scores_finite(definitions_, turn, parameters_):
    selection = pipeline_of(definitions_, parameters_).decide(turn)
    assert len(set(selection.names)) == len(selection.names)
    assert np.isfinite(selection.candidates.scores).all()


@given(definitions(), turns(), parameters())
def test_what_retrieval_says_of_a_turn_is_in_range_and_kept(definitions_, turn, parameters_):
    """Confidence is a probability, `has_match` follows from it, and "empty" then means that nothing is found."""
    pipeline = pipeline_of(definitions_, parameters_)
    selection = pipeline.decide(turn)
    assert selection.degraded == ()
    if selection.confidence is None:
        assert selection.has_match == (selection.candidates.fallback is None)
        return
    assert 0 <= selection.confidence <= 1
    is_sure = selection.confidence >= parameters_.least_confidence
    scores = selection.candidates.retrieved.scores
    is_found = len(scores) > 0 and (parameters_.minimum > 0 or scores[0] >= parameters_.threshold)
    by_words = any(step.reason == "retrieval.words" for step in selection.candidates.trail())
    assert selection.has_match == (is_sure and (is_found or by_words))
    if selection.candidates.fallback is not None:
        assert not selection.has_match
    if not selection.has_match and parameters_.on_no_tool == "empty":
        core = set(pipeline.catalog.base.tolist()) | set(pipeline.catalog.pinned.tolist())
        assert set(selection.rows.tolist()) <= core


@given(definitions(), turns(), parameters())
def test_every_tool_that_is_found_has_evidence_and_enough_of_it(definitions_, turn, parameters_):
    found = pipeline_of(definitions_, parameters_).decide(turn).candidates
    for step in found.trail():
        if step.reason == "retrieval.nearest":
            scores = step.scores.tolist()
            assert scores == sorted(scores, reverse=True)
            assert all(score > 0 for score in scores)
        elif step.reason == "retrieval.threshold":
            assert all(
                score >= parameters_.threshold for score in step.scores.tolist()[parameters_.minimum :]
            )


@given(definitions(), turns())
def test_limits_hold(definitions_, turn):
    pipeline = pipeline_of(definitions_)
    selection = pipeline.decide(turn)
    if turn.context.required:
        return
    core = set(pipeline.catalog.base.tolist()) | set(pipeline.catalog.pinned.tolist())
    found = [row for row in selection.rows.tolist() if row not in core]
    conversation = turn.conversation
    if conversation is not None:  # what it holds or was sent needs no place of k
        kept = {*conversation.listed, *conversation.held(pipeline.retention)}
        found = [row for row in found if pipeline.catalog.tools[row].name not in kept]
    is_whole = turn.context.everything or (conversation is not None and conversation.is_whole)
    if turn.k is not None and not is_whole:
        assert len(found) <= turn.places(turn.k)
    if turn.max_tools is not None:
        assert len(selection) <= turn.max_tools
    if turn.budget_tokens is not None:
        assert selection.tokens.selected <= turn.budget_tokens


@given(definitions(), turns(), parameters())
def test_no_inactive_excluded_outside_or_unconfigured_tool_is_ever_selected(definitions_, turn, parameters_):
    pipeline = pipeline_of(definitions_, parameters_)
    selection = pipeline.decide(turn)
    kits = pipeline.catalog.toolkits
    for name in selection.names:
        tool = pipeline.catalog.tools[pipeline.catalog.names[name]]
        assert tool.status == "active"
        assert name not in turn.context.exclude
        assert not turn.context.only or name in turn.context.only
        at = kits.get(tool.toolkit)
        while at is not None and not turn.context.everything:
            assert not at.settings_keys or any(turn.context.has_setting(key) for key in at.settings_keys)
            at = kits.get(at.parent) if at.parent is not None else None


@given(definitions(), turns(), parameters())
def test_required_names_are_the_selection_in_their_order(definitions_, turn, parameters_):
    if not turn.context.required:
        return
    pipeline = pipeline_of(definitions_, parameters_)
    selection = pipeline.decide(turn)
    allowed = {pipeline.catalog.tools[row].name for row in selection.candidates.allowed.rows().tolist()}
    wanted = dict.fromkeys(turn.context.required)
    assert selection.names == tuple(name for name in wanted if name in allowed)
    assert set(selection.missing_required) == set(wanted) - allowed


@given(definitions(), turns(), parameters())
def test_the_order_of_definitions_does_not_change_the_selection(definitions_, turn, parameters_):
    reversed_ = replace(
        definitions_,
        tools=definitions_.tools[::-1],
        rules=definitions_.rules[::-1],
        pages=definitions_.pages[::-1],
    )
    one, other = pipeline_of(definitions_, parameters_), pipeline_of(reversed_, parameters_)
    assert one.decide(turn).names == other.decide(turn).names
    assert one.catalog.revision == other.catalog.revision


@given(definitions(), turns())
def test_a_failing_hard_stage_leaves_only_public_tools(definitions_, turn):
    class Broken:
        def __call__(self, candidates, turn):
            raise RuntimeError("rules cannot be read")

        def could_forbid(self, turn):
            return None

    pipeline = pipeline_of(definitions_)
    broken = replace(pipeline, hard=(Broken(), *pipeline.hard))
    for name in broken.decide(turn).names:
        assert pipeline.catalog.tools[pipeline.catalog.names[name]].public


def test_nothing_depends_on_who_asked_before():
    from toolroll import Tool, Toolkit
    from toolroll.model.tools import Definitions

    pipeline = pipeline_of(
        Definitions((Tool("a", toolkit="kit"),), (Toolkit("kit", settings_keys=("key",)),)),
    )
    with_key = Turn("a", Context(settings=("key",)))
    without = Turn("a", Context(settings=("other",)))
    assert pipeline.decide(without).names == ()
    assert pipeline.decide(with_key).names == ("a",)
    assert pipeline.decide(without).names == ()
