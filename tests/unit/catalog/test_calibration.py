"""Confidence: what share of the messages that a catalog serves looks no better than this one."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.confidence import confidence
from tests.table import each_row
from toolroll import Context, Profile, Tool, Toolroll
from toolroll._core import Bitset
from toolroll.catalog.calibration import AT_LARGE, LEAST_HELD_OUT, MOST_HELD_OUT, Calibration, HeldOut
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import example_texts, texts_of
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.arrays import NO_ROWS, NO_SCORES
from toolroll.model.tools import Definitions
from toolroll.selection.compose import fusion_of

ANYONE = Context()
EMBEDDER = HashingEmbedder(256)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words_of(draw: random.Random, n: int) -> list[str]:
    return ["".join(draw.choices(LETTERS, k=7)) for _ in range(n)]


def world(examples: int, tools: int = 30, seed: int = 7) -> list[Tool]:
    """Tools whose messages are drawn from twelve words of their own and forty that all share."""
    draw = random.Random(seed)
    common = words_of(draw, 40)
    made = []
    for i in range(tools):
        own = words_of(draw, 12)
        texts = tuple(message(draw, own, common) for _ in range(examples))
        made.append(Tool(f"tool_{i:02}", " ".join(own[:4]), examples=texts))
    return made


def message(draw: random.Random, own: list[str], common: list[str]) -> str:
    return " ".join([*draw.choices(own, k=draw.randint(0, 3)), *draw.choices(common, k=4)])


def calibrated(tools) -> tuple[Catalog, Calibration]:
    catalog = Catalog.build(Definitions(tuple(tools)), EMBEDDER)
    assert catalog.calibration_set is not None
    return catalog, catalog.calibration_set.calibrate(fusion_of(Profile(), catalog.scale))


def calibrations() -> st.SearchStrategy[Calibration]:
    scores = st.lists(st.floats(0, 3, width=32), max_size=40).map(
        lambda found: np.sort(np.array(found, np.float32))
    )
    return st.builds(Calibration, scores, scores, st.booleans()) | st.just(AT_LARGE)


def trusts() -> st.SearchStrategy[float | None]:
    return st.none() | st.floats(0, 1)


@given(calibrations(), st.lists(st.floats(0, 1e6), min_size=2), st.booleans(), trusts())
def test_confidence_grows_with_the_score_and_is_a_probability(calibration, scores, whole, trust):
    found = [confidence(calibration, score, whole, trust) for score in sorted(scores)]
    assert found == sorted(found)
    assert found[0] >= 0
    assert found[-1] <= 1


@given(calibrations(), st.booleans(), trusts())
def test_no_evidence_is_no_more_confidence_than_served_messages_without_any(calibration, whole, trust):
    known = calibration.best if whole else calibration.own
    most = (known == 0).mean() if len(known) else 0.0
    assert confidence(calibration, 0.0, whole, trust) <= most


def test_confidence_is_the_share_of_served_messages_that_score_no_higher():
    """But for the catalogs at large, which count as a few messages."""
    scores = np.linspace(0, 2, 10_000, dtype=np.float32)
    calibration = Calibration(scores, scores / 2)
    for score in (0.1, 0.5, 1.0, 1.9):
        assert confidence(calibration, score, True, 1.0) == pytest.approx(score / 2, abs=0.001)
        assert confidence(calibration, score / 2, False, 1.0) == pytest.approx(score / 2, abs=0.001)


def test_where_nothing_was_held_out_catalogs_at_large_stand_in():
    found = [confidence(AT_LARGE, score, True, 1.0) for score in (0.0, 0.25, 0.70, 1e3)]
    assert found == [0.0, pytest.approx(0.05, abs=0.002), pytest.approx(0.5), pytest.approx(1)]
    roll = Toolroll.from_tools([Tool("a", "alpha"), Tool("b", "beta")])
    assert roll.catalog.calibration_set is None
    picked = roll.select("alpha", k=1)
    score = float(picked.candidates.scores[0])
    assert picked.confidence == pytest.approx(confidence(AT_LARGE, score, True, 1.0), rel=1e-4)


@pytest.mark.parametrize("trust", [None, 0.0, 0.4])
def test_scores_by_words_alone_are_judged_by_scores_by_words_alone(trust):
    found = [confidence(AT_LARGE, score, True, trust) for score in (0.0, 0.064, 0.30, 1e3)]
    assert found == [0.0, pytest.approx(0.05, abs=0.005), pytest.approx(0.5), pytest.approx(1)]


def test_a_message_whose_embedder_failed_is_not_judged_by_those_that_have_vectors():
    """All served ones scored 2 with their vectors; 0.5 by words alone is still a good match."""
    served = np.full(100, 2, np.float32)
    calibration = Calibration(served, served, has_vectors=True)
    assert confidence(calibration, 0.5, True, 1.0) < 0.05
    assert confidence(calibration, 0.5, True, None) == confidence(AT_LARGE, 0.5, True, None) > 0.5


def test_of_each_tool_an_eighth_of_its_examples_is_held_out_or_one():
    tools = world(24)
    held_out = HeldOut.of(texts_of(tools))
    lent = [sum(row == of for of, _ in held_out.messages) for row in range(len(tools))]
    assert set(lent) == {3}
    tools = world(5)
    assert len(HeldOut.of(texts_of(tools)).messages) == len(tools)


def test_a_tool_never_lends_more_than_an_eighth_of_the_examples_that_count():
    tools = world(2)
    greedy = replace(tools[0], examples=tuple(f"planted {i}" for i in range(2_000)))
    held_out = HeldOut.of(texts_of([greedy, *tools[1:]]))
    assert sum(row == 0 for row, _ in held_out.messages) <= len(example_texts(greedy)) // 8


def test_a_tool_may_lend_its_only_example_since_messages_come_for_tools_that_had_none():
    tools = world(1, LEAST_HELD_OUT)
    held_out = HeldOut.of(texts_of(tools))
    assert len(held_out.messages) == LEAST_HELD_OUT
    assert all(text.examples == () for text in held_out.texts(texts_of(tools)))


@each_row(("tools", "examples"), [(30, 0), (LEAST_HELD_OUT - 1, 1), (LEAST_HELD_OUT - 1, 3), (0, 0)])
def test_a_catalog_with_too_few_examples_has_no_trial(tools, examples):
    assert HeldOut.of(texts_of(world(examples, tools))) is None


def test_no_more_than_so_many_messages_are_held_out():
    assert len(HeldOut.of(texts_of(world(4, MOST_HELD_OUT + 40))).messages) == MOST_HELD_OUT


def test_messages_that_are_held_out_are_in_no_index_of_the_trial():
    """Nor where another tool has the same example: found by its own words, a message says nothing."""
    tools = world(8)
    shared = tools[0].examples
    tools[1] = replace(tools[1], examples=(*shared, *tools[1].examples))
    tools[2] = replace(tools[2], examples=tools[2].examples * 2)
    held_out = HeldOut.of(texts_of(tools))
    asked = {example_texts(tools[row])[at] for row, at in held_out.messages}
    assert asked & set(shared)
    left = held_out.texts(texts_of(tools))
    assert not asked & {text for tool in left for text in tool.examples}
    assert not any(text in column for tool in left for column in tool.fields for text in asked)
    embedded = ToolVectors.of(texts_of(tools), EMBEDDER)
    rest = held_out.vectors(embedded)
    vectors = EMBEDDER.embed(sorted(asked))
    assert (rest.examples @ vectors.T).max() < 0.9999
    again = ToolVectors.of(left, EMBEDDER)
    assert np.array_equal(rest.examples, again.examples)
    assert np.array_equal(rest.begins, again.begins)


def test_what_the_trial_searches_does_not_know_the_messages(monkeypatch):
    """Spied on where it is built: postings and vectors of the trial are made without them."""
    from toolroll.catalog import catalog, indexes

    built: list[list[list[str]]] = []

    class Spy:
        @staticmethod
        def build(columns, weights, background=None):
            built.append(columns)
            return real.build(columns, weights, background=background)

    real = indexes.Bm25Index
    for module in (catalog, indexes):
        monkeypatch.setattr(module, "Bm25Index", Spy)
    tools = world(8)
    asked = {
        text for (text, *_), _ in Catalog.build(Definitions(tuple(tools)), EMBEDDER).calibration_set.turns
    }
    whole, trial = sorted(built, key=lambda columns: -sum(map(len, columns[-1])))
    assert all(any(text in column for column in whole[-1]) for text in asked)
    assert not any(text in column for column in trial[-1] for text in asked)


def test_the_same_definitions_give_the_same_calibration_in_any_order():
    tools = world(8)
    (_, one), (_, other) = calibrated(tools), calibrated(tools[::-1])
    assert np.array_equal(one.best, other.best)
    assert np.array_equal(one.own, other.own)
    assert (np.diff(one.best) >= 0).all() and (np.diff(one.own) >= 0).all()


def test_the_right_tool_scores_no_higher_than_the_best():
    _, calibration = calibrated(world(8))
    assert (calibration.own <= calibration.best).all()
    assert (calibration.own < calibration.best).any()


def test_an_examples_own_words_are_what_it_is_found_by_among_all_but_one_tool():
    """Oracle: each best score is that of a search by hand."""
    tools = world(8)
    catalog, calibration = calibrated(tools)
    trial, fusion = catalog.calibration_set, fusion_of(Profile(), catalog.scale)
    best = []
    for (text, vector, trust, _), clauses in trial.turns:
        everything = Bitset.full(len(tools))
        found = trial.indexes.retriever().search(
            text, vector, trust, clauses, (), everything, NO_ROWS, NO_SCORES, len(tools), fusion
        )
        best.append(found[1][0] if len(found[1]) else 0.0)
    assert np.allclose(np.sort(np.array(best, np.float32)), calibration.best)


@pytest.mark.parametrize("examples", [8, 24])
def test_at_one_in_twenty_one_in_twenty_served_messages_is_refused(examples):
    """5 standard errors of both samples: what was held out, and what is asked."""
    draw, seed = random.Random(11), 7
    tools = world(examples, 60, seed)
    again = random.Random(seed)
    common = words_of(again, 40)
    asked: list[str] = []
    for _ in tools:
        own = words_of(again, 12)
        [message(again, own, common) for _ in range(examples)]
        asked += [message(draw, own, common) for _ in range(20)]
    assert tools[-1].examples[-1] not in asked
    roll = Toolroll.from_tools(tools, embedder=EMBEDDER, profile=Profile(least_confidence=0.05))
    refused = np.mean([not roll.select(text, ANYONE, k=5).has_match for text in asked])
    held_out = len(roll.catalog.calibration_set.turns)
    error = math.sqrt(0.05 * 0.95 * (1 / len(asked) + 1 / held_out))
    assert abs(refused - 0.05) < 5 * error
    assert refused > 0
    foreign = [" ".join(words_of(draw, 6)) for _ in range(200)]
    assert np.mean([not roll.select(text, ANYONE, k=5).has_match for text in foreign]) > 0.9


def test_a_message_of_the_demo_catalog_applies_and_one_in_no_language_does_not(demo):
    picked = demo.select("write an email to Ada about the invoice", ANYONE, k=5)
    assert picked.has_match
    assert picked.confidence > 0.5
    picked = demo.select("ζζζ", ANYONE, k=5)
    assert not picked.has_match
    assert picked.confidence < 0.05
    assert "no tool seems to apply" in picked.summary()
