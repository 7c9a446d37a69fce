"""Figures of selections: number, latency, profiles, outcomes and saved tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.learning.selection_figures import QUANTILES, SHARES, SUMS, selection_figures
from toolroll.registry.analytics.rollup_reader import Conditions, bucket_at, over_rollups, total, whole_hours
from toolroll.registry.analytics.window import Window
from toolroll.registry.events.rollups import latency_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

_selections, _latencies, _degraded = (
    tables.selection_rollups,
    tables.latency_rollups,
    tables.degraded_rollups,
)


class _Sums(NamedTuple):
    methods: Sequence[Any]
    organisations: int


def metrics(database: Database, window: Window) -> dict[str, Any]:
    """The figures, ready for JSON. One consistent read.

    The window's first and last hour count as a whole. Quantiles of the latency are at most 0.8 % off.
    """
    with database.reading() as connection:
        sums = over_rollups(connection, _selections, window, _sums)
        buckets = over_rollups(connection, _latencies, window, _buckets)
        degraded = over_rollups(connection, _degraded, window, _failures)
    quantiles = {
        name: None if (at := bucket_at(buckets, share)) is None else latency_of(at)
        for name, share in zip(QUANTILES, SHARES, strict=True)
    }
    window_of = whole_hours(window).to_dict()
    return selection_figures(window_of, sums.methods, sums.organisations, quantiles, degraded)


def _sums(connection: sa.Connection, where: Conditions) -> _Sums:
    columns = _selections.c
    grouped = (
        sa.select(
            columns.profile,
            columns.experiment,
            columns.variant,
            sa.func.sum(columns.logged).label("logged"),
            *(total(columns[name]).label(name) for name in SUMS),
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
