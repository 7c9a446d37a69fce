"""What a host has over a registry, without its selections: an outbox, a shipper and a keeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolroll.learning.deduplication import Step
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.registry.events.rows import Messages
from toolroll.registry.keeper.keeper import EVENTS_S, Keeper
from toolroll.registry.outbox.outbox import Outbox
from toolroll.registry.outbox.shipper import EventCounts, Shipper
from toolroll.registry.store.database import Database
from toolroll.selection.selection import Selection


class Recorder:
    """Ships and keeps, each in its thread."""

    def __init__(
        self,
        database: Database,
        outbox: Path,
        exposure_of: Callable[[Selection], Exposure],
        *,
        messages: Messages | None = Messages(),
        keeps: bool = True,
        events_s: float | None = EVENTS_S,
        most_bytes: int = 2**20,
        **options: Any,
    ) -> None:
        self.keeper = Keeper(database, events_s=events_s) if keeps else None
        self.outbox = Outbox(outbox, most_bytes=most_bytes)
        self.shipper = Shipper(
            database,
            self.outbox,
            exposure_of,
            messages=None if messages is None else lambda: messages,
            on_shipped=self._hurry,
            **options,
        )
        if self.keeper is not None:
            self.keeper.start()

    @property
    def counts(self) -> EventCounts:
        return self.shipper.counts

    @property
    def figures(self) -> dict[str, Any]:
        assert self.keeper is not None
        return self.keeper.figures

    def note(self, selection: Selection) -> None:
        self.shipper.note(selection)

    def record(self, exposure: Exposure, report: Report, now: float | None = None) -> Step:
        return self.shipper.record(exposure, report, now)

    def exposure(self, event_id: str, org: str | None = None) -> Exposure:
        return self.shipper.exposure(event_id, org)

    def health(self) -> dict[str, Any]:
        return self.shipper.health()

    def flush(self, timeout_s: float) -> bool:
        return self.shipper.flush(timeout_s, self._hurry)

    def close(self, timeout_s: float = 10.0) -> None:
        self.shipper.drain(timeout_s)
        if self.keeper is not None:
            self.flush(timeout_s)
            self.keeper.drain(timeout_s)
            self.keeper.close(timeout_s)
        self.shipper.close(timeout_s)

    def _hurry(self) -> None:
        if self.keeper is not None:
            self.keeper.hurry()
