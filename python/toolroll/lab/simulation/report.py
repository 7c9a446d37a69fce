"""A simulation as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolroll.lab.evaluation.report import aligned
from toolroll.lab.simulation.projection import CALLS, KS, NEAR, Bandit, Convergence
from toolroll.lab.simulation.simulation import STATIC, Simulation, WorldMean
from toolroll.lab.simulation.world_metrics import POINTS, WorldMetrics, median_time
from toolroll.lab.simulation.worlds import Reals

_LEFT = 99  # columns: all of them
# (heading, metric, itself or its difference or ratio to static's)
_COLUMNS = (
    ("success %", "success", "value"),
    ("over static", "success", "difference"),
    ("regret / static", "regret", "ratio"),
    ("recall %", "recall", "value"),
    ("over static", "recall", "difference"),
    ("lost %", "lost", "value"),
    ("start", "start", "difference"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured value and its goal.

    Attributes:
        what: a description.
        low, value, high: the measured value with its 95 % interval over worlds.
        bar: the goal; at_most: whether less is better.
    """

    what: str
    scenario: str
    low: float
    value: float
    high: float
    bar: float
    at_most: bool

    @classmethod
    def of(cls, what: str, scenario: str, value: WorldMean, bar: float, *, at_most: bool) -> Goal:
        """From a mean over worlds."""
        low, high = value.mean - value.half_width, value.mean + value.half_width
        return cls(what, scenario, low, value.mean, high, bar, at_most)

    @property
    def verdict(self) -> str:
        """Whether the goal is reached: "ok" (by the interval), "close" (only by the mean) or "missed"."""
        worse = self.high if self.at_most else self.low
        if not self._reaches(self.value):
            return "missed"
        return "ok" if math.isnan(worse) or self._reaches(worse) else "close"

    def _reaches(self, value: float) -> bool:
        return value <= self.bar if self.at_most else value >= self.bar


def table(simulation: Simulation, targets: Sequence[Goal] = ()) -> str:
    """The output of `toolroll simulate`, with goals beside their values."""
    plan = simulation.plan
    lines = [
        f"{simulation.name}: {simulation.tools} tools, {simulation.texts:,} messages (half: {plan.half}); "
        f"{simulation.repeated:.0%} of a world's messages came before",
        f"{plan.worlds} worlds from seed {plan.seed}, {plan.messages:,} messages each, {plan.k} tools shown; "
        "± is a 95 % interval over worlds",
    ]
    for scenario, played in simulation.played.items():
        oracle = simulation.estimate(scenario, STATIC, "oracle")
        lines += ["", f"{scenario} (the best that can be: {oracle.mean:.1f} %)"]
        lines += aligned(
            [
                ("", *(name for name, _, _ in _COLUMNS)),
                *(_row(simulation, scenario, policy) for policy in played),
            ],
            _LEFT,
        )
        times = [_recovery_times(simulation, scenario, policy) for policy in played]
        if any(any(wait[1:]) for wait in times):
            lines += [
                "",
                *aligned([("", "broken: calls until out", "repaired: messages until back"), *times], _LEFT),
            ]
    if targets:
        head = ("target", "scenario", "value", "95 % interval", "to reach", "")
        lines += ["", *aligned([head, *map(_target, targets)], _LEFT)]
    lines += [
        "",
        f"{simulation.seconds:.0f} s; "
        + ", ".join(_cost(simulation, policy) for policy in _policies(simulation)),
    ]
    return "\n".join(lines)


def convergence_table(rows: Sequence[Convergence]) -> str:
    """The output of `toolroll simulate --table`."""
    lines = [("calls", "posterior", "mean", "variance", "95 % width", "90 % width")]
    for row in rows:
        widths = f"{row.width_95:.4f}", f"{row.width_90:.4f}"
        posterior = f"Beta({row.alpha:g}, {row.beta:g})"
        lines.append((f"{row.calls:,}", posterior, f"{row.mean:.4f}", f"{row.variance:.6f}", *widths))
    return "\n".join(aligned(lines, _LEFT))


def projection_table(bandits: Sequence[Bandit]) -> str:
    """The output of `toolroll simulate --table` on Thompson sampling alone."""
    lines = [("tools", "calls", "of the best", *(f"recall@{k}" for k in KS), "regret", "bound")]
    for bandit in bandits:
        for calls in CALLS:
            row = bandit.after(calls)
            recall = (f"{row.recall[k]:.1%}" for k in KS)
            regret, bound = f"{row.regret:.1f}", f"{row.bound:.1f}"
            lines.append((str(row.tools), f"{calls:,}", f"{row.reward:.1%}", *recall, regret, bound))
    waits = [(bandit.tools, bandit.calls_to_reach(NEAR)) for bandit in bandits]
    reached = [f"{tools} tools: {'more' if wait is None else f'{wait:,}'}" for tools, wait in waits]
    said = f"calls until the success is within {1 - NEAR:.0%} of the best tool's: {'; '.join(reached)}"
    return "\n".join([*aligned(lines, _LEFT), "", said])


