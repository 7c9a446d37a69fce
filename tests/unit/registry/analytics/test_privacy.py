"""What is told of organisations: the bound on each of them, and the noise."""

from __future__ import annotations

import inspect
import math
import random
import secrets
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.table import each_row
from toolroll.model.errors import Denied, InvalidInput
from toolroll.registry.analytics import privacy
from toolroll.registry.analytics.privacy import (
    ToolCounts,
    _bounded,
    denoised,
    discrete_laplace,
    noise_scale,
    noisy_sums,
    release,
)

TOOLS = ["a", "b", "c"]
counts = st.builds(
    ToolCounts, *[st.floats(0, 1e12, allow_nan=False) | st.integers(0, 1_000) for _ in ToolCounts._fields]
)
contributions = st.dictionaries(st.sampled_from([*TOOLS, "not shared"]), counts)


def bounded(contribution: Mapping[str, ToolCounts], names: Sequence[str], most: int) -> list[int]:
    """An organisation's counts of these tools in grains."""
    found = [0] * (len(names) * len(ToolCounts._fields))
    for at, grains in _bounded(contribution, {name: at for at, name in enumerate(names)}, most):
        found[at] = grains
    return found


@given(contributions, st.integers(1, 1_000))
def test_whatever_an_organisation_did_the_sums_without_it_differ_by_what_the_noise_is_made_for(mine, most):
    found = bounded(mine, TOOLS, most)
    assert all(type(grains) is int and grains >= 0 for grains in found)
    assert sum(found) <= most * 16
    assert sum(found) <= noise_scale(1.0, most)  # at an epsilon of 1 the scale is the sensitivity
    assert bounded({}, TOOLS, most) == [0] * 12


@given(st.integers(1, 100), st.integers(0, 10))
def test_counts_within_the_bound_are_told_to_a_sixteenth(calls, failed):
    mine = {"a": ToolCounts(calls, failed, calls + failed, calls / 3)}
    found = np.array(bounded(mine, TOOLS, 1_000)[:4]) / 16
    exact = np.array(mine["a"])
    assert ((exact - found >= 0) & (exact - found < 1 / 16)).all()


