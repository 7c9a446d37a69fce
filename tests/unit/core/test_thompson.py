"""Draws follow their Beta law, depend on nothing but (seed, key, shapes), and rerank as documented.

The oracle is a plain numpy version of the documented recipe (`recipe`), checked against scipy's distribution
functions like the real one. Statistical tests have fixed seeds; each p-value is compared with ALARM, so that
all of them together alarm for a sound sampler with probability below 1e-3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.table import each_row
from toolroll import _core

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]

ALARM = 1e-5
N = 200_000
KEYS: Keys = np.arange(N, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
SMOOTH = [
    (1, 1),
    (0.5, 3),
    (2, 3),
    (30, 2),
    (1, 5),
    (1.0001, 1.0001),
    (1e3, 3e3),
    (1e8, 1e8),
    (1e8, 1),
    (3, 1e8),
]
STEEP = [(0.05, 0.05), (1e-3, 1e-3), (1e-3, 2), (0.1, 0.5)]  # much of the mass at 0 and 1
WORD = st.integers(0, 2**64 - 1)
SHAPE = st.floats(1e-3, 1e8)


def philox(seed: int, key: Keys, block: npt.NDArray[np.uint64] | int) -> list[Keys]:
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    block = np.broadcast_to(np.asarray(block, np.uint64), key.shape)
    x = [key & low, key >> half, block & low, block >> half]
    k0, k1 = seed & (2**32 - 1), seed >> 32
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        x = [
            (product1 >> half) ^ x[1] ^ np.uint64(k0),
            product1 & low,
            (product0 >> half) ^ x[3] ^ np.uint64(k1),
            product0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return x


def uniform(low: Keys, high: Keys) -> Floats:
    return np.asarray((((high << np.uint64(32)) | low) >> np.uint64(12)) + 0.5) * 2.0**-52


def recipe(
    key: Keys,
    alpha: Floats,
    beta: Floats,
    seed: int,
    third: float = 1 / 3,
    squeeze: float = 0.0331,
    boost: float = 1,
) -> tuple[Floats, Floats]:
    """Draws and their log-odds, as thompson.hpp describes them; the constants can be got wrong on purpose."""
    d = [np.where(shape < 1, shape + 1, shape) - third for shape in (alpha, beta)]
    ratio = np.zeros(key.size)
    attempt = np.ones(key.size, np.uint64)
    left = np.arange(key.size)
    while left.size:
        x0, x1, x2, x3 = philox(seed, key[left], attempt[left])
        x, y, u = (x0 + 0.5) * 2.0**-31 - 1, (x1 + 0.5) * 2.0**-31 - 1, uniform(x2, x3)
        s = x * x + y * y
        with np.errstate(invalid="ignore"):
            m = np.sqrt(-2 * np.log(s) / s)
            normal = [x * m, y * m]
            da, db = d[0][left], d[1][left]
            root = [1 + z / np.sqrt(9 * e) for z, e in zip(normal, (da, db), strict=True)]
            possible = (s < 1) & (root[0] > 0) & (root[1] > 0)
            cube = [np.where(possible, r, 1) ** 3 for r in root]
            bound = sum(
                z * z / 2 + e * (1 - v + np.log(v)) for z, e, v in zip(normal, (da, db), cube, strict=True)
            )
            accepted = (u < 1 - squeeze * (normal[0] ** 4 + normal[1] ** 4)) | (np.log(u) < bound)
        ratio[left] = da * cube[0] / (db * cube[1])
        left = left[~(possible & accepted)]
        attempt[left] += np.uint64(1)
    words = philox(seed, key, 0)
    log_a = np.where(alpha < 1, boost * np.log(uniform(words[0], words[1])) / alpha, 0)
    log_b = np.where(beta < 1, boost * np.log(uniform(words[2], words[3])) / beta, 0)
    log_odds = np.log(ratio) + (log_a - log_b)
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-log_odds)), log_odds


def both(alpha: float, beta: float, n: int = N) -> tuple[Floats, Floats]:
    return np.full(n, float(alpha)), np.full(n, float(beta))


def draws(alpha: float, beta: float, seed: int, n: int = N) -> Floats:
    return np.asarray(_core.thompson_sample(KEYS[:n], *both(alpha, beta, n), seed))


def p_of_beta(sample: Floats, alpha: float, beta: float) -> float:
    return float(stats.kstest(sample, lambda x: stats.beta.cdf(x, alpha, beta)).pvalue)


def p_in_cells(sample: Floats, alpha: float, beta: float) -> float:
    """Chi-square over fixed cells, for laws whose mass lies where doubles are no longer dense."""
    small = np.array([1e-280, 1e-200, 1e-100, 1e-50, 1e-20, 1e-10, 1e-5, 1e-2, 0.3])
    edges = np.concatenate([small, 1 - np.array([0.3, 1e-2, 1e-5, 1e-10, 1e-13])])
    below = np.concatenate(
        [
            stats.beta.cdf(small, alpha, beta),
            stats.beta.sf([0.3, 1e-2, 1e-5, 1e-10, 1e-13], beta, alpha),
        ]
    )
    expected = np.diff(np.concatenate([[0], below, [1]])) * sample.size
    counts = np.bincount(np.searchsorted(edges, sample, side="right"), minlength=expected.size).astype(float)
    rare = expected < 5  # joins the largest cell
    largest = np.argmax(expected)
    for column in (expected, counts):
        column[largest] += column[rare].sum()
    counts, expected = counts[~rare], expected[~rare]
    return float(stats.chisquare(counts, expected).pvalue)


# The law.


@pytest.mark.slow
@each_row(("alpha", "beta"), SMOOTH)
def test_draws_follow_the_beta_distribution(alpha: float, beta: float) -> None:
    assert p_of_beta(draws(alpha, beta, 2024), alpha, beta) > ALARM


@each_row(("alpha", "beta"), STEEP)
def test_draws_at_small_shapes_fill_cells_down_to_1e_280_as_they_should(alpha: float, beta: float) -> None:
    assert p_in_cells(draws(alpha, beta, 2024), alpha, beta) > ALARM


@each_row(("alpha", "beta"), SMOOTH + STEEP)
def test_mean_and_variance_are_within_five_standard_errors(alpha: float, beta: float) -> None:
    sample = draws(alpha, beta, 7)
    law = stats.beta(alpha, beta)
    total = alpha + beta
    mean, variance = alpha / total, alpha * beta / (total**2 * (total + 1))
    kurtosis = float(law.stats(moments="k"))
    assert abs(sample.mean() - mean) < 5 * np.sqrt(variance / N)
    spread = variance * np.sqrt(max(kurtosis + 2, 1e-6) / N)
    assert abs(((sample - mean) ** 2).mean() - variance) < 5 * spread


def test_neighbouring_keys_and_seeds_give_uncorrelated_draws() -> None:
    keys = np.arange(N, dtype=np.uint64)
    sample = np.asarray(_core.thompson_sample(keys, *both(2, 3), 1))
    other = np.asarray(_core.thompson_sample(keys, *both(2, 3), 2))
    for x, y in ((sample[:-1], sample[1:]), (sample, other)):
        assert abs(np.corrcoef(x, y)[0, 1]) < 5 / np.sqrt(N)


def test_the_two_gammas_of_a_draw_are_independent_of_each_other() -> None:
    # With a = b = 1, log-odds is the difference of two Gumbels: logistic, variance pi^2 / 3. A
    # correlation r of the two would change it by the factor 1 - r.
    sample = draws(1, 1, 5)
    variance = float(np.var(np.log(sample / (1 - sample))))
    assert abs(variance / (np.pi**2 / 3) - 1) < 5 * np.sqrt(3.2 / N)


MUTANTS: dict[str, tuple[Callable[[int], Floats], tuple[float, float]]] = {
    "d = shape - 1/2": (lambda seed: recipe(KEYS, *both(1, 2), seed, third=0.5)[0], (1, 2)),
    "a loose squeeze": (lambda seed: recipe(KEYS, *both(1, 1), seed, squeeze=0.00331)[0], (1, 1)),
    "a boost of u^(2 / shape)": (lambda seed: recipe(KEYS, *both(0.5, 3), seed, boost=2)[0], (0.5, 3)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_statistical_test_notices_a_wrong_constant(mutant: str) -> None:
    sample, shapes = MUTANTS[mutant][0](2024), MUTANTS[mutant][1]
    assert p_of_beta(sample, *shapes) < ALARM


# A function of (seed, key, alpha, beta), and the documented one.


@given(st.lists(st.tuples(WORD, SHAPE, SHAPE), max_size=40), WORD)
def test_draws_are_those_of_the_documented_recipe(arms: list[tuple[int, float, float]], seed: int) -> None:
    key = np.array([arm[0] for arm in arms], np.uint64)
    alpha, beta = (np.array([arm[i] for arm in arms], np.float64) for i in (1, 2))
    expected, _ = recipe(key, alpha, beta, seed)
    sample = np.asarray(_core.thompson_sample(key, alpha, beta, seed))
    np.testing.assert_allclose(sample, expected, rtol=1e-11, atol=1e-300)


@given(st.data(), WORD)
def test_a_draw_does_not_depend_on_neighbours_or_order(data: st.DataObject, seed: int) -> None:
    arms = data.draw(st.lists(st.tuples(WORD, SHAPE, SHAPE), min_size=1, max_size=70))
    order = data.draw(st.permutations(range(len(arms))))
    kept = order[: data.draw(st.integers(1, len(arms)))]
    key = np.array([arm[0] for arm in arms], np.uint64)
    alpha, beta = (np.array([arm[i] for arm in arms], np.float64) for i in (1, 2))
    whole = _core.thompson_sample(key, alpha, beta, seed)
    part = _core.thompson_sample(key[kept], alpha[kept], beta[kept], seed)
    assert np.array_equal(whole[kept], part)


def test_draws_have_the_bits_of_every_earlier_version() -> None:
    """The bits are a promise to logged decisions, on every machine."""
    at = np.arange(50_003, dtype=np.uint64)
    key = at * np.uint64(0x9E3779B97F4A7C15)
    alpha = (at * np.uint64(7919) % np.uint64(100_003) + np.uint64(1)) / 1e3
    small = np.where(at % 3 == 0, 1e-3, 1e4)
    beta = (at * np.uint64(104_729) % np.uint64(1_000_003) + np.uint64(1)) / small
    digest = hashlib.sha256(_core.thompson_sample(key, alpha, beta, 5).tobytes()).hexdigest()
    assert digest == "1a16f3d620b80b5a4a01c0ca211e4902c4bf80164b9da90329f5749dabc97bf3"


# The edges.


@each_row("alpha", [5e-324, 1e-300, 1e-3, 1.0, 1e8, 1e308])
@each_row("beta", [5e-324, 1e-300, 1e-3, 1.0, 1e8, 1e308])
def test_no_pair_of_shapes_gives_nan(alpha: float, beta: float) -> None:
    sample = draws(alpha, beta, 1, n=1000)
    assert ((sample >= 0) & (sample <= 1)).all()


@each_row("bad", [np.nan, np.inf, -np.inf, 0.0, -1.0])
@each_row("column", ["alpha", "beta"])
def test_a_shape_that_is_not_finite_and_positive_is_an_error_that_names_its_row(
    bad: float, column: str
) -> None:
    columns = dict(zip(("alpha", "beta"), both(1, 1, 20), strict=True))
    columns[column][13] = bad
    with pytest.raises(ValueError, match=rf"{column}\[13\]"):
        _core.thompson_sample(KEYS[:20], columns["alpha"], columns["beta"], 1)


def test_wrong_columns_are_errors_that_name_the_column() -> None:
    one = np.ones(3)
    with pytest.raises(ValueError, match="beta: has 2 entries, must have 3"):
        _core.thompson_sample(KEYS[:3], one, one[:2], 1)
    with pytest.raises(ValueError, match="alpha: has 2 dimensions"):
        _core.thompson_sample(KEYS[:3], one.reshape(3, 1), one, 1)
    with pytest.raises(TypeError, match="alpha: must be a contiguous array of float64, is of float32"):
        _core.thompson_sample(KEYS[:3], one.astype(np.float32), one, 1)
    with pytest.raises(TypeError, match="beta: must be a contiguous array of float64"):
        _core.thompson_sample(KEYS[:3], one, np.ones(6)[::2], 1)
    with pytest.raises(TypeError, match="alpha: must be a contiguous array of float64, is of >f8"):
        _core.thompson_sample(KEYS[:3], one.astype(">f8"), one, 1)
    with pytest.raises(TypeError):
        _core.thompson_sample(KEYS[:3], one, one, -1)


def test_no_arms_give_no_draws() -> None:
    assert _core.thompson_sample(KEYS[:0], np.ones(0), np.ones(0), 1).size == 0
