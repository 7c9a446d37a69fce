"""Plays a world: each message is selected for, answered by the simulated model, and reported.

Selections and reports go through `Toolroll`, as an application's do; only its clock and its luck are the
world's.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from toolroll.evaluation.material import Ints
from toolroll.evaluation.model_user import Act, act
from toolroll.evaluation.worlds import World

NOBODY = -1  # in place of a tool


class Player(Protocol):
    """What is judged: selects for a world's messages, in order, and hears what came of it."""

    def arrive(self, at: int) -> None:
        """The catalog is now the world's at message `at`."""

    def select(self, at: int) -> tuple[int, ...]:
        """The tools shown for message `at`, in order."""

    def report(self, at: int, act: Act) -> None:
        """What the model did with what was shown for message `at`; never twice, never if it was lost."""


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """How a world went under one policy.

    Attributes:
        shown: int32[T, most], the tools shown, in order; NOBODY behind them.
        called: int32[T], the tool that was called, NOBODY for none.
        select_us, record_us: what one selection and one report took, in the mean.
    """

    shown: npt.NDArray[np.int32]
    called: Ints
    select_us: float
    record_us: float


def play(world: World, player: Player) -> Course:
    """All messages of the world, reports arriving as late, as often and as seldom as the scenario says."""
    shown: list[tuple[int, ...]] = []
    called = np.full(len(world), NOBODY)
    due: deque[tuple[int, int, Act]] = deque()  # (when, message, act)
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
        what = act(world, at, tools)
        shown.append(tools)
        called[at] = what.tool if what.said != "wanted" else NOBODY
        due.append((at + world.scenario.delay, at, what))
        deliver(at)
    table = np.full((len(world), max(map(len, shown))), NOBODY, np.int32)
    for at, tools in enumerate(shown):
        table[at, : len(tools)] = tools
    return Course(table, called, selecting / 1e3 / len(world), reporting / 1e3 / max(1, reports))
