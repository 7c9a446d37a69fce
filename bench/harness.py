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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.timing import Call, Conditions, Contestant, Remote, preemptions, take_turns

_AS_USUAL = Conditions()

asked_sizes: tuple[int, ...] = ()
asked_realtime = False  # for modules that time a process of their own; cases are timed by `run_case`


def sizes(*usual: int) -> tuple[int, ...]:
    """Catalog sizes to measure: the usual ones, or those that ``--sizes`` asked for."""
    return asked_sizes or usual


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
        cold_bytes: of memory that are touched before each call, so that it finds nothing in the caches.
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
    cold_bytes: int = 0


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


def run_case(case: Case, how: Conditions = _AS_USUAL) -> dict[str, Any]:
    """Checks, times and judges one case; the result is what the record keeps of it."""
    row: dict[str, Any] = {"operation": case.operation, "size": case.size, "note": case.note}
    everybody: dict[str, Call | str | None] = {"ours": case.ours, **case.peers}
    calls = {name: call for name, call in everybody.items() if callable(call)}
    absent = {
        name: Contestant(name, why=call if isinstance(call, str) else "not installed")
        for name, call in everybody.items()
        if name not in calls
    }
    try:
        row["check"] = case.check()
        before = preemptions()
        budget_ns = how.budget_ns(case.budget_s)
        timed = take_turns(calls, case.repeats, budget_ns, how, case.cold_bytes) | absent
        row["preempted"] = preemptions() - before
    except AssertionError as error:
        return row | {"wrong": str(error) or "the check failed", "met": False}
    finally:
        for call in calls.values():
            if isinstance(call, Remote):
                call.close()
    if callable(case.ours) and timed["ours"].why is not None:
        return row | {"crashed": timed["ours"].why, "met": False}
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
