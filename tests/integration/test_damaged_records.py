"""Records that are damaged, hostile or too large: they stop neither a shipper nor a keeper, and are named."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import sqlite3
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.outcome_worker import event, no_selection
from tests.integration.outcomes import Oracle, eventually, exposure, raw_counts, rows_of
from tests.integration.recorder import Recorder
from toolroll import Tool, Toolroll
from toolroll.learning.outcomes import Report
from toolroll.model.errors import StoreUnavailable
from toolroll.registry.events import hours
from toolroll.registry.events.event_record import event_to_bytes
from toolroll.registry.events.event_row import SelectionOrigin, event_row
from toolroll.registry.events.rows import Messages, ReceivedReport, instant
from toolroll.registry.keeper import keeper as keeping
from toolroll.registry.keeper.keeper import Keeper
from toolroll.registry.outbox.outbox import Outbox
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

BEGUN = float(int(time.time() // 3_600 - 2) * 3_600 + 1_800)  # in an hour that is over
LONG = random.Random(1).randbytes(6_000).hex()  # no index of PostgreSQL takes it
WRONG: tuple[Any, ...] = ("a\0\ud800", LONG, 5, {}, 1e300, float("nan"))


def received(number: int) -> ReceivedReport:
    return ReceivedReport(*event(number, BEGUN), BEGUN + number)


def damaged() -> list[bytes]:
    """Records of which at most a few can count; those that do not are refused."""
    report = json.loads(received(2).to_bytes())
    shown = exposure("e", "tool_1", "tool_2", at=BEGUN)
    picked = Toolroll.from_tools([Tool("tool_1", "one"), Tool("tool_2", "two")]).select("one", k=2)
    logged = json.loads(event_to_bytes(event_row(picked, shown, SelectionOrigin(), Messages()))[1:])
    made: list[bytes] = []

    def add(prefix: bytes, record: dict[str, Any], name: str, value: Any) -> None:
        made.append(prefix + json.dumps({**record, name: value}).encode())

    for value in WRONG:
        for at in range(len(report["event"])):
            parts = [f"d{len(made)}", *report["event"][1:]]
            parts[at] = value
            add(b"", report, "event", parts)
        for name in report:
            add(b"", {**report, "event": [f"d{len(made)}", *report["event"][1:]]}, name, value)
        for name in logged:
            add(b"E", {**logged, "event_id": f"d{len(made)}"}, name, value)
        add(b"E", {**logged, "event_id": f"d{len(made)}"}, "selected", [value])
        names = [value, *report["shown"][1:]]
        add(b"", {**report, "event": [f"d{len(made)}", *report["event"][1:]]}, "shown", names)
    for kind in ("O", "M8[ns]", "f4,f4", "(1000000,1000000)f4", "none"):
        columns = [*logged["candidates"][:2], [kind, base64.b64encode(bytes(80)).decode()], *[None] * 4]
        add(b"E", {**logged, "event_id": f"d{len(made)}"}, "candidates", columns)
    for vector in (np.full(8, np.nan, "<f2").tobytes(), b"abc", b"", bytes(140_000)):
        add(b"", {**report, "event": [f"d{len(made)}", *report["event"][1:]]}, "vector", vector.hex())
    made.append(json.dumps({**report, "page": "x" * 2**20}).encode())
    made += [b"", b"E", b"E{}", b"9" * 10_000, b"[" * 100_000, b'E{"a":' * 100_000, bytes(range(256)) * 4_000]
    return made


class Planted:
    """What code in a pickle would do."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (os.environ["PLANTED"],)


def put(database: Database, records: list[bytes], first: int = 0) -> None:
    rows = [
        {"id": f"{first + at:06}", "org": "acme", "at": float(first + at), "record": record}
        for at, record in enumerate(records)
    ]
    with database.recording() as connection:
        connection.execute(sa.insert(tables.inbox), rows)


def test_damaged_and_hostile_records_of_the_inbox_are_refused_and_all_others_count(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", str(tmp_path / "planted"))
    bad = [*damaged(), pickle.dumps(Planted()), b"E" + pickle.dumps(Planted())]
    good = [received(number).to_bytes() for number in range(100, 140)]
    for at, record in enumerate(good):
        bad.insert(at * (len(bad) // len(good)), record)
    put(database, bad)
    keeper = Keeper(database)
    while rows_of(database, tables.inbox):
        keeper._step()
    assert keeper.figures["refused"] > 100 and keeper.figures["last_refusal"]
    ids = {row.event_id for row in rows_of(database, tables.outcomes)}
    assert {event(number, BEGUN)[0].event_id for number in range(100, 140)} <= ids
    keeper._renewed_at = keeper._closed_at = float("-inf")  # what they left closes, and is summed
    keeper._step()
    with database.recording() as connection:
        while hours.sum_changed(connection, datetime.now(timezone.utc)):
            pass
    assert not (tmp_path / "planted").exists()


def test_no_record_is_refused_because_an_open_event_cannot_be_closed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_in = keeping.ingest_in

    def failing(*batch: Any, now: float | None = None, **options: Any) -> Any:
        if now is not None:
            raise ValueError("an open event is damaged")
        return ingest_in(*batch, now=now, **options)

    monkeypatch.setattr(keeping, "ingest_in", failing)
    monkeypatch.setattr(keeping, "is_due", lambda *_: True)
    put(database, [received(number).to_bytes() for number in range(20)])
    keeper = Keeper(database)
    with pytest.raises(StoreUnavailable, match="open event"):
        keeper._step()
    assert len(rows_of(database, tables.outcomes)) == 20 and keeper.figures["refused"] == 0


def test_an_open_event_whose_time_no_database_has_does_not_keep_others_open(database: Database) -> None:
    shown, _ = event(3, BEGUN)
    rows = []
    for event_id, at in (("lost", 1e300), ("open", shown.at)):
        left = replace(shown, event_id=event_id, at=at)
        closing = ReceivedReport(left, Report(event_id, ()), BEGUN).to_bytes()
        rows.append({"org": shown.org, "event_id": event_id, "closes_at": instant(BEGUN), "record": closing})
    with database.recording() as connection:
        connection.execute(sa.insert(tables.open_events), rows)
    Keeper(database)._step()
    assert [row.event_id for row in rows_of(database, tables.open_events)] == ["lost"]


def test_damaged_rows_of_an_outbox_are_shipped_and_hold_up_no_other(
    database: Database, tmp_path: Path
) -> None:
    file, numbers = tmp_path / "outbox", range(30)
    outbox = Outbox(file)
    outbox.append(*[("acme", BEGUN, received(number).to_bytes()) for number in numbers])
    outbox.close()
    with sqlite3.connect(file) as connection:
        for seq, change in enumerate(
            (
                "org = CAST(x'ff41' AS TEXT)",
                "org = CAST(x'4100' AS TEXT)",
                f"org = '{LONG}'",
                "id = CAST(x'ff00' AS TEXT)",
                f"id = '{LONG}'",
                "at = 9e999",
                "record = x''",
                "record = x'ff00ff'",
            ),
            5,
        ):
            connection.execute(f"UPDATE outbox SET {change} WHERE seq = {seq}")
    connection.close()
    host = Recorder(database, file, no_selection, messages=None)
    host.shipper.start()
    eventually(lambda: host.outbox.waiting() == (0, 0.0), 30)
    eventually(lambda: not rows_of(database, tables.inbox), 30)
    assert host.figures["refused"] == 2 and host.health()["failing"] is None
    host.close()
    oracle = Oracle()
    for number in set(numbers) - {10, 11}:
        oracle.take(received(number))
    assert raw_counts(database) == oracle.counts()
