"""Projections of Thompson sampling alone: what seed 4 expects of its bandit, simulated."""

from __future__ import annotations

import pytest

from toolroll.lab.simulation.projection import BEST, CALLS, OTHERS, Bandit


@pytest.fixture(scope="module")
def bandits() -> dict[int, Bandit]:
    return {tools: Bandit.play(tools, 1_000) for tools in (2, 20)}


def test_two_tools_converge_within_fifty_calls_and_twenty_do_not(bandits):
    """The seed says about 50 calls, on pages of 20 to 40 tools."""
    assert bandits[2].calls_to_reach(0.95) <= 60
    assert 400 <= bandits[20].calls_to_reach(0.95) <= 1_000


def test_the_regret_is_below_its_bound_and_grows_ever_slower(bandits):
    for bandit in bandits.values():
        regrets = [bandit.after(calls).regret for calls in CALLS]
        assert all(regret < bandit.after(calls).bound for calls, regret in zip(CALLS, regrets, strict=True))
        assert regrets[4] - regrets[3] < 500 / 400 * (regrets[3] - regrets[2])


def test_recall_grows_with_k_and_with_the_calls(bandits):
    early, late = bandits[20].after(50).recall, bandits[20].after(1_000).recall
    for recall in (early, late):
        assert sorted(recall.values()) == list(recall.values())
    assert all(late[k] > early[k] for k in early)
    assert late[3] >= 0.95  # the seed's projection of Recall@3


def test_the_first_call_is_blind():
    first = Bandit.play(10, 1, runs=2_000)
    assert first.lost[0] == pytest.approx(0.9 * (BEST - OTHERS), abs=0.01)
    assert (first.places[0] < 3).mean() == pytest.approx(0.3, abs=0.05)


def test_a_bandit_plays_the_same_calls_from_the_same_seed():
    one, other = Bandit.play(5, 50, runs=3), Bandit.play(5, 50, runs=3)
    assert (one.lost == other.lost).all() and (one.places == other.places).all()
    assert (one.places != Bandit.play(5, 50, runs=3, seed=2).places).any()
