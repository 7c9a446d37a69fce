"""Estimates over many events in Parquet: seconds by DuckDB, and on one and two workers of Ray.

``python -m bench.scale.events write FOLDER [EVENTS]`` writes events as `toolroll events export --partitioned`
does, 10,000,000 unless told otherwise; ``python -m bench.scale.events run FOLDER [here|ray]`` measures.
docs/scale.md has the figures.
"""

from __future__ import annotations

import json
import math
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

EVENTS, BUCKETS, TOOLS, RANKED, SHOWN = 10_000_000, 16, 158, 8, 5
_GROUP, _ROUNDS = 100_000, 3


def write(folder: Path, events: int) -> None:
    """Events of 10,000 organisations over a month: eight candidates each, five shown, one called."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from toolroll.registry.analytics.parquet import event_schema

    schema = event_schema(False, False)
    names = pa.array([f"tool_{n:03d}" for n in range(TOOLS)])
    begin = int(datetime(2026, 3, 1, tzinfo=timezone.utc).timestamp() * 1e6)
    for bucket in range(BUCKETS):
        draw = np.random.default_rng(bucket)
        path = folder / f"org_hash={bucket:04d}" / "month=2026-03" / "20260301T000000-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        left = events // BUCKETS
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            while left:
                n = min(left, _GROUP)
                left -= n
                writer.write_table(_table(n, left, bucket, draw, names, begin, schema), row_group_size=_GROUP)


def _table(n: int, left: int, bucket: int, draw: Any, names: Any, begin: int, schema: Any) -> Any:
    import pyarrow as pa

    first = draw.integers(0, TOOLS, n)
    tool = (first[:, None] + np.arange(RANKED) * 7) % TOOLS  # distinct
    score = -np.sort(-np.round(draw.random((n, RANKED)) * 4, 3), axis=1)
    chance = np.clip(np.round(1.2 - 0.12 * np.arange(RANKED) - draw.random((n, RANKED)) / 4, 3), 0.02, 1)
    shown = np.argsort(-(chance + draw.random((n, RANKED)) / 2), axis=1)[:, :SHOWN]
    selected = np.take_along_axis(tool, shown, 1)
    called = selected[np.arange(n), draw.integers(0, SHOWN, n)]
    has_outcome = draw.random(n) < 0.8
    kind = np.where(draw.random(n) < 0.85, "succeeded", "failed")
    org = draw.integers(0, 10_000 // BUCKETS, n)

    def lists(values: Any, width: int) -> Any:
        return pa.ListArray.from_arrays(pa.array(np.arange(0, n * width + 1, width), pa.int32()), values)

    def constant(value: Any, kind: Any) -> Any:
        return pa.array([value] * n, kind)

    fields = {
        "name": names.take(pa.array(tool.reshape(-1))),
        "score": pa.array(score.reshape(-1)),
        "mean": pa.array(np.round(score + 0.3 * draw.random((n, RANKED)), 3).reshape(-1)),
        "sd": pa.array(np.full(n * RANKED, 0.2)),
        "show": pa.array(np.full(n * RANKED, 1.0)),
        "propensity": pa.array(chance.reshape(-1)),
    }
    offsets = np.concatenate([[0], np.cumsum(has_outcome)])
    at = begin + np.sort(draw.integers(0, 30 * 86_400_000_000, n))
    columns = {
        "event_id": pa.array([f"{bucket:02d}-{left + i:010d}" for i in range(n)]),
        "org": pa.array([f"org-{bucket + BUCKETS * number}" for number in org]),
        "at": pa.array(at, pa.timestamp("us", "UTC")),
        "session": pa.array([f"s{number}" for number in draw.integers(0, max(1, n // 500), n)]),
        "page": pa.array(np.array(["home", "mail", "crm", "hr"])[draw.integers(0, 4, n)]),
        "selected": lists(names.take(pa.array(selected.reshape(-1))), SHOWN),
        "candidates": lists(
            pa.StructArray.from_arrays(list(fields.values()), names=list(fields)), RANKED
        ).cast(schema.field("candidates").type),
        "propensity_error": constant(0.001, pa.float64()),
        "called": pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()),
            names.take(pa.array(called[has_outcome])),
            pa.array(kind[has_outcome]),
        ),
        "outcome": pa.array(np.where(has_outcome, kind, None)),
        "latency_us": pa.array(np.round(draw.lognormal(5, 0.4, n), 1)),
        "tokens_selected": constant(700, pa.int64()),
        "tokens_total": constant(20_000, pa.int64()),
        "share": constant(1.0, pa.float64()),
        "degraded": constant([], pa.list_(pa.string())),
        "profile": constant("default", pa.string()),
        "experiment": constant("", pa.string()),
        "variant": constant("", pa.string()),
    }
    return pa.Table.from_arrays(
        [columns.get(field.name, pa.nulls(n, field.type)) for field in schema], schema=schema
    )


def measure(folder: Path, which: str) -> None:
    from toolroll.lab.offline.judging import TargetRule, judge
    from toolroll.lab.offline.lake import event_files

    parts = event_files(folder)
    found: dict[str, Any] = {}

    def timed(name: str, call: Any) -> Any:
        start = time.perf_counter()
        result = call()
        found[name] = round(time.perf_counter() - start, 2)
        print(name, found[name], "s", flush=True)
        return result

    if which == "here":
        found["events"] = timed("judge, 2 processes", lambda: judge(parts, TargetRule(), jobs=2)).events
    else:
        import ray

        some, results = parts[: len(parts) // 4], []
        best = {1: math.inf, 2: math.inf}
        for workers in (1, 2) * _ROUNDS:  # in turn, so that other work disturbs both
            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
            judge(some[:workers], TargetRule("logged"), on="ray")  # starts the workers' imports
            name = f"judge a quarter on ray, {workers} workers"
            results.append(timed(name, lambda: judge(some, TargetRule(), on="ray")).to_dict())
            best[workers] = min(best[workers], found[name])
            ray.shutdown()
        found["same bits"] = all(each == results[0] for each in results)
        found["best"], found["ratio"] = best, round(best[1] / best[2], 2)
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else EVENTS)
    else:
        measure(Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "here")
