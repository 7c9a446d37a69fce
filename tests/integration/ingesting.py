"""Events and outcomes written as a keeper writes them, without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolroll.registry.events import lease
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.ingest import IngestResult, ingest_in
from toolroll.registry.store.database import Database


def ingest(
    database: Database,
    events: Sequence[Mapping[str, Any]],
    reports: Sequence[ReceivedReport],
    *,
    window_s: float = LIFETIME_S,
    now: float | None = None,
) -> IngestResult:
    """Writes a batch in a transaction of its own, beside a keeper that may run; see `ingest_in`."""
    with database.recording() as connection:
        lease.lock(connection)
        return ingest_in(connection, events, reports, window_s=window_s, now=now)
