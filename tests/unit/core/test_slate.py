"""Candidates are ranked by retrieval plus what was learnt, one draw each, and the slate is picked from that.

Statistical tests have fixed seeds; each p-value is compared with ALARM, so that all of them together alarm
for a sound draw with probability below 1e-3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from tests.ranking_weights import weights_with
from tests.slow_learned import DAY, T0, deltas, random_deltas
from toolroll._core import Learned, LearningRates, ToolKeys, Weights

ALARM = 1e-5
RATES = LearningRates(least_reporters=0)
SCOPES = (1, 2, 20)
NOW = T0 + 61 * DAY
SEEDS = st.integers(0, 2**64 - 1)
NOTHING = weights_with(exploration_scale=0.0, protected_leaders=0, reliability_in_order=0.0)
RANKED, HIDDEN, BEATEN = range(3)


def keys_of(n: int, groups: dict[int, int] | None = None) -> ToolKeys:
    group = np.zeros(n, np.uint64)
    for row, key in (groups or {}).items():
        group[row] = key
    rows = np.arange(n, dtype=np.uint64)
    return ToolKeys(100 + rows, 200 + rows, group)


def rank(
    learned: Learned,
    keys: ToolKeys,
    scores: Any,
    k: int = 3,
    rows: Any = None,
    raw_best: Any = (),
    core: Any = (),
    seed: int = 1,
    temperature: float = 1.0,
    weights: Weights = NOTHING,
    now: float = NOW,
) -> Any:
    rows = np.arange(len(scores)) if rows is None else rows
    flags = np.zeros(len(scores), np.uint8)
    flags[list(core)] = 1
    return learned.rank(
        keys,
        np.array(rows, np.int32),
        np.array(scores, np.float32),
        np.array(raw_best, np.int32),
        flags,
        SCOPES,
        now,
        seed,
        k,
        temperature,
        weights,
    )


def works(arm: int, successes: float, failures: float, **more: Any) -> dict[str, Any]:
    where = {"everywhere": 1, "page": 2, "leaf": 20, "at": NOW}
    return {**where, "arm": arm, "intent": arm + 100, "successes": successes, "failures": failures, **more}


def hidden(arm: int) -> Any:
    """Verdicts that open the breaker of an arm."""
    good = [works(arm, 1, 0, verdict=1, at=NOW - DAY + n) for n in range(20)]
    return [*good, *(works(arm, 0, 1, verdict=-1, at=NOW - 100 + n) for n in range(9))]


# The order.


@given(st.lists(st.floats(-5, 5, width=32), max_size=40), st.integers(0, 9), SEEDS)
def test_of_nothing_learnt_comes_retrievals_own_order(scores: list[float], k: int, seed: int) -> None:
    order, drawn, mean, sd, show, fate = rank(
        Learned(), keys_of(50), scores, k, seed=seed, weights=weights_with()
    )
    assert order.tolist() == sorted(range(len(scores)), key=lambda at: (-np.float32(scores[at]), at))
    assert drawn.tolist() == mean.tolist() == np.array(scores, np.float32).tolist()
    assert not sd.any() and (show == 1).all() and not fate.any()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), SEEDS, st.floats(0.1, 3), st.floats(0, 2), st.floats(0, 2), st.floats(0, 1))
def test_scores_are_the_sums_of_the_definition(
    world: int, seed: int, temperature: float, wr: float, wl: float, exploration_scale: float
) -> None:
    learned = Learned(0, RATES).fold(random_deltas(world, 60))
    weights = weights_with(
        reliability=wr,
        lift=wl,
        exploration_scale=exploration_scale,
        sd_max=1.5,
        most_up=0.6,
        most_down=0.9,
        protected_leaders=0,
    )
    scores = np.linspace(1, -1, 8, dtype=np.float32)
    _, drawn, mean, sd, _, _ = rank(
        learned, keys_of(8), scores, seed=seed, temperature=temperature, weights=weights
    )

    def moments(of: Learned) -> tuple[Any, Any, Any, Any]:
        arms, subjects, none = (np.arange(n, n + 8, dtype=np.uint64) for n in (100, 200, 0))
        alpha, beta = of.reliability(SCOPES, arms, NOW)
        shape, rate = of.lift(SCOPES, subjects, none * np.uint64(0), NOW)
        works = wr * (special.digamma(alpha) - special.digamma(alpha + beta))
        spread = wr**2 * (special.polygamma(1, alpha) - special.polygamma(1, alpha + beta))
        called = wl * (special.digamma(shape) - np.log(rate))
        return works, called, alpha / (alpha + beta), spread + wl**2 * special.polygamma(1, shape)

    (works, called, mean_of, variance), prior = moments(learned), moments(Learned(0, RATES))
    lifted = called - prior[1]
    lifted = np.where(lifted > 0, lifted * np.minimum(mean_of / prior[2], 1), lifted)
    learnt = np.clip(works - prior[0] + lifted, -0.9, 0.6)
    learnt = np.where(learnt > 0, learnt * np.clip(scores / scores.max(), 0, 1), learnt)
    expected = scores + temperature * learnt
    np.testing.assert_allclose(mean, expected, atol=2e-6)
    deviation = temperature * exploration_scale * np.minimum(np.sqrt(variance), 1.5)
    np.testing.assert_allclose(sd, deviation, rtol=1e-6, atol=1e-30)
    assert np.abs(drawn - mean).max() <= 9 * deviation.max() + 1e-6


def test_a_tool_that_works_rises_and_one_that_fails_sinks_as_far_as_it_may() -> None:
    taught = Learned(0, RATES).fold(deltas(works(100, 0, 400), works(102, 400, 0, calls=400, expected=1)))
    order, _, mean, *_ = rank(taught, keys_of(3), [3.0, 2.0, 1.0], weights=NOTHING)
    assert order.tolist() == [2, 1, 0]
    bounded = weights_with(
        exploration_scale=0.0, protected_leaders=0, reliability_in_order=0.0, most_up=0.5, most_down=0.5
    )
    order, _, mean, *_ = rank(taught, keys_of(3), [3.0, 2.0, 1.0], weights=bounded)
    assert order.tolist() == [0, 1, 2] and mean.tolist() == pytest.approx([2.5, 2.0, 1 + 0.5 / 3])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 99),
    SEEDS,
    st.permutations(range(12)),
    st.integers(1, 12),
)
def test_a_tools_draw_does_not_depend_on_its_neighbours(
    world: int, seed: int, permuted: list[int], kept: int
) -> None:
    learned = Learned(0, RATES).fold(random_deltas(world, 40))
    weights = weights_with(protected_leaders=0)
    scores = np.ones(12, np.float32)  # what is learnt counts by how near a tool is to the best one
    _, all_drawn, *_ = rank(learned, keys_of(12), scores, seed=seed, weights=weights)
    chosen = permuted[:kept]
    _, drawn, *_ = rank(learned, keys_of(12), scores[chosen], rows=chosen, seed=seed, weights=weights)
    assert drawn.tolist() == all_drawn[chosen].tolist()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), SEEDS, st.floats(0, 2))
def test_a_better_score_never_takes_a_tool_out_of_the_slate(world: int, seed: int, more: float) -> None:
    learned = Learned(0, RATES).fold(random_deltas(world, 40))
    scores = np.linspace(1, 0, 12, dtype=np.float32)
    shown = set(
        rank(learned, keys_of(12), scores, 4, seed=seed, weights=weights_with(protected_leaders=0))[0][
            :4
        ].tolist()
    )
    for row in shown:
        raised = scores.copy()
        raised[row] += np.float32(more)
        assert (
            row
            in rank(learned, keys_of(12), raised, 4, seed=seed, weights=weights_with(protected_leaders=0))[0][
                :4
            ]
        )


# The draw.


def many(n: int, successes: float, failures: float, calls: float, expected: float) -> Learned:
    rows = np.zeros(n, deltas().dtype)
    rows["at"], rows["vector"], rows["everywhere"] = NOW, -1, 1
    rows["arm"] = 100 + np.arange(n)
    rows["intent"] = 200 + np.arange(n)
    for name, value in zip(
        ("successes", "failures", "calls", "expected"), (successes, failures, calls, expected), strict=True
    ):
        rows[name] = value
    rates = LearningRates(least_reporters=0, prior_strength=1e-3, lift_strength=1e-3, page_spread=1e12, leaf_spread=1e12, lift_page_spread=1e12, lift_leaf_spread=1e12)  # fmt: skip
    return Learned(0, rates).fold(rows)


GRID = [0.05, 0.4, 1.0, 2.5, 30.0, 1e3, 1e6]


def everywhere(learned: Learned, n: int, weights: Weights) -> Any:
    rows = np.arange(n, dtype=np.int32)
    zeros = np.zeros(n, np.float32)
    return learned.rank(
        keys_of(n), rows, zeros, rows[:0], zeros.astype(np.uint8), (1, 0, 0), NOW, 11, 7, 1.0, weights
    )


@pytest.mark.parametrize("first", GRID)
@pytest.mark.parametrize("second", [0.05, 3.0, 1e6])
def test_draws_have_the_moments_of_the_logarithm(first: float, second: float) -> None:
    """Kolmogorov-Smirnov of 20,000 tools' draws, and their mean and deviation against SciPy's."""
    n = 20_000
    learned = many(n, first, second, first, second)
    bounds: dict[str, Any] = {
        "sd_max": 1000.0,
        "most_up": 1000.0,
        "most_down": 1000.0,
        "exploration_scale": 1.0,
        "protected_leaders": 0,
    }
    _, drawn, mean, sd, _, _ = everywhere(learned, n, weights_with(reliability=1.0, lift=0.0, **bounds))
    alpha, beta = (float(part[0]) for part in learned.reliability((1, 0, 0), np.array([100], np.uint64), NOW))
    variance = special.polygamma(1, alpha) - special.polygamma(1, alpha + beta)
    assert sd[0] == pytest.approx(np.sqrt(variance), rel=1e-4)
    if sd[0] > 1e-3 * abs(mean[0]):  # columns are float32: a smaller deviation is not resolved
        assert stats.kstest((drawn - mean) / sd, "norm").pvalue > ALARM
    assert drawn.mean() == pytest.approx(mean[0], abs=5 * sd[0] / np.sqrt(n) + 1e-5)
    _, drawn, mean, sd, _, _ = everywhere(learned, n, weights_with(reliability=0.0, lift=1.0, **bounds))
    shape = float(learned.lift((1, 0, 0), np.array([200], np.uint64), np.array([0], np.uint64), NOW)[0][0])
    assert sd[0] == pytest.approx(np.sqrt(special.polygamma(1, shape)), rel=1e-4)
    assert stats.kstest((drawn - mean) / sd, "norm").pvalue > ALARM


def test_two_tools_draws_and_two_seeds_draws_are_not_correlated() -> None:
    learned = many(20_000, 3, 2, 3, 2)
    _, drawn, mean, sd, _, _ = everywhere(learned, 20_000, weights_with(protected_leaders=0))
    z = (drawn - mean) / sd
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 5 / np.sqrt(20_000)
    one = [
        rank(learned, keys_of(1), [0.0], seed=s, weights=weights_with(protected_leaders=0))[1][0]
        for s in range(4000)
    ]
    assert stats.kstest((np.array(one) - mean[0]) / np.std(one), "norm").pvalue > ALARM


# Who is shown.


def test_retrievals_best_stays_whatever_was_learnt() -> None:
    learned = Learned(0, RATES).fold(deltas(*[works(100 + n, 0, 400) for n in (0, 1)]))
    scores = [1.0, 0.9, 0.8, 0.7, 0.6]
    assert rank(learned, keys_of(5), scores, 3)[0].tolist()[:3] == [2, 3, 4]
    guarded = weights_with(exploration_scale=0.0, protected_leaders=1)
    assert set(rank(learned, keys_of(5), scores, 3, raw_best=[0, 1], weights=guarded)[0][:3]) == {2, 3, 0}
    guarded = weights_with(exploration_scale=0.0, protected_leaders=2)
    assert set(rank(learned, keys_of(5), scores, 3, raw_best=[0, 1], weights=guarded)[0][:3]) == {2, 0, 1}
    assert rank(learned, keys_of(5), scores, 1, raw_best=[0, 1], weights=guarded)[0][0] == 0


def test_core_tools_are_shown_beside_the_k_best() -> None:
    order, *_ = rank(Learned(), keys_of(6), [6, 5, 4, 3, 2, 1], 2, core=[4])
    assert order.tolist() == [0, 1, 4, 2, 3, 5]


def test_an_open_breaker_hides_a_tool_but_for_probes_even_a_guarded_one() -> None:
    learned = Learned(0, RATES).fold(deltas(*hidden(100)))
    weights = weights_with(exploration_scale=0.0, protected_leaders=1)
    fates, firsts = [], []
    for seed in range(4000):
        order, *_, show, fate = rank(
            learned, keys_of(4), [4, 3, 2, 1], 2, raw_best=[0], weights=weights, seed=seed
        )
        fates.append(fate[0])
        firsts.append(0 in order[:2])
        assert (order[-1] == 0) == (fate[0] == HIDDEN)
    probability = float(show[0])
    k = RATES.most_k * 0.5 ** (92 / RATES.open_half_s)  # the last of the nine failures is 92 s old
    assert probability == pytest.approx(2.0**-k)
    probes = fates.count(RANKED)
    assert abs(probes - 4000 * probability) < 5 * np.sqrt(4000 * probability * (1 - probability))
    assert firsts == [fate == RANKED for fate in fates]
    assert rank(learned, keys_of(4), [4, 3, 2, 1], 2, core=[0])[-1].tolist() == [0, 0, 0, 0]


def test_of_a_group_the_best_member_competes_with_the_best_members_fit() -> None:
    groups = {1: 9, 3: 9, 4: 9}
    learned = Learned(0, RATES).fold(deltas(works(101, 1, 9), works(103, 9, 1), works(104, 8, 2)))
    order, _, mean, *_, fate = rank(learned, keys_of(5, groups), [5.0, 4.0, 3.0, 2.0, 1.0], 2)
    assert fate.tolist() == [RANKED, BEATEN, RANKED, RANKED, BEATEN]
    assert order.tolist()[:3] == [0, 3, 2]
    assert mean[3] > mean[4] > mean[1] and mean[3] > 3.5


def test_a_group_whose_guarded_member_lost_is_guarded_itself() -> None:
    groups = {0: 9, 3: 9}
    learned = Learned(0, RATES).fold(
        deltas(works(100, 0, 400), works(103, 5, 5), works(101, 9, 0), works(102, 9, 0))
    )
    weights = weights_with(exploration_scale=0.0, protected_leaders=1, most_down=8.0)
    order, *_, fate = rank(learned, keys_of(4, groups), [1, 1, 1, 0], 2, raw_best=[0], weights=weights)
    assert fate.tolist() == [BEATEN, RANKED, RANKED, RANKED]
    assert 3 in order[:2]


def test_the_last_place_goes_to_the_least_known_within_reach_as_often_as_asked() -> None:
    known = [works(100 + n, 500, 100, calls=500, expected=500) for n in range(6) if n != 4]
    learned = Learned(0, RATES).fold(deltas(*known))
    scores = np.zeros(6)
    scores[4] = -0.3
    weights = weights_with(explore=0.25, protected_leaders=0)
    explored = sum(
        4 in rank(learned, keys_of(6), scores, 2, seed=seed, weights=weights)[0][:2] for seed in range(4000)
    )
    usual = sum(
        4 in rank(learned, keys_of(6), scores, 2, seed=seed, weights=weights_with(protected_leaders=0))[0][:2]
        for seed in range(4000)
    )
    expected = usual + 0.25 * (4000 - usual)
    assert abs(explored - expected) < 6 * np.sqrt(4000) / 2
    far = scores - np.array([0, 0, 0, 0, 50, 0])
    assert not any(
        4 in rank(learned, keys_of(6), far, 2, seed=seed, weights=weights)[0][:2] for seed in range(200)
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), SEEDS, st.integers(0, 14), st.data())
def test_every_candidate_is_in_the_order_once_and_the_rules_hold(
    world: int, seed: int, k: int, data: st.DataObject
) -> None:
    n = data.draw(st.integers(0, 12))
    groups = {row: 9 for row in range(n) if data.draw(st.booleans())}
    core = [row for row in range(n) if data.draw(st.integers(0, 4)) == 0]
    learned = Learned(0, RATES).fold(random_deltas(world, 60)).fold(deltas(*hidden(101)))
    weights = weights_with(explore=0.5, protected_leaders=2, reliability_in_order=0.0)
    scores = np.linspace(2, 0, n, dtype=np.float32)
    order, drawn, *_, fate = rank(
        learned, keys_of(12, groups), scores, k, raw_best=[0, 1][:n], core=core, seed=seed, weights=weights
    )
    assert sorted(order.tolist()) == list(range(n))
    free = [row for row in range(n) if fate[row] == RANKED and row not in core]
    shown = order[: len(core) + min(k, len(free))].tolist()
    assert set(core) <= set(shown) and all(fate[row] == RANKED for row in shown)
    assert [drawn[row] for row in shown] == sorted((drawn[row] for row in shown), reverse=True)
    rest = [row for row in order[len(shown) :] if fate[row] == RANKED]
    assert [drawn[row] for row in rest] == sorted((drawn[row] for row in rest), reverse=True)
    assert sum(fate[row] == RANKED for row in groups if row not in core) <= 1


# Keys.


def test_stacked_keys_are_those_of_both_parts_end_to_end() -> None:
    rows = np.arange(9, dtype=np.uint64)
    group = np.array([0, 5, 0, 5, 0, 0, 5, 0, 7], np.uint64)
    whole = ToolKeys(100 + rows, 200 + rows, group)
    parts = [ToolKeys(100 + rows[a:b], 200 + rows[a:b], group[a:b]) for a, b in ((0, 4), (4, 9))]
    stacked = ToolKeys.stacked(*parts)
    learned = Learned(0, RATES).fold(random_deltas(3, 80))
    assert stacked.size == 9
    ask = np.linspace(1, 0, 9)
    for one, other in zip(rank(learned, whole, ask), rank(learned, stacked, ask), strict=True):
        assert one.tolist() == other.tolist()


# Misuse.


def test_what_cannot_be_ranked_is_refused() -> None:
    keys, learned = keys_of(3), Learned()
    with pytest.raises(ValueError, match=r"rows\[1\]: is 3"):
        rank(learned, keys, [1, 1], rows=[0, 3])
    with pytest.raises(ValueError, match=r"rows\[0\]: is -1"):
        rank(learned, keys, [1], rows=[-1])
    with pytest.raises(ValueError, match=r"scores\[0\]: is nan"):
        rank(learned, keys, [np.nan])
    with pytest.raises(ValueError, match="scores: has 1 entries"):
        rank(learned, keys, [1.0], rows=[0, 1])
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature: is"):
            rank(learned, keys, [1.0], temperature=temperature)
    with pytest.raises(ValueError, match="now: is"):
        rank(learned, keys, [1.0], now=np.nan)
    with pytest.raises(ValueError, match="as many of each"):
        ToolKeys(*(np.zeros(n, np.uint64) for n in (1, 2, 1)))
    with pytest.raises(ValueError, match="stacked itself"):
        ToolKeys.stacked(ToolKeys.stacked(keys, keys), keys)


@pytest.mark.parametrize(
    "weight",
    [
        {"exploration_scale": -1.0},
        {"explore": 1.5},
        {"most_up": float("nan")},
        {"sd_max": float("inf")},
    ],
)
def test_a_weight_out_of_its_range_is_refused(weight: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(weight))}: is"):
        weights_with(**weight)
