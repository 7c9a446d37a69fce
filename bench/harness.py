"""Times one operation beside its peers, so that the ratio can be believed on a busy machine.

Every contestant runs in bursts, one after the other, round after round: what disturbs the machine disturbs
all of them alike. Before each burst it runs untimed for a moment: a process that was just woken is up to
four times slower, and that is nobody's figure. Each call is timed by itself on one thread with the garbage
collector off; what the clock costs is measured and taken off. The answer is checked first: a wrong answer
is never timed.

A bench module has ``def cases(quick: bool) -> Iterator[Case | Figure]`` and builds each case when it is
asked for, so that two large indexes need not fit into memory together.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

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

asked_sizes: tuple[int, ...] = ()


def sizes(*usual: int) -> tuple[int, ...]:
    """Catalog sizes to measure: the usual ones, or those that ``--sizes`` asked for."""
    return asked_sizes or usual


@runtime_checkable
class Remote(Protocol):
    """A contestant that lives in a process of its own and times itself there, with `burst` below."""

    def __call__(self, i: int) -> object: ...

    def burst(
        self, first: int, budget_ns: int, at_most: int, cpu: int | None, realtime: bool
    ) -> list[int]: ...

    def close(self) -> None: ...


@dataclass
class Case:
    """One operation at one size, ours and what a user would take instead.

    Attributes:
        operation: "exact top-10"; the same text in all sizes.
        size: "10,000 x 384".
        ours: runs the i-th query. i counts up from 0 and never stops: take it modulo the size of your set.
            A text: why it cannot run; the peers are timed all the same.
        peers: name → the same for a peer. None: not installed. A text: why it cannot take part.
        check: compares the answers, ours with an oracle's and the peers'; returns a short text such as
            "recall@10 1.000" and raises AssertionError where they are wrong.
        bar: p50 must be at least so many times below the best peer's; None: no bar.
        note: what the reader must know: settings, and how far it is from which limit.
        repeats: calls of each contestant that are enough; fast ones are called more often, up to the budget.
        bars: name → bar for this peer alone.
        beside: peers that are shown and do not count as "best peer": they answer worse, or less.
        limit_us: p50 of ours must not be above; limit_p99_us the same for p99.
        reads: bytes that every answer has to read; the report sets the measured bandwidth against it.
        budget_s: seconds of timing for each contestant; None: the run's own budget.
    """

    operation: str
    size: str
    ours: Call | str
    peers: Mapping[str, Call | str | None]
    check: Callable[[], str]
    bar: float | None = None
    note: str = ""
    repeats: int = 2000
    bars: Mapping[str, float] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    limit_us: float | None = None
    limit_p99_us: float | None = None
    reads: int = 0
    budget_s: float | None = None


@dataclass
class Figure:
    """A number that is no time of a call: memory, a size, a growth; with its limit and the peers' numbers."""

    operation: str
    size: str
    value: float | None
    unit: str
    limit: float | None = None
    note: str = ""
    peers: Mapping[str, float | str | None] = field(default_factory=dict)


def clock_cost_ns(samples: int = 20_000) -> int:
    """What two neighbouring readings of the clock lie apart when nothing happens between them: the median."""
    apart = []
    for _ in range(samples):
        start = _clock()
        apart.append(_clock() - start)
    return int(statistics.median(apart))


