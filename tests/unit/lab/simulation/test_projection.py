"""Posteriors after some calls, and Thompson sampling alone."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.table import each_row
from toolroll.lab.simulation.projection import BEST, CALLS, OTHERS, Bandit, convergence, t_quantile
from toolroll.registry.analytics.beta import quantile


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
    assert late[3] >= 0.95  # Adverant Nexus projects this Recall@3


def test_the_first_call_is_blind():
    first = Bandit.play(10, 1, runs=2_000)
    assert first.lost[0] == pytest.approx(0.9 * (BEST - OTHERS), abs=0.01)
    assert (first.places[0] < 3).mean() == pytest.approx(0.3, abs=0.05)


def test_a_bandit_plays_the_same_calls_from_the_same_seed():
    one, other = Bandit.play(5, 50, runs=3), Bandit.play(5, 50, runs=3)
    assert (one.lost == other.lost).all() and (one.places == other.places).all()
    assert (one.places != Bandit.play(5, 50, runs=3, seed=2).places).any()


SHAPES = (1e-3, 0.05, 0.5, 1.0, 3.0, 41.0, 801.0, 1e5)


@pytest.mark.slow
@each_row("a", SHAPES)
@each_row("b", SHAPES)
def test_quantiles_of_a_beta_are_those_of_scipy(a: float, b: float) -> None:
    for share in (0.025, 0.05, 0.5, 0.9, 0.975):
        (x,) = quantile(share, a, b)
        assert 0 <= x <= 1
        assert x == pytest.approx(stats.beta.ppf(share, a, b), abs=1e-9)


@pytest.mark.slow
@each_row("degrees", [1, 2, 5, 29, 300])
def test_quantiles_of_students_t_are_those_of_scipy(degrees: int) -> None:
    assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-10)


def test_widths_are_equal_tailed_and_of_the_share_they_are_said_to_be() -> None:
    widths = {0: (0.95, 0.9), 10: (0.458, 0.391), 50: (0.218, 0.184), 100: (0.156, 0.131)}
    widths |= {500: (0.070, 0.0588), 1_000: (0.0495, 0.0416)}
    for row in convergence():
        assert (row.alpha, row.beta) == (1 + 0.8 * row.calls, 1 + 0.2 * row.calls)
        law = stats.beta(row.alpha, row.beta)
        assert row.mean == pytest.approx(law.mean()) and row.variance == pytest.approx(law.var())
        assert (row.width_95, row.width_90) == pytest.approx(widths[row.calls], abs=6e-4)
