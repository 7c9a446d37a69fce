"""Calls timed by turns: bursts, rounds, and what was measured of each contestant."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

Call = Callable[[int], object]
_clock = time.perf_counter_ns

ROUNDS = 8
QUICK_ROUNDS = 3
WARM_UP_S = 0.3
AGAIN_S = 0.05  # untimed, before each burst
BUDGET_S = 1.5  # for each contestant of a case
QUICK_BUDGET_S = 0.3
MOST_CALLS = 40_000
ENOUGH_CALLS = 3  # what even a call of many seconds is granted
_ELSEWHERE = 1_000_003  # untimed calls ask other queries than the timed ones behind them: no cache helps


@runtime_checkable
class Remote(Protocol):
    """A contestant that lives in a process of its own and times itself there, with `burst` below."""

    def __call__(self, i: int) -> object: ...

    def burst(
        self, first: int, budget_ns: int, at_most: int, cpu: int | None, realtime: bool, cold_bytes: int = 0
    ) -> list[int]: ...

    def close(self) -> None: ...


def clock_cost_ns(samples: int = 20_000) -> int:
    """What two neighbouring readings of the clock lie apart when nothing happens between them: the median."""
    apart = []
    for _ in range(samples):
        start = _clock()
        apart.append(_clock() - start)
    return int(statistics.median(apart))


def burst(
    call: Call, first: int, budget_ns: int, at_most: int, clock_ns: int, cold_bytes: int = 0
) -> list[int]:
    """Times calls first, first + 1, … one by one until the budget is spent; at least one. Nanoseconds.

    cold_bytes: of memory that are read and written before each call, untimed, so that the caches have nothing
    of the call's any more.
    """
    samples: list[int] = []
    add = samples.append
    i = first
    memory = np.zeros(cold_bytes, np.uint8)
    deadline = _clock() + budget_ns
    while True:
        if cold_bytes:
            np.add(memory, 1, out=memory)
        start = _clock()
        call(i)
        stop = _clock()
        add(stop - start)
        i += 1
        if stop >= deadline or i - first >= at_most:
            break
    return [max(ns - clock_ns, 0) for ns in samples]


@dataclass(frozen=True)
class Conditions:
    """How a run times.

    Attributes:
        quick: short bursts.
        cpu: processor to stay on; None leaves it to the system.
        realtime: goes before everything else on a busy machine (Linux, needs the right to), so that p99 is
            that of an idle one.
    """

    quick: bool = False
    cpu: int | None = None
    realtime: bool = False

    @property
    def rounds(self) -> int:
        return QUICK_ROUNDS if self.quick else ROUNDS

    def budget_ns(self, budget_s: float | None) -> int:
        """Nanoseconds of timing for one contestant of a case that asks for budget_s, or for the usual."""
        asked = BUDGET_S if budget_s is None else budget_s
        return int((min(asked, QUICK_BUDGET_S) if self.quick else asked) * 1e9)


@contextlib.contextmanager
def scheduled(cpu: int | None, realtime: bool) -> Iterator[None]:
    """Keeps this thread on one processor, ahead of others, as far as the system allows it."""
    allowed = None
    with contextlib.ExitStack() as undo:
        if cpu is not None and hasattr(os, "sched_setaffinity"):
            allowed = os.sched_getaffinity(0)
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {cpu})
            undo.callback(os.sched_setaffinity, 0, allowed)
        if realtime and hasattr(os, "sched_setscheduler"):
            policy, before = os.sched_getscheduler(0), os.sched_getparam(0)
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
                undo.callback(os.sched_setscheduler, 0, policy, before)
        yield


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _quantile(ordered: list[int], q: float) -> int:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@dataclass
class Contestant:
    """What was measured of one implementation; ``why`` is set, and nothing else, where it did not run."""

    name: str
    rounds: list[list[int]] = field(default_factory=list)
    why: str | None = None

    @property
    def calls(self) -> int:
        return sum(len(r) for r in self.rounds)

    @property
    def spent_ns(self) -> int:
        return sum(sum(r) for r in self.rounds)

    def summary(self) -> dict[str, Any]:
        """Microseconds: p50, p99, min and the spread over the rounds, as a record keeps them."""
        if self.why is not None or not self.rounds:
            return {"name": self.name, "why": self.why or "not run"}
        ordered = sorted(ns for r in self.rounds for ns in r)
        return {
            "name": self.name,
            "calls": len(ordered),
            "p50_us": _quantile(ordered, 0.50) / 1e3,
            "p99_us": _quantile(ordered, 0.99) / 1e3,
            "min_us": ordered[0] / 1e3,
            "p25_us": _quantile(ordered, 0.25) / 1e3,
            "p75_us": _quantile(ordered, 0.75) / 1e3,
            "p95_us": _quantile(ordered, 0.95) / 1e3,
            "max_us": ordered[-1] / 1e3,
            "round_p50_us": [_quantile(sorted(r), 0.50) / 1e3 for r in self.rounds],
        }


def take_turns(
    calls: Mapping[str, Call], repeats: int, budget_ns: int, how: Conditions, cold_bytes: int = 0
) -> dict[str, Contestant]:
    """Warms every contestant up, then lets them take turns; who is first changes with each round.

    A contestant that raises is out, and says why. cold_bytes: see `burst`.
    """
    found = {name: Contestant(name) for name in calls}
    per_round = -(-max(repeats, MOST_CALLS) // how.rounds)
    clock_ns = clock_cost_ns()

    def run(name: str, first: int, for_ns: int) -> list[int]:
        call = calls[name]
        if isinstance(call, Remote):
            return call.burst(first, for_ns, per_round, how.cpu, how.realtime, cold_bytes)
        with scheduled(how.cpu, how.realtime):
            return burst(call, first, for_ns, per_round, clock_ns, cold_bytes)

    def turn(name: str) -> None:
        done = found[name]
        if done.spent_ns > 2 * budget_ns and done.calls >= ENOUGH_CALLS:
            return  # calls of seconds: the rounds before were its whole budget
        if name not in slow:
            run(name, done.calls + _ELSEWHERE, int(AGAIN_S * 1e9))
        done.rounds.append(run(name, done.calls, budget_ns // how.rounds))

    def warm_up(name: str) -> None:
        if min(run(name, _ELSEWHERE, min(int(WARM_UP_S * 1e9), budget_ns))) > WARM_UP_S * 1e9:
            slow.add(name)

    slow: set[str] = set()
    names = list(calls)
    with _without_collector():
        for step in [warm_up, *[turn] * how.rounds]:
            for name in names:
                if found[name].why is None:
                    try:
                        step(name)
                    except Exception as error:  # a peer may throw anything
                        found[name].why = f"failed: {type(error).__name__}: {error}"[:300]
            names = names[1:] + names[:1]
    return found


def preemptions() -> int:
    """How often the system has taken the processor away from us so far."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
