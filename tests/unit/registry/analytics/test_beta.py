"""Quantiles of the Beta distribution against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.table import each_row
from toolroll.registry.analytics.beta import interval, quantile


def test_quantiles_are_scipys_for_shapes_of_all_decimals():
    rng = np.random.default_rng(1)
    a, b = rng.gamma(1, 30, (2, 2_000)) + 0.05
    for share in (0.025, 0.975):
        assert quantile(share, a, b) == pytest.approx(stats.beta.ppf(share, a, b), rel=1e-8, abs=1e-12)


def test_an_interval_has_the_two_quantiles():
    a, b = np.random.default_rng(2).gamma(1, 30, (2, 50)) + 0.05
    low, high = interval(0.95, a, b)
    assert np.allclose(low, stats.beta.ppf(0.025, a, b), rtol=1e-8, atol=1e-12)
    assert np.allclose(high, stats.beta.ppf(0.975, a, b), rtol=1e-8, atol=1e-12)


@pytest.mark.slow
@each_row("share", [0.001, 0.025, 0.5, 0.975])
def test_quantiles_are_scipys_over_all_shapes(share):
    grid = np.array([0.3, 1.0, 1.5, 4.0, 37.0, 500.0, 2e4])
    a, b = (shape.ravel() for shape in np.meshgrid(grid, grid))
    assert quantile(share, a, b) == pytest.approx(stats.beta.ppf(share, a, b), rel=1e-8, abs=1e-12)


def test_the_intervals_of_seed_4_are_what_they_should_be():
    """The seed prints 0.950, 0.399, 0.184, 0.130, 0.058 and 0.041: only the first is the interval's width."""
    n = np.array([0, 10, 50, 100, 500, 1_000])
    width = quantile(0.975, 1 + 0.8 * n, 1 + 0.2 * n) - quantile(0.025, 1 + 0.8 * n, 1 + 0.2 * n)
    exact = stats.beta.ppf(0.975, 1 + 0.8 * n, 1 + 0.2 * n) - stats.beta.ppf(0.025, 1 + 0.8 * n, 1 + 0.2 * n)
    assert width == pytest.approx(exact, abs=1e-9)
    assert width == pytest.approx([0.950, 0.458, 0.218, 0.156, 0.070, 0.0495], abs=5e-4)


def test_no_arms_have_no_quantiles():
    assert quantile(0.5, [], []).shape == (0,)
