"""Compares policies on many worlds, for `toolroll simulate`.

Every policy plays the same worlds, message by message, so differences are paired by world, and intervals are
over worlds. Static selection is always played, as the baseline.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toolroll._version import __version__
from toolroll.lab.offline.work import On, Task, run
from toolroll.lab.simulation.player import POLICIES, RollPlayer, play
from toolroll.lab.simulation.projection import t_quantile
from toolroll.lab.simulation.simulated_model import oracle
from toolroll.lab.simulation.source_data import HALVES, Half, SourceData, share_repeated
from toolroll.lab.simulation.world_metrics import SurvivalTime, WorldMetrics, measure
from toolroll.lab.simulation.worlds import SCENARIOS, World
from toolroll.model.errors import InvalidInput, quoted

STATIC = "static"

Progress = Callable[[int, int], None]  # worlds played, in all


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """The parameters of a simulation.

    Attributes:
        folder: dataset folder; None for the demonstration catalog. half: which half of its messages to use.
        worlds: the number for each scenario. seed: of the first world. messages: the number in each world.
        k: number of shown tools, without base and pinned ones.
        changes: parameters of the policy "default".
    """

    folder: str | None = None
    half: Half = "judge"
    scenarios: tuple[str, ...] = ("main",)
    policies: tuple[str, ...] = ("static", "learned", "default")
    worlds: int = 30
    messages: int = 6_000
    seed: int = 1
    k: int = 7
    changes: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        for what, given, known in (
            ("scenario", self.scenarios, SCENARIOS),
            ("policy", self.policies, POLICIES),
            ("half", (self.half,), HALVES),
        ):
            for name in given:
                if name not in known:
                    raise InvalidInput(f"{what} {quoted(name)}: unknown; known are {', '.join(known)}")
        for name, least in (("worlds", 1), ("messages", 100), ("seed", 0), ("k", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name}: is {getattr(self, name)}, must be at least {least}")


@dataclass(frozen=True, slots=True)
class WorldMean:
    """A mean over worlds. half_width: of its 95 % interval (Student's t); NaN for a single world."""

    mean: float
    half_width: float

    @classmethod
    def of(cls, values: Sequence[float]) -> WorldMean:
        """From the values of all worlds."""
        n = len(values)
        if n < 2:
            return cls(float(np.mean(values)), math.nan)
        return cls(float(np.mean(values)), t_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n))

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + (
            f" ± {self.half_width:.2f}" if self.half_width == self.half_width else ""
        )


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The result of a simulation.

    Attributes:
        name: of the folder. tools, texts: the numbers of its tools and messages.
        repeated: share of messages whose text occurred earlier in their world.
        played: scenario → policy → the metrics of each world, in the order of the random seeds.
    """

    plan: SimulationPlan
    name: str
    tools: int
    texts: int
    repeated: float
    played: Mapping[str, Mapping[str, Sequence[WorldMetrics]]]
    seconds: float

    def values(self, scenario: str, policy: str, name: str) -> list[float]:
        """The values of all worlds."""
        return [one.values[name] for one in self.played[scenario][policy]]

    def estimate(self, scenario: str, policy: str, name: str) -> WorldMean:
        """The mean over worlds."""
        return WorldMean.of(self.values(scenario, policy, name))

    def difference(self, scenario: str, policy: str, other: str, name: str) -> WorldMean:
        """The mean difference to the other policy's value, paired by world."""
        pairs = zip(self.values(scenario, policy, name), self.values(scenario, other, name), strict=True)
        return WorldMean.of([ours - theirs for ours, theirs in pairs])

    def ratio(self, scenario: str, policy: str, other: str, name: str = "regret") -> WorldMean:
        """The mean ratio to the other policy's value, paired by world."""
        pairs = zip(self.values(scenario, policy, name), self.values(scenario, other, name), strict=True)
        return WorldMean.of([ours / max(theirs, 1e-9) for ours, theirs in pairs])

    def times(self, scenario: str, policy: str, which: str) -> list[SurvivalTime]:
        """The times of all worlds. which: the metric, "out" or "back"."""
        return [wait for one in self.played[scenario][policy] for wait in getattr(one, which)]


def simulate(
    plan: SimulationPlan,
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    on: On = "here",
    kept: str | None = None,
) -> Simulation:
    """Plays every world of the plan. The result does not depend on where they are played.

    jobs, on, kept: as for `toolroll.lab.offline.work.run`.

    Raises:
        NotFound, InvalidDefinition, InvalidInput: as `SourceData.read`.
        Unavailable: as `work.run`.
    """
    start = time.perf_counter()
    source = SourceData.read(plan.folder, plan.half)
    report = progress or (lambda done, of: None)
    tasks = [
        (scenario, seed) for scenario in plan.scenarios for seed in range(plan.seed, plan.seed + plan.worlds)
    ]
    of = hashlib.sha256(repr((__version__, plan, source.definitions, source.messages)).encode()).hexdigest()
    results = run(
        [Task(f"{of} {scenario} {seed}", _played, (plan, scenario, seed)) for scenario, seed in tasks],
        on=on,
        jobs=min(jobs, len(tasks)),
        kept=kept,
        progress=report,
    )
    found: dict[tuple[str, int], dict[str, WorldMetrics]] = {
        task: {policy: WorldMetrics.from_json(written) for policy, written in json.loads(result).items()}
        for task, result in zip(tasks, results, strict=True)
    }
    played = {
        scenario: {
            policy: [found[task][policy] for task in tasks if task[0] == scenario]
            for policy in found[tasks[0]]
        }
        for scenario in plan.scenarios
    }
    first = World.draw(source, SCENARIOS[plan.scenarios[0]], plan.seed, plan.messages)
    return Simulation(
        plan,
        source.name,
        len(source.definitions.tools),
        len(source.messages),
        share_repeated(first.message),
        played,
        time.perf_counter() - start,
    )


def play_world(plan: SimulationPlan, source: SourceData, scenario: str, seed: int) -> dict[str, WorldMetrics]:
    """Policy → its metrics in one world."""
    world = World.draw(source, SCENARIOS[scenario], seed, plan.messages)
    best = oracle(world)
    static = play(world, RollPlayer(world, STATIC, plan.k))
    measures = {STATIC: measure(world, static, static, best)}
    for policy in plan.policies:
        if policy != STATIC:
            changes = dict(plan.changes) if policy == "default" else {}
            trajectory = play(world, RollPlayer(world, policy, plan.k, changes))
            measures[policy] = measure(world, trajectory, static, best)
    return measures


def _played(plan: SimulationPlan, scenario: str, seed: int) -> bytes:
    """A world's metrics as JSON, which is safe to read."""
    measures = play_world(plan, _source_of(plan.folder, plan.half), scenario, seed)
    return json.dumps({policy: of.to_json() for policy, of in measures.items()}).encode()


@lru_cache(maxsize=2)
def _source_of(folder: str | None, half: Half) -> SourceData:
    """The tools and messages of a plan's worlds, read once in each process."""
    return SourceData.read(folder, half)
