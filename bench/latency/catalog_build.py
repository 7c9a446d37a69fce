"""What a catalog costs before the first message: seconds without embedding, and memory.

Each size is built in a process of its own; ``python -m bench.latency.catalog_build N [realtime]`` prints what
one finds as a line of JSON.
"Without embedding" is a second build with an embedder that gives out the vectors of the first.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench import harness, peers, timing, workloads
from bench.harness import Figure, sizes
from bench.peers.run import rss_bytes

_SECONDS = {10_000: 0.7, 100_000: 7.0}
_MEGABYTES = {100_000: 500.0}
_PEERS = {"ratel-ai BM25": ("ratel", {}), "callbus BM25": ("callbus", {"mode": "bm25"})}


def cases(quick: bool) -> Iterator[Figure]:
    for n in sizes(1_000) if quick else sizes(10_000, 100_000):
        made = _measured(n)
        if made is None:
            yield Figure("catalog build", f"{n:,} tools", None, "s", note="toolroll cannot be imported")
            continue
        seconds: dict[str, float | str | None] = {}
        megabytes: dict[str, float | str | None] = {}
        for name, (module, options) in _PEERS.items() if n <= 100_000 else ():
            peer = peers.start(module, {"tools": n, "options": options}, timeout_s=900)
            if isinstance(peer, peers.Remote):
                seconds[name] = peer.facts["build_s"]
                megabytes[name] = peer.facts["rss_bytes"] / 1e6
                peer.close()
            else:
                seconds[name] = megabytes[name] = peer
        yield Figure(
            operation="catalog build without embedding",
            size=f"{n:,} tools",
            value=made["build_s"],
            unit="s",
            limit=_SECONDS.get(n),
            note=f"from plain dicts, best of {made['builds']}, {made['cpu_s']:.2f} s of processor time; "
            f"embedding takes {made['embed_s']:.2f} s more",
            peers=seconds,
        )
        yield Figure(
            operation="memory of a catalog",
            size=f"{n:,} tools",
            value=made["catalog_bytes"] / 1e6,
            unit="MB",
            limit=_MEGABYTES.get(n),
            note=f"resident, beyond the caller's own {made['dicts_bytes'] / 1e6:.0f} MB of dicts; the "
            f"process {made['total_bytes'] / 1e6:.0f} MB, {made['peak_bytes'] / 1e6:.0f} MB while it builds",
            peers=megabytes,
        )


def _measured(n: int) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "bench.latency.catalog_build", str(n)]
    command += ["realtime"] if harness.asked_realtime else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 3:
        return None
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Replayed:
    """An embedder whose batches come back in the order in which they were first asked for."""

    is_instant = True

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self._batches: list[Any] = []
        self._at: int | None = None
        self.spent_s = 0.0
        self.identity, self.dim = embedder.identity, embedder.dim

    def rewind(self) -> None:
        """From now on gives out what was kept."""
        self._at = 0

    def embed(self, texts: Sequence[str]) -> Any:
        if self._at is not None:
            self._at += 1
            return self._batches[self._at - 1]
        start = time.perf_counter()
        self._batches.append(self._embedder.embed(texts))
        self.spent_s += time.perf_counter() - start
        return self._batches[-1]

    def embed_query(self, text: str) -> Any:
        return self._embedder.embed_query(text)


def _measure(n: int, realtime: bool) -> dict[str, Any]:
    from toolroll import Toolroll
    from toolroll.embedders.static import StaticEmbedder

    embedder = StaticEmbedder()
    warm = [{key: tool[key] for key in ("name", "description")} for tool in workloads.tools(20)]
    Toolroll.from_tools(warm, embedder=embedder).select("imports what it needs late", k=7)
    gc.collect()
    empty = rss_bytes()
    definitions = [
        {key: tool[key] for key in ("name", "description", "parameters")} for tool in workloads.tools(n)
    ]
    gc.collect()
    dicts = rss_bytes()
    roll = Toolroll.from_tools(definitions, embedder=embedder)
    gc.collect()
    total, peak = rss_bytes(), _peak_bytes()
    roll.select("please approve the overdue invoice", k=7)
    del roll
    replayed = _Replayed(embedder)
    Toolroll.from_tools(definitions, embedder=replayed)
    took, cpu = [], []
    for _ in range(5 if n <= 10_000 else 2):
        replayed.rewind()
        gc.collect()
        start, start_cpu = time.perf_counter(), time.process_time()
        with timing.scheduled(None, realtime):
            roll = Toolroll.from_tools(definitions, embedder=replayed)
        took.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
        del roll
    return {
        "build_s": min(took),
        "cpu_s": min(cpu),
        "builds": len(took),
        "embed_s": replayed.spent_s,
        "dicts_bytes": dicts - empty,
        "catalog_bytes": total - dicts,
        "total_bytes": total,
        "peak_bytes": peak,
    }


def _peak_bytes() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    try:
        print(json.dumps(_measure(int(sys.argv[1]), "realtime" in sys.argv)))
    except ImportError as failure:
        print(f"toolroll: {failure}", file=sys.stderr)
        sys.exit(3)
