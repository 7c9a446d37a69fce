"""What one changed tool of a large catalog costs, and how long other threads wait for it.

Each size is measured in a process of its own; ``python -m bench.latency.refresh N [realtime]`` prints what
one finds as a line of JSON. The time is that from the changed definition to the pipeline that selects by it;
`Toolroll.open` adds the time until it notices (`poll_s`, or a notification) and a query for what changed.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench import harness, timing, workloads
from bench.harness import Figure, sizes
from bench.holds import Holds

_MOST_MS = 200.0
_MOST_HELD_MS = 5.0
_REPEATS = 7


def cases(quick: bool) -> Iterator[Figure]:
    for n in sizes(2_000) if quick else sizes(10_000, 100_000):
        found = _measured(n)
        size = f"{n:,} tools"
        if found is None:
            yield Figure("one tool changed", size, None, "ms", note="toolroll cannot be imported")
            continue
        for kind in ("changed", "added", "removed"):
            one = found[kind]
            yield Figure(
                f"one tool {kind}, until it is selected",
                size,
                one["ms"],
                "ms",
                limit=_MOST_MS,
                note=f"median of {_REPEATS}, {one['cpu_ms']:.0f} ms of processor time; a whole build takes "
                f"{found['build_s']:.1f} s",
            )
            yield Figure(
                f"one tool {kind}, longest wait of another thread",
                size,
                one["held_ms"],
                "ms",
                limit=_MOST_HELD_MS,
                note=f"the least of {_REPEATS}, of which this thread computed; with waits for a processor "
                f"{one['waited_ms']:.1f} ms",
            )
        yield Figure(
            "damping and calibration measured anew, in the background",
            size,
            found["measured_s"],
            "s",
            note=f"the longest wait of another thread {found['measured_held_ms']:.1f} ms",
        )


def _measured(n: int) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "bench.latency.refresh", str(n)]
    command += ["realtime"] if harness.asked_realtime else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 3:
        return None
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(n: int, realtime: bool) -> dict[str, Any]:
    from toolroll.catalog.refresh import ToolChanges
    from toolroll.embedders.static import StaticEmbedder
    from toolroll.formats.sources.dicts import read_tools
    from toolroll.selection.effective_policy import EffectivePolicy
    from toolroll.selection.pipeline_builder import PipelineBuilder
    from toolroll.selection.profiles import PROFILES

    definitions, policy = read_tools(workloads.tools(n)), EffectivePolicy()
    builder = PipelineBuilder(StaticEmbedder(), PROFILES["default"])
    start = time.perf_counter()
    pipeline = builder.pipeline(definitions, policy)
    found: dict[str, Any] = {"build_s": time.perf_counter() - start}
    rest, some = replace(definitions, tools=()), definitions.tools[n // 2]
    here = frozenset({some.name})
    kinds = {
        "changed": ToolChanges(here, (replace(some, description="Folds paper cranes."),)),
        "added": ToolChanges(frozenset(), (replace(some, name="aaa_new"),)),
        "removed": ToolChanges(here, ()),
    }
    gc.collect()
    for kind, changes in kinds.items():
        took, cpu, waited, held = [], [], [], []
        for _ in range(_REPEATS):
            with timing.scheduled(None, realtime):
                start, computed = time.perf_counter(), time.thread_time()
                changed = builder.changed(pipeline, changes, rest, policy)
                took.append(time.perf_counter() - start)
                cpu.append(time.thread_time() - computed)
            assert changed is not None
            with timing.scheduled(None, realtime), Holds() as holds:
                del changed
                changed = builder.changed(pipeline, changes, rest, policy)
            assert changed is not None
            waited.append(holds.longest_s)
            held.append(holds.held_s)
        found[kind] = {
            "ms": sorted(took)[_REPEATS // 2] * 1e3,
            "cpu_ms": sorted(cpu)[_REPEATS // 2] * 1e3,
            "waited_ms": min(waited) * 1e3,
            "held_ms": min(held) * 1e3,
        }
        start = time.perf_counter()
        with Holds() as holds:
            builder.measured(changed)
        found["measured_s"] = time.perf_counter() - start
        found["measured_held_ms"] = holds.held_s * 1e3
    return found


if __name__ == "__main__":
    try:
        print(json.dumps(_measure(int(sys.argv[1]), "realtime" in sys.argv[2:])))
    except ImportError as failure:
        print(f"toolroll: {failure}", file=sys.stderr)
        sys.exit(3)
