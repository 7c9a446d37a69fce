"""Figures of selections: in total, and for each day or hour."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window, day, hour
from toolroll.registry.analytics.window_sums import (
    WindowSums,
    bucket_at,
    degraded_parts,
    total,
    whole_hours,
)
from toolroll.registry.events.hour_selects import LATENCY_STEPS, middle_of
from toolroll.registry.events.selection_figures import OUTCOMES, QUANTILES, SHARES, SUMS, selection_figures
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database


def metrics(database: Database, window: Window) -> dict[str, Any]:
    """The figures, ready for JSON. One consistent read.

    The window's first and last hour count as a whole. Quantiles of the latency are at most 0.8 % off.
    """
    with database.reading() as connection:
        sums = WindowSums(connection, window)
        columns = sums.of(tables.selection_sums).c
        method = (columns.profile, columns.experiment, columns.variant)
        methods = connection.execute(
            sa.select(
                *method,
                sa.func.sum(columns.logged).label("logged"),
                *(total(columns[name]).label(name) for name in SUMS),
                sa.func.min(columns.first_at).label("first"),
                sa.func.max(columns.last_at).label("last"),
            ).group_by(*method)
        ).all()
        organisations = connection.execute(sa.select(sa.func.count(sa.distinct(columns.org)))).scalar_one()
        latencies = sums.of(tables.latency_sums).c
        bucket = latencies.bucket
        query = sa.select(bucket, total(latencies.selections)).group_by(bucket).order_by(bucket)
        buckets = [(number, count) for number, count in connection.execute(query)]
        degraded = {row.part: round(row.selections) for row in degraded_parts(connection, sums)}
    quantiles = {
        name: None if (at := bucket_at(buckets, share)) is None else middle_of(at, LATENCY_STEPS)
        for name, share in zip(QUANTILES, SHARES, strict=True)
    }
    return selection_figures(whole_hours(window).to_dict(), methods, organisations, quantiles, degraded)


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