def burst(call: Call, first: int, budget_ns: int, at_most: int, clock_ns: int) -> list[int]:
    """Times calls first, first + 1, … one by one until the budget is spent; at least one. Nanoseconds."""
    samples: list[int] = []
    add = samples.append
    i = first
    deadline = _clock() + budget_ns
    while True:
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
    """How this run times.

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

    def budget_s(self, case: Case) -> float:
        budget_s = BUDGET_S if case.budget_s is None else case.budget_s
        return min(budget_s, QUICK_BUDGET_S) if self.quick else budget_s


@contextlib.contextmanager
def scheduled(cpu: int | None, realtime: bool) -> Iterator[None]:
    """This thread on one processor, ahead of others; where the system does not allow it, as it was."""
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


def _time(calls: dict[str, Call], case: Case, how: Conditions) -> dict[str, Contestant]:
    """Warms every contestant up, then lets them take turns; who is first changes with each round."""
    names = list(calls)
    found = {name: Contestant(name) for name in names}
    if not names:
        return found
    budget_ns = int(how.budget_s(case) * 1e9)
    per_round = -(-max(case.repeats, MOST_CALLS) // how.rounds)
    clock_ns = clock_cost_ns()

    def run(name: str, for_ns: int, at_most: int) -> list[int]:
        call, first = calls[name], found[name].calls
        if isinstance(call, Remote):
            return call.burst(first, for_ns, at_most, how.cpu, how.realtime)
        with scheduled(how.cpu, how.realtime):
            return burst(call, first, for_ns, at_most, clock_ns)

    with _without_collector():
        again_ns = {}
        for name in names:
            warm = run(name, min(int(WARM_UP_S * 1e9), budget_ns), MOST_CALLS)
            again_ns[name] = 0 if min(warm) > WARM_UP_S * 1e9 else int(AGAIN_S * 1e9)
        for turn in range(how.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                done = found[name]
                if done.spent_ns > 2 * budget_ns and done.calls >= ENOUGH_CALLS:
                    continue  # calls of seconds: the rounds before were its whole budget
                if again_ns[name]:
                    run(name, again_ns[name], MOST_CALLS)
                done.rounds.append(run(name, budget_ns // how.rounds, per_round))
    return found


def run_case(case: Case, how: Conditions = Conditions()) -> dict[str, Any]:
    """Checks, times and judges one case; the result is what the record keeps of it."""
    row: dict[str, Any] = {"operation": case.operation, "size": case.size, "note": case.note}
    try:
        row["check"] = case.check()
    except AssertionError as error:
        return row | {"wrong": str(error) or "the check failed", "met": False}
    everybody: dict[str, Call | str | None] = {"ours": case.ours, **case.peers}
    calls = {name: call for name, call in everybody.items() if callable(call)}
    absent = {
        name: Contestant(name, why=call if isinstance(call, str) else "not installed")
        for name, call in everybody.items()
        if name not in calls
    }
    before = _preemptions()
    try:
        timed = _time(calls, case, how) | absent
    finally:
        for call in calls.values():
            if isinstance(call, Remote):
                call.close()
    row["preempted"] = _preemptions() - before
    ours = timed["ours"].summary()
    peers = [timed[name].summary() for name in case.peers]
    counted = [peer for peer in peers if "p50_us" in peer and peer["name"] not in case.beside]
    for peer in peers:
        peer["bar"] = case.bars.get(peer["name"])
        if "p50_us" in peer and "p50_us" in ours:
            peer["ratio"] = _ratio(peer["p50_us"], ours["p50_us"])
            peer["ratio_min"] = _ratio(peer["min_us"], ours["min_us"])
    best = min(counted, key=lambda peer: float(peer["p50_us"]), default=None)
    row |= {"ours": ours, "peers": peers, "bar": case.bar, "best": best and best["name"]}
    row |= {"limit_us": case.limit_us, "limit_p99_us": case.limit_p99_us}
    if case.reads:
        from bench.machine import read_bandwidth

        bandwidth = read_bandwidth(case.reads)
        row |= {"reads": case.reads, "read_GB_s": bandwidth / 1e9, "floor_us": case.reads / bandwidth * 1e6}
    return row | {"met": _met(case, ours, peers, best)}


def _ratio(theirs: float, ours: float) -> float:
    return theirs / max(ours, 1e-3)


def _met(
    case: Case, ours: dict[str, Any], peers: list[dict[str, Any]], best: dict[str, Any] | None
) -> bool | None:
    """False as soon as one bar is missed; None where nothing could be judged."""
    if "p50_us" not in ours:
        return None
    verdicts: list[bool] = []
    open_bars = 0
    if case.bar is not None:
        if best is None:
            open_bars += 1
        else:
            verdicts.append(best["ratio"] >= case.bar)
    timed = {p["name"]: p for p in peers if "p50_us" in p}
    for name, bar in case.bars.items():
        if name in timed:
            verdicts.append(timed[name]["ratio"] >= bar)
        else:
            open_bars += 1
    if case.limit_us is not None:
        verdicts.append(ours["p50_us"] <= case.limit_us)
    if case.limit_p99_us is not None:
        verdicts.append(ours["p99_us"] <= case.limit_p99_us)
    if not all(verdicts):
        return False
    return True if verdicts and not open_bars else None


def run_figure(figure: Figure) -> dict[str, Any]:
    """A number as the record keeps it."""
    return {
        "operation": figure.operation,
        "size": figure.size,
        "value": figure.value,
        "unit": figure.unit,
        "limit": figure.limit,
        "note": figure.note,
        "figures": dict(figure.peers),
        "met": None if figure.limit is None or figure.value is None else figure.value <= figure.limit,
    }


def _preemptions() -> int:
    """How often the system has taken the processor away from us so far."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
