"""Figures of selections: number, latency, profiles, outcomes and saved tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.registry.analytics.window import Window, elements, events, length, over_events, weighted
from toolroll.registry.store.database import Database
from toolroll.registry.store.unreadable_rows import Conditions, UnreadableRows

SHARES = (0.5, 0.95, 0.99)  # quantiles of the latency
_ROUNDING = 1e-9  # sums of weights are rounded
OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused")


class _Sums(NamedTuple):
    groups: Sequence[Any]
    total: float
    organisations: int
    failures: dict[str, int]
    quantiles: dict[str, float | None]


def metrics(database: Database, window: Window, unreadable: UnreadableRows | None = None) -> dict[str, Any]:
    """The figures, ready for JSON. One consistent read. unreadable: gets events that cannot be read."""
    sums = over_events(database, window.of(events), _sums, unreadable)
    groups, total = sums.groups, sums.total
    methods: dict[tuple[str, str, str], float] = {}
    outcomes: dict[str | None, float] = {}
    for row in groups:
        method = (row.profile, row.experiment, row.variant)
        methods[method] = methods.get(method, 0) + row.events
        outcomes[row.outcome] = outcomes.get(row.outcome, 0) + row.events
    selected, of_all = (
        math.fsum(getattr(row, name) for row in groups) for name in ("tokens_selected", "tokens_total")
    )
    answered = total - outcomes.get(None, 0)

    def of_each(number: float) -> float | None:
        return number / total if total else None

    return {
        **window.to_dict(),
        "total": round(total),
        "logged": sum(row.logged for row in groups),
        "organisations": sums.organisations,
        "first": min((row.first.isoformat() for row in groups), default=None),
        "last": max((row.last.isoformat() for row in groups), default=None),
        "latency_us": {**sums.quantiles, "mean": of_each(math.fsum(row.latency_us for row in groups))},
        "methods": [
            {
                "profile": profile,
                "experiment": experiment or None,
                "variant": variant or None,
                "events": round(number),
                "share": number / total,
            }
            for (profile, experiment, variant), number in sorted(
                methods.items(), key=lambda method: (-method[1], method[0])
            )
        ],
        "outcomes": {
            **{name: round(outcomes.get(name, 0)) for name in OUTCOMES},
            "unknown": round(outcomes.get(None, 0)),
        },
        "success": outcomes.get("succeeded", 0) / answered if answered else None,
        "tools_per_event": of_each(math.fsum(row.tools for row in groups)),
        "tokens": {
            "selected_per_event": of_each(selected),
            "saved_per_event": of_each(of_all - selected),
            "saved": round(of_all - selected),
            "saved_share": (of_all - selected) / of_all if of_all else None,
        },
        "degraded": sums.failures,
    }


def _sums(connection: sa.Connection, where: Conditions) -> _Sums:
    columns = events.c
    failed = elements(connection.dialect.name, columns.degraded)
    grouped = (
        sa.select(
            columns.profile,
            columns.experiment,
            columns.variant,
            columns.outcome,
            sa.func.count().label("logged"),
            weighted().label("events"),
            weighted(columns.latency_us).label("latency_us"),
            weighted(columns.tokens_selected).label("tokens_selected"),
            weighted(columns.tokens_total).label("tokens_total"),
            weighted(length(columns.selected)).label("tools"),
            sa.func.min(columns.at).label("first"),
            sa.func.max(columns.at).label("last"),
        )
        .where(*where)
        .group_by(columns.profile, columns.experiment, columns.variant, columns.outcome)
    )
    degraded = (
        sa.select(failed.c.value, weighted().label("events"))
        .select_from(events, failed)
        .where(*where)
        .group_by(failed.c.value)
        .order_by(sa.desc("events"), failed.c.value)
    )
    groups = connection.execute(grouped).all()
    total = math.fsum(row.events for row in groups)
    organisations = sa.select(sa.func.count(sa.distinct(columns.org))).where(*where)
    return _Sums(
        groups,
        total,
        connection.execute(organisations).scalar_one(),
        {row.value: round(row.events) for row in connection.execute(degraded)},
        _quantiles(connection, where, total),
    )


def _quantiles(connection: sa.Connection, where: Conditions, total: float) -> dict[str, float | None]:
    """Quantiles of the latency by nearest rank, the same on both databases."""
    order = (events.c.latency_us, events.c.event_id)
    rank = weighted().over(order_by=order, rows=(None, 0)).label("rank")
    ranked = sa.select(events.c.latency_us, rank).where(*where).subquery()
    least = [
        sa.func.min(sa.case((ranked.c.rank >= share * total * (1 - _ROUNDING), ranked.c.latency_us)))
        for share in SHARES
    ]
    found = connection.execute(sa.select(*least)).one()
    return {f"p{share * 100:g}": value for share, value in zip(SHARES, found, strict=True)}
