"""A simulation as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolroll.lab.simulation.projection import CALLS, KS, NEAR, Bandit, Convergence
from toolroll.lab.simulation.simulation import STATIC, Simulation, WorldMean
from toolroll.lab.simulation.world_metrics import POINTS, WorldMetrics, median_time
from toolroll.lab.simulation.worlds import Reals

# Name of a column → what it reads, and how: as it is, less static's, or as a share of static's.
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
    """A value that somebody wants to reach.

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

    @classmethod
    def of(cls, what: str, scenario: str, value: WorldMean, bar: float, *, at_most: bool) -> Goal:
        """From a mean over worlds."""
        low, high = value.mean - value.half_width, value.mean + value.half_width
        return cls(what, scenario, low, value.mean, high, bar, at_most)

    @property
    def verdict(self) -> str:
        """Either "ok" (reached at both ends of the interval), "close" (by the mean alone) or "missed"."""
        worse = self.high if self.at_most else self.low
        if not self._reaches(self.value):
            return "missed"
        return "ok" if math.isnan(worse) or self._reaches(worse) else "close"

    def _reaches(self, value: float) -> bool:
        return value <= self.bar if self.at_most else value >= self.bar


def table(simulation: Simulation, targets: Sequence[Goal] = ()) -> str:
    """What `toolroll simulate` prints; with targets, each of them beside its value."""
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
        lines += _aligned(
            [
                ("", *(name for name, _, _ in _COLUMNS)),
                *(_row(simulation, scenario, policy) for policy in played),
            ]
        )
        times = [_recovery_times(simulation, scenario, policy) for policy in played]
        if any(any(wait[1:]) for wait in times):
            lines += [
                "",
                *_aligned([("", "broken: calls until out", "repaired: messages until back"), *times]),
            ]
    if targets:
        head = ("target", "scenario", "value", "95 % interval", "to reach", "")
        lines += ["", *_aligned([head, *map(_target, targets)])]
    lines += [
        "",
        f"{simulation.seconds:.0f} s; "
        + ", ".join(_cost(simulation, policy) for policy in _policies(simulation)),
    ]
    return "\n".join(lines)


def convergence_table(rows: Sequence[Convergence]) -> str:
    """What `toolroll simulate --table` prints."""
    lines = [("calls", "posterior", "mean", "variance", "95 % width", "90 % width")]
    for row in rows:
        lines.append(
            (
                f"{row.calls:,}",
                f"Beta({row.alpha:g}, {row.beta:g})",
                f"{row.mean:.4f}",
                f"{row.variance:.6f}",
                f"{row.width_95:.4f}",
                f"{row.width_90:.4f}",
            )
        )
    return "\n".join(_aligned(lines))


def projection_table(bandits: Sequence[Bandit]) -> str:
    """What `toolroll simulate --table` prints of Thompson sampling alone."""
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
    return "\n".join([*_aligned(lines), "", said])


def to_json(simulation: Simulation) -> dict[str, Any]:
    """What `toolroll simulate --json` prints: plain values, None for a value that does not exist."""
    plan = simulation.plan
    return {
        "folder": simulation.name,
        "tools": simulation.tools,
        "texts": simulation.texts,
        "repeated": round(simulation.repeated, 4),
        "half": plan.half,
        "worlds": plan.worlds,
        "messages": plan.messages,
        "seed": plan.seed,
        "k": plan.k,
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
    """Means over worlds, by part of the time; after breaks and repairs by the n-th message for it."""
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
        vain = sum(not wait.is_observed for wait in times)
        said = f"{_said(median_time(times))} (median of {len(times)}, {vain} watched in vain)"
        cells.append(said if times else "")
    return policy, cells[0], cells[1]


def _target(one: Goal) -> tuple[str, ...]:
    bar = f"{'≤' if one.at_most else '≥'} {one.bar:g}"
    return (
        one.what,
        one.scenario,
        _said(one.value),
        f"{_said(one.low)} to {_said(one.high)}",
        bar,
        one.verdict,
    )


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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _said(value: float) -> str:
    if math.isinf(value):
        return "never"
    return "–" if math.isnan(value) else f"{value:.2f}".rstrip("0").rstrip(".")


def _estimate(value: WorldMean) -> dict[str, float | None]:
    return {"mean": _number(value.mean), "half_width": _number(value.half_width)}


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
