"""Exposures and reports by the handful, and what an oracle says they come to."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import sqlalchemy as sa

from toolroll.identity import ToolKey, key
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import Entry, Report
from toolroll.registry.events.details import EntryReader, EventReader
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

DIM = 8
NOW = 1_700_000_000.0


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
    table = tables.arm_statistics
    query = sa.select(table).where(table.c.level == "everywhere")
    if org is not None:
        query = query.where(table.c.org == org)
    with database.reading() as connection:
        return {
            (row.org, row.tool): (row.shown, row.called, row.succeeded) for row in connection.execute(query)
        }


def dump(database: Database, org: str, table: sa.Table = tables.arm_statistics) -> list[tuple]:
    """All rows of an organisation, to the last bit."""
    query = sa.select(table).where(table.c.org == org).order_by(*table.primary_key.columns)
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


def eventually(check, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


@dataclass(frozen=True)
class Tape:
    """Learns nothing and forgets nothing: a digest of all that was folded, in its order."""

    digest: bytes = b""
    count: int = 0
    sums: Mapping[int, tuple[float, float, float, float]] = field(default_factory=dict)

    def fold(self, deltas: np.ndarray, vectors: np.ndarray | None) -> Tape:
        digest, sums = self.digest, dict(self.sums)
        for delta in deltas:
            parts = [
                delta.tobytes()
                if delta["vector"] < 0
                else delta.tobytes() + vectors[delta["vector"]].tobytes()
            ]
            line = b"".join(parts)
            # the row among the vectors depends on how the fold was cut into pieces
            at = delta.dtype.fields["vector"][1]
            line = line[:at] + b"\0\0\0\0" + line[at + 4 :]
            digest = hashlib.sha256(digest + line).digest()
            arm = int(delta["arm"])
            old = sums.get(arm, (0.0, 0.0, 0.0, 0.0))
            names = ("successes", "failures", "calls", "expected")
            sums[arm] = tuple(value + float(delta[name]) for value, name in zip(old, names, strict=True))
        return Tape(digest, self.count + len(deltas), sums)

    def to_bytes(self) -> bytes:
        sums = {str(arm): value for arm, value in self.sums.items()}
        return json.dumps([self.digest.hex(), self.count, sums]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Tape:
        digest, count, sums = json.loads(data)
        return cls(bytes.fromhex(digest), count, {int(arm): tuple(value) for arm, value in sums.items()})


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
