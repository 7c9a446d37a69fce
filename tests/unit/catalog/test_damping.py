"""Who is damped, and who is not, by what a catalog's own texts say."""

from __future__ import annotations

import numpy as np
import pytest

from toolroll import Tool
from toolroll.catalog.damping import FOUND, MOST_PROBES, ProbeDigests, Probes
from toolroll.catalog.damping import damping as damping_of_found
from toolroll.catalog.tool_text import texts_of
from toolroll.catalog.toolkits import numbers_in_toolkits, toolkit_numbers

N = 60


def probes_of(tools: list[Tool]) -> Probes:
    toolkits, texts = numbers_in_toolkits(*toolkit_numbers(tools)), texts_of(tools)
    return ProbeDigests.of(tools).probes(tools, toolkits, lambda row: texts[row].description)


def damping(tools: list[Tool], probes: Probes, scores: np.ndarray) -> np.ndarray:
    """The factors where selection finds the best of these scores."""
    width = max(FOUND, scores.shape[1])
    padded = np.pad(scores, ((0, 0), (0, width - scores.shape[1])))
    rows = np.argsort(-padded, axis=1, kind="stable")[:, :FOUND].astype(np.int32)
    best = np.take_along_axis(padded, rows, axis=1)
    return damping_of_found(probes, np.where(best > 0, rows, -1).astype(np.int32), best)


def world(greedy: int = 0) -> tuple[list[Tool], Probes, np.ndarray]:
    """N honest tools, each best on its own four texts, then greedy ones, second best on everybody's."""
    tools = [Tool(f"t{n:02}", examples=tuple(f"text {m} of {n}" for m in range(4))) for n in range(N)]
    hostile = [Tool(f"z{n:02}", examples=(f"claim {n}",), toolkit="plugin") for n in range(greedy)]
    every = tools + hostile
    probes = probes_of(every)
    scores = np.random.default_rng(1).uniform(0.2, 0.5, (len(probes.texts), len(every))).astype(np.float32)
    for at, owners in enumerate(probes.owners):
        scores[at, list(owners)] = 0.8
    return every, probes, scores


def first(scores: np.ndarray, k: int = 5) -> np.ndarray:
    return np.argsort(-scores, axis=1)[:, :k]


def test_honest_tools_keep_their_scores():
    assert (damping(*world()) == 1).all()


def test_a_tool_that_is_among_the_first_for_everybody_is_damped_and_nobody_else():
    tools, probes, scores = world(greedy=1)
    scores[:, N] = 0.6
    factors = damping(tools, probes, scores)
    assert factors[N] < 1 and (factors[:N] == 1).all()
    assert (first(scores) == N).any(axis=1).mean() == 1
    assert (first(scores * factors) == N).any(axis=1).mean() <= 0.04


def test_a_flood_is_damped_together_where_none_of_its_tools_is_greedy_alone():
    tools, probes, scores = world(greedy=20)
    for at in range(len(scores)):
        scores[at, N + at % 20] = 0.6  # each is second best for a twentieth of the texts
    factors = damping(tools, probes, scores)
    assert (factors[N:] < 1).all() and (factors[:N] == 1).all()
    assert (first(scores * factors) >= N).any(axis=1).mean() <= 0.25


def test_a_flood_of_texts_about_a_tools_subject_does_not_damp_that_tool():
    tools, _, _ = world()
    flood = [
        Tool(f"z{n:02}", examples=tuple(f"rival {n} {m}" for m in range(8)), toolkit="plugin")
        for n in range(20)
    ]
    tools = tools + flood
    probes = probes_of(tools)
    scores = np.random.default_rng(1).uniform(0.2, 0.5, (len(probes.texts), len(tools))).astype(np.float32)
    for at, owners in enumerate(probes.owners):
        scores[at, list(owners)] = 0.8
        if owners[0] >= N:
            scores[at, 7] = 0.79
    assert damping(tools, probes, scores)[7] == 1


def test_a_factor_lies_between_its_bounds():
    tools, probes, scores = world(greedy=3)
    scores[:, N:] = 1
    factors = damping(tools, probes, scores)
    assert factors.dtype == np.float32 and factors.shape == (N + 3,)
    assert factors.min() >= 0.35 and factors.max() <= 1


@pytest.mark.parametrize("n", [0, 1, 10])
def test_a_catalog_of_which_half_is_selected_is_left_alone(n):
    tools = [Tool(f"t{at}", "does it") for at in range(n)]
    probes = probes_of(tools)
    assert (damping(tools, probes, np.ones((len(probes.texts), n), np.float32)) == 1).all()


def test_scores_of_zero_are_nobodys_gain():
    tools, probes, scores = world()
    assert (damping(tools, probes, np.zeros_like(scores)) == 1).all()


def test_a_text_is_asked_once_and_belongs_to_all_who_have_it():
    tools = [Tool(f"t{n}", examples=("shared", f"own {n}")) for n in range(60)]
    probes = probes_of(tools)
    assert len(set(probes.texts)) == len(probes.texts) == 61
    assert probes.owners[probes.texts.index("shared")] == tuple(range(60))


def test_descriptions_stand_in_where_few_tools_have_examples():
    tools = [Tool("a", "about a", examples=("message",)), Tool("b", "about b")]
    assert set(probes_of(tools).texts) == {"message", "b: about b"}


def test_no_more_texts_are_asked_than_pay():
    tools = [Tool(f"t{n}", examples=tuple(f"{n} {m}" for m in range(8))) for n in range(400)]
    assert len(probes_of(tools).texts) == MOST_PROBES
