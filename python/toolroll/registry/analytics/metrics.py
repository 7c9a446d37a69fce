"""Figures of selections: number, latency, profiles, outcomes and saved tokens."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window
from toolroll.registry.analytics.window_sums import (
    WindowSums,
    bucket_at,
    degraded_parts,
    total,
    whole_hours,
)
from toolroll.registry.events.hour_selects import LATENCY_STEPS, middle_of
from toolroll.registry.events.selection_figures import QUANTILES, SHARES, SUMS, selection_figures
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
