"""That the intervals of a Beta are those that SciPy has."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.table import each_row
from toolroll.lab.simulation.convergence import convergence, t_quantile
from toolroll.registry.analytics.beta import quantile

pytestmark = pytest.mark.slow

SHAPES = (1e-3, 0.05, 0.5, 1.0, 3.0, 41.0, 801.0, 1e5)


@each_row("a", SHAPES)
@each_row("b", SHAPES)
def test_quantiles_of_a_beta_are_those_of_scipy(a: float, b: float) -> None:
    for share in (0.025, 0.05, 0.5, 0.9, 0.975):
        (x,) = quantile(share, a, b)
        assert 0 <= x <= 1
        assert x == pytest.approx(stats.beta.ppf(share, a, b), abs=1e-9)


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
