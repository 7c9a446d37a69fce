"""Selections over time: their number, success, latency and saved tokens for each day or hour."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window, day, hour
from toolroll.registry.analytics.window_sums import WindowSums, degraded_parts, total, whole_hours
from toolroll.registry.events.selection_figures import OUTCOMES
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

Per = Literal["day", "hour"]


def timeline(database: Database, window: Window, per: Per = "day") -> dict[str, Any]:
    """The days or hours with selections, oldest first, and the parts that failed in some of them.

    Times are in UTC; the window's first and last hour count as a whole.
    """
    with database.reading() as connection:
        sums = WindowSums(connection, window)
        points = _points(
            per, connection, WindowSums(connection, window, by_hour=True) if per == "hour" else sums
        )
        degraded = [
            {
                "part": row.part,
                "selections": round(row.selections),
                "first": row.first.isoformat(),
                "last": row.last.isoformat(),
            }
            for row in degraded_parts(connection, sums)
        ]
    return {**whole_hours(window).to_dict(), "per": per, "points": points, "degraded": degraded}


def _points(per: Per, connection: sa.Connection, sums: WindowSums) -> list[dict[str, Any]]:
    columns = sums.of(tables.selection_sums).c
    at = (day if per == "day" else hour)(connection.dialect.name, columns.at).label("at")
    query = (
        sa.select(
            at,
            total(columns.selections).label("selections"),
            total(sum((columns[name] for name in OUTCOMES[1:]), columns[OUTCOMES[0]])).label("answered"),
            total(columns.succeeded).label("succeeded"),
            total(columns.latency_us).label("latency_us"),
            total(columns.tokens_total - columns.tokens_selected).label("saved"),
        )
        .group_by(at)
        .order_by(at)
    )
    return [
        {
            "at": row.at,
            "selections": round(row.selections),
            "success": row.succeeded / row.answered if row.answered else None,
            "latency_us": row.latency_us / row.selections,
            "saved": round(row.saved),
        }
        for row in connection.execute(query)
        if row.selections
    ]
