"""Exposures and reports by the handful, and what an oracle says they come to."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import SimpleNamespace

import numpy as np
import sqlalchemy as sa

from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import Entry, Report
from toolroll.model.identity import ToolKey, key
from toolroll.registry.events.details import EntryReader, EventReader
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

DIM = 8
NOW = 1_700_000_000.0


class Width:
    """An embedder, as far as learning reads one."""

    def __init__(self, identity: str = "hash@1", dim: int = DIM) -> None:
        self.identity, self.dim = identity, dim


def tool(name: str, expected: float = 0.25) -> ShownTool:
    return ShownTool(name, ToolKey(key("arm", name), key("intent", name), 0), expected)


def exposure(
    event_id: str,
    *names: str,
    org: str = "acme",
    at: float = NOW,
    reporter: str = "",
    page: str = "home",
    tier: str = "free",
    category: str = "general",
    vector: bool = True,
) -> Exposure:
    return Exposure(
        event_id,
        org,
        at,
        reporter,
        page,
        tier,
        category,
        tuple(map(tool, names)),
        vector_of(event_id) if vector else None,
        "hash@1" if vector else "",
    )


def vector_of(event_id: str) -> np.ndarray:
    digest = hashlib.sha256(event_id.encode()).digest()
    return np.frombuffer(digest[: 2 * DIM], np.uint8)[:DIM].astype(np.float16)


def said(
    of: Exposure,
    kinds: Mapping[str, str],
    *,
    final: bool = True,
    found: Iterable[str] = (),
    after: float = 1.0,
    durations: Mapping[str, float] | None = None,
) -> ReceivedReport:
    took = durations or {}
    entries = tuple(Entry(name, kind, took.get(name)) for name, kind in kinds.items())  # type: ignore[arg-type]
    report = Report(of.event_id, entries, tuple(tool(name, 0.0) for name in found), final)
    return ReceivedReport(of, report, of.at + after)


def raw_counts(database: Database, org: str | None = None) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(organisation, tool) → shown, called, succeeded, as the table of statistics has them."""
    table = tables.learned
    query = sa.select(table).where(table.c.kind == "tool", table.c.level == "everywhere")
    if org is not None:
        query = query.where(table.c.org == org)
    with database.reading() as connection:
        return {
            (row.org, row.tool): (row.shown, row.called, row.succeeded) for row in connection.execute(query)
        }


def dump(database: Database, org: str, table: sa.Table = tables.learned) -> list[tuple]:
    """All rows of an organisation, to the last bit, whenever they were written."""
    columns = [column for column in table.c if column.name != "revision"]
    query = sa.select(*columns).where(table.c.org == org).order_by(*table.primary_key.columns)
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(query)]


def rows_of(database: Database, table: sa.Table, *order: sa.Column) -> list:
    """The rows of a table; those of events and outcomes unpacked."""
    with database.reading() as connection:
        rows = connection.execute(sa.select(table).order_by(*(order or table.primary_key.columns))).all()
        if table is tables.selection_events:
            return EventReader(connection)([row._asdict() for row in rows])
        if table is tables.outcomes:
            read = EntryReader(connection)(row.details for row in rows)
            return [
                SimpleNamespace(**row._mapping, entries=entries, vector=vector)
                for row, (entries, vector) in zip(rows, read, strict=True)
            ]
        return rows


def eventually(check, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


class Oracle:
    """Whole numbers by the plainest rule: what was said last of each tool of each event."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, str, str], str] = {}
        self.shown: dict[tuple[str, str], tuple[str, ...]] = {}

    def take(self, received: ReceivedReport) -> None:
        org, event_id = received.exposure.org, received.exposure.event_id
        for entry in received.report.entries:
            self.said[org, event_id, entry.name] = entry.kind
        if received.report.is_final:
            self.shown[org, event_id] = tuple(shown.name for shown in received.exposure.shown)

    def counts(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        shown = Counter((org, name) for (org, _), names in self.shown.items() for name in names)
        called = Counter((org, name) for (org, _, name), kind in self.said.items() if kind != "meant")
        succeeded = Counter(
            (org, name) for (org, _, name), kind in self.said.items() if kind.endswith("succeeded")
        )
        keys = shown.keys() | called.keys() | {(org, name) for org, _, name in self.said}
        return {one: (shown[one], called[one], succeeded[one]) for one in keys}
