"""Off-policy estimates where the log is a Thompson-sampled slate, with the propensities of the core."""

from __future__ import annotations

import numpy as np
import pytest

from toolroll import _core
from toolroll.registry.analytics.off_policy import Log, judge

TOOLS, K, EVENTS = 24, 6, 300


def a_world(seed, temper):
    """Events of a sampler that has learnt something, with what static and greedy selection would reach."""
    rng = np.random.default_rng(seed)
    base = np.sort(rng.exponential(2.0, (EVENTS, TOOLS)), axis=1)  # nats below the best: the similarity
    similarity = -(base - base[:, :1])
    lift = rng.normal(0, 1.2, (EVENTS, TOOLS))  # what is true of them beside it
    chance = np.exp(similarity + lift)
    chance /= chance.sum(1, keepdims=True)
    works = rng.beta(8, 2, (EVENTS, TOOLS))
    mean = similarity + 0.7 * lift + rng.normal(0, 0.4, (EVENTS, TOOLS))
    sd = temper * rng.uniform(0.4, 2.0, (EVENTS, TOOLS))
    show = np.where(rng.random((EVENTS, TOOLS)) < 0.02, 0.5, 1.0)
    guarded = np.zeros(TOOLS, np.uint8)
    guarded[0] = 1
    alone = np.zeros(TOOLS, np.uint64)
    propensity = np.stack(
        [_core.inclusion(mean[at], sd[at], show[at], guarded, alone, K) for at in range(EVENTS)]
    )
    drawn = mean + sd * rng.normal(size=mean.shape)
    drawn[rng.random(drawn.shape) >= show] = -np.inf  # hidden
    is_guard_there = np.isfinite(drawn[:, 0])
    drawn[is_guard_there, 0] = np.inf
    row = np.arange(EVENTS)[:, None]
    shown = np.zeros(mean.shape, bool)
    shown[row, np.argsort(-drawn, axis=1)[:, :K]] = True
    reward = shown * chance * works  # as expected: all that is left to chance is what was shown
    here = np.arange(EVENTS)
    found = {}
    for name, by in (("static", similarity), ("greedy", mean)):
        target = np.zeros(mean.shape)
        target[row, np.argsort(-by, axis=1)[:, :K]] = 1
        truth = float((chance * works * target).sum(1).mean())
        log = Log(
            np.repeat(here, TOOLS),
            np.where(shown, np.maximum(propensity, 1e-9), propensity).ravel(),
            shown.ravel(),
            reward.ravel(),
            target.ravel(),
            here,
            similarity.ravel(),
        )
        found[name] = (truth, judge(log))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("temper", [0.25, 1.0])
def test_what_other_selections_would_have_reached_is_told_without_bias(temper):
    worlds = [a_world(seed, temper) for seed in range(4)]
    for name in ("static", "greedy"):
        for estimator in ("ips", "doubly_robust"):
            found = [(truth, getattr(judgement, estimator)) for truth, judgement in (w[name] for w in worlds)]
            errors = np.array([estimate.value - truth for truth, estimate in found])
            error = np.mean([estimate.high - estimate.low for _, estimate in found]) / 3.92  # standard errors
            assert abs(errors.mean()) <= 4 * error / np.sqrt(len(worlds)), (name, estimator)
            assert name == "static" or abs(errors.mean()) <= 0.01, estimator
            assert sum(estimate.low <= truth <= estimate.high for truth, estimate in found) >= 3
        logged = [world[name][1].logged.value - world[name][0] for world in worlds]
        assert name == "greedy" or np.mean(logged) > 0.05  # what the log itself reached says little of static


def test_propensities_of_the_core_are_how_often_a_tool_is_shown():
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(0, 1, TOOLS), rng.uniform(0.2, 1, TOOLS)
    ones, none = np.ones(TOOLS), np.zeros(TOOLS)
    found = _core.inclusion(mean, sd, ones, none.astype(np.uint8), none.astype(np.uint64), K)
    draws = mean + sd * rng.normal(size=(20_000, TOOLS))
    seen = np.bincount(np.argsort(-draws, axis=1)[:, :K].ravel(), minlength=TOOLS) / 20_000
    assert found.sum() == pytest.approx(K, abs=1e-3)
    assert np.abs(found - seen).max() < 5 * 0.5 / np.sqrt(20_000)
