"""The statistics as their definition has them: every outcome kept, every sum made anew when it is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toolroll._core import DELTA, LearningRates

T0 = 1_700_000_000.0
DAY = 86_400.0


def deltas(*rows: dict[str, Any]) -> Any:
    """DELTA[n]: what is not said is 0, the time T0, and there is no vector."""
    out = np.zeros(len(rows), DELTA)
    out["at"], out["vector"] = T0, -1
    for at, row in enumerate(rows):
        for name, value in row.items():
            out[at][name] = value
    return out


def random_deltas(seed: int, n: int, tools: int = 6, days: float = 60, **more: Any) -> Any:
    """Outcomes of a few tools on three pages, sorted by nothing."""
    random = np.random.default_rng(seed)
    out = np.zeros(n, DELTA)
    tool = random.integers(0, tools, n)
    out["at"] = T0 + random.uniform(0, days * DAY, n)
    out["everywhere"], out["page"], out["plain"] = 1, 2 + random.integers(0, 3, n), 7
    out["leaf"] = 10 * out["page"] + random.integers(0, 2, n).astype(np.uint64)
    out["arm"], out["intent"] = 100 + tool, 200 + tool
    out["group"] = np.where(tool % 3 == 0, 300, 0)
    works = random.random(n) < 0.8
    out["successes"], out["failures"] = works, ~works
    out["calls"], out["expected"] = random.random(n) < 0.6, random.random(n)
    out["vector"], out["reporter"] = -1, random.integers(1, 9, n)
    for name, value in more.items():
        out[name] = value
    return out


@dataclass
class Slow:
    """Counts without the detector: see `Detector` for that."""

    rates: LearningRates
    seen: list[Any] = field(default_factory=list)

    def fold(self, more: Any) -> Slow:
        return Slow(self.rates, [*self.seen, *more])

    def _levels(self, scopes: Any, now: float, half: float, key: str, wanted: int, columns: Any) -> Any:
        levels = []
        for level, scope in zip(("everywhere", "page", "leaf"), scopes, strict=True):
            sums = [0.0, 0.0]
            for one in self.seen:
                owner = one[key] if key == "arm" else (one["group"] or one["intent"])
                if owner == wanted and one[level] == scope:
                    left = 2.0 ** (-(now - one["at"]) / half)
                    for at, column in enumerate(columns):
                        sums[at] += left * one[column]
            levels.append(sums)
        return levels

    def _reporters(self, key: str, wanted: int, columns: Any) -> float:
        said = set()
        for one in self.seen:
            owner = one[key] if key == "arm" else (one["group"] or one["intent"])
            if owner == wanted and any(one[column] for column in columns):
                said.add(int(one["reporter"]))
        return math.inf if 0 in said else len(said)

    def reliability(self, scopes: Any, arm: int, now: float) -> tuple[float, float]:
        rates = self.rates
        levels = self._levels(scopes, now, rates.reliability_half_s, "arm", arm, ("successes", "failures"))
        if self._reporters("arm", arm, ("successes", "failures")) < rates.least_reporters:
            levels = [[0.0, 0.0]] * 3
        shape = self._reliability(levels)
        is_worse = shape[0] < rates.prior_mean * sum(shape)
        if is_worse and self._failed(arm) < min(2 * rates.least_reporters, 5):
            shape = self._reliability([[0.0, 0.0]] * 3)
        return shape

    def _failed(self, arm: int) -> float:
        """How many have reported failures; the application is as many as it takes."""
        said = {
            int(one["reporter"])
            for one in self.seen
            if one["arm"] == arm and (one["failures"] > 0 or one["verdict"] < 0)
        }
        return math.inf if 0 in said else len(said)

    def _reliability(self, levels: Any) -> tuple[float, float]:
        rates = self.rates
        mean, strength = rates.prior_mean, rates.prior_strength
        for at, spread in enumerate((rates.page_spread, rates.leaf_spread, None)):
            good, bad = (
                max(own - (levels[at + 1][side] if at < 2 else 0), 0) for side, own in enumerate(levels[at])
            )
            alpha, beta = mean * strength + good, (1 - mean) * strength + bad
            mean, strength = alpha / (alpha + beta), alpha + beta
            if spread:
                strength = 1 / (1 / strength + 1 / spread)
        return alpha, beta

    def lift(self, scopes: Any, subject: int, now: float) -> tuple[float, float]:
        rates = self.rates
        levels = self._levels(scopes, now, rates.lift_half_s, "subject", subject, ("calls", "expected"))
        if self._reporters("subject", subject, ("calls", "expected")) < rates.least_reporters:
            levels = [[0.0, 0.0]] * 3
        elif self._reporters("subject", subject, ("calls",)) < rates.least_reporters:
            levels = [[min(level), level[1]] for level in levels]
        mean, strength = 1.0, rates.lift_strength
        for at, spread in enumerate((rates.lift_page_spread, rates.lift_leaf_spread, None)):
            calls, expected = (
                max(own - (levels[at + 1][side] if at < 2 else 0), 0) for side, own in enumerate(levels[at])
            )
            shape, rate = mean * strength + calls, strength + expected
            mean, strength = shape / rate, rate
            if spread:
                strength = 1 / (1 / strength + 1 / spread)
        return shape, rate

    def plain(self, scope: int, arm: int) -> tuple[float, float]:
        own = [one for one in self.seen if one["arm"] == arm and one["plain"] == scope]
        return 1 + sum(one["successes"] for one in own), 1 + sum(one["failures"] for one in own)


def fails_until_alarm(mean: float, rates: LearningRates) -> int:
    """So many failures in a row raise the alarm, were the mean to stay as it is."""
    mean = min(max(mean, 0.05), 0.97)
    step = math.log((1 - rates.alarm_ratio * mean) / (1 - mean))
    return math.ceil(rates.alarm_nats / step)