def test_one_organisation_does_not_outweigh_the_others():
    quiet = [{"a": ToolCounts(1, 0, 1, 0)}] * 30
    loud = [*quiet, {"a": ToolCounts(0, 1e9, 1e9, 0)}]
    got = {name: 0.0 for name in TOOLS}
    for contribution in loud:
        for at, grains in enumerate(bounded(contribution, TOOLS, 4)):
            got[TOOLS[at // 4]] += grains / 16
    assert got["a"] <= 30 * 2 + 4
    assert release(loud, TOOLS, epsilon=10.0, most=4).organisations == 31


@each_row("scale", [Fraction(1, 3), Fraction(5, 2), Fraction(40), Fraction(3_200)])
def test_the_noise_is_the_discrete_laplace_distribution(scale):
    draw = random.Random(7).randrange  # from a seed in this test only, so that it gives the same each time
    found = np.array([discrete_laplace(scale, draw) for _ in range(8_000)])
    law = stats.dlaplace(1 / float(scale))
    # Kolmogorov-Smirnov on whole numbers errs less often than stated: one of 100,000 for each of the scales
    edges = np.arange(found.min() - 1, found.max() + 2)
    seen = np.searchsorted(np.sort(found), edges, side="right") / len(found)
    assert np.abs(seen - law.cdf(edges)).max() < stats.kstwo.isf(1e-5, len(found))
    error = math.sqrt(law.stats("v") / len(found))
    assert abs(found.mean()) < 5 * error
    assert np.abs(found).mean() == pytest.approx(1 / math.sinh(1 / scale), abs=5 * error)


def test_small_counts_of_the_noise_are_as_frequent_as_they_should_be():
    draw = random.Random(8).randrange
    found = np.array([discrete_laplace(Fraction(2), draw) for _ in range(20_000)])
    values = np.arange(-12, 13)
    seen = np.array([(found == value).sum() for value in values])
    expected = stats.dlaplace(0.5).pmf(values) * len(found)
    rest = [len(found) - seen.sum()], [len(found) - expected.sum()]
    assert stats.chisquare(np.append(seen, rest[0]), np.append(expected, rest[1])).pvalue > 1e-5


@pytest.mark.slow
def test_the_noisy_sums_are_the_sums_with_noise_of_the_stated_size():
    draw = random.Random(9).randrange
    people = [{"a": ToolCounts(6, 2, 8, 4)}] * 50
    values = np.array(
        [noisy_sums(people, ["a", "b"], epsilon=2.0, most=20, below=draw)["a"] for _ in range(600)]
    )
    noise = release(people, ["a"], epsilon=2.0, most=20).noise
    assert noise == pytest.approx(math.sqrt(2) * 20 / 2.0)
    error = noise / math.sqrt(len(values))
    assert np.abs(values.mean(0) - np.array([300, 100, 400, 200])).max() < 5 * error
    assert values.std(0) == pytest.approx(np.full(4, noise), rel=0.2)
    assert abs(np.corrcoef(values.T)[np.triu_indices(4, 1)]).max() < 5 / math.sqrt(len(values))


def test_two_neighbours_are_told_apart_no_better_than_epsilon_allows():
    draw, epsilon, runs = random.Random(10).randrange, 1.0, 20_000
    common = [{"a": ToolCounts(1, 0, 0, 0)}] * 19
    yes, no = [*common, {"a": ToolCounts(9, 0, 0, 0)}], [*common, {}]
    scale = noise_scale(epsilon, 2)

    def told(people):  # the most telling event: as many successes as with it, or more
        total = sum(bounded(one, ["a"], 2)[0] for one in people)
        return sum(total + discrete_laplace(scale, draw) >= 21 * 16 for _ in range(runs))

    one, other = told(yes) / runs, told(no) / runs
    assert one > 2 * other
    error = 5 * math.sqrt(one * (1 - one) / runs)
    assert one - error <= math.exp(epsilon) * (other + error)


@pytest.mark.slow
def test_what_is_told_is_in_doubt_by_as_much_as_it_says():
    rng = np.random.default_rng(12)
    noise, inside, told_of = 100.0, 0, 0
    for _ in range(40):
        rates, lifts = rng.beta(6.4, 1.6, 50), rng.gamma(4, 0.25, 50)  # of the spread that is taken for usual
        calls, expected = rng.uniform(0, 6_000, 50), rng.uniform(0, 6_000, 50)
        exact = np.stack([calls * rates, calls * (1 - rates), expected * lifts, expected], axis=1)
        noisy = exact + rng.laplace(0, noise / math.sqrt(2), exact.shape)
        told = denoised({f"t{n}": ToolCounts(*row) for n, row in enumerate(noisy.tolist())}, noise)
        for name, counts in told.items():
            at, told_of = int(name[1:]), told_of + 1
            law = stats.beta(counts.successes + 1e-9, counts.failures + 1e-9)
            inside += law.ppf(0.025) <= rates[at] <= law.ppf(0.975)
            assert min(counts) >= 0
            if counts.expected > 20:
                doubt = math.sqrt(lifts[at] / counts.expected)
                assert counts.calls / counts.expected == pytest.approx(lifts[at], abs=6 * doubt)
    assert told_of > 1_000
    assert 0.9 < inside / told_of < 0.99


def test_counts_that_noise_has_drowned_are_worth_nothing():
    noise = 100.0
    assert denoised({"a": ToolCounts(150, -20, 90, 5), "b": ToolCounts(-10, -30, 0, 0)}, noise) == {}
    sure = denoised({"a": ToolCounts(9_000, 1_000, 9_000, 9_000)}, noise)["a"]
    assert sure.successes / (sure.successes + sure.failures) == pytest.approx(0.9, abs=0.01)
    half = denoised({"a": ToolCounts(900, 100, 900, 900)}, noise)["a"]
    assert half.successes + half.failures < 0.1 * (sure.successes + sure.failures)
    assert denoised({}, noise) == {}
    quiet = [
        release([{}] * 20, TOOLS, epsilon=1.0, below=random.Random(n).randrange).counts for n in range(100)
    ]
    assert sum(map(len, quiet)) < 0.02 * 300


def test_a_tool_that_is_not_shared_is_never_told():
    people = [{"a": ToolCounts(10, 0, 10, 5), "own": ToolCounts(100, 0, 100, 5)}] * 200
    assert "own" not in release(people, TOOLS, epsilon=10.0).counts


def test_few_organisations_share_nothing():
    with pytest.raises(Denied, match="19 organisations take part, must be at least 20"):
        release([{}] * 19, TOOLS, epsilon=1.0)


def test_the_noise_comes_from_the_operating_system():
    for function in (release, noisy_sums, discrete_laplace):
        assert inspect.signature(function).parameters["below"].default is secrets.randbelow
    one, two = (noisy_sums([{}], TOOLS, epsilon=1.0, most=100) for _ in range(2))
    assert one != two
    assert "seed" not in inspect.getsource(privacy).replace("never from a seed", "")


@each_row("epsilon", [0.3, 0.7, 1 / 3, 1.0, 9.99])
def test_never_more_is_spent_than_was_said(epsilon):
    scale = noise_scale(epsilon, 10)
    assert Fraction(10 * 16) / scale <= Fraction(epsilon)
    assert float(scale) == pytest.approx(160 / epsilon, rel=1e-4)


@each_row(
    ("arguments", "said"),
    [
        ({"epsilon": 0}, "epsilon: is 0"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 11.0}, "from 0.001 to 10"),
        ({"epsilon": True}, "must be a number"),
        ({"epsilon": 1.0, "most": 0}, "most: is 0"),
        ({"epsilon": 1.0, "most": 1.5}, "most: is 1.5"),
    ],
)
def test_what_is_out_of_range_is_refused(arguments, said):
    with pytest.raises(InvalidInput, match=said):
        release([{}] * 20, TOOLS, **arguments)


@each_row("count", [math.nan, math.inf, -1.0, "3"])
def test_a_count_that_is_none_is_refused(count):
    with pytest.raises(InvalidInput, match="a count is"):
        release([{"a": ToolCounts(count, 0, 0, 0)}] * 20, TOOLS, epsilon=1.0)
