"""What is learnt is a sum with decay, the same in any order, and read as a hierarchy of posteriors.

The oracle, `Slow`, keeps every outcome and makes every sum anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slow_learned import DAY, T0, Slow, deltas, random_deltas
from tests.table import each_row
from toolroll._core import DELTA, Learned, LearningRates
from toolroll.learning import effects

RATES = LearningRates(least_reporters=0)
SEEDS = st.integers(0, 2**32 - 1)
CONTEXTS = [(1, page, 10 * page + kind) for page in (2, 3, 4) for kind in (0, 1)] + [(1, 9, 99)]


def column(*keys: int) -> Any:
    return np.array(keys, np.uint64)


def shapes(found: Any) -> list[tuple[float, float]]:
    return list(zip(*(part.tolist() for part in found), strict=True))


def assert_equal(fast: Learned, slow: Slow, now: float, rtol: float = 1e-9) -> None:
    arms = column(*range(100, 107))
    subjects, none = column(*range(200, 207), 300), np.zeros(8, np.uint64)
    for scopes in CONTEXTS:
        found = shapes(fast.reliability(scopes, arms, now))
        expected = [slow.reliability(scopes, int(arm), now) for arm in arms]
        np.testing.assert_allclose(found, expected, rtol)
        found = shapes(fast.lift(scopes, subjects, none, now))
        expected = [slow.lift(scopes, int(subject), now) for subject in subjects]
        np.testing.assert_allclose(found, expected, rtol)
    np.testing.assert_allclose(shapes(fast.plain(7, arms)), [slow.plain(7, int(arm)) for arm in arms], rtol)


# What is known.


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(0, 40), st.sampled_from([0, 1, 3, 5]), st.floats(0, 90))
def test_posteriors_are_those_of_sums_made_anew(seed: int, n: int, least: int, days: float) -> None:
    rates = LearningRates(least_reporters=least)
    found = random_deltas(seed, n)
    now = T0 + (60 + days) * DAY
    assert_equal(Learned(0, rates).fold(found), Slow(rates).fold(found), now)


def cells_of(learned: Learned) -> Any:
    return np.array(sorted(learned.rows(Learned())[0]), float)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 60), st.data())
def test_order_and_batches_change_nothing_but_rounding(seed: int, n: int, data: st.DataObject) -> None:
    found = random_deltas(seed, n)
    shuffled = found[data.draw(st.permutations(range(n)))]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    pieces = Learned(0, RATES)
    for begin, end in zip([0, *cuts], [*cuts, n], strict=True):
        pieces = pieces.fold(shuffled[begin:end])
    whole = Learned(0, RATES).fold(found)
    assert (pieces.revision, pieces.size) == (whole.revision, whole.size) == (n, len(cells_of(whole)))
    np.testing.assert_allclose(cells_of(pieces), cells_of(whole), 1e-9, 1e-12)


def test_a_half_life_halves_and_an_outcome_from_before_counts_as_much_as_if_it_had_come_first() -> None:
    scopes, arms = (1, 0, 0), column(100)
    now = T0 + 14 * DAY
    one = {"everywhere": 1, "arm": 100, "successes": 8}
    learned = Learned(0, RATES).fold(deltas(one))
    prior = Learned(0, RATES).reliability(scopes, arms, now)
    assert learned.reliability(scopes, arms, T0)[0] - prior[0] == pytest.approx(8)
    assert learned.reliability(scopes, arms, now)[0] - prior[0] == pytest.approx(4)
    late = Learned(0, RATES).fold(deltas({**one, "at": now})).fold(deltas(one))
    early = learned.fold(deltas({**one, "at": now}))
    assert late.reliability(scopes, arms, now)[0][0] == pytest.approx(
        early.reliability(scopes, arms, now)[0][0]
    )


def test_a_time_before_the_last_outcome_reads_what_the_last_outcome_left() -> None:
    learned = Learned(0, RATES).fold(deltas({"everywhere": 1, "arm": 100, "successes": 3}))
    at_the_time, before = (learned.reliability((1, 0, 0), column(100), T0 - d) for d in (0, 99 * DAY))
    assert shapes(at_the_time) == shapes(before)


def test_what_is_taken_back_leaves_nothing() -> None:
    found = random_deltas(5, 40)
    back = found.copy()
    for name in ("successes", "failures", "calls", "expected"):
        back[name] = -back[name]
    learned = Learned(0, RATES).fold(found).fold(back)
    nothing = Learned(0, RATES)
    arms, now = column(*range(100, 106)), T0 + 61 * DAY
    for scopes in CONTEXTS:
        np.testing.assert_allclose(
            shapes(learned.reliability(scopes, arms, now)),
            shapes(nothing.reliability(scopes, arms, now)),
            1e-9,
        )


def test_a_group_learns_lift_together_and_reliability_apart() -> None:
    scopes = (1, 2, 20)
    where = dict(zip(("everywhere", "page", "leaf"), scopes, strict=True))
    learned = Learned(0, RATES).fold(
        deltas(
            {**where, "arm": 100, "intent": 200, "group": 300, "successes": 1, "calls": 1, "expected": 0.2}
        )
    )
    alone, ours, other = learned.lift(scopes, column(200, 200, 999), column(0, 300, 300), T0)[0].tolist()
    assert alone < ours == other
    assert learned.reliability(scopes, column(100, 101), T0)[0].tolist()[0] > 2.0


def test_contexts_that_do_not_exist_are_left_out() -> None:
    learned = Learned(0, RATES).fold(deltas({"everywhere": 1, "arm": 100, "failures": 5}))
    assert learned.size == 1
    known, strength = RATES.prior_mean * RATES.prior_strength, RATES.prior_strength
    assert shapes(learned.reliability((1, 0, 0), column(100), T0)) == [
        pytest.approx((known, strength - known + 5))
    ]


# Who says so.


def test_too_few_reporters_move_nothing_and_the_application_is_enough() -> None:
    one = {"everywhere": 1, "arm": 100, "intent": 200, "successes": 5, "calls": 5, "expected": 1}
    nothing = Learned(0, LearningRates(least_reporters=3))
    before = shapes(nothing.reliability((1, 0, 0), column(100), T0))
    two = nothing.fold(deltas({**one, "reporter": 4}, {**one, "reporter": 5}, {**one, "reporter": 4}))
    assert shapes(two.reliability((1, 0, 0), column(100), T0)) == before
    three = two.fold(deltas({**one, "reporter": 6}))
    assert shapes(three.reliability((1, 0, 0), column(100), T0))[0][0] == pytest.approx(before[0][0] + 20)
    assert shapes(nothing.fold(deltas(one)).reliability((1, 0, 0), column(100), T0)) != before


def test_a_tool_sinks_below_its_prior_once_four_have_reported_failures() -> None:
    one = {"everywhere": 1, "arm": 100, "failures": 9, "verdict": -1}
    prior = shapes(Learned(0).reliability((1, 0, 0), column(100), T0))
    three = Learned(0).fold(deltas(*[{**one, "reporter": number} for number in (1, 2, 3, 2, 1)]))
    assert shapes(three.reliability((1, 0, 0), column(100), T0)) == prior
    four = three.fold(deltas({**one, "failures": 0, "reporter": 4}))  # beyond its quota
    assert shapes(four.reliability((1, 0, 0), column(100), T0))[0][1] == pytest.approx(prior[0][1] + 45)
    works = {**one, "failures": 0, "successes": 600, "verdict": 0, "reporter": 7}
    better = shapes(three.fold(deltas(works)).reliability((1, 0, 0), column(100), T0))
    assert better[0][0] == pytest.approx(prior[0][0] + 600)
    assert better[0][1] == pytest.approx(prior[0][1] + 45)


def test_calls_that_few_reported_do_not_lift_a_tool_that_many_saw() -> None:
    seen = [{"everywhere": 1, "intent": 200, "expected": 0.1, "reporter": n} for n in range(1, 9)]
    called = [{"everywhere": 1, "intent": 200, "calls": 3, "reporter": n} for n in (1, 2, 1, 2)]
    learned = Learned(0, LearningRates(least_reporters=3)).fold(deltas(*seen, *called))
    shape, rate = learned.lift((1, 0, 0), column(200), column(0), T0)
    assert shape[0] == pytest.approx(rate[0])
    shape, rate = learned.fold(deltas({**called[0], "reporter": 3})).lift(
        (1, 0, 0), column(200), column(0), T0
    )
    assert shape[0] > 4 * rate[0]


# Vectors.


def unit(*numbers: float) -> Any:
    return np.array(numbers, np.float32) / np.linalg.norm(numbers)


def test_a_learned_vector_is_the_direction_of_the_decayed_sum_of_directions() -> None:
    random = np.random.default_rng(3)
    vectors = random.normal(size=(5, 6)).astype(np.float32)
    at = T0 + np.array([0, 50, 20, 20, 40]) * DAY
    rows = [{"intent": 200, "vector": i, "pull": 1 + i, "at": at[i]} for i in range(5)]
    found = Learned(6, RATES).fold(deltas(*rows), vectors).vector(200, T0 + 60 * DAY)
    assert found is not None
    left = (1 + np.arange(5)) * 2.0 ** (-(T0 + 60 * DAY - at) / RATES.vector_half_s)
    total = (left[:, None] * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).sum(0)
    np.testing.assert_allclose(found[0], total / np.linalg.norm(total), atol=1e-6)
    assert found[1] == pytest.approx(left.sum())


def test_a_vector_taken_back_is_gone_and_one_of_zeros_was_never_there() -> None:
    pull = {"intent": 200, "vector": 0, "pull": 1.0}
    vectors = np.array([[0.3, 0.4, 0.1]], np.float32)
    learned = Learned(3, RATES).fold(deltas(pull), vectors)
    assert learned.vectors == 1
    back = learned.fold(deltas({**pull, "pull": -1.0}), vectors)
    assert back.vectors == 0 and back.vector(200) is None
    assert Learned(3, RATES).fold(deltas(pull), vectors * 0).vector(200) is None


def test_a_vector_counts_when_enough_have_reported_calls() -> None:
    vectors = np.eye(3, dtype=np.float32)
    rows = [{"intent": 200, "vector": i, "pull": 1.0, "calls": 1, "reporter": 1 + i} for i in range(3)]
    two = Learned(3, LearningRates(least_reporters=3)).fold(deltas(*rows[:2]), vectors)
    assert two.vectors == 0 and two.vector(200) is None
    three = two.fold(deltas(rows[2]), vectors)
    found = three.vector(200)
    assert found is not None and three.vectors == 1
    np.testing.assert_allclose(found[0], unit(1, 1, 1), atol=1e-6)


# A value.


def test_a_fold_leaves_what_it_came_from_as_it_was() -> None:
    old = Learned(4, RATES).fold(random_deltas(1, 50))
    before = old.to_bytes()
    old.fold(random_deltas(2, 50, vector=0, pull=1.0), np.ones((1, 4), np.float32))
    assert old.to_bytes() == before


def test_the_same_deltas_in_the_same_order_give_the_same_bytes() -> None:
    parts = [
        random_deltas(seed, 30, verdict=np.random.default_rng(seed).integers(-1, 2, 30)) for seed in range(9)
    ]
    one, other = Learned(0), Learned(0)
    for part in parts:
        one = one.fold(part)
    for part in (np.concatenate(parts[:4]), np.concatenate(parts[4:])):
        other = other.fold(part)
    assert one.to_bytes() == other.to_bytes()


def test_bytes_bring_everything_back_and_learning_goes_on_from_them() -> None:
    found = random_deltas(3, 200, vector=0, pull=1.0, verdict=-1)
    vectors = np.arange(1, 5, dtype=np.float32)[None]
    rates = LearningRates(least_reporters=1, alarm_nats=4.0)
    learned = Learned(4, rates).fold(found, vectors)
    back = Learned.from_bytes(learned.to_bytes())
    assert (back.dim, back.revision, back.size, back.vectors) == (4, 200, learned.size, learned.vectors)
    assert back.rates.alarm_nats == 4.0
    more = random_deltas(4, 50, verdict=1)
    assert back.fold(more).to_bytes() == learned.fold(more).to_bytes()


@each_row("damage", ["cut", "longer", "changed", "another kind"])
def test_damaged_bytes_are_refused(damage: str) -> None:
    archive = Learned(0, RATES).fold(random_deltas(3, 50)).to_bytes()
    damaged = {
        "cut": [archive[:n] for n in range(0, len(archive), 211)],
        "longer": [archive + b"\0"],
        "changed": [
            archive[:n] + bytes([archive[n] ^ 64]) + archive[n + 1 :] for n in range(0, len(archive), 97)
        ],
        "another kind": [b"", b"TOOLROLL" * 9],
    }[damage]
    for bytes_ in damaged:
        with pytest.raises(ValueError):
            Learned.from_bytes(bytes_)


# Misuse.

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no number": ({"successes": np.nan}, r"deltas\[1\].successes: is nan"),
    "infinite": ({"expected": np.inf}, r"deltas\[1\].expected: is inf"),
    "too much": ({"calls": 1e7}, "in -1e6..1e6"),
    "no time": ({"at": np.nan}, r"deltas\[1\].at"),
    "a vector that is not there": ({"vector": 1, "pull": 1.0}, r"deltas\[1\].vector: is 1"),
    "a row below -1": ({"vector": -2}, r"deltas\[1\].vector"),
    "a verdict of 2": ({"verdict": 2}, r"deltas\[1\].verdict"),
}


@each_row("case", BAD)
def test_a_delta_that_cannot_be_is_refused_and_nothing_changes(case: str) -> None:
    row, message = BAD[case]
    learned = Learned(2, RATES)
    with pytest.raises(ValueError, match=message):
        learned.fold(deltas({"arm": 100, "everywhere": 1, "successes": 1}, row), np.ones((1, 2), np.float32))
    assert learned.to_bytes() == Learned(2, RATES).to_bytes()


def test_columns_of_another_kind_are_refused() -> None:
    learned = Learned(2, RATES)
    with pytest.raises(TypeError, match="DELTA"):
        learned.fold(np.zeros(3))
    with pytest.raises(TypeError, match="DELTA"):
        learned.fold(np.zeros((2, 2), DELTA))
    with pytest.raises(TypeError, match="DELTA"):
        learned.fold(np.zeros(6, DELTA)[::2])
    for vectors in (np.ones((1, 3), np.float32), np.ones(2, np.float32)):
        with pytest.raises(ValueError, match=r"float32\[rows, 2\]"):
            learned.fold(np.zeros(1, DELTA), vectors)
    with pytest.raises(ValueError, match="finite"):
        learned.fold(np.zeros(1, DELTA), np.full((1, 2), np.nan, np.float32))
    with pytest.raises(TypeError, match="uint64"):
        learned.plain(7, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="groups: has 1 entries"):
        learned.lift((1, 2, 3), column(1, 2), column(0), T0)


@each_row(
    "rate",
    [
        {"reliability_half_s": 0.0},
        {"alarm_ratio": 1.0},
        {"alarm_nats": float("nan")},
        {"prior_mean": 0.0},
        {"open_k": -1.0},
        {"most_k": 2.0},
        {"vector_most": 1.5},
        {"least_reporters": 6},
        {"lift_strength": float("inf")},
    ],
)
def test_a_rate_out_of_its_range_is_refused(rate: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(rate))}: is"):
        LearningRates(**rate)


def test_python_and_the_core_agree_on_what_a_delta_is() -> None:
    assert DELTA == effects.DELTA
