"""How many selections, how fast, by which profile, what came of them, and what they kept out of prompts."""

from __future__ import annotations

import math
from typing import Any

import sqlalchemy as sa

from toolroll.analytics.window import Window, elements, events, length
from toolroll.store.database import Database

SHARES = (0.5, 0.95, 0.99)  # of the latencies that are told
OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused")


def metrics(database: Database, window: Window) -> dict[str, Any]:
    """The figures, ready for JSON. One consistent read."""
    columns, where = events.c, window.of(events)
    with database.reading() as connection:
        totals = connection.execute(
            sa.select(
                sa.func.count(),
                sa.func.count(sa.distinct(columns.org)),
                sa.func.avg(columns.latency_us),
                sa.func.coalesce(sa.func.sum(columns.tokens_selected), 0),
                sa.func.coalesce(sa.func.sum(columns.tokens_total), 0),
                sa.func.avg(length(columns.selected)),
                sa.func.min(columns.at),
                sa.func.max(columns.at),
            ).where(*where)
        ).one()
        total, organisations, mean_us, selected, of_all, shown, first, last = totals
        methods = connection.execute(
            sa.select(columns.profile, columns.experiment, columns.variant, sa.func.count().label("events"))
            .where(*where)
            .group_by(columns.profile, columns.experiment, columns.variant)
            .order_by(sa.desc("events"), columns.profile, columns.variant)
        ).all()
        outcomes: dict[str | None, int] = {
            outcome: number
            for outcome, number in connection.execute(
                sa.select(columns.outcome, sa.func.count()).where(*where).group_by(columns.outcome)
            )
        }
        failed = elements(database.dialect, columns.degraded)
        degraded = connection.execute(
            sa.select(failed.c.value, sa.func.count().label("events"))
            .select_from(events, failed)
            .where(*where)
            .group_by(failed.c.value)
            .order_by(sa.desc("events"), failed.c.value)
        ).all()
        quantiles = {
            f"p{share * 100:g}": connection.execute(
                sa.select(columns.latency_us)
                .where(*where)
                .order_by(columns.latency_us)
                .offset(max(0, math.ceil(share * total) - 1))
                .limit(1)
            ).scalar()
            for share in SHARES
        }
    answered = total - outcomes.get(None, 0)
    saved = int(of_all) - int(selected)
    return {
        **window.to_dict(),
        "total": total,
        "organisations": organisations,
        "first": None if first is None else first.isoformat(),
        "last": None if last is None else last.isoformat(),
        "latency_us": {**quantiles, "mean": _number(mean_us)},
        "methods": [
            {
                "profile": row.profile,
                "experiment": row.experiment or None,
                "variant": row.variant or None,
                "events": row.events,
                "share": row.events / total,
            }
            for row in methods
        ],
        "outcomes": {**{name: outcomes.get(name, 0) for name in OUTCOMES}, "unknown": outcomes.get(None, 0)},
        "success": outcomes.get("succeeded", 0) / answered if answered else None,
        "tools_per_event": _number(shown),
        "tokens": {
            "selected_per_event": int(selected) / total if total else None,
            "saved_per_event": saved / total if total else None,
            "saved": saved,
            "saved_share": saved / int(of_all) if of_all else None,
        },
        "degraded": {row.value: row.events for row in degraded},
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
