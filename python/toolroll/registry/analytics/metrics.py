"""Figures of selections: number, latency, profiles, outcomes and saved tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.registry.analytics.rollup_reader import bucket_at, over_rollups, total, whole_hours
from toolroll.registry.analytics.window import Window
from toolroll.registry.events.rollups import OUTCOMES, latency_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.unreadable_rows import Conditions, UnreadableRows

SHARES = (0.5, 0.95, 0.99)  # quantiles of the latency

_selections, _latencies, _degraded = (
    tables.selection_rollups,
    tables.latency_rollups,
    tables.degraded_rollups,
)


class _Sums(NamedTuple):
    methods: Sequence[Any]
    organisations: int


def metrics(database: Database, window: Window, unreadable: UnreadableRows | None = None) -> dict[str, Any]:
    """The figures, ready for JSON. One consistent read. unreadable: gets sums that cannot be read.

    The window's first and last hour count as a whole. Quantiles of the latency are at most 0.8 % off.
    """
    with database.reading() as connection:
        sums = over_rollups(connection, _selections, window, _sums, unreadable)
        buckets = over_rollups(connection, _latencies, window, _buckets, unreadable)
        degraded = over_rollups(connection, _degraded, window, _failures, unreadable)
    methods = sums.methods
    number = math.fsum(row.selections for row in methods)
    outcomes = {name: math.fsum(getattr(row, name) for row in methods) for name in OUTCOMES}
    answered = math.fsum(outcomes.values())
    selected, of_all = (
        math.fsum(getattr(row, name) for row in methods) for name in ("tokens_selected", "tokens_total")
    )

    def of_each(of: float) -> float | None:
        return of / number if number else None

    return {
        **whole_hours(window).to_dict(),
        "total": round(number),
        "logged": int(sum(row.logged for row in methods)),
        "organisations": sums.organisations,
        "first": min((row.first.isoformat() for row in methods), default=None),
        "last": max((row.last.isoformat() for row in methods), default=None),
        "latency_us": {
            **_quantiles(buckets),
            "mean": of_each(math.fsum(row.latency_us for row in methods)),
        },
        "methods": [
            {
                "profile": row.profile,
                "experiment": row.experiment or None,
                "variant": row.variant or None,
                "events": round(row.selections),
                "share": row.selections / number,
            }
            for row in sorted(methods, key=lambda row: (-row.selections, *row[:3]))
        ],
        "outcomes": {
            **{name: round(of) for name, of in outcomes.items()},
            "unknown": round(number - answered),
        },
        "success": outcomes["succeeded"] / answered if answered else None,
        "tools_per_event": of_each(math.fsum(row.tools for row in methods)),
        "tokens": {
            "selected_per_event": of_each(selected),
            "saved_per_event": of_each(of_all - selected),
            "saved": round(of_all - selected),
            "saved_share": (of_all - selected) / of_all if of_all else None,
        },
        "degraded": degraded,
    }


def _sums(connection: sa.Connection, where: Conditions) -> _Sums:
    columns = _selections.c
    names = ("selections", *OUTCOMES, "latency_us", "tokens_selected", "tokens_total", "tools")
    grouped = (
        sa.select(
            columns.profile,
            columns.experiment,
            columns.variant,
            sa.func.sum(columns.logged).label("logged"),
            *(total(columns[name]).label(name) for name in names),
            sa.func.min(columns.first_at).label("first"),
            sa.func.max(columns.last_at).label("last"),
        )
        .where(*where)
        .group_by(columns.profile, columns.experiment, columns.variant)
    )
    organisations = sa.select(sa.func.count(sa.distinct(columns.org))).where(*where)
    return _Sums(connection.execute(grouped).all(), connection.execute(organisations).scalar_one())


def _buckets(connection: sa.Connection, where: Conditions) -> list[tuple[int, float]]:
    columns = _latencies.c
    query = sa.select(columns.bucket, total(columns.selections)).where(*where).group_by(columns.bucket)
    return [(bucket, number) for bucket, number in connection.execute(query.order_by(columns.bucket))]


def _failures(connection: sa.Connection, where: Conditions) -> dict[str, int]:
    columns = _degraded.c
    query = (
        sa.select(columns.part, total(columns.selections).label("selections"))
        .where(*where)
        .group_by(columns.part)
        .order_by(sa.desc("selections"), columns.part)
    )
    return {row.part: round(row.selections) for row in connection.execute(query)}


def _quantiles(buckets: Sequence[tuple[int, float]]) -> dict[str, float | None]:
    """Quantiles of the latency."""
    found = {f"p{share * 100:g}": bucket_at(buckets, share) for share in SHARES}
    return {name: None if bucket is None else latency_of(bucket) for name, bucket in found.items()}
