"""The change detector raises its alarm after as many failures as its definition says, hides, probes and lets back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slow_learned import DAY, T0, deltas
from toolroll._core import Learned, LearningRates

ARM = np.array([100], np.uint64)
SCOPES = (1, 2, 20)


def outcome(works: bool, at: float, reporter: int = 0, arm: int = 100, **more: Any) -> dict[str, Any]:
    return {
        "everywhere": 1,
        "page": 2,
        "leaf": 20,
        "arm": arm,
        "at": at,
        "successes": works,
        "failures": not works,
        "verdict": 1 if works else -1,
        "reporter": reporter,
        **more,
    }


def taught(outcomes: Any, rates: LearningRates | None = None, who: Any = None) -> Learned:
    rows = [outcome(works, T0 + 60 * at, 0 if who is None else who[at]) for at, works in enumerate(outcomes)]
    return Learned(0, rates or LearningRates()).fold(deltas(*rows))


def broken() -> Learned:
    """A tool that worked, up to the failure that opened its breaker."""
    learned, calls = taught([True] * 10), 0
    while not is_open(learned):
        learned, calls = learned.fold(deltas(outcome(False, T0 + DAY + 60 * calls))), calls + 1
    return learned


def is_open(learned: Learned) -> bool:
    return bool(learned.breakers(ARM, T0)[0][0] > 0)


def mean_of(learned: Learned, now: float) -> float:
    alpha, beta = learned.reliability(SCOPES, ARM, now)
    return float(alpha[0] / (alpha[0] + beta[0]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), max_size=60), st.sampled_from([0.5, 0.85, 0.95]), st.sampled_from([3.0, 6.0]))
def test_the_alarm_comes_when_the_cusum_of_the_definition_reaches_it(
    outcomes: list[bool], prior: float, nats: float
) -> None:
    """The oracle reads the mean that was believed before each outcome, and adds up log-likelihood ratios."""
    rates = LearningRates(prior_mean=prior, alarm_nats=nats, least_reporters=0)
    learned = Learned(0, rates)
    worse = better = 0.0
    for at, works in enumerate(outcomes):
        now = T0 + 60 * at
        p0 = min(max(mean_of(learned, now), 0.05), 0.97)
        p1 = rates.alarm_ratio * p0
        worse = max(0.0, worse + math.log(p1 / p0 if works else (1 - p1) / (1 - p0)))
        p1 = 1 - rates.alarm_ratio * (1 - p0)
        better = 0.0 if p0 >= 0.5 else max(0.0, better + math.log(p1 / p0 if works else (1 - p1) / (1 - p0)))
        learned = learned.fold(deltas(outcome(works, now)))
        arms, direction, when, opened = learned.alarms()
        expected = -1 if worse >= nats else 1 if better >= nats else 0
        assert direction.tolist() == ([expected] if expected else [])
        if expected:
            assert (arms[0], when[0], opened[0]) == (100, now, expected < 0)
            return


@pytest.mark.parametrize(("prior", "fails"), [(0.95, 3), (0.85, 4), (0.6, 9)])
def test_a_good_tool_is_hidden_after_so_many_failures_in_a_row(prior: float, fails: int) -> None:
    sure = {"prior_strength": 1e6, "page_spread": 1e6, "leaf_spread": 1e6}
    rates = LearningRates(prior_mean=prior, least_reporters=0, **sure)
    assert not is_open(taught([False] * (fails - 1), rates))
    assert is_open(taught([False] * fails, rates))


def test_a_well_known_tool_of_several_reporters_is_out_within_eight_calls_and_back_when_it_works() -> None:
    """The bar of the issue, at a reliability of 0.9: here of the calls themselves, without a selection."""
    random = np.random.default_rng(1)
    lost, back = [], []
    for _ in range(60):
        works = (random.random(80) < 0.9).tolist()
        who = random.integers(1, 200, 200).tolist()
        learned = taught(works, who=who)
        calls = 0
        while not is_open(learned) and calls < 50:
            learned = learned.fold(deltas(outcome(False, T0 + 60 * (100 + calls), who[100 + calls])))
            calls += 1
        lost.append(calls)
        learned = learned.fold(deltas(outcome(True, T0 + DAY, 5)))
        back.append(is_open(learned))
    assert np.median(lost) <= 8
    assert not any(back)


def test_after_an_alarm_the_old_record_counts_for_one_observation_and_the_run_for_itself() -> None:
    rates = LearningRates(least_reporters=0, prior_strength=2.0)
    learned = taught([True] * 50, rates)
    assert mean_of(learned, T0 + 3600) > 0.95
    calls = 0
    while not is_open(learned):
        calls += 1
        learned = learned.fold(deltas(outcome(False, T0 + 3600 + calls)))
    now = T0 + 3600 + calls
    alpha, beta = learned.reliability((1, 0, 0), ARM, now)
    assert alpha[0] == pytest.approx(2 * rates.prior_mean + 1, abs=0.1)
    assert beta[0] == pytest.approx(2 * (1 - rates.prior_mean) + calls, abs=0.2)


def test_two_reporters_do_not_hide_a_tool_and_a_third_one_does() -> None:
    known = taught([True] * 30)
    rows = [outcome(False, T0 + 3600 + n) for n in range(5)]
    assert is_open(known.fold(deltas(*rows)))
    for row in rows:
        row["reporter"] = 6
    alone = known.fold(deltas(*rows, *rows, *rows))
    assert not is_open(alone)
    second = [outcome(False, T0 + 3700 + n, 7) for n in range(5)]
    assert not is_open(known.fold(deltas(*rows, *second)))
    third = [outcome(False, T0 + 3800 + n, 8) for n in range(3)]
    assert is_open(known.fold(deltas(*rows, *second, *third)))


def test_an_open_breaker_hides_with_growing_back_off_and_one_success_closes_it() -> None:
    learned = broken()
    opened_at = learned.alarms()[2][0]
    shown = []
    for probe in range(6):
        now = opened_at + 10_000 * (probe + 1)
        learned = learned.fold(deltas(outcome(False, now)))
        k, show, since = (float(found[0]) for found in learned.breakers(ARM, now))
        assert since == opened_at
        assert k == min(4 + probe, LearningRates().most_k)
        assert show == pytest.approx(2.0**-k)
        half = LearningRates().open_half_s
        shown.append(float(learned.breakers(ARM, now + half)[1][0]))
        assert shown[-1] == pytest.approx(2.0 ** (-k / 2))
    assert shown == sorted(shown, reverse=True)
    now += 10
    closed = learned.fold(deltas(outcome(True, now)))
    assert closed.breakers(ARM, now)[0][0] == 0 and closed.breakers(ARM, now)[1][0] == 1
    assert closed.alarms()[1].tolist() == [1] and not closed.alarms()[3][0]
    assert mean_of(closed, now) > mean_of(learned, now)


def test_a_call_from_before_the_alarm_is_no_probe() -> None:
    learned = broken()
    before = learned.breakers(ARM, T0)
    opened_at = float(before[2][0])
    late = learned.fold(deltas(*[outcome(works, opened_at - 60) for works in (True, False, False)]))
    assert [float(part[0]) for part in late.breakers(ARM, T0)] == [float(part[0]) for part in before]


def test_a_tool_that_works_again_after_a_bad_time_is_noticed_too() -> None:
    rates = LearningRates(open_k=0.0, most_k=0.0, least_reporters=0)
    learned = taught([False] * 40, rates)
    now = T0 + DAY
    low = mean_of(learned, now)
    learned = learned.fold(deltas(*[outcome(True, now + n) for n in range(6)]))
    assert learned.alarms()[1].tolist() == [1]
    assert mean_of(learned, now + 10) > low + 0.4


def test_verdicts_of_0_tell_the_detector_nothing() -> None:
    rows = [outcome(False, T0 + n, verdict=0) for n in range(50)]
    assert len(Learned(0).fold(deltas(*rows)).alarms()[0]) == 0


def test_one_tools_outcomes_do_not_touch_anothers_breaker() -> None:
    learned = broken()
    fresh = [outcome(True, T0 + n, arm=101) for n in range(20)]
    fails = [outcome(False, T0 + DAY + n, arm=101) for n in range(9)]
    other = learned.fold(deltas(*fresh, *fails))
    assert [x[0] for x in other.breakers(ARM, T0 + DAY)] == [x[0] for x in learned.breakers(ARM, T0 + DAY)]
    assert other.alarms()[0].tolist() == [100, 101]
