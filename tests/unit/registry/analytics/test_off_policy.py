"""Off-policy estimates against logs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.table import each_row
from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics import off_policy
from toolroll.registry.analytics.off_policy import Log, interval, judge

GOLD = np.array([0.5, 0.15, 0.08, 0.06, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01, 0.01])  # P(right tool)
SHOWN = np.array([1, 1, 0.9, 0.6, 0.5, 0.4, 0.25, 0.15, 0.1, 0.07, 0.03, 0.0])  # P(shown)
NEAR = np.array([1, 1, 1, 1, 0.5, 0, 0, 0, 0.5, 0, 0, 0])  # what the target shows
SKILL = (8, 4)  # how well a session's user does: Beta, so its events depend on each other


def a_log(rng, events, sessions, target=NEAR):
    """One tool is right for each message; it is called where it is shown, and works as often as its user does."""
    tools = len(GOLD)
    session = rng.integers(0, sessions, events)
    works = rng.random(events) < rng.beta(*SKILL, sessions)[session]
    shown = rng.random((events, tools)) < SHOWN
    gold = np.searchsorted(np.cumsum(GOLD), rng.random(events), side="right").clip(max=tools - 1)
    reward = np.zeros((events, tools))
    row = np.arange(events)
    reward[row, gold] = shown[row, gold] & works
    return Log(
        np.repeat(row, tools),
        np.tile(SHOWN, events).astype(float),
        shown.ravel(),
        reward.ravel(),
        np.tile(target, events).astype(float),
        session,
        -np.tile(np.arange(tools), events).astype(float),
    )


def truth(target, can=SHOWN > 0):
    return SKILL[0] / sum(SKILL) * float((target * GOLD * can).sum())


@pytest.mark.slow
@each_row(("events", "sessions"), [(2_000, 400), (300, 60), (1_000, 25), (100, 100)])
def test_intervals_hold_the_truth_as_often_as_they_say_and_estimates_are_unbiased(events, sessions):
    rng = np.random.default_rng(events)
    runs = 250
    found = [judge(a_log(rng, events, sessions)) for _ in range(runs)]
    right = truth(NEAR)
    for name in ("ips", "clipped", "snips", "doubly_robust"):
        estimates = [getattr(judgement, name) for judgement in found]
        covered = np.mean([e.low <= right <= e.high for e in estimates])
        # 95 %, less 5 standard errors of 250 runs for 16 such figures: one false alarm in 100,000
        assert covered >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / runs), name
        values = np.array([e.value for e in estimates])
        assert abs(values.mean() - right) < 5 * values.std() / np.sqrt(runs), name
        gains = [e.gain_low <= right - truth(SHOWN) <= e.gain_high for e in estimates]
        assert np.mean(gains) >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / runs), name


def test_events_of_one_session_are_not_taken_for_independent():
    rng = np.random.default_rng(2)
    session = np.repeat(np.arange(40), 50)
    runs, alone, together = 300, 0, 0
    for _ in range(runs):
        values = (rng.random(2_000) < rng.beta(2, 2, 40)[session]).astype(float)
        mean, low, high = interval(values, session)
        assert mean == pytest.approx(values.mean())
        together += low <= 0.5 <= high
        _, low, high = interval(values, np.arange(2_000))
        alone += low <= 0.5 <= high
    assert together / runs > 0.95 - 5 * np.sqrt(0.95 * 0.05 / runs)
    assert alone / runs < 0.6


def test_skewed_values_are_covered_where_the_usual_interval_fails():
    rng = np.random.default_rng(3)
    runs, ours, usual = 1_000, 0, 0
    for _ in range(runs):
        values = np.where(rng.random(400) < 0.05, 8.0, 0.0) * (rng.random(400) < 0.7)
        mean, _, high = interval(values, np.arange(400))
        ours += high >= 0.28
        usual += mean + 1.96 * values.std(ddof=1) / 20 >= 0.28
    assert ours / runs > 0.975 - 5 * np.sqrt(0.975 * 0.025 / runs)  # one-sided: this is the side that fails
    assert usual < ours


def test_judging_the_log_itself_gives_what_it_reached_and_no_gain():
    log = a_log(np.random.default_rng(4), 500, 100)
    sure = replace(log, propensity=log.shown.astype(float), target=log.shown.astype(float))
    found = judge(sure)
    reached = log.reward.sum() / 500
    for estimate in (found.logged, found.ips, found.clipped, found.snips):
        assert estimate.value == pytest.approx(reached)
        assert estimate.gain == pytest.approx(0)
    assert (found.logged.gain_low, found.logged.gain_high) == (0, 0)
    assert found.ips.gain_low < 0 < found.ips.gain_high  # nothing differed, which may be chance
    assert found.overlap == 1 and found.unsupported == 0 and found.greatest_weight == 1
    assert found.is_supported


def test_what_the_log_could_never_show_is_counted_and_taken_for_no_success():
    target = np.where(np.arange(12) == 11, 1.0, NEAR)
    found = judge(a_log(np.random.default_rng(5), 20_000, 4_000, target))
    assert found.unsupported == pytest.approx(1 / 6)
    assert not found.is_supported
    assert found.ips.low <= truth(target) <= found.ips.high
    # the usual self-normalisation would claim the supported mean for all: 1 / (1 - 1/6) as much
    assert found.snips.low <= truth(target) <= found.snips.high
    assert found.snips.high < truth(target) * 1.1


def test_a_clipped_weight_is_steadier_and_too_low_by_what_was_cut():
    target = np.where(np.isin(np.arange(12), (0, 10)), 1.0, 0.0)  # shown in 3 % of events: weights of 33
    rng = np.random.default_rng(6)
    found = [judge(a_log(rng, 1_000, 1_000, target), clip=5) for _ in range(200)]
    whole = np.array([judgement.ips.value for judgement in found])
    clipped = np.array([judgement.clipped.value for judgement in found])
    assert clipped.std() < whole.std()
    cut = truth(np.where(np.arange(12) == 10, 1.0, 0.0)) * (1 - 5 * 0.03)
    assert whole.mean() - clipped.mean() == pytest.approx(cut, abs=5 * whole.std() / np.sqrt(200))
    assert found[0].rare == pytest.approx(0.5)
    assert found[0].greatest_weight == pytest.approx(1 / 0.03)


def test_a_model_of_the_outcome_is_put_right_where_it_is_wrong():
    rng = np.random.default_rng(7)
    log = a_log(rng, 4_000, 4_000)
    wrong = replace(log, fit=rng.random(len(log.event)))  # says nothing
    found = judge(wrong).doubly_robust
    assert found is not None and found.low <= truth(NEAR) <= found.high
    assert judge(replace(log, fit=None)).doubly_robust is None


def test_where_nothing_ever_worked_the_interval_says_how_rare_success_may_be():
    log = a_log(np.random.default_rng(8), 100, 100)
    found = judge(replace(log, reward=np.zeros_like(log.reward)))
    assert found.ips.value == 0 and found.ips.low == 0
    assert found.ips.high == pytest.approx(1 - 0.025 ** (1 / found.sessions))  # 3.7 sessions


def test_one_session_says_nothing_of_how_others_differ():
    log = a_log(np.random.default_rng(9), 50, 50)
    found = judge(replace(log, session=np.zeros(50, np.int64)))
    assert (found.ips.low, found.ips.high) == (0, 1)


@each_row("freedom", [4, 5, 9, 20, 100, 10_000])
def test_the_quantile_is_students(freedom):
    assert off_policy._student(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


@each_row(
    ("changes", "said"),
    [
        ({"propensity": np.full(12, 1.5)}, "propensity must be in"),
        ({"propensity": np.full(12, np.nan)}, "propensity must be in"),
        ({"target": np.full(12, -0.1)}, "target must be in"),
        ({"target": np.ones(3)}, "target has shape"),
        ({"fit": np.full(12, np.inf)}, "fit must be finite"),
        ({"event": np.full(12, 1)}, "event must be from 0 to 0"),
        ({"propensity": np.zeros(12)}, "a tool with propensity 0 was shown"),
        ({"shown": np.zeros(12, bool), "reward": np.ones(12)}, "was not shown has a reward"),
    ],
)
def test_a_log_that_cannot_be_is_refused(changes, said):
    log = a_log(np.random.default_rng(10), 1, 1)
    with pytest.raises(InvalidInput, match=said):
        replace(log, **changes)


def test_an_empty_log_is_refused():
    none = np.zeros(0)
    log = Log(none.astype(int), none, none.astype(bool), none, none, none.astype(int))
    with pytest.raises(InvalidInput, match="no event"):
        judge(log)
    with pytest.raises(InvalidInput, match="clip"):
        judge(a_log(np.random.default_rng(1), 5, 5), clip=0.5)
