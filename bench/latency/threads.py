"""What another Python thread costs a selection: one that computes, and one that selects, too.

A call that releases the interpreter (the GIL) waits until the other thread gives it back, 5 ms as CPython is
set up, if that thread is in pure Python. The other thread gets the interpreter only if a processor is free at
once: measure on a quiet machine or with `--realtime`. Each contestant runs in a process of its own, in turns
alone, beside a thread that counts, and in two threads at once.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import environments, harness
from bench.harness import Figure, sizes

K = 7
MESSAGES = 2048
ROUNDS, QUICK_ROUNDS = 8, 2
BURST_S = 0.5
#: Beside busy threads the median must not be more than so many times the idle one.
MOST_TIMES = 1.5
BUSY = (1, 4)
#: Selecting threads → the least selections a second of all, over those of one alone. From so many tools on
#: the core selects without the interpreter's lock, and two threads use two processors.
LEAST_TOGETHER = {2: 0.95, 8: 0.9}
LARGE, LEAST_TOGETHER_LARGE = 100_000, {2: 1.6, 8: 1.6}
MOST_P99_US = 1_500.0  # with eight selecting threads

_PEERS = {"ratel-ai BM25": "ratel", "microresolve": "microresolve"}
_OURS = ("select", "session turn", "select and record")


def cases(quick: bool) -> Iterator[Figure]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    for n in sizes(158) if quick else sizes(158, LARGE):
        names = _OURS if n < LARGE else _OURS[:1]
        ours = {name: _measured(name, n, rounds) for name in names}
        theirs = {name: _measured(peer, n, rounds) for name, peer in _PEERS.items() if n < LARGE}
        for name in names:
            peers = theirs if name == "select" else {}
            for busy in BUSY:
                yield _beside_busy(name, n, busy, ours[name], peers)
        for threads in LEAST_TOGETHER:
            yield _together(n, threads, ours["select"], theirs)
        yield _slowest(n, ours["select"])


def _beside_busy(name: str, n: int, busy: int, found: Any, theirs: dict[str, Any]) -> Figure:
    key, busy_threads = (
        f"busy {busy}",
        "one busy Python thread" if busy == 1 else f"{busy} busy Python threads",
    )
    operation, size = f"{name} beside {busy_threads}", f"{n:,} tools"
    if isinstance(found, str):
        return Figure(operation, size, None, "us", note=found)
    beside = [
        f"{peer} {times['idle']:.0f} idle, {times[key] / times['idle']:.1f} times that beside them"
        for peer, times in theirs.items()
        if not isinstance(times, str)
    ]
    note = f"p50; idle {found['idle']:.0f}, ratio {found[key] / found['idle']:.2f}"
    return Figure(
        operation,
        size,
        found[key],
        "us",
        limit=MOST_TIMES * found["idle"],
        note="; ".join([note, *beside]),
        peers={peer: times if isinstance(times, str) else times[key] for peer, times in theirs.items()},
    )


def _slowest(n: int, found: Any) -> Figure:
    operation, size = "p99 of eight selecting threads", f"{n:,} tools"
    if isinstance(found, str):
        return Figure(operation, size, None, "us", note=found)
    return Figure(operation, size, found["p99 of 8"], "us", limit=MOST_P99_US, note="of one selection")


def _together(n: int, threads: int, found: Any, theirs: dict[str, Any]) -> Figure:
    key = f"together {threads}"
    operation, size = f"{threads} selecting threads together", f"{n:,} tools"
    least = (LEAST_TOGETHER_LARGE if n >= LARGE else LEAST_TOGETHER)[threads]
    if isinstance(found, str):
        return Figure(operation, size, None, "times", note=found)
    return Figure(
        operation,
        size,
        found[key],
        "times",
        note=f"selections a second of all, over those of one alone; should be at least {least}",
        peers={peer: times if isinstance(times, str) else times[key] for peer, times in theirs.items()},
    )


def _measured(name: str, n: int, rounds: int) -> dict[str, float] | str:
    """Median microseconds alone and beside a busy thread, and the throughput of two; or why there is none."""
    root = Path(__file__).resolve().parents[2]
    python = sys.executable if name in _OURS else environments.python_for("main")
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [python, "-m", "bench.latency.threads", name, str(n), str(rounds), str(int(harness.asked_realtime))],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        timeout=600,
        check=False,
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:200]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _call(name: str, n: int) -> Callable[[int], object]:
    from toolroll.lab.evaluation import workloads

    asked = workloads.messages(MESSAGES, n)
    if name not in _OURS:
        import importlib

        select = importlib.import_module(f"bench.peers.{name}").build(workloads.tools(n), None)
        return lambda i: select(asked[i % MESSAGES], K)
    from toolroll import Context, Toolroll

    kept = ("name", "description", "parameters")
    roll = Toolroll.from_tools(
        [{key: tool[key] for key in kept} for tool in workloads.tools(n)], hnsw=n >= LARGE
    )
    context = Context()
    if name == "select":
        return lambda i: roll.select(asked[i % MESSAGES], context, k=K)

    def record(i: int) -> object:
        picked = roll.select(asked[i % MESSAGES], context, k=K)
        return roll.record(picked, {picked.names[0]: True}) if picked.names else None

    if name == "select and record":
        return record

    def turn(i: int) -> None:
        if i % 20 == 0:  # a conversation of twenty turns
            opened.append(roll.session(f"conversation {i}"))
            del opened[:-1]
        session = opened[-1]
        picked = session.select(asked[i % MESSAGES], k=K)
        if picked.names:
            session.used({picked.names[0]: True})
        session.end_turn()

    opened: list[Any] = []
    return turn


@contextmanager
def _busy_threads(count: int) -> Iterator[None]:
    over = False

    def work() -> None:
        while not over:
            for _ in range(1_000):
                pass

    busy = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in busy:
        thread.start()
    try:
        yield
    finally:
        over = True
        for thread in busy:
            thread.join()


def _burst(call: Callable[[int], object], first: int) -> list[float]:
    times: list[float] = []
    until = time.perf_counter() + BURST_S
    while (start := time.perf_counter()) < until or len(times) < 20:
        call(first)
        times.append((time.perf_counter() - start) * 1e6)
        first += 1
    return times


def _burst_together(call: Callable[[int], object], first: int, count: int) -> list[float]:
    times: list[float] = []
    threads = [
        threading.Thread(target=lambda at=at: times.extend(_burst(call, first + at * 10_007)))
        for at in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def main(name: str, n: int, rounds: int) -> dict[str, float]:
    """Measures one contestant in this process."""
    call = _call(name, n)
    for i in range(200):
        call(i)
    gc.collect()
    gc.freeze()
    gc.disable()
    idle: list[float] = []
    busy: dict[int, list[float]] = {count: [] for count in BUSY}
    together: dict[int, list[float]] = {count: [] for count in LEAST_TOGETHER}
    at = 0
    for _ in range(rounds):
        idle += _burst(call, at := at + 100_020)
        for count, times in busy.items():
            with _busy_threads(count):
                times += _burst(call, at := at + 100_020)
        if name not in _OURS[1:]:  # those take turns with one lock, or one conversation
            for count, times in together.items():
                times += _burst_together(call, at := at + 100_020, count)
    found = {"idle": statistics.median(idle)}
    found |= {f"busy {count}": statistics.median(times) for count, times in busy.items()}
    found |= {f"together {count}": len(times) / len(idle) for count, times in together.items()}
    if together[8]:
        found["p99 of 8"] = statistics.quantiles(together[8], n=100)[98]
    return found


if __name__ == "__main__":
    if sys.argv[4:] == ["1"]:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
