"""Reports by the sums of events: seconds for one organisation and for all of a large platform.

``python -m bench.scale.rollups [ORGANISATIONS] [EVENTS] [URL]`` writes the days' sums of so many events in
30 days, by default 10,000,000 events of 1,000 organisations into a SQLite file of its own. It measures
`metrics`, `hits`, `heatmap`, `tools` and `plugins` as `toolroll events analytics` reads them.
docs/scale.md has the figures.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.plugin_calls import plugin_calls
from toolroll.registry.analytics.tool_calls import tool_calls
from toolroll.registry.analytics.usage import heatmap, hits
from toolroll.registry.analytics.window import Window
from toolroll.registry.events.rollups import DAY, DURATION_STEPS, UNIT, bucket_of
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Database

ORGANISATIONS, EVENTS, DAYS, TOOLS, PAGES, SHOWN = 1_000, 10_000_000, 30, 40, 3, 5
_BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
_ROWS, _ROUNDS = 20_000, 3


def fill(database: Database, organisations: int, events: int) -> int:
    """Writes the sums of whole days, which reports on whole days read; returns the number of rows."""
    written, draw = 0, np.random.default_rng(0)
    a_day = max(1, round(events / organisations / DAYS))
    for table in (
        tables.selection_rollups,
        tables.tool_rollups,
        tables.latency_rollups,
        tables.duration_rollups,
    ):
        rows = (
            {"org": f"org-{org}", "hours": DAY, "at": _BEGIN + timedelta(days=day), **row}
            for org in range(organisations)
            for day in range(DAYS)
            for row in _rows(table, a_day, _BEGIN + timedelta(days=day), draw)
        )
        for some in bulk_insert.batches(rows, _ROWS):
            with database.recording() as connection:
                bulk_insert.insert(connection, table, some)
            written += len(some)
    with database.recording() as connection:
        connection.execute(sa.text("ANALYZE"))
    return written


def _rows(table: sa.Table, events: int, day: datetime, draw: Any) -> Iterator[dict[str, Any]]:
    """The sums of one organisation's day."""
    thousandths = events * UNIT
    if table is tables.selection_rollups:
        numbers = [column.name for column in table.c if not column.primary_key][:-2]
        for page in range(PAGES):
            sums = dict.fromkeys(numbers, thousandths // PAGES)
            method = {"page": f"page-{page}", "profile": "default", "experiment": "", "variant": ""}
            yield {**method, **sums, "first_at": day, "last_at": day}
    elif table is tables.tool_rollups:
        pairs, counts = np.unique(draw.integers(0, TOOLS * PAGES, events * SHOWN), return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            called = count * UNIT // SHOWN
            numbers = (count * UNIT, called, called, called * 8 // 10, called // 10, called, called)
            names = [column.name for column in table.c if not column.primary_key]
            place = {"page": f"page-{pair % PAGES}", "tool": f"tool_{pair // PAGES}"}
            yield {**place, **dict(zip(names, numbers, strict=True))}
    elif table is tables.latency_rollups:
        buckets = [bucket_of(latency) for latency in draw.lognormal(5, 0.4, events)]
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):
            yield {"bucket": int(bucket), "selections": int(count) * UNIT}
    else:
        tools = draw.integers(0, TOOLS, events)
        buckets = [bucket_of(duration, DURATION_STEPS) for duration in draw.lognormal(5, 0.7, events)]
        pairs, counts = np.unique(np.stack((tools, buckets)), axis=1, return_counts=True)
        for tool, bucket, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            took = {"calls": count * UNIT, "duration_ms": count * UNIT * 150}
            yield {"tool": f"tool_{tool}", "bucket": bucket, **took}


def measure(database: Database) -> dict[str, dict[str, float]]:
    """Report → seconds for one organisation, and for all."""
    month = {"since": _BEGIN, "until": _BEGIN + timedelta(days=DAYS)}
    reports: dict[str, Any] = {
        "metrics": lambda window: metrics(database, window),
        "hits": lambda window: hits(database, window),
        "tools by page": lambda window: heatmap(database, window),
        "tools": lambda window: tool_calls(database, window),
        "plugins": lambda window: plugin_calls(database, window),
    }
    found: dict[str, dict[str, float]] = {}
    for name, report in reports.items():
        found[name] = {}
        for whose, window in (("one", Window("org-7", **month)), ("all", Window(None, **month))):
            times = []
            for _ in range(_ROUNDS):
                start = time.perf_counter()
                report(window)
                times.append(time.perf_counter() - start)
            found[name][whose] = round(min(times), 4)
        print(name, found[name], flush=True)
    return found


def main() -> None:
    """Fills, measures, prints."""
    given = [int(one) for one in sys.argv[1:3]]
    organisations, events = (*given, *(ORGANISATIONS, EVENTS)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[3] if len(sys.argv) > 3 else f"sqlite:///{folder}/sums.db"
        database = Database.open(url, create=True, migrate=True)
        begin = time.perf_counter()
        rows = fill(database, organisations, events)
        print(f"{rows:,} rows written in {time.perf_counter() - begin:.0f} s", flush=True)
        found = measure(database)
        database.close()
    print(json.dumps({"organisations": organisations, "events": events, "rows": rows, "seconds": found}))


if __name__ == "__main__":
    main()
