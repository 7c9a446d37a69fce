"""The probability of being shown is what replays of the draw itself come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ranking_weights import weights_with
from tests.slow_learned import DAY, T0, deltas, random_deltas
from tests.table import each_row
from toolroll._core import Learned, LearningRates, ToolKeys, inclusion, inclusion_sampled

SEEDS = st.integers(0, 2**32 - 1)


def columns(n: int, **more: Any) -> dict[str, Any]:
    random = np.random.default_rng(n)
    usual = {
        "mean": random.normal(0, 1, n),
        "sd": random.uniform(0.05, 0.6, n),
        "show": np.ones(n),
        "guarded": np.zeros(n, np.uint8),
        "group": np.zeros(n, np.uint64),
    }
    return {**usual, **{name: np.asarray(value, usual[name].dtype) for name, value in more.items()}}


def worlds(kind: str) -> dict[str, Any]:
    random = np.random.default_rng(7)
    n = 30
    group = np.zeros(n, np.uint64)
    group[[2, 3, 9]], group[[5, 20]] = 4, 6
    guarded = np.zeros(n, np.uint8)
    guarded[[0, 3]] = 1
    show = np.where(random.random(n) < 0.3, random.random(n), 1.0)
    return {
        "alike": columns(n, sd=np.full(n, 0.2)),
        "apart": columns(n, sd=np.geomspace(0.005, 2.0, n)),
        "breakers": columns(n, show=show),
        "groups": columns(n, group=group),
        "guards": columns(n, guarded=guarded),
        "everything": columns(n, group=group, guarded=guarded, show=show),
    }[kind]


@pytest.mark.slow
@each_row("kind", ["alike", "apart", "breakers", "groups", "guards", "everything"])
@each_row("k", [1, 7])
def test_probabilities_are_within_four_standard_errors_of_200_000_replays(kind: str, k: int) -> None:
    asked = worlds(kind)
    exact = inclusion(**asked, k=k)
    sampled, error = inclusion_sampled(**asked, k=k, explore=0.0, seed=3, draws=200_000)
    assert np.abs((exact - sampled) / error).max() < 4
    assert ((exact >= 0) & (exact <= asked["show"] + 1e-12)).all()
    if kind != "breakers":
        assert exact.sum() == pytest.approx(sampled.sum(), abs=5e-3)
    if kind in ("alike", "apart", "groups", "guards"):
        assert exact.sum() == pytest.approx(k, abs=1e-6 if kind != "apart" else 1e-3)


def test_probabilities_are_those_of_the_ranking_itself() -> None:
    """The law beside the implementation: 20,000 turns of what was learnt, each with a seed of its own."""
    good = [{"arm": 101, "at": T0 + n, "successes": 1, "verdict": 1} for n in range(20)]
    bad = [{"arm": 101, "at": T0 + DAY + n, "failures": 1, "verdict": -1} for n in range(9)]
    rates = LearningRates(least_reporters=0, open_half_s=1e6)
    learned = (
        Learned(0, rates)
        .fold(random_deltas(4, 200, tools=20))
        .fold(deltas(*[{"everywhere": 1, **row} for row in good + bad]))
    )
    n, k, now, turns = 20, 7, T0 + 61 * DAY, 20_000
    rows = np.arange(n, dtype=np.int32)
    group = np.zeros(n, np.uint64)
    group[[3, 4]] = 77
    keys = ToolKeys(100 + rows.astype(np.uint64), 200 + rows.astype(np.uint64), group)
    scores = np.linspace(0.4, 0, n, dtype=np.float32)
    core = np.zeros(n, np.uint8)
    shown = np.zeros(n)
    weights = weights_with(exploration_scale=0.5)
    for seed in range(turns):
        order, _, mean, sd, show, fate = learned.rank(
            keys, rows, scores, rows[:1], core, (1, 2, 20), now, seed, k, 1.0, weights
        )
        chosen = order[:k]
        shown[chosen[fate[chosen] == 0]] += 1
    assert show[1] < 1
    guarded = np.zeros(n, np.uint8)
    guarded[0] = 1
    exact = inclusion(mean.astype(float), sd.astype(float), show.astype(float), guarded, group, k)
    assert np.abs(exact - shown / turns).max() < 5 * 0.5 / np.sqrt(turns)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 12), st.integers(0, 13))
def test_probabilities_add_up_to_what_is_shown_and_grow_with_the_mean(seed: int, n: int, k: int) -> None:
    random = np.random.default_rng(seed)
    asked = columns(n, mean=random.normal(0, 1, n), sd=random.uniform(0.1, 1, n))
    exact = inclusion(**asked, k=k)
    assert exact.sum() == pytest.approx(min(n, k), abs=1e-6)
    better = asked["mean"].copy()
    better[0] += 0.5
    raised = inclusion(**{**asked, "mean": better}, k=k)
    assert raised[0] >= exact[0] - 1e-7
    assert (raised[1:] <= exact[1:] + 1e-7).all()


def test_certain_scores_are_shown_or_not_and_ties_go_to_the_first() -> None:
    exact = inclusion(**columns(5, mean=[1, 3, 2, 2, 0], sd=np.zeros(5)), k=2)
    assert exact.tolist() == [0, 1, 1, 0, 0]
    mixed = inclusion(**columns(3, mean=[0, 0, 5], sd=[0, 1, 0]), k=2)
    assert mixed == pytest.approx([0.5, 0.5, 1.0], abs=2e-3)


def test_a_guarded_one_is_shown_whenever_it_takes_part() -> None:
    asked = columns(4, mean=[-9, 0, 0, 0], guarded=[1, 0, 0, 0], show=[0.3, 1, 1, 1], sd=np.full(4, 0.5))
    exact = inclusion(**asked, k=2)
    assert exact[0] == pytest.approx(0.3)
    assert exact[1:] == pytest.approx([(2 - 0.3) / 3] * 3, abs=1e-6)


def test_exploration_shows_the_least_known_more_often() -> None:
    asked = columns(8, mean=np.linspace(1, 0, 8), sd=[0.1] * 7 + [0.9])
    usual, _ = inclusion_sampled(**asked, k=3, explore=0.0, seed=1, draws=20_000)
    explored, error = inclusion_sampled(**asked, k=3, explore=1.0, seed=1, draws=20_000)
    assert explored[7] > usual[7] + 10 * error[7]
    assert explored.sum() == pytest.approx(3)
    again, _ = inclusion_sampled(**asked, k=3, explore=1.0, seed=1, draws=20_000)
    assert again.tolist() == explored.tolist()


@each_row(
    ("column", "value", "message"),
    [
        ("mean", [0, np.nan], r"mean\[1\]: is nan"),
        ("sd", [-1, 0], r"sd\[0\]: is -1"),
        ("show", [0, 1.5], r"show\[1\]: is 1.5"),
        ("group", [0], "group: has 1 entries, must have 2"),
    ],
)
def test_what_cannot_be_is_refused(column: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inclusion(**columns(2, **{column: value}), k=1)
    with pytest.raises(ValueError, match=message):
        inclusion_sampled(**columns(2, **{column: value}), k=1, explore=0.0, seed=1, draws=9)


def test_no_draws_and_no_such_probability_are_refused() -> None:
    with pytest.raises(ValueError, match="draws"):
        inclusion_sampled(**columns(2), k=1, explore=0.0, seed=1, draws=0)
    with pytest.raises(ValueError, match="explore"):
        inclusion_sampled(**columns(2), k=1, explore=2.0, seed=1, draws=1)
