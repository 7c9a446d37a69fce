"""Theory without a world: Beta posteriors after some calls, and Thompson sampling in one context.

Each call draws from the Beta posterior of every tool, calls the tool with the highest draw, and adds its
outcome to the posterior. One tool works best, all others work equally well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll._core import thompson_sample
from toolroll.registry.analytics.beta import quantile

BEST, OTHERS = 0.8, 0.5  # rates of success
TOOLS = (2, 7, 20, 40)
CALLS = (10, 50, 100, 500, 1_000)
KS = (1, 3, 5, 7)
NEAR = 0.95  # share of the best tool's success that counts as convergence
_LAST = 0.2  # share of the calls that `reward` and `recall` average


@dataclass(frozen=True, slots=True)
class Projection:
    """The state after some calls, as a mean over runs.

    Attributes:
        tools: competing ones.
        reward: expected success in the last fifth of these calls, relative to the best tool's.
        recall: K → share of these last calls in which the best tool had one of the K highest draws.
        regret: expected successes lost so far, against the best tool.
        bound: √(N·T·ln T) of N tools and T calls; the regret grows no faster.

    Source: Agrawal & Goyal, "Further Optimal Regret Bounds for Thompson Sampling", AISTATS 2013.
    """

    tools: int
    calls: int
    reward: float
    recall: dict[int, float]
    regret: float
    bound: float


@dataclass(frozen=True, slots=True, eq=False)
class Bandit:
    """The calls of many runs.

    Attributes:
        tools: the number of competing tools.
        lost: float64[T], the mean loss of each call against the best tool.
        places: int64[T, runs], for each call and run: the number of tools with a higher draw than the best
            one.
    """

    tools: int
    lost: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]

    @classmethod
    def play(cls, tools: int, calls: int = 2_000, *, runs: int = 100, seed: int = 1) -> Bandit:
        """Plays the runs, with the draws of the selection engine."""
        rates = np.full(tools, OTHERS)
        rates[0] = BEST
        alpha, beta = np.ones((2, runs, tools))
        keys = np.arange(runs * tools, dtype=np.uint64)
        random, at = np.random.default_rng(seed), np.arange(runs)
        lost, places = np.zeros(calls), np.zeros((calls, runs), np.int64)
        for call in range(calls):
            draws = thompson_sample(keys, alpha.ravel(), beta.ravel(), seed + call).reshape(runs, tools)
            places[call] = (draws > draws[:, :1]).sum(1)
            called = draws.argmax(1)
            lost[call] = (BEST - rates[called]).mean()
            is_success = random.random(runs) < rates[called]
            alpha[at, called] += is_success
            beta[at, called] += ~is_success
        return cls(tools, lost, places)

    def after(self, calls: int) -> Projection:
        """The state after this number of calls."""
        last = slice(calls - math.ceil(_LAST * calls), calls)
        return Projection(
            self.tools,
            calls,
            float(1 - self.lost[last].mean() / BEST),
            {k: float((self.places[last] < k).mean()) for k in KS},
            float(self.lost[:calls].sum()),
            math.sqrt(self.tools * calls * math.log(calls)),
        )

    def calls_to_reach(self, share: float) -> int | None:
        """The first multiple of ten calls after which `reward` reaches this share; None if it never does."""
        counts = range(10, len(self.lost) + 1, 10)
        return next((calls for calls in counts if self.after(calls).reward >= share), None)


@dataclass(frozen=True, slots=True)
class Convergence:
    """The posterior of a tool's success rate after some calls, from Beta(1, 1).

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
    """The posterior after each of these numbers of calls, if the share of successes is exactly the rate."""
    rows = []
    for n in (0, 10, 50, 100, 500, 1_000):
        alpha, beta = 1 + rate * n, 1 + (n - rate * n)
        total = alpha + beta
        variance = alpha * beta / (total * total * (total + 1))
        widths = (_width(alpha, beta, share) for share in (0.95, 0.9))
        rows.append(Convergence(n, alpha, beta, alpha / total, variance, *widths))
    return rows


def t_quantile(degrees: int, share: float = 0.975) -> float:
    """The quantile of Student's t for a share above one half."""
    x = float(quantile(2 * share - 1, 0.5, degrees / 2)[0])
    return math.sqrt(degrees * x / (1 - x))


def _width(alpha: float, beta: float, share: float) -> float:
    edge = (1 - share) / 2
    return float(quantile(1 - edge, alpha, beta)[0] - quantile(edge, alpha, beta)[0])
