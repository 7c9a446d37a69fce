"""Times whole selections on this machine, by stage, for `toolroll bench`."""

from __future__ import annotations

import gc
import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toolroll.catalog.tool_text import description_text
from toolroll.lab.evaluation.workloads import messages, tools
from toolroll.roll import Toolroll

_WARM_UP = 50
_GRAPH_FROM = 40_000  # tools
_ROTATION = 200  # messages in rotation


def measure(size: int, seconds: float) -> dict[str, Any]:
    """Times selections over `size` synthetic tools for about `seconds`, and plain Python for the same time.

    Returns plain values for JSON: build_s includes the graph of a large catalog, stages_us are medians, and
    python_us is the median of a ranking in numpy with a keyword loop.
    """
    definitions = tools(size)
    start = time.perf_counter()
    # A process builds this graph in the background, some time after its start.
    roll = Toolroll.from_tools(definitions, hnsw=size >= _GRAPH_FROM)
    build_s = time.perf_counter() - start
    asked = messages(_ROTATION, catalog=min(size, 158))
    stages: defaultdict[str, list[float]] = defaultdict(list)

    def ours(message: str) -> None:
        picked = roll.select(message, k=7)
        for stage, nanoseconds in picked.timings:
            stages[stage].append(nanoseconds / 1e3)

    spent = _times(ours, asked, seconds)
    plain = _times(_plain_python(roll), asked, seconds)
    p50, p95, p99 = np.percentile(spent, (50, 95, 99)).tolist()
    return {
        "tools": size,
        "build_s": round(build_s, 3),
        "selections": len(spent),
        "p50_us": round(p50, 1),
        "p95_us": round(p95, 1),
        "p99_us": round(p99, 1),
        "stages_us": {stage: round(float(np.median(times)), 1) for stage, times in stages.items()},
        "python_us": round(float(np.median(plain)), 1),
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """The results as text."""
    lines = [
        f"{'tools':>9}{'build s':>9}{'p50 µs':>10}{'p95 µs':>10}{'p99 µs':>10}{'numpy µs':>11}{'ratio':>8}"
    ]
    for r in results:
        lines.append(
            f"{r['tools']:>9,}{r['build_s']:>9.2f}{r['p50_us']:>10.1f}{r['p95_us']:>10.1f}{r['p99_us']:>10.1f}"
            f"{r['python_us']:>11.1f}{r['python_us'] / r['p50_us']:>7.1f}×"
        )
    for r in results:
        stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in r["stages_us"].items())
        lines.append(f"{r['tools']:,} tools by stage (median µs): {stages}")
    lines.append(
        "numpy: the same message vector against all tool vectors, and words counted, in plain Python."
    )
    return "\n".join(lines)


def _times(call: Callable[[str], object], asked: Sequence[str], seconds: float) -> list[float]:
    """Microseconds of single calls, with the garbage collector off."""
    for message in asked[:_WARM_UP]:
        call(message)
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        spent, at = [], 0
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline or at < 3:
            start = time.perf_counter_ns()
            call(asked[at % len(asked)])
            spent.append((time.perf_counter_ns() - start) / 1e3)
            at += 1
    finally:
        if was_enabled:
            gc.enable()
    return spent


def _plain_python(roll: Toolroll) -> Callable[[str], list[str]]:
    """The times of a ranking without a library: embed, multiply, count words, sort."""
    from toolroll.embedders.static import StaticEmbedder

    embedder = StaticEmbedder()
    catalog = roll.catalog
    texts = [description_text(tool) for tool in catalog.tools]
    vectors = embedder.embed(texts)
    bags = [frozenset(re.findall(r"\w+", text.lower())) for text in texts]

    def select(message: str) -> list[str]:
        asked = frozenset(re.findall(r"\w+", message.lower()))
        overlap = np.fromiter((len(asked & bag) for bag in bags), np.float32, len(bags))
        scores = vectors @ embedder.embed_query(message) + overlap / max(len(asked), 1)
        best = np.argpartition(-scores, min(7, len(scores) - 1))[:7]
        return [catalog.tools[row].name for row in best[np.argsort(-scores[best])]]

    return select
