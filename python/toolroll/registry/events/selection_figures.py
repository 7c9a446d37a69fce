"""Figures of selections from sums over their events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# The outcomes of an event, the most important one of its tools'; "unused" if no tool was called.
OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused")
# Those with a known reward: 1 if the called tool succeeded, else 0, also if nothing was called.
ANSWERED = ("succeeded", "failed", "corrected", "wanted", "unused")
SHARES = (0.5, 0.95, 0.99)  # quantiles of the latency
QUANTILES = tuple(f"p{share * 100:g}" for share in SHARES)
# What is summed for each method, in this order, beside the number of logged events. Each is of selections:
# sampling logs a share of them.
SUMS = ("selections", *OUTCOMES, "latency_us", "tokens_selected", "tokens_total", "tools")


def selection_figures(
    window: Mapping[str, Any],
    methods: Sequence[Any],
    organisations: int,
    quantiles: Mapping[str, float | None],
    degraded: Mapping[str, int],
) -> dict[str, Any]:
    """The figures, ready for JSON.

    Args:
        window: fields that say of which time and organisation they are.
        methods: rows with `profile`, `experiment`, `variant`, `logged`, `first`, `last` and `SUMS`.
        organisations: how many have events.
        quantiles: of the latency in microseconds, by the names in `QUANTILES`.
        degraded: part that failed → selections without it.
    """
    total = {name: math.fsum(getattr(row, name) for row in methods) for name in SUMS}
    number, answered = total["selections"], math.fsum(total[name] for name in OUTCOMES)
    saved = total["tokens_total"] - total["tokens_selected"]

    def of_each(sum_of: float) -> float | None:
        return sum_of / number if number else None

    return {
        **window,
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
