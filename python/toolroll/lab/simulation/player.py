"""Plays a world with a `Toolroll`, on the world's clock and with its random numbers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from toolroll.embedders import named
from toolroll.formats.sources.dicts import read_tools
from toolroll.homes.memory import MemoryHome
from toolroll.lab.simulation.simulated_model import ModelAction, respond
from toolroll.lab.simulation.source_data import Ints
from toolroll.lab.simulation.worlds import World
from toolroll.model.tools import Definitions
from toolroll.roll import Toolroll
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import Profile, profile
from toolroll.selection.selection import Selection

# Name → profile. The last is Thompson sampling over static retrieval.
POLICIES: Mapping[str, Profile] = {
    "static": profile("static"),
    "learned": profile("learned"),
    "default": profile("default"),
    "thompson": profile("static").with_(learning="thompson"),
}


class RollPlayer:
    """Selects with a `Toolroll` under a policy, and reports to it."""

    def __init__(
        self, world: World, policy: str, k: int, changes: Mapping[str, object] | None = None
    ) -> None:
        """changes: parameters of the profile to change."""
        self._world, self._k, self._at = world, k, 0
        parameters = POLICIES[policy].with_(**(changes or {}))
        if parameters.learning == "thompson":
            parameters = parameters.with_(candidates=k)  # more would forget the message
        self._listens = parameters.learning is not None
        self._arrived = 0
        builder = PipelineBuilder(named.embedder("static"), parameters)
        self._roll = Toolroll(
            MemoryHome(self._definitions(0), builder, read=self._newest, clock=self._now, draw=self._seed)
        )
        self._place = {tool.name: at for at, tool in enumerate(world.tools)}
        self._picked: dict[int, Selection] = {}

    def arrive(self, at: int) -> None:
        """Adds the newcomers to the catalog. Statistics stay."""
        self._arrived = at
        self._roll.refresh()

    def select(self, at: int) -> tuple[int, ...]:
        """The tools shown for message `at`, in order."""
        self._at = at
        world = self._world
        message = world.source.messages[world.message[at]]
        picked = self._roll.select(
            message.text, world.context_of(at), self._k, history=message.history, strict=True
        )
        self._picked[at] = picked
        self._picked.pop(at - world.scenario.delay - 1, None)
        return tuple([self._place[name] for name in picked.names])

    def report(self, at: int, action: ModelAction) -> None:
        """Records the model's action for message `at`."""
        if not self._listens:
            return
        picked = self._picked[at]
        if action.tool < 0:
            self._roll.record(picked)
            return
        name = self._world.tools[action.tool].name
        if action.outcome == "corrected":
            self._roll.record(picked, corrected=(name,))
        elif action.outcome == "wanted":
            self._roll.record(picked, wanted={name: action.succeeded})
        else:
            self._roll.record(picked, {name: action.succeeded})

    def _newest(self, tools: object) -> Definitions:
        return read_tools(self._definitions(self._arrived).tools)

    def _definitions(self, at: int) -> Definitions:
        definitions = self._world.definitions(at)
        if not self._world.scenario.groups:
            return definitions
        tools = tuple(
            replace(tool, interchangeable=self._world.tools[self._world.family[place]].name)
            for place, tool in enumerate(definitions.tools)
        )
        return replace(definitions, tools=tools)

    def _now(self) -> float:
        return self._world.now(self._at)

    def _seed(self) -> int:
        """A random seed that is the same for every policy."""
        text = f"{self._world.seed}:{self._at}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


NOBODY = -1  # in place of a tool


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The selections and calls of a world under one policy.

    Attributes:
        shown: int32[T, most], the shown tools, in order, padded with NOBODY.
        called: int32[T], the called tool, or NOBODY.
        select_us, record_us: mean time of a selection and of a report.
    """

    shown: npt.NDArray[np.int32]
    called: Ints
    select_us: float
    record_us: float


def play(world: World, player: RollPlayer) -> Trajectory:
    """Plays all messages; reports are delayed, lost and duplicated as the scenario says."""
    shown: list[tuple[int, ...]] = []
    called = np.full(len(world), NOBODY)
    due: deque[tuple[int, int, ModelAction]] = deque()  # (when, message, action)
    selecting = reporting = reports = 0

    def deliver(until: int) -> None:
        nonlocal reporting, reports
        while due and due[0][0] <= until:
            _, at, what = due.popleft()
            start = time.perf_counter_ns()
            for _ in range(what.times):
                player.report(at, what)
            reporting += time.perf_counter_ns() - start
            reports += what.times

    for at in range(len(world)):
        if at == world.arrival:
            player.arrive(at)
        start = time.perf_counter_ns()
        tools = player.select(at)
        selecting += time.perf_counter_ns() - start
        what = respond(world, at, tools)
        shown.append(tools)
        called[at] = what.tool if what.outcome != "wanted" else NOBODY
        due.append((at + world.scenario.delay, at, what))
        deliver(at)
    table = np.full((len(world), max(map(len, shown))), NOBODY, np.int32)
    for at, tools in enumerate(shown):
        table[at, : len(tools)] = tools
    return Trajectory(table, called, selecting / 1e3 / len(world), reporting / 1e3 / max(1, reports))
