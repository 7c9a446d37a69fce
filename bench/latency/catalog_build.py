"""What a catalog costs before the first message: seconds without embedding, memory, a start from a file.

Each size is built in a process of its own; ``python -m bench.latency.catalog_build N FILE [realtime]`` prints
what one finds as a line of JSON, and saves the catalog. ``python -m bench.latency.catalog_build start FILE
[realtime]`` starts from that file.
"Without embedding" is a second build with an embedder that gives out the vectors of the first. A start is
timed in a process that has imported toolroll, from `Toolroll.load` to the end of the first selection.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench import harness, peers, timing, workloads
from bench.harness import Figure, sizes
from bench.peers.run import rss_bytes

_SECONDS = {10_000: 0.5, 100_000: 5.0}
_MEGABYTES = {100_000: 300.0, 1_000_000: 2_500.0}
_START_MS = {10_000: 50.0, 100_000: 200.0, 1_000_000: 1_500.0}
_STARTS = 7
_PEERS = {"ratel-ai BM25": ("ratel", {}), "callbus BM25": ("callbus", {"mode": "bm25"})}


def cases(quick: bool) -> Iterator[Figure]:
    for n in sizes(1_000) if quick else sizes(10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "catalog")
            made = _measured(str(n), path)
            starts = [_measured("start", path) for _ in range(_STARTS)] if made else []
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
        known = [start for start in starts if start is not None]
        best = min(known, key=lambda start: float(start["start_s"]))
        yield Figure(
            operation="start from a saved catalog",
            size=f"{n:,} tools",
            value=best["start_s"] * 1e3,
            unit="ms",
            limit=_START_MS.get(n),
            note=f"first selection included, best of {len(known)} processes, "
            f"{best['cpu_s'] * 1e3:.0f} ms of processor time, {best['embedder_s'] * 1e3:.0f} ms of them for "
            f"the embedder's tables; the file has {made['saved_bytes'] / 1e6:.0f} MB and takes "
            f"{made['save_s']:.1f} s to save; {best['private_bytes'] / 1e6:.0f} MB are the process's own",
        )


def _measured(what: str, path: str) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "bench.latency.catalog_build", what, path]
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


def _measure(n: int, path: str, realtime: bool) -> dict[str, Any]:
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
    start = time.perf_counter()
    roll.save(path)
    save_s = time.perf_counter() - start
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
        "save_s": save_s,
        "saved_bytes": os.path.getsize(path),
    }


def _start(path: str, realtime: bool) -> dict[str, Any]:
    from toolroll import Toolroll

    before = _private_bytes()
    with timing.scheduled(None, realtime):
        start, start_cpu = time.perf_counter(), time.process_time()
        roll = Toolroll.load(path)
        roll.select("please approve the overdue invoice", k=7)
        took, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        private = _private_bytes() - before
        from toolroll.embedders import static

        static._load.cache_clear()
        start_cpu = time.process_time()
        static.StaticEmbedder()
        embedder = time.process_time() - start_cpu
    return {"start_s": took, "cpu_s": cpu, "embedder_s": embedder, "private_bytes": private}


def _private_bytes() -> int:
    """Bytes that no other process shares: a mapped file is not among them."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
            return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))
    except OSError:  # not Linux
        return 0


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
        what, path, is_realtime = sys.argv[1], sys.argv[2], "realtime" in sys.argv
        print(
            json.dumps(
                _start(path, is_realtime) if what == "start" else _measure(int(what), path, is_realtime)
            )
        )
    except ImportError as failure:
        print(f"toolroll: {failure}", file=sys.stderr)
        sys.exit(3)
