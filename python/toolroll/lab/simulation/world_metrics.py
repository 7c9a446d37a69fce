"""Metrics of a played world: success, regret, recall, and how fast tools disappear and return.

Success is the expected success given the tools shown, without the randomness of single calls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolroll.lab.simulation.player import NOBODY, Trajectory
from toolroll.lab.simulation.simulated_model import CALLS_RIGHT
from toolroll.lab.simulation.source_data import Ints
from toolroll.lab.simulation.worlds import CONTEXTS, Flags, Reals, World

POINTS = 60  # of a curve over time
AFTER = 40  # messages after a break or repair that a curve shows
FIRST = 10  # messages of a context that count as its start
_WINDOW = 5  # messages that decide whether a tool is out or back
_BEFORE, _SHOWN = 10, 0.8  # a tool counts if it was shown in 80 % of its last 10 messages before it broke


class SurvivalTime(NamedTuple):
    """The time until an event, in calls or messages; or until the end of the world (censored)."""

    steps: float
    is_observed: bool


Times = tuple[SurvivalTime, ...]
_TIMES = ("out", "back")
_CURVES = ("curves", "regret", "after_break", "after_repair")


def median_time(times: Sequence[SurvivalTime]) -> float:
    """The median time by the Kaplan–Meier estimate; inf if less than half of the events happened.

    Censored times count for as long as they were observed.

    Source: Kaplan & Meier, "Nonparametric Estimation from Incomplete Observations", JASA 1958.
    """
    waiting = 1.0
    for steps in sorted({wait.steps for wait in times if wait.is_observed}):
        there = sum(wait.steps >= steps for wait in times)
        happened = sum(wait.is_observed and wait.steps == steps for wait in times)
        waiting *= 1 - happened / there
        if waiting <= 0.5:
            return steps
    return math.inf


@dataclass(frozen=True, slots=True, eq=False)
class WorldMetrics:
    """The metrics of one world under one policy.

    Attributes:
        values: name → value; shares in percent.
        out: for each tool that broke while shown: its calls until it was no longer shown.
        back: for each such tool that was repaired: its messages until it was shown again.
        curves: float64[2, POINTS], success and recall over time; regret: float64[POINTS], its sum so far.
        after_break, after_repair: float64[2, AFTER], by the n-th message for such a tool: how often it was
            shown, and the number of such messages.
    """

    values: Mapping[str, float]
    out: Times
    back: Times
    curves: Reals
    regret: Reals
    after_break: Reals
    after_repair: Reals

    def to_json(self) -> dict[str, Any]:
        """As JSON, without loss of a bit."""
        return {
            "values": {name: float(value) for name, value in self.values.items()},
            **{name: getattr(self, name) for name in _TIMES},
            **{name: getattr(self, name).tolist() for name in _CURVES},
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> WorldMetrics:
        """Reverses `to_json`."""
        out, back = (tuple(SurvivalTime(*time) for time in written[name]) for name in _TIMES)
        curves = (np.array(written[name], np.float64) for name in _CURVES)
        return cls(written["values"], out, back, *curves)


def measure(world: World, trajectory: Trajectory, static: Trajectory, best: Reals) -> WorldMetrics:
    """Measures a trajectory. static: of static selection in the same world. best: from `oracle`."""
    seen = _Outcomes.of(world, trajectory)
    before = seen if trajectory is static else _Outcomes.of(world, static)
    success = seen.success
    regret = best - success
    is_start = _firsts(world)
    steady = slice(int(0.35 * len(world)), len(world) // 2)
    lost = before.recall & ~seen.recall
    lost_working = lost & before.works
    out, back, after_break, after_repair = _recovery(world, trajectory)
    values = {
        "success": 100 * success.mean(),
        "oracle": 100 * best.mean(),
        "regret": regret.sum(),
        "recall": 100 * seen.recall.mean(),
        "steady_success": 100 * success[steady].mean(),
        "steady_recall": 100 * seen.recall[steady].mean(),
        "steady_lost": 100 * lost_working[steady].mean(),
        "lost": 100 * lost.mean(),
        "lost_working": 100 * lost_working.mean(),
        "lost_first": 100 * (before.first & ~seen.recall).mean(),
        "start": 100 * success[is_start].mean(),
        "first_200": 100 * success[:200].mean(),
        "shown": (trajectory.shown != NOBODY).sum(1).mean(),
        "select_us": trajectory.select_us,
        "record_us": trajectory.record_us,
    }
    return WorldMetrics(
        {name: float(value) for name, value in values.items()},
        out,
        back,
        100 * np.array([_points(success), _points(seen.recall)]),
        np.cumsum(regret)[_ends(len(world)) - 1],
        after_break,
        after_repair,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Outcomes:
    """One float64 or bool for each message; `is_right` has one for each shown tool."""

    is_right: Flags
    success: Reals
    recall: Flags
    works: Flags  # whether a right tool that is shown is not broken
    first: Flags  # whether the first tool shown is a right one

    @classmethod
    def of(cls, world: World, trajectory: Trajectory) -> _Outcomes:
        at = np.arange(len(world))[:, None]
        tools = np.maximum(trajectory.shown, 0)
        is_right = _rightness(world)[world.message[:, None], tools] & (trajectory.shown != NOBODY)
        places = np.arange(trajectory.shown.shape[1])
        weights = np.where(is_right, np.exp(world.taste[tools] - world.scenario.position * places), 0.0)
        total = weights.sum(1)
        shares = weights / np.where(total > 0, total, 1)[:, None]
        success = CALLS_RIGHT * (shares * world.works(at, tools)).sum(1)
        is_broken = (at >= world.breaks[tools]) & (at < world.repairs[tools])
        return cls(is_right, success, is_right.any(1), (is_right & ~is_broken).any(1), is_right[:, 0])


def _rightness(world: World) -> Flags:
    """bool[m, n]: which tools are correct for which message of the source."""
    table = np.zeros((len(world.right), len(world.tools)), np.bool_)
    for message, tools in enumerate(world.right):
        table[message, list(tools)] = True
    return table


def _firsts(world: World) -> Flags:
    """bool[T]: whether a message is among the first of its context."""
    is_first = np.zeros(len(world), np.bool_)
    for context in range(CONTEXTS):
        is_first[np.flatnonzero(world.context == context)[:FIRST]] = True
    return is_first


def _recovery(world: World, trajectory: Trajectory) -> tuple[Times, Times, Reals, Reals]:
    out: list[SurvivalTime] = []
    back: list[SurvivalTime] = []
    after_break, after_repair = np.zeros((2, 2, AFTER))
    for tool in np.flatnonzero(world.breaks < len(world)).tolist():
        breaks, repairs = int(world.breaks[tool]), int(world.repairs[tool])
        asked = np.flatnonzero([tool in world.right[message] for message in world.message.tolist()])
        is_shown = (trajectory.shown[asked] == tool).any(1)
        before = is_shown[asked < breaks][-_BEFORE:]
        broken = (asked >= breaks) & (asked < repairs)
        if not broken.any() or not len(before) or before.mean() < _SHOWN:
            continue  # it was rarely shown before
        _add(after_break, is_shown[broken])
        gone = _turns(~is_shown[broken])
        until = repairs if gone is None else int(asked[broken][gone])
        out.append(SurvivalTime(float((trajectory.called[breaks:until] == tool).sum()), gone is not None))
        later = is_shown[asked >= repairs]
        if gone is None or is_shown[broken][-_WINDOW:].mean() > 0.5 or not len(later):
            continue
        _add(after_repair, later)
        again = _turns(later)
        back.append(SurvivalTime(float(len(later) if again is None else again), again is not None))
    return tuple(out), tuple(back), after_break, after_repair


def _turns(flags: Flags) -> int | None:
    """The first place where a flag is set and at most one of the next four is not; None without one."""
    for at in np.flatnonzero(flags).tolist():
        window = flags[at : at + _WINDOW]
        if len(window) > 1 and len(window) - window.sum() <= len(window) // _WINDOW:
            return int(at)
    return None


def _add(curve: Reals, is_shown: Flags) -> None:
    n = min(AFTER, len(is_shown))
    curve[0, :n] += is_shown[:n]
    curve[1, :n] += 1


def _ends(length: int) -> Ints:
    return np.linspace(0, length, POINTS + 1).round().astype(np.int64)[1:]


def _points(values: npt.NDArray[np.float64] | Flags) -> Reals:
    """Means over equal intervals of time."""
    ends = _ends(len(values))
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    starts = np.concatenate([[0], ends[:-1]])
    return np.asarray((sums[ends] - sums[starts]) / np.maximum(ends - starts, 1), np.float64)
