"""What Thompson sampling alone should reach: reward, recall and regret after so many calls in one context.

This is the model of seed 4: each call draws from the Beta posterior of every tool, calls the tool with the
highest draw, and adds its outcome to the posterior. One tool works best, all others work equally well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll._core import thompson_sample

BEST, OTHERS = 0.8, 0.5  # rates of success
TOOLS = (2, 7, 20, 40)  # a page of seed 4 has 20 to 40
CALLS = (10, 50, 100, 500, 1_000)
KS = (1, 3, 5, 7)
NEAR = 0.95  # share of the best tool's success that counts as convergence
_LAST = 0.2  # share of the calls that `reward` and `recall` average


@dataclass(frozen=True, slots=True)
class Projection:
    """The state after some calls, as a mean over runs.

    Attributes:
        tools: how many compete.
        calls: how many were made.
        reward: expected success of the last fifth of these calls, as a share of the best tool's.
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
        tools: how many compete.
        lost: float64[T], by call: the mean of what it lost against the best tool.
        places: int64[T, runs], by call and run: how many tools had a higher draw than the best one.
    """

    tools: int
    lost: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]

    @classmethod
    def play(cls, tools: int, calls: int = 2_000, *, runs: int = 100, seed: int = 1) -> Bandit:
        """Plays the runs. The draws are those of the selection engine."""
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
        """The state after so many of the calls."""
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
        """The first multiple of ten calls after which `reward` is this share; None if all are too few."""
        counts = range(10, len(self.lost) + 1, 10)
        return next((calls for calls in counts if self.after(calls).reward >= share), None)
