"""A service knows the broken tools as a whole reading of the outcomes finds them."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

from tests.integration.outcomes import NOW, eventually, exposure, said
from toolroll.registry.analytics import break_watch
from toolroll.registry.analytics.break_watch import BreakWatch
from toolroll.registry.analytics.tools import broken
from toolroll.registry.analytics.window import Window
from toolroll.registry.events.ingest import ingest
from toolroll.registry.events.maintenance import OutcomeFilter, forget
from toolroll.registry.store.database import Database

PRESENT = datetime.fromtimestamp(NOW, timezone.utc)
MONTH = Window(None, PRESENT - timedelta(days=30))


def report(database: Database, draw: random.Random, part: int) -> None:
    """Sixty calls of four tools in two organisations; one of the tools fails, another one in each part."""
    reports = []
    for at in range(60):
        place = draw.randrange(4)
        event = exposure(
            f"e{part}-{at}",
            f"tool-{place}",
            org=draw.choice(["acme", "globex"]),
            reporter=f"user-{draw.randrange(6)}",
            at=NOW - 5_000 + 60 * part + at,
        )
        works = draw.random() < (0.03 if place == part % 4 else 0.95)
        reports.append(said(event, {f"tool-{place}": "succeeded" if works else "failed"}))
    assert ingest(database, [], reports).refused == []


def test_a_watch_finds_what_a_whole_reading_finds_whenever_it_is_asked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(break_watch, "_PATIENCE_S", 60.0)
    draw, watch = random.Random(3), BreakWatch(database, PRESENT)
    assert watch.broken(MONTH) == ((), True)
    found = 0
    for part in range(12):
        report(database, draw, part)
        if draw.random() < 0.6:
            for window in (MONTH, Window("acme", MONTH.since), Window("nobody", MONTH.since)):
                known, is_complete = watch.broken(window)
                assert (known, is_complete) == (broken(database, window), True)
                found += len(known)
    assert found > 3

    matching = OutcomeFilter(reporter="user-1")
    assert forget(database, "acme", matching, actor="ann") > 0
    assert watch.broken(MONTH) == (broken(database, MONTH), True)


def test_the_thread_reads_what_takes_long_and_answers_say_so_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(4)
    for part in range(8):
        report(database, draw, part)
    monkeypatch.setattr(break_watch, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(break_watch, "_FEW", 1)
    watch = BreakWatch(database, PRESENT)
    assert watch.broken(MONTH)[1] is False
    eventually(lambda: watch.broken(MONTH)[1])
    assert watch.broken(MONTH)[0] == broken(database, MONTH)
    watch.stop()


def test_a_watch_covers_windows_of_the_last_month_alone(database: Database) -> None:
    watch = BreakWatch(database, PRESENT)
    assert watch.covers(MONTH)
    for other in (Window(), Window("acme", PRESENT - timedelta(days=40)), Window(None, MONTH.since, PRESENT)):
        assert not watch.covers(other)
