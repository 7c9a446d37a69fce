"""Figures of many events: seconds to sum their hours, and of reports on a month.

``python -m bench.scale.hours [ORGANISATIONS] [EVENTS] [DAYS] [URL]`` writes so many events, by default
1,000,000 of one organisation in 30 days, into a SQLite file of its own; DAYS = 0 puts them into one hour. It
sums the hours as the keeper does, with the longest step, and measures reports as `toolroll events analytics`
reads them: of one organisation and of all. bench/README.md has the figures.
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
from toolroll.registry.events import hours
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Database
from toolroll.runtime.gil import batches

ORGANISATIONS, EVENTS, DAYS, TOOLS, PAGES, SHOWN = 1, 1_000_000, 30, 40, 3, 5
_BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
_ROWS, _ROUNDS = 20_000, 3


def fill(database: Database, organisations: int, events: int, days: int) -> None:
    """Writes events: five tools shown and one called, which was measured."""
    for some in batches(_events(organisations, events, days), _ROWS):
        with database.recording() as connection:
            bulk_insert.insert(connection, tables.selection_events, some)
            hours.mark(connection, [(row["org"], row["at"]) for row in some])
    with database.recording() as connection:
        connection.execute(sa.text("ANALYZE"))


def _events(organisations: int, events: int, days: int) -> Iterator[dict[str, Any]]:
    draw, spread_s = np.random.default_rng(0), days * 86_400 or 3_600
    tools = [f"tool_{number}" for number in range(TOOLS)]
    same = dict.fromkeys(
        ("reporter", "session", "message", "tier", "category", "experiment", "variant", "unit"), ""
    )
    same |= dict.fromkeys(("catalog_revision", "space"), "")
    same |= dict.fromkeys(("seed", "registry_revision", "learned_revision"), 0)
    same |= {
        "message_form": "dropped",
        "profile": "default",
        "share": 1.0,
        "degraded": [],
        "details": b"x" * 600,
    }
    same |= {"tokens_selected": 700, "tokens_total": 20_000, "propensity_error": 0.0, "confidence": 0.5}
    for number in range(events):
        shown = [tools[place] for place in draw.integers(0, TOOLS, SHOWN)]
        kind = "succeeded" if draw.random() < 0.8 else "failed"
        at = _BEGIN + timedelta(seconds=spread_s * number / events)
        yield {
            **same,
            "org": f"org-{number % organisations}",
            "event_id": f"{number:032x}",
            "at": at,
            "page": f"page-{draw.integers(0, PAGES)}",
            "selected": list(dict.fromkeys(shown)),
            "latency_us": draw.lognormal(5, 0.4),
            "called": {shown[0]: kind},
            "outcome": kind,
            "recorded_at": at,
            "durations_ms": {shown[0]: draw.lognormal(5, 0.7)},
        }


def sum_hours(database: Database) -> dict[str, float]:
    """Sums all hours; returns the seconds, the number of steps, and the seconds of the longest one."""
    steps, is_more, began = list[float](), True, time.process_time()
    while is_more:
        start = time.perf_counter()
        with database.recording() as connection:
            is_more = hours.sum_changed(connection, _BEGIN + timedelta(days=DAYS + 1))
        steps.append(time.perf_counter() - start)
    spent = time.process_time() - began
    with database.recording() as connection:
        connection.execute(sa.text("ANALYZE"))
    return {
        "processor": round(spent, 2),
        "seconds": round(sum(steps), 2),
        "steps": len(steps),
        "longest": round(max(steps), 3),
    }


def measure(database: Database) -> dict[str, dict[str, float]]:
    """Report → seconds for one organisation, and for all."""
    month = {"since": _BEGIN, "until": _BEGIN + timedelta(days=DAYS)}
    reports: dict[str, Any] = {
        "metrics": metrics,
        "hits": hits,
        "tools by page": heatmap,
        "tools": tool_calls,
        "plugins": plugin_calls,
    }
    found: dict[str, dict[str, float]] = {}
    for name, report in reports.items():
        found[name] = {}
        for whose, window in (("one", Window("org-0", **month)), ("all", Window(None, **month))):
            times = []
            for _ in range(_ROUNDS):
                start = time.perf_counter()
                report(database, window)
                times.append(time.perf_counter() - start)
            found[name][whose] = round(min(times), 4)
        print(name, found[name], flush=True)
    return found


def main() -> None:
    """Fills, sums, measures, prints."""
    given = [int(one) for one in sys.argv[1:4]]
    organisations, events, days = (*given, *(ORGANISATIONS, EVENTS, DAYS)[len(given) :])
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[4] if len(sys.argv) > 4 else f"sqlite:///{folder}/sums.db"
        database = Database.open(url, create=True, migrate=True)
        fill(database, organisations, events, days)
        found: dict[str, Any] = {"organisations": organisations, "events": events, "days": days}
        if not days:
            found["running hour"] = measure(database)
        found["summed"] = sum_hours(database)
        print("summed", found["summed"], flush=True)
        with database.reading() as connection:
            found["rows"] = {
                table.name: connection.scalar(sa.select(sa.func.count()).select_from(table))
                for table in (tables.selection_sums, tables.latency_sums, tables.tool_sums)
            }
        found["reports"] = measure(database)
        database.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
