"""The figures to reach, and whether they were reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolroll.evaluation.simulation.measures import Wait, median_wait
from toolroll.evaluation.simulation.simulation import STATIC, Estimate, Simulation

SEED_4, OURS = "learned", "default"
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One of them.

    Attributes:
        what: in words.
        scenario: where it was measured.
        low, value, high: with the 95 % interval over worlds.
        bar: what to reach. at_most: whether less is better.
    """

    what: str
    scenario: str
    low: float
    value: float
    high: float
    bar: float
    at_most: bool

    @property
    def verdict(self) -> str:
        """Whether it is reached: ok, even at the worse end of the interval; close, in the mean; missed."""
        worse = self.high if self.at_most else self.low
        if not self._reaches(self.value):
            return "missed"
        return "ok" if math.isnan(worse) or self._reaches(worse) else "close"

    def _reaches(self, value: float) -> bool:
        return value <= self.bar if self.at_most else value >= self.bar


def figures(simulation: Simulation, ours: str = OURS) -> list[Figure]:
    """Those that the scenarios and policies played allow to be judged."""
    found: list[Figure] = []
    for scenario, played in simulation.played.items():
        if ours not in played:
            continue
        judge = _Judge(simulation, scenario, ours, found)
        if scenario == "main":
            judge.at_most("regret, share of static's", 0.55, simulation.ratio(scenario, ours, STATIC))
            if SEED_4 in played:
                judge.at_most("regret, share of learned's", 0.60, simulation.ratio(scenario, ours, SEED_4))
            judge.more("success, points above static", 8, "success")
            judge.more("recall, points above static", 10, "recall")
            judge.more("the same from 35 to 50 % of the time", 10, "steady_recall")
            judge.more("first 10 messages of a context, points above static", -1, "start")
            lost = simulation.estimate(scenario, ours, "lost_working")
            judge.at_most("right tool that works lost, % of messages", 1, lost)
        else:
            judge.more("success, points above static", 0, "success")
        if scenario in ("main", "break"):
            judge.median("calls of a broken tool until it is out", 8, "out")
        if scenario == "main":
            judge.median("messages until a repaired tool is back", 12, "back")
        if scenario == "channel" and ours in simulation.played.get("main", {}):
            pairs = zip(
                simulation.values("main", ours, "success"),
                simulation.values(scenario, ours, "success"),
                strict=True,
            )
            judge.at_most("success, points lost to the channel", 1, Estimate.of([a - b for a, b in pairs]))
    return found


@dataclass(frozen=True, slots=True)
class _Judge:
    simulation: Simulation
    scenario: str
    ours: str
    found: list[Figure]

    def at_most(self, what: str, bar: float, value: Estimate) -> None:
        self._add(what, bar, value, True)

    def more(self, what: str, bar: float, name: str) -> None:
        self._add(what, bar, self.simulation.difference(self.scenario, self.ours, STATIC, name), False)

    def median(self, what: str, bar: float, which: str) -> None:
        waits = self.simulation.waits(self.scenario, self.ours, which)
        if waits:
            worlds = [getattr(one, which) for one in self.simulation.played[self.scenario][self.ours]]
            low, high = _interval_of_median(worlds)
            self.found.append(Figure(what, self.scenario, low, median_wait(waits), high, bar, True))

    def _add(self, what: str, bar: float, value: Estimate, at_most: bool) -> None:
        low, high = value.mean - value.half_width, value.mean + value.half_width
        self.found.append(Figure(what, self.scenario, low, value.mean, high, bar, at_most))


def _interval_of_median(worlds: Sequence[Sequence[Wait]]) -> tuple[float, float]:
    """95 %, by drawing worlds again."""
    random = np.random.default_rng(0)
    medians = []
    for _ in range(_RESAMPLES):
        drawn = [wait for at in random.integers(len(worlds), size=len(worlds)) for wait in worlds[at]]
        if drawn:
            medians.append(median_wait(drawn))
    medians.sort()
    edge = round(0.025 * (len(medians) - 1))
    return medians[edge], medians[-1 - edge]
