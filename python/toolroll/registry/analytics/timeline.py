"""Selections over time: their number, success, latency and saved tokens for each day or hour."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window, day, elements, events, hour, over_events, weighted
from toolroll.registry.store.database import Database
from toolroll.registry.store.unreadable_rows import Conditions, UnreadableRows

Per = Literal["day", "hour"]


def timeline(
    database: Database, window: Window, per: Per = "day", unreadable: UnreadableRows | None = None
) -> dict[str, Any]:
    """The days or hours with selections, oldest first, and the parts that failed in some of them.

    Times are in UTC. unreadable: gets events that cannot be read.
    """
    columns, dialect = events.c, database.dialect
    at = (day if per == "day" else hour)(dialect, columns.at).label("at")
    points = (
        sa.select(
            at,
            weighted().label("events"),
            weighted(sa.case((columns.outcome.is_not(None), 1), else_=0)).label("answered"),
            weighted(sa.case((columns.outcome == "succeeded", 1), else_=0)).label("succeeded"),
            weighted(columns.latency_us).label("latency_us"),
            weighted(columns.tokens_total - columns.tokens_selected).label("saved"),
        )
        .group_by(at)
        .order_by(at)
    )
    failed = elements(dialect, columns.degraded)
    failures = (
        sa.select(
            failed.c.value.label("part"),
            weighted().label("events"),
            sa.func.min(columns.at).label("first"),
            sa.func.max(columns.at).label("last"),
        )
        .select_from(events, failed)
        .group_by(failed.c.value)
        .order_by(sa.desc("events"), failed.c.value)
    )

    def read(connection: sa.Connection, where: Conditions) -> dict[str, Any]:
        return {
            "points": [
                {
                    "at": row.at,
                    "selections": round(row.events),
                    "success": row.succeeded / row.answered if row.answered else None,
                    "latency_us": row.latency_us / row.events,
                    "saved": round(row.saved),
                }
                for row in connection.execute(points.where(*where))
            ],
            "degraded": [
                {
                    "part": row.part,
                    "selections": round(row.events),
                    "first": row.first.isoformat(),
                    "last": row.last.isoformat(),
                }
                for row in connection.execute(failures.where(*where))
            ],
        }

    found = over_events(database, window.of(events), read, unreadable)
    return {**window.to_dict(), "per": per, **found}
