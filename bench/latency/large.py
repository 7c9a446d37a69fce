"""The whole `select` in a catalog of any size, from a saved file: a million tools take minutes to build.

``python -m bench.latency.large build N FILE`` builds N tools without a graph and then with it, and saves them
as FILE.exact and FILE. ``python -m bench.latency.large measure N FILE [realtime]`` starts from these files
and prints how long a start and a selection take, and how many of the seven tools are those of the exact scan.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time

from bench import timing, workloads
from bench.latency.select import K, definitions
from bench.peers.run import rss_bytes

_ASKED_OF = 100_000  # tools that the messages are about: a larger catalog begins with them
_WARM_UP, _TIMED, _COMPARED = 300, 3_000, 300


def _build(n: int, path: str) -> dict[str, float]:
    from toolroll import Toolroll
    from toolroll._core import GraphBuild
    from toolroll.embedders.static import StaticEmbedder

    embedder, given = StaticEmbedder(), definitions(n)
    gc.collect()
    before, start = rss_bytes(), time.perf_counter()
    roll = Toolroll.from_tools(given, embedder=embedder, hnsw=False)
    built_s = time.perf_counter() - start
    gc.collect()
    used = rss_bytes() - before
    roll.save(f"{path}.exact")
    start, vectors = time.perf_counter(), roll.catalog.indexes.vectors
    assert vectors is not None
    build = GraphBuild(vectors)
    while build.is_running:
        time.sleep(0.1)
    graph_s = time.perf_counter() - start
    roll.save(path)
    return {"build_s": built_s, "graph_s": graph_s, "memory_mb": used / 1e6}


def _measure(n: int, path: str, realtime: bool) -> dict[str, float]:
    from toolroll import Context, Toolroll

    context = Context()
    asked = workloads.messages(_WARM_UP + _TIMED + _COMPARED, min(n, _ASKED_OF))
    timed, compared = asked[_WARM_UP : _WARM_UP + _TIMED], asked[_WARM_UP + _TIMED :]
    with timing.scheduled(None, realtime):
        start = time.perf_counter()
        roll = Toolroll.load(path)
        roll.select("please approve the overdue invoice", context, k=K)
        start_s = time.perf_counter() - start
        for message in asked[:_WARM_UP]:
            roll.select(message, context, k=K)
        gc.collect()
        gc.disable()
        took = []
        for message in timed:
            begin = time.perf_counter_ns()
            roll.select(message, context, k=K)
            took.append((time.perf_counter_ns() - begin) / 1e3)
        gc.enable()
    took.sort()
    exact = Toolroll.load(f"{path}.exact")
    shares = []
    for message in compared:
        right = set(exact.select(message, context, k=K).names)
        shares.append(len(right.intersection(roll.select(message, context, k=K).names)) / max(len(right), 1))
    return {
        "start_ms": start_s * 1e3,
        "p50_us": statistics.median(took),
        "p99_us": took[len(took) * 99 // 100],
        "min_us": took[0],
        "recall": statistics.fmean(shares),
    }


if __name__ == "__main__":
    what, size, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    found = _build(size, file) if what == "build" else _measure(size, file, "realtime" in sys.argv)
    print(json.dumps(found))
