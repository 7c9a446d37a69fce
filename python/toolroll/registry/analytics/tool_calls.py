"""How often calls of each tool succeeded and failed, and how long they took."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.window import Window
from toolroll.registry.analytics.window_sums import WindowSums, bucket_at, total
from toolroll.registry.events.hour_selects import DURATION_STEPS, middle_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

By = Literal["calls", "failed", "mean", "p95"]
BY: tuple[By, ...] = ("calls", "failed", "mean", "p95")


@dataclass(slots=True)
class CallSums:
    """Calls of one tool, or of several.

    Attributes:
        calls, succeeded, failed: numbers of calls; of the others nobody said what came of them.
        timed: how many of them were measured.
        total_ms: how long these took together.
        buckets: bucket of how long they took → calls.
    """

    calls: float = 0.0
    succeeded: float = 0.0
    failed: float = 0.0
    timed: float = 0.0
    total_ms: float = 0.0
    buckets: Counter[int] = field(default_factory=Counter)

    def add(self, other: CallSums) -> None:
        """Adds calls of another tool, or of another organisation."""
        for name in ("calls", "succeeded", "failed", "timed", "total_ms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.buckets.update(other.buckets)

    def counts(self) -> dict[str, int]:
        """The numbers of calls, rounded: sampling makes estimates of them."""
        return {name: round(getattr(self, name)) for name in ("calls", "succeeded", "failed")}

    def duration_ms(self) -> dict[str, float | None]:
        """The mean and the 95th percentile, which is at most 6.3 % off; None where nobody measured."""
        at = bucket_at(sorted(self.buckets.items()), 0.95)
        return {
            "mean": self.total_ms / self.timed if self.timed else None,
            "p95": None if at is None else middle_of(at, DURATION_STEPS),
        }


@dataclass(frozen=True, slots=True)
class ToolCalls(JsonRecord):
    """The calls of one tool in one organisation.

    Attributes:
        org, tool: where it was called, and its name.
        calls, succeeded, failed: numbers of calls; of the others nobody said what came of them.
        timed: how many of them were measured.
        duration_ms: `mean` and `p95` of these.
    """

    org: str
    tool: str
    calls: int
    succeeded: int
    failed: int
    timed: int
    duration_ms: dict[str, float | None]


def tool_calls(
    database: Database,
    window: Window,
    *,
    by: By = "calls",
    limit: int = 100,
) -> tuple[ToolCalls, ...]:
    """The tools with calls in the window, whose first and last hour count as a whole.

    by: what they are ordered by, the highest first. limit: most tools.
    """
    if by not in BY:
        raise InvalidInput(f"by: is {by!r:.80}, must be one of {', '.join(BY)}")
    found = [
        ToolCalls(org, tool, **sums.counts(), timed=round(sums.timed), duration_ms=sums.duration_ms())
        for (org, tool), sums in call_sums(database, window).items()
    ]
    return tuple(
        sorted(found, key=lambda each: (-_value(each, by), -each.calls, each.org, each.tool))[:limit]
    )


def _value(calls: ToolCalls, by: By) -> float:
    value = calls.duration_ms[by] if by in calls.duration_ms else getattr(calls, by)
    return -math.inf if value is None else float(value)


def call_sums(database: Database, window: Window) -> dict[tuple[str, str], CallSums]:
    """(organisation, tool) → its calls in the window."""
    found: dict[tuple[str, str], CallSums] = {}
    with database.reading() as connection:
        columns = WindowSums(connection, window).of(tables.tool_sums).c
        place = (columns.org, columns.tool, columns.bucket)
        numbers = [total(columns[name]) for name in ("called", "succeeded", "failed", "timed", "duration_ms")]
        query = sa.select(*place, *numbers).where(columns.called + columns.timed > 0).group_by(*place)
        for org, tool, bucket, *sums in connection.execute(query):
            # Several tools may be called in one event, and each call counts.
            timed = Counter({bucket: sums[3]} if sums[3] else {})
            called, succeeded, failed, number, total_ms = sums
            found.setdefault((org, tool), CallSums()).add(
                CallSums(called, succeeded, failed, number, total_ms, timed)
            )
    return found
