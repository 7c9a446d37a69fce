"""Figures of events in Parquet: the same as `toolroll.registry.analytics` computes in the registry.

One scan by DuckDB each, on all processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.learning.selection_figures import OUTCOMES, QUANTILES, SHARES, selection_figures
from toolroll.offline.lake import EventFiles

_SUCCEEDED = {"succeeded", "wanted_succeeded"}  # as `registry.events.statistics` counts
_CALLED = {*_SUCCEEDED, "failed", "called", "corrected", "wanted_failed", "wanted"}
_PLAIN = "SELECT " + ", ".join(f"quantile_disc(latency_us, {share})" for share in SHARES) + " FROM events"
_WEIGHTED = (
    "SELECT "
    + ", ".join(
        f"min(latency_us) FILTER (WHERE rank >= {share} * {{total}} * (1 - 1e-9))" for share in SHARES
    )
    + """ FROM (SELECT latency_us, sum(1 / share) OVER (ORDER BY latency_us, event_id
        ROWS UNBOUNDED PRECEDING) AS rank FROM events)"""
)
_OUTCOMES = ", ".join(
    f"coalesce(sum(1 / share) FILTER (WHERE outcome = '{name}'), 0) AS {name}" for name in OUTCOMES
)
_METHODS = f"""
    SELECT profile, experiment, variant, count(*) AS logged, min("at") AS first, max("at") AS last,
        sum(1 / share) AS selections,
        {_OUTCOMES},
        sum(latency_us / share) AS latency_us, sum(tokens_selected / share) AS tokens_selected,
        sum(tokens_total / share) AS tokens_total, sum(len(selected) / share) AS tools
    FROM events GROUP BY ALL ORDER BY ALL"""


def _all(parts: Sequence[EventFiles]) -> EventFiles:
    first = parts[0]
    files = tuple(file for part in parts for file in part.files)
    return EventFiles(files, first.options, first.org, first.since, first.until)


def metrics(parts: Sequence[EventFiles]) -> dict[str, Any]:
    """Totals, latency, profiles, outcomes and tokens, as `registry.analytics.metrics.metrics`."""
    every = _all(parts)
    with every.query() as connection:
        groups = connection.execute(_METHODS)
        names = [column[0] for column in groups.description]
        methods = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in groups.fetchall()]
        organisations = connection.execute("SELECT count(DISTINCT org) FROM events").fetchone()[0]
        failures = connection.execute(
            """SELECT name, sum(1 / share) AS n FROM (SELECT unnest(degraded) AS name, share FROM events)
                GROUP BY name ORDER BY n DESC, name"""
        ).fetchall()
        total = sum(row.selections for row in methods)
        quantiles = dict.fromkeys(QUANTILES)
        if total:
            # Nearest rank, each event as often as it stands for; a sort only where that differs.
            lowest = connection.execute("SELECT coalesce(min(share) < 1, false) FROM events")
            query = _WEIGHTED if lowest.fetchone()[0] else _PLAIN
            found = connection.execute(query.format(total=total)).fetchone()
            quantiles = dict(zip(quantiles, found, strict=True))
    window = {
        "org": every.org,
        "since": None if every.since is None else every.since.isoformat(),
        "until": None if every.until is None else every.until.isoformat(),
    }
    degraded = {name: round(number) for name, number in failures}
    return selection_figures(window, methods, organisations, quantiles, degraded)


def heatmap(parts: Sequence[EventFiles], of: str = "called") -> dict[tuple[str, str], int]:
    """(tool, page) → events, of the tools that were "selected", "called" or "succeeded"."""
    sources = {
        "selected": "SELECT unnest(selected) AS tool, page, share FROM events",
        "called": "SELECT unnest(map_entries(called)) AS entry, page, share FROM events",
    }
    if of not in ("selected", "called", "succeeded"):
        raise InvalidInput(f"of: is {of!r:.80}, must be one of called, selected, succeeded")
    if of == "selected":
        query = f"SELECT tool, page, sum(1 / share) FROM ({sources[of]}) GROUP BY ALL"
    else:
        kinds = ", ".join(f"'{kind}'" for kind in sorted(_SUCCEEDED if of == "succeeded" else _CALLED))
        query = f"""SELECT entry.key, page, sum(1 / share) FROM ({sources["called"]})
            WHERE entry.value IN ({kinds}) GROUP BY ALL"""
    with _all(parts).query() as connection:
        return {(tool, page): round(number) for tool, page, number in connection.execute(query).fetchall()}


def hits(parts: Sequence[EventFiles]) -> list[dict[str, Any]]:
    """The days with calls, oldest first, as `registry.analytics.usage.hits`."""
    query = """SELECT strftime("at", '%Y-%m-%d') AS day, sum(1 / share) AS calls,
            sum(CASE WHEN entry.value IN ('succeeded', 'failed', 'called') THEN 1 / share
                WHEN entry.value = 'meant' AND list_contains(selected, entry.key) THEN 1 / share
                ELSE 0 END) AS hits
        FROM (SELECT "at", selected, share, unnest(map_entries(called)) AS entry FROM events)
        WHERE entry.value <> 'corrected' GROUP BY day ORDER BY day"""
    with _all(parts).query() as connection:
        rows = connection.execute(query).fetchall()
    return [
        {"day": day, "calls": round(calls), "hits": round(hits), "rate": round(hits) / round(calls)}
        for day, calls, hits in rows
    ]
