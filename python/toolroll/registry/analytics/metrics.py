"""Figures of selections: number, latency, profiles, outcomes and saved tokens."""

from __future__ import annotations

import math
from typing import Any

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window, elements, events, length
from toolroll.registry.store.database import Database

SHARES = (0.5, 0.95, 0.99)  # quantiles of the latency
OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused")


def metrics(database: Database, window: Window) -> dict[str, Any]:
    """The figures, ready for JSON. One consistent read."""
    columns, where = events.c, window.of(events)
    failed = elements(database.dialect, columns.degraded)
    grouped = (
        sa.select(
            columns.profile,
            columns.experiment,
            columns.variant,
            columns.outcome,
            sa.func.count().label("events"),
            sa.func.sum(columns.latency_us).label("latency_us"),
            sa.func.sum(columns.tokens_selected).label("tokens_selected"),
            sa.func.sum(columns.tokens_total).label("tokens_total"),
            sa.func.sum(length(columns.selected)).label("tools"),
            sa.func.min(columns.at).label("first"),
            sa.func.max(columns.at).label("last"),
        )
        .where(*where)
        .group_by(columns.profile, columns.experiment, columns.variant, columns.outcome)
    )
    degraded = (
        sa.select(failed.c.value, sa.func.count().label("events"))
        .select_from(events, failed)
        .where(*where)
        .group_by(failed.c.value)
        .order_by(sa.desc("events"), failed.c.value)
    )
    with database.reading() as connection:
        groups = connection.execute(grouped).all()
        total = sum(row.events for row in groups)
        organisations = connection.execute(
            sa.select(sa.func.count(sa.distinct(columns.org))).where(*where)
        ).scalar_one()
        failures = {row.value: row.events for row in connection.execute(degraded)}
        quantiles = _quantiles(connection, where, total)
    methods: dict[tuple[str, str, str], int] = {}
    outcomes: dict[str | None, int] = {}
    for row in groups:
        method = (row.profile, row.experiment, row.variant)
        methods[method] = methods.get(method, 0) + row.events
        outcomes[row.outcome] = outcomes.get(row.outcome, 0) + row.events
    selected, of_all = (
        sum(int(getattr(row, name)) for row in groups) for name in ("tokens_selected", "tokens_total")
    )
    answered = total - outcomes.get(None, 0)

    def of_each(number: float) -> float | None:
        return number / total if total else None

    return {
        **window.to_dict(),
        "total": total,
        "organisations": organisations,
        "first": min((row.first.isoformat() for row in groups), default=None),
        "last": max((row.last.isoformat() for row in groups), default=None),
        "latency_us": {**quantiles, "mean": of_each(math.fsum(row.latency_us for row in groups))},
        "methods": [
            {
                "profile": profile,
                "experiment": experiment or None,
                "variant": variant or None,
                "events": number,
                "share": number / total,
            }
            for (profile, experiment, variant), number in sorted(
                methods.items(), key=lambda method: (-method[1], method[0])
            )
        ],
        "outcomes": {**{name: outcomes.get(name, 0) for name in OUTCOMES}, "unknown": outcomes.get(None, 0)},
        "success": outcomes.get("succeeded", 0) / answered if answered else None,
        "tools_per_event": of_each(sum(int(row.tools) for row in groups)),
        "tokens": {
            "selected_per_event": of_each(selected),
            "saved_per_event": of_each(of_all - selected),
            "saved": of_all - selected,
            "saved_share": (of_all - selected) / of_all if of_all else None,
        },
        "degraded": failures,
    }


def _quantiles(
    connection: sa.Connection, where: list[sa.ColumnElement[bool]], total: int
) -> dict[str, float | None]:
    """Quantiles of the latency by nearest rank, the same on both databases."""
    ranks = {f"p{share * 100:g}": max(1, math.ceil(share * total)) for share in SHARES}
    rank = sa.func.row_number().over(order_by=events.c.latency_us).label("rank")
    ranked = sa.select(events.c.latency_us, rank).where(*where).subquery()
    query = sa.select(ranked.c.rank, ranked.c.latency_us).where(ranked.c.rank.in_(ranks.values()))
    found = {at: value for at, value in connection.execute(query)}
    return {name: found.get(at) for name, at in ranks.items()}