def to_json(simulation: Simulation) -> dict[str, Any]:
    """The output of `toolroll simulate --json`; None for a value that does not exist."""
    plan = simulation.plan
    return {
        "folder": simulation.name,
        "tools": simulation.tools,
        "texts": simulation.texts,
        "repeated": round(simulation.repeated, 4),
        **{name: getattr(plan, name) for name in ("half", "worlds", "messages", "seed", "k")},
        "scenarios": {
            scenario: {policy: _policy(simulation, scenario, policy) for policy in played}
            for scenario, played in simulation.played.items()
        },
        "seconds": round(simulation.seconds, 1),
    }


def _policy(simulation: Simulation, scenario: str, policy: str) -> dict[str, Any]:
    measures = simulation.played[scenario][policy]
    values: dict[str, Any] = {
        name: _estimate(simulation.estimate(scenario, policy, name)) for name in measures[0].values
    }
    for other in ("static", "learned"):
        if other != policy and other in simulation.played[scenario]:
            values[f"over_{other}"] = {
                name: _estimate(simulation.difference(scenario, policy, other, name))
                for name in ("success", "recall", "start", "steady_success", "steady_recall")
            } | {"regret_ratio": _estimate(simulation.ratio(scenario, policy, other))}
    for which in ("out", "back"):
        times = simulation.times(scenario, policy, which)
        values[which] = {
            "median": _number(median_time(times)),
            "tools": len(times),
            "in_vain": sum(not wait.is_observed for wait in times),
        }
    values["curves"] = {
        name: [round(float(value), 3) for value in curve] for name, curve in curves_of(measures).items()
    }
    return values


def curves_of(measures: Sequence[WorldMetrics]) -> dict[str, Reals]:
    """Means over worlds: over time, and by the n-th message for a tool after its break or repair."""
    success, recall = np.mean([one.curves for one in measures], axis=0)
    curves = {
        "success": success,
        "recall": recall,
        "regret": np.mean([one.regret for one in measures], axis=0),
    }
    for name in ("after_break", "after_repair"):
        shown, of = np.sum([getattr(one, name) for one in measures], axis=0)
        enough = of >= max(1.0, of[0] / 4)  # a point with few tools is too noisy
        curves[name] = 100 * shown[enough] / of[enough]
    assert len(curves["success"]) == POINTS
    return curves


def _row(simulation: Simulation, scenario: str, policy: str) -> tuple[str, ...]:
    cells = [policy]
    for _, name, kind in _COLUMNS:
        if kind == "value":
            cells.append(str(simulation.estimate(scenario, policy, name)))
        elif policy == STATIC:
            cells.append("")
        elif kind == "ratio":
            cells.append(str(simulation.ratio(scenario, policy, STATIC, name)))
        else:
            cells.append(str(simulation.difference(scenario, policy, STATIC, name)))
    return tuple(cells)


def _recovery_times(simulation: Simulation, scenario: str, policy: str) -> tuple[str, str, str]:
    cells = []
    for which in ("out", "back"):
        times = simulation.times(scenario, policy, which)
        never = sum(not wait.is_observed for wait in times)
        median = f"{_plain(median_time(times))} (median of {len(times)}, {never} never)"
        cells.append(median if times else "")
    return policy, cells[0], cells[1]


def _target(one: Goal) -> tuple[str, ...]:
    bar = f"{'≤' if one.at_most else '≥'} {one.bar:g}"
    interval = f"{_plain(one.low)} to {_plain(one.high)}"
    return one.what, one.scenario, _plain(one.value), interval, bar, one.verdict


def _cost(simulation: Simulation, policy: str) -> str:
    scenario = simulation.plan.scenarios[0]
    selecting, recording = (
        simulation.estimate(scenario, policy, name).mean for name in ("select_us", "record_us")
    )
    return f"{policy}: {selecting:.0f} µs a selection" + (
        f", {recording:.0f} µs a report" if recording > 1 else ""
    )


def _policies(simulation: Simulation) -> list[str]:
    return list(simulation.played[simulation.plan.scenarios[0]])


def _plain(value: float) -> str:
    if math.isinf(value):
        return "never"
    return "–" if math.isnan(value) else f"{value:.2f}".rstrip("0").rstrip(".")


def _estimate(value: WorldMean) -> dict[str, float | None]:
    return {"mean": _number(value.mean), "half_width": _number(value.half_width)}


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
