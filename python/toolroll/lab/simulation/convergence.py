"""The width of a Beta posterior after a number of calls: equal-tailed intervals, without SciPy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from toolroll.registry.analytics.beta import quantile


@dataclass(frozen=True, slots=True)
class Convergence:
    """The posterior of a tool's success rate after some calls.

    Attributes:
        calls: their number; exactly the rate succeeded.
        alpha, beta: of the posterior, from Beta(1, 1).
        mean, variance: of it.
        width_95, width_90: of the equal-tailed intervals.
    """

    calls: int
    alpha: float
    beta: float
    mean: float
    variance: float
    width_95: float
    width_90: float


def convergence(rate: float = 0.8) -> list[Convergence]:
    """One row for each of some numbers of calls."""
    rows = []
    for n in (0, 10, 50, 100, 500, 1_000):
        alpha, beta = 1 + rate * n, 1 + (n - rate * n)
        total = alpha + beta
        rows.append(
            Convergence(
                n,
                alpha,
                beta,
                alpha / total,
                alpha * beta / (total * total * (total + 1)),
                _width(alpha, beta, 0.95),
                _width(alpha, beta, 0.9),
            )
        )
    return rows


def t_quantile(degrees: int, share: float = 0.975) -> float:
    """The quantile of Student's t for a share above one half."""
    x = float(quantile(2 * share - 1, 0.5, degrees / 2)[0])
    return math.sqrt(degrees * x / (1 - x))


def _width(alpha: float, beta: float, share: float) -> float:
    edge = (1 - share) / 2
    return float(quantile(1 - edge, alpha, beta)[0] - quantile(edge, alpha, beta)[0])
