"""Figures of selections: in total, and for each day or hour."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from toolroll.registry.events.hour_selects import LATENCY_STEPS, OUTCOMES, middle_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}  # of the latency
# The sums of each method, in selections: sampling logs a share of them.
_SUMS = ("selections", *OUTCOMES, "latency_us", "tokens_selected", "tokens_total", "tools")


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
                *(total(columns[name]).label(name) for name in _SUMS),
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
        for name, share in _QUANTILES.items()
    }
    return {**whole_hours(window).to_dict(), **_figures(methods, organisations, quantiles, degraded)}


def _figures(
    methods: Sequence[Any],
    organisations: int,
    quantiles: Mapping[str, float | None],
    degraded: Mapping[str, int],
) -> dict[str, Any]:
    total = {name: math.fsum(getattr(row, name) for row in methods) for name in _SUMS}
    number, answered = total["selections"], math.fsum(total[name] for name in OUTCOMES)
    saved = total["tokens_total"] - total["tokens_selected"]

    def of_each(sum_of: float) -> float | None:
        return sum_of / number if number else None

    return {
        "total": round(number),
        "logged": int(sum(row.logged for row in methods)),
        "organisations": organisations,
        "first": min((row.first.isoformat() for row in methods), default=None),
        "last": max((row.last.isoformat() for row in methods), default=None),
        "latency_us": {**quantiles, "mean": of_each(total["latency_us"])},
        "methods": [
            {
                "profile": row.profile,
                "experiment": row.experiment or None,
                "variant": row.variant or None,
                "events": round(row.selections),
                "share": row.selections / number,
            }
            for row in sorted(
                methods, key=lambda row: (-row.selections, row.profile, row.experiment, row.variant)
            )
        ],
        "outcomes": {
            **{name: round(total[name]) for name in OUTCOMES},
            "unknown": round(number - answered),
        },
        "success": total["succeeded"] / answered if answered else None,
        "tools_per_event": of_each(total["tools"]),
        "tokens": {
            "selected_per_event": of_each(total["tokens_selected"]),
            "saved_per_event": of_each(saved),
            "saved": round(saved),
            "saved_share": saved / total["tokens_total"] if total["tokens_total"] else None,
        },
        "degraded": dict(degraded),
    }


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
