"""Quantiles of many Beta distributions at once, without SciPy.

The incomplete beta function is its continued fraction (DLMF 8.17.22), evaluated from the front by Lentz's
method. A quantile is found by Newton's method, with bisection where a step would leave the bracket.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

_TINY = 1e-300
_MOST_STEPS = 200  # a few are enough unless a shape is far below 1
_MOST_TERMS = 20_000
_CLOSE = 1e-14


def interval(share: float, alpha: npt.ArrayLike, beta: npt.ArrayLike) -> tuple[Floats, Floats]:
    """float64[n] each: the bounds of the equal-tailed interval of Beta(alpha, beta) with this probability."""
    a, b = (np.atleast_1d(np.asarray(shape, np.float64)) for shape in (alpha, beta))
    outside = (1 - share) / 2
    shares = np.repeat((outside, 1 - outside), len(a))
    ends = quantile(shares, np.tile(a, 2), np.tile(b, 2))  # at once: most of a step is overhead
    return ends[: len(a)], ends[len(a) :]


def quantile(share: float | Floats, alpha: npt.ArrayLike, beta: npt.ArrayLike) -> Floats:
    """float64[n]: the x below which Beta(alpha, beta) lies with this probability. Shapes above 0.

    share: one, or float64[n].
    """
    a, b = (np.atleast_1d(np.asarray(shape, np.float64)) for shape in (alpha, beta))
    log_beta = _log_beta(a, b)
    low, high = np.zeros_like(a), np.ones_like(a)
    x = a / (a + b)
    for _ in range(_MOST_STEPS):
        over = _cdf(x, a, b, log_beta) - share
        low, high = np.where(over < 0, x, low), np.where(over < 0, high, x)
        is_found = (np.abs(over) <= 1e-14) | (high - low <= 1e-15 * high)
        if bool(is_found.all()):
            break
        with np.errstate(all="ignore"):
            step = x - over * np.exp(log_beta - (a - 1) * np.log(x) - (b - 1) * np.log1p(-x))
        step = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        is_found |= np.abs(step - x) <= _CLOSE * x  # the next step would be rounding
        x = np.where(is_found, x, step)
        if bool(is_found.all()):
            break
    return x


def _log_beta(a: Floats, b: Floats) -> Floats:
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([math.lgamma(u) + math.lgamma(v) - math.lgamma(u + v) for u, v in pairs])


def _cdf(x: Floats, a: Floats, b: Floats, log_beta: Floats) -> Floats:
    inside = (x > 0) & (x < 1)
    at = np.where(inside, x, 0.5)
    turned = at > (a + 1) / (a + b + 2)  # the fraction converges fast on the other side
    p, q = np.where(turned, b, a), np.where(turned, a, b)
    y = np.where(turned, 1 - at, at)
    front = np.exp(p * np.log(y) + q * np.log1p(-y) - log_beta) / p
    value = front * _fraction(y, p, q)
    found = np.where(turned, 1 - value, value)
    return np.where(inside, found, (x >= 1).astype(np.float64))


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    d = 1 / _some(1 - (a + b) * x / (a + 1))
    c, value = np.ones_like(x), d
    for m in range(1, _MOST_TERMS):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _some(1 + top * d)
            c = _some(1 + top / c)
            value = value * c * d
        if bool((np.abs(c * d - 1) < _CLOSE).all()):
            break
    return value


def _some(values: Floats) -> Floats:
    return np.where(values == 0, _TINY, values)
