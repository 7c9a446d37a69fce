"""Selections over time: their number, success, latency and saved tokens for each day or hour."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import sqlalchemy as sa

from toolroll.learning.selection_figures import OUTCOMES
from toolroll.registry.analytics.rollup_reader import Conditions, over_rollups, total, whole_hours
from toolroll.registry.analytics.window import Window, day, hour
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

Per = Literal["day", "hour"]

_selections, _degraded = tables.selection_rollups, tables.degraded_rollups


def timeline(database: Database, window: Window, per: Per = "day") -> dict[str, Any]:
    """The days or hours with selections, oldest first, and the parts that failed in some of them.

    Times are in UTC; the window's first and last hour count as a whole.
    """
    with database.reading() as connection:
        found = {
            "points": over_rollups(
                connection,
                _selections,
                window,
                partial(_points, per),
                by_hour=per == "hour",
            ),
            "degraded": over_rollups(connection, _degraded, window, _failures),
        }
    return {**whole_hours(window).to_dict(), "per": per, **found}


def _points(per: Per, connection: sa.Connection, where: Conditions) -> list[dict[str, Any]]:
    columns = _selections.c
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
        .where(*where)
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


def _failures(connection: sa.Connection, where: Conditions) -> list[dict[str, Any]]:
    columns = _degraded.c
    query = (
        sa.select(
            columns.part,
            total(columns.selections).label("selections"),
            sa.func.min(columns.first_at).label("first"),
            sa.func.max(columns.last_at).label("last"),
        )
        .where(*where)
        .group_by(columns.part)
        .order_by(sa.desc("selections"), columns.part)
    )
    return [
        {
            "part": row.part,
            "selections": round(row.selections),
            "first": row.first.isoformat(),
            "last": row.last.isoformat(),
        }
        for row in connection.execute(query)
    ]
