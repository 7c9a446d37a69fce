"""How often calls of each tool succeeded and failed, and how long they took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from toolroll.errors import InvalidInput
from toolroll.registry.analytics.rollup_reader import Conditions, bucket_at, over_rollups, total
from toolroll.registry.analytics.window import Window, json_fields
from toolroll.registry.events.rollups import duration_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

By = Literal["calls", "failed", "mean", "p95"]
BY: tuple[By, ...] = ("calls", "failed", "mean", "p95")

_calls, _durations = tables.tool_rollups, tables.duration_rollups


@dataclass(slots=True)
class CallSums:
    """Calls of one tool, or of several.

    Attributes:
        calls, succeeded, failed: numbers of calls; of the others nobody said what came of them.
        timed: how many of them were measured.
        total_ms: how long these took together.
        buckets: bucket of `rollups.duration_of` → calls.
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
            "p95": None if at is None else duration_of(at),
        }


@dataclass(frozen=True, slots=True)
class ToolCalls:
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return json_fields(self)


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

    def numbers(connection: sa.Connection, where: Conditions) -> Iterable[Any]:
        # Several tools may be called in one event, and each call counts.
        columns = _calls.c
        names = ("called", "succeeded", "failed")
        query = sa.select(columns.org, columns.tool, *(total(columns[name]).label(name) for name in names))
        return connection.execute(
            query.where(*where, columns.called > 0).group_by(columns.org, columns.tool)
        ).all()

    def durations(connection: sa.Connection, where: Conditions) -> Iterable[Any]:
        columns = _durations.c
        place = (columns.org, columns.tool, columns.bucket)
        sums = (total(columns.calls).label("calls"), total(columns.duration_ms).label("total_ms"))
        return connection.execute(sa.select(*place, *sums).where(*where).group_by(*place)).all()

    found: dict[tuple[str, str], CallSums] = {}
    with database.reading() as connection:
        for row in over_rollups(connection, _calls, window, numbers):
            found[row.org, row.tool] = CallSums(row.called, row.succeeded, row.failed)
        for row in over_rollups(connection, _durations, window, durations):
            sums = found.setdefault((row.org, row.tool), CallSums())
            sums.timed += row.calls
            sums.total_ms += row.total_ms
            sums.buckets[row.bucket] += row.calls
    return found
