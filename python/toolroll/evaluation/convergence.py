"""How sure a Beta posterior is after so many calls: equal-tailed intervals, without SciPy.

The incomplete beta function is the continued fraction of DLMF 8.17.22, evaluated from the front by Lentz's
method; quantiles are found by bisection, which no shape can lead astray.

Source: W. Thompson and A. Barnett, "Coulomb and Bessel functions of complex arguments and order", 1986.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_TINY = 1e-300
_CLOSE = 1e-15
_TERMS = 10_000
_HALVINGS = 200


@dataclass(frozen=True, slots=True)
class Convergence:
    """What is known of a tool's success after some calls.

    Attributes:
        calls: so many, of which exactly the rate succeeded.
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


def convergence(
    rate: float = 0.8, calls: tuple[int, ...] = (0, 10, 50, 100, 500, 1_000)
) -> list[Convergence]:
    """One row for each number of calls."""
    rows = []
    for n in calls:
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


def beta_quantile(share: float, a: float, b: float) -> float:
    """The x below which a Beta(a, b) lies with this probability, to 1e-14. a, b above 0."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if beta_cdf(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_quantile(degrees: int, share: float = 0.975) -> float:
    """The quantile of Student's t for a share above one half."""
    x = beta_quantile(2 * share - 1, 0.5, degrees / 2)
    return math.sqrt(degrees * x / (1 - x))


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b). x in [0, 1], a and b above 0."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - beta_cdf(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    below = 1 - (a + b) * x / (a + 1)
    d = 1 / (below or _TINY)
    c, value = 1.0, d
    for m in range(1, _TERMS):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + top * d) or _TINY)
            c = (1 + top / c) or _TINY
            value *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return value


def _width(alpha: float, beta: float, share: float) -> float:
    edge = (1 - share) / 2
    return beta_quantile(1 - edge, alpha, beta) - beta_quantile(edge, alpha, beta)
