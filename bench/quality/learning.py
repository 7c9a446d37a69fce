"""Whether learning from outcomes reaches our targets in simulated use.

``python -m bench.quality.learning [FOLDER] [--worlds N] [--messages N] [--scenario main,null] [--jobs N]``:
what `toolroll simulate` prints, with each target beside its value. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from toolroll.lab.simulation.report import Goal, table
from toolroll.lab.simulation.simulation import STATIC, Simulation, SimulationPlan, WorldMean, simulate
from toolroll.lab.simulation.world_metrics import SurvivalTime, median_time
from toolroll.lab.simulation.worlds import SCENARIOS

LEARNED, OURS = "learned", "default"
_RESAMPLES = 1_000


def targets(simulation: Simulation, ours: str = OURS) -> list[Goal]:
    """The targets that the played scenarios and policies can be compared with."""
    found: list[Goal] = []

    def at_most(what: str, bar: float, value: WorldMean) -> None:
        found.append(Goal.of(what, scenario, value, bar, at_most=True))

    def above_static(what: str, bar: float, name: str) -> None:
        value = simulation.difference(scenario, ours, STATIC, name)
        found.append(Goal.of(what, scenario, value, bar, at_most=False))

    def median(what: str, bar: float, which: str) -> None:
        if times := simulation.times(scenario, ours, which):
            worlds = [getattr(one, which) for one in simulation.played[scenario][ours]]
            low, high = interval_of_median(worlds)
            found.append(Goal(what, scenario, low, median_time(times), high, bar, True))

    for scenario, played in simulation.played.items():
        if ours not in played:
            continue
        if scenario == "main":
            at_most("regret, share of static's", 0.55, simulation.ratio(scenario, ours, STATIC))
            if LEARNED in played:
                at_most("regret, share of learned's", 0.60, simulation.ratio(scenario, ours, LEARNED))
            above_static("success, points above static", 8, "success")
            above_static("recall, points above static", 10, "recall")
            above_static("the same from 35 to 50 % of the time", 10, "steady_recall")
            above_static("first 10 messages of a context, points above static", -1, "start")
            lost = simulation.estimate(scenario, ours, "lost_working")
            at_most("right tool that works lost, % of messages", 1, lost)
        else:
            above_static("success, points above static", 0, "success")
        if scenario in ("main", "break"):
            median("calls of a broken tool until it is out", 8, "out")
        if scenario == "main":
            median("messages until a repaired tool is back", 12, "back")
        if scenario == "channel" and ours in simulation.played.get("main", {}):
            pairs = zip(
                simulation.values("main", ours, "success"),
                simulation.values(scenario, ours, "success"),
                strict=True,
            )
            at_most("success, points lost to the channel", 1, WorldMean.of([a - b for a, b in pairs]))
    return found


def interval_of_median(worlds: Sequence[Sequence[SurvivalTime]]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median over worlds."""
    random = np.random.default_rng(0)
    medians = []
    for _ in range(_RESAMPLES):
        drawn = [time for at in random.integers(len(worlds), size=len(worlds)) for time in worlds[at]]
        if drawn:
            medians.append(median_time(drawn))
    medians.sort()
    edge = round(0.025 * (len(medians) - 1))
    return medians[edge], medians[-1 - edge]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.quality.learning", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", help="dataset folder; the demonstration catalog without one")
    parser.add_argument("--worlds", type=int, default=30)
    parser.add_argument("--messages", type=int, default=6_000)
    parser.add_argument("--scenario", default="main,null,channel,break", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    plan = SimulationPlan(
        options.folder,
        scenarios=tuple(options.scenario.split(",")),
        worlds=options.worlds,
        messages=options.messages,
    )
    simulation = simulate(plan, options.jobs)
    found = targets(simulation)
    print(table(simulation, found))
    return int(any(one.verdict == "missed" for one in found))


if __name__ == "__main__":
    sys.exit(main())
