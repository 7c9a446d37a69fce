"""Figures are those of the events, however many hours are summed, and stay when events go."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.logged import event, unit_of, write_events
from tests.integration.outcomes import exposure, said
from toolroll.model.tools import Definitions, Tool
from toolroll.registry.analytics.comparison import VariantSums
from toolroll.registry.analytics.experiments import ExperimentCounts, counts, find
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.plugin_calls import plugin_calls
from toolroll.registry.analytics.timeline import timeline
from toolroll.registry.analytics.tool_calls import tool_calls
from toolroll.registry.analytics.tools import unused
from toolroll.registry.analytics.usage import OF, heatmap, hits
from toolroll.registry.analytics.window import Window
from toolroll.registry.events import hours
from toolroll.registry.events.hour_selects import SELECTS
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.events.selection_figures import ANSWERED, OUTCOMES
from toolroll.registry.keeper.maintenance import delete_old_hours, prune
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

ALL = Window()
ORGS = ("", "acme", "globex")
BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
TOOLS = [f"tool_{at}" for at in range(9)]
CALLED = ("succeeded", "failed", "called", "corrected")
AFTER = BEGIN + timedelta(days=4)
SEEDS = int(os.environ.get("TOOLROLL_HOURS_SEEDS", "2"))  # a long run takes more
EXPERIMENTS = {"of users": "user", "of sessions": "session", "of organisations": "org"}


def some_batches(seed: int, count: int = 120) -> Iterator[tuple[list[dict[str, Any]], list[ReceivedReport]]]:
    """Events and reports on them: late, partial, revised, before their events, and batches that come twice."""
    draws = random.Random(seed)
    reports: list[ReceivedReport] = []
    events = []
    for at in range(count):
        shown = draws.sample(TOOLS, 4)
        when = BEGIN + timedelta(minutes=draws.randrange(3 * 24 * 60))
        org = draws.choice(ORGS)
        one = exposure(f"{seed:08x}{at:08x}", *shown, org=org, at=when.timestamp())
        events.append(
            {
                **event(event_id=one.event_id, org=org, at=when, selected=shown),
                "page": draws.choice(["home", "crm", ""]),
                "profile": draws.choice(["default", "learned"]),
                "latency_us": draws.lognormvariate(5, 1),
                "degraded": draws.choice([[], [], ["embedder"], ["embedder", "routes"]]),
                "share": draws.choice([1.0, 1.0, 0.3, 0.01]),
                "reporter": draws.choice(["ann", "ben", "cem", ""]),
                "session": f"session {draws.randrange(20)}",
                "experiment": draws.choice(["", "unknown", *EXPERIMENTS]),
                "variant": draws.choice(["a", "a", "b"]),
            }
        )
        events[-1]["unit"] = unit_of(events[-1], EXPERIMENTS)
        for _ in range(draws.choice([0, 0, 1, 1, 2, 3])):
            kinds = {name: draws.choice(CALLED) for name in draws.sample(shown, draws.randrange(3))}
            report = said(
                one,
                kinds,
                final=draws.random() < 0.7,
                after=draws.choice([1.0, 50.0, 40 * 86_400.0]),
                durations={name: draws.lognormvariate(4, 2) for name in kinds if draws.random() < 0.6},
            )
            reports.append(report)
    draws.shuffle(events)
    draws.shuffle(reports)
    while events or reports:
        some, few = draws.randrange(12), draws.randrange(12)
        batch = events[:some], reports[:few]
        del events[:some], reports[:few]
        yield batch
        if draws.random() < 0.2:  # nobody knew whether it was written
            yield batch


def begin(database: Database) -> None:
    """Begins the experiments."""
    with database.recording() as connection:
        for name, kind in EXPERIMENTS.items():
            fields = {"org": "", "salt": "", "active": True, "begun_at": BEGIN, "ended_at": None}
            row = {"name": name, "unit": kind, "variants": {"a": 0.5, "b": 0.5}, **fields}
            connection.execute(sa.insert(tables.experiments), row)


def fill(database: Database, seed: int, count: int = 120) -> None:
    begin(database)
    for events, reports in some_batches(seed, count):
        ingest(database, events, reports)


def sum_some(database: Database, now: datetime = AFTER) -> bool:
    with database.recording() as connection:
        return hours.sum_changed(connection, now)


def sum_all(database: Database) -> None:
    while sum_some(database):
        pass


def marked(database: Database) -> int:
    """How many hours are read from events."""
    with database.reading() as connection:
        query = sa.select(sa.func.count()).select_from(tables.selection_sums).where(hours.is_changed())
        return int(connection.scalar(query) or 0)


def stored(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all sums."""
    with database.reading() as connection:
        return {table.name: sorted(map(tuple, connection.execute(sa.select(table)))) for table in SELECTS}


def rows_of_events(database: Database) -> list[Mapping[str, Any]]:
    with database.reading() as connection:
        return [dict(row._mapping) for row in connection.execute(sa.select(tables.selection_events))]


def weight(row: Mapping[str, Any]) -> float:
    return round(1_000 / row["share"]) / 1_000


def rounded(counts: Mapping[Any, float]) -> dict[Any, int]:
    return {key: round(number) for key, number in counts.items() if number}


class Oracle:
    """The plainest counts over events."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows

    def check(self, database: Database, window: Window) -> None:
        """Compares every report of a window of whole hours."""
        rows = [
            row
            for row in self.rows
            if window.org in (None, row["org"])
            and (window.since is None or row["at"] >= window.since)
            and (window.until is None or row["at"] < window.until)
        ]
        self._selections(rows, metrics(database, window))
        self._timeline(rows, timeline(database, window), timeline(database, window, "hour"))
        self._tools(rows, database, window)

    def _selections(self, rows: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> None:
        all_of = sum(map(weight, rows))
        assert (found["total"], found["logged"]) == (round(all_of), len(rows))
        assert found["organisations"] == len({row["org"] for row in rows})
        assert found["first"] == min((row["at"].isoformat() for row in rows), default=None)
        assert found["last"] == max((row["at"].isoformat() for row in rows), default=None)
        for outcome in OUTCOMES:
            said = sum(weight(row) for row in rows if row["outcome"] == outcome)
            assert found["outcomes"][outcome] == round(said)
        methods, parts = Counter[Any](), Counter[Any]()
        for row in rows:
            methods[row["profile"], row["experiment"] or None, row["variant"] or None] += weight(row)
            parts.update(dict.fromkeys(row["degraded"], weight(row)))
        assert found["degraded"] == rounded(parts)
        names = ("profile", "experiment", "variant")
        assert {tuple(each[name] for name in names): each["events"] for each in found["methods"]} == {
            key: round(number) for key, number in methods.items()
        }
        if rows:
            mean = sum(row["latency_us"] * weight(row) for row in rows) / all_of
            assert found["latency_us"]["mean"] == pytest.approx(mean, abs=0.01)
            ranks = [*by_rank([(row["latency_us"], weight(row)) for row in rows])]
            for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
                expected = next(time for time, rank in ranks if rank >= share * all_of - 1e-9)
                assert found["latency_us"][name] == pytest.approx(expected, rel=0.008)
            saved = sum((row["tokens_total"] - row["tokens_selected"]) * weight(row) for row in rows)
            assert found["tokens"]["saved"] == round(saved)
            shown = sum(len(row["selected"]) * weight(row) for row in rows)
            assert found["tools_per_event"] == pytest.approx(shown / all_of)

    def _timeline(
        self, rows: Sequence[Mapping[str, Any]], by_day: Mapping[str, Any], by_hour: Mapping[str, Any]
    ) -> None:
        for found, form in ((by_day, "%Y-%m-%d"), (by_hour, "%Y-%m-%dT%H:00Z")):
            expected = Counter[str]()
            for row in rows:
                expected[f"{row['at']:{form}}"] += weight(row)
            assert {point["at"]: point["selections"] for point in found["points"]} == rounded(expected)
        ends = {
            part: [row["at"].isoformat() for row in rows if part in row["degraded"]]
            for part in {part for row in rows for part in row["degraded"]}
        }
        assert {each["part"]: (each["first"], each["last"]) for each in by_day["degraded"]} == {
            part: (min(times), max(times)) for part, times in ends.items()
        }

    def _tools(self, rows: Sequence[Mapping[str, Any]], database: Database, window: Window) -> None:
        cells: dict[str, Counter[Any]] = {name: Counter() for name in OF}
        days: dict[str, Counter[str]] = {"calls": Counter(), "hits": Counter()}
        calls: dict[str, Counter[Any]] = {name: Counter() for name in ("calls", "succeeded", "failed")}
        took: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in rows:
            day, n = f"{row['at']:%Y-%m-%d}", weight(row)
            for name in row["selected"]:
                cells["selected"][name, row["page"]] += n
            for name, kind in (row["called"] or {}).items():
                cells["called"][name, row["page"]] += n * (kind != "meant")
                cells["succeeded"][name, row["page"]] += n * kind.endswith("succeeded")
                days["calls"][day] += n * (kind != "corrected")
                is_hit = kind in ("succeeded", "failed", "called") or (
                    kind == "meant" and name in row["selected"]
                )
                days["hits"][day] += n * is_hit
                calls["calls"][row["org"], name] += n * (kind != "meant")
                calls["succeeded"][row["org"], name] += n * kind.endswith("succeeded")
                calls["failed"][row["org"], name] += n * kind.endswith("failed")
            for name, duration_ms in (row["durations_ms"] or {}).items():
                took.setdefault((row["org"], name), []).append((duration_ms, n))
        for of in OF:
            table = heatmap(database, window, of)
            found = {
                (tool, page): count
                for tool, counts_of in zip(table.tools, table.counts, strict=True)
                for page, count in zip(table.pages, counts_of, strict=True)
                if count
            }
            assert found == rounded(cells[of])
        assert {day.day: day.calls for day in hits(database, window)} == rounded(days["calls"])
        assert {day.day: day.hits for day in hits(database, window) if day.hits} == rounded(days["hits"])
        reported = {(each.org, each.tool): each for each in tool_calls(database, window, limit=1_000)}
        for name, numbers in calls.items():
            found = {key: getattr(each, name) for key, each in reported.items() if getattr(each, name)}
            assert found == rounded(numbers)
        assert {key for key, each in reported.items() if each.timed} == took.keys()
        for key, times in took.items():
            number = sum(count for _, count in times)
            p95 = next(time for time, rank in by_rank(times) if rank >= 0.95 * number - 1e-9)
            mean = sum(time * count for time, count in times) / number
            assert reported[key].timed == round(number)
            assert reported[key].duration_ms["mean"] == pytest.approx(mean, rel=1e-3, abs=0.001)
            assert reported[key].duration_ms["p95"] == pytest.approx(max(p95, 1e-3), rel=0.063)

    def check_units(self, database: Database) -> None:
        """Compares the units and rewards of the experiments."""
        for name, kind in EXPERIMENTS.items():
            units: dict[tuple[str, str], dict[str, list[float]]] = {}
            for row in self.rows:
                if row["experiment"] == name:
                    sums = units.setdefault((row["org"], row["unit"]), {}).setdefault(
                        row["variant"], [0.0, 0, 0]
                    )
                    if row["outcome"] in ANSWERED:
                        sums[1] += 1
                        sums[2] += row["outcome"] == "succeeded"
                    else:
                        sums[0] += weight(row)
            mine: dict[str, list[list[float]]] = {"a": [], "b": []}
            unknown = dict.fromkeys(mine, 0.0)
            for by_variant in units.values():
                for variant, sums in by_variant.items():
                    unknown[variant] += sums[0]
                    if len(by_variant) == 1:
                        mine[variant].append(sums)
            known = {variant: [sums for sums in each if sums[1]] for variant, each in mine.items()}
            found = counts(database, find(database, name))
            assert found == ExperimentCounts(
                {
                    variant: VariantSums.of(
                        np.array([sums[1] for sums in each]), np.array([sums[2] for sums in each])
                    )
                    for variant, each in known.items()
                },
                {variant: len(each) for variant, each in mine.items()},
                {variant: round(number) for variant, number in unknown.items()},
                sum(len(by_variant) > 1 for by_variant in units.values()),
            ), kind


def windows(draws: random.Random) -> Iterator[Window]:
    """All, and one that begins and ends with some hour."""
    begin, end = sorted(draws.sample(range(-5, 3 * 24 + 5), 2))
    since, until = BEGIN + timedelta(hours=begin), BEGIN + timedelta(hours=end)
    org = draws.choice([None, *ORGS])
    yield from (
        Window(org),
        draws.choice([Window(org, since, until), Window(org, since), Window(org, None, until)]),
    )


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_figures_are_those_of_the_events_whatever_is_summed_corrected_and_deleted(
    database: Database, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(seed)
    monkeypatch.setattr(hours, "_EVENTS", draws.choice([1, 3, 10_000]))  # large hours take several steps
    monkeypatch.setattr(hours, "_HOURS", draws.choice([2, 200]))
    begin(database)
    gone: dict[str, Mapping[str, Any]] = {}
    cut = BEGIN
    for events, reports in some_batches(seed, 80):
        # The events of hours that were deleted neither come nor change any more.
        ingest(
            database,
            [each for each in events if each["at"] >= cut],
            [each for each in reports if each.exposure.at >= cut.timestamp()],
        )
        for _ in range(draws.randrange(4)):
            sum_some(database)
        if draws.random() < 0.1:
            cut = max(cut, BEGIN + timedelta(hours=draws.randrange(60)))
            before = {row["event_id"]: row for row in rows_of_events(database)}
            prune(database, now=AFTER, events_s=(AFTER - cut).total_seconds())
            left = {row["event_id"] for row in rows_of_events(database)}
            gone |= {event_id: row for event_id, row in before.items() if event_id not in left}
        if draws.random() < 0.15:
            oracle = Oracle([*gone.values(), *rows_of_events(database)])
            for window in windows(draws):
                oracle.check(database, window)
    oracle = Oracle([*gone.values(), *rows_of_events(database)])
    assert any(row["called"] for row in oracle.rows) and any(row["durations_ms"] for row in oracle.rows)
    for is_summed in (False, True):
        if is_summed:
            sum_all(database)
            assert marked(database) == 0
        for _ in range(3):
            for window in windows(draws):
                oracle.check(database, window)
        oracle.check_units(database)


def test_summing_again_changes_nothing_and_in_parts_makes_the_same(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, 3)
    sum_all(database)
    once = stored(database)
    with database.recording() as connection:
        hours.mark(connection, [(row["org"], row["at"]) for row in rows_of_events(database)])
    monkeypatch.setattr(hours, "_EVENTS", 1)
    assert stored(database) != once and marked(database) > 0
    sum_all(database)
    assert stored(database) == once


def test_the_running_hour_is_read_from_its_events_and_summed_when_it_is_over(database: Database) -> None:
    write_events(database, event(at=BEGIN + timedelta(minutes=50)), event(at=BEGIN - timedelta(minutes=50)))
    assert not sum_some(database, BEGIN + timedelta(minutes=55))
    assert marked(database) == 1  # the hour before is over
    assert metrics(database, ALL)["total"] == 2
    assert not sum_some(database, BEGIN + timedelta(hours=1) + hours.SETTLED_AFTER)
    assert marked(database) == 0
    assert metrics(database, ALL)["total"] == 2
    write_events(database, event(at=BEGIN + timedelta(minutes=51)))  # late
    assert marked(database) == 1
    assert metrics(database, ALL)["total"] == 3


def test_a_window_begins_and_ends_with_whole_hours_and_says_so(database: Database) -> None:
    at = BEGIN + timedelta(hours=5, minutes=10)
    ingest(database, [event(at=at)], [])
    for _ in range(2):
        found = metrics(database, Window(None, at + timedelta(minutes=10), at + timedelta(minutes=20)))
        assert found["total"] == 1
        assert (found["since"], found["until"]) == ("2026-03-01T05:00:00+00:00", "2026-03-01T06:00:00+00:00")
        sum_all(database)


def test_figures_stay_when_events_are_deleted_and_go_when_they_are_old_themselves(database: Database) -> None:
    fill(database, 9)
    total = metrics(database, ALL)["total"]
    before = [counts(database, find(database, name)) for name in EXPERIMENTS]
    now = BEGIN + timedelta(days=2, hours=7, minutes=20)
    assert prune(database, events_s=86_400.0, now=now) > 0
    assert prune(database, events_s=43_200.0, org="acme", now=now) > 0
    assert metrics(database, ALL)["total"] == total
    # An event of an hour that has lost others changes no figure any more, and takes none away.
    write_events(database, event(at=BEGIN + timedelta(hours=3)))
    assert metrics(database, ALL)["total"] == total
    sum_all(database)
    assert metrics(database, ALL)["total"] == total and marked(database) == 0
    assert [counts(database, find(database, name)) for name in EXPERIMENTS] == before
    delete_old_hours(database, BEGIN + timedelta(days=2))
    assert metrics(database, ALL)["first"] > (BEGIN + timedelta(days=2)).isoformat()
    assert [counts(database, find(database, name)) for name in EXPERIMENTS] == before


def test_plugins_and_tools_of_an_organisation_are_told_by_sums(database: Database, database_url: str) -> None:
    with Registry.open(database_url, actor="test", create=False) as registry:
        registry.sync([Tool(name, f"What {name} does.") for name in TOOLS], plugin="mail", plugin_version="1")
    fill(database, 11)
    rows = [row for row in rows_of_events(database) if row["org"] == "acme"]
    calls = [(kind, weight(row)) for row in rows for kind in (row["called"] or {}).values()]
    for _ in range(2):
        (found,) = plugin_calls(database, Window("acme"))
        assert found.calls == round(sum(number for _, number in calls))
        assert found.failed == round(sum(number for kind, number in calls if kind == "failed"))
        assert unused(database, Window("acme"))["events"] == round(sum(map(weight, rows)))
        sum_all(database)


def by_rank(times: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Times in ascending order, and how many are at most as long."""
    ordered = sorted(times)
    return zip([time for time, _ in ordered], accumulate(count for _, count in ordered), strict=True)


def test_a_plugins_durations_are_those_of_its_tools(database_url: str, database: Database) -> None:
    tools = [Tool("quick", "is quick"), Tool("slow", "takes its time"), Tool("untimed", "was never measured")]
    with Registry.open(database_url, actor="ada") as registry:
        registry.sync(Definitions(tuple(tools)), plugin="clock")
    for at in range(20):
        one = exposure(f"{at:032x}", "quick", "slow", "untimed", org="acme", at=BEGIN.timestamp())
        kinds = {"quick": "succeeded", "slow": "failed" if at < 5 else "succeeded", "untimed": "called"}
        ingest(
            database,
            [event(event_id=one.event_id, at=BEGIN, selected=list(kinds))],
            [said(one, kinds, durations={"quick": 10.0, "slow": 1_000.0})],
        )
    (found,) = plugin_calls(database, ALL)
    assert (found.org, found.plugin, found.calls, found.failed, found.timed) == ("", "clock", 60, 5, 40)
    assert found.duration_ms["mean"] == pytest.approx(505.0)
    assert found.duration_ms["p95"] == pytest.approx(1_000.0, rel=0.065)
    assert [tool["name"] for tool in found.slow] == ["slow", "quick"]
    assert [tool["name"] for tool in found.failing] == ["slow"]
    assert plugin_calls(database, Window(since=BEGIN + timedelta(days=1))) == ()


@pytest.mark.parametrize("latency", [0.0, 1e-9, 0.5, 1.0, 67.3, 1e3, 123_456.7, 2.0**20, 1e12])
def test_a_bucket_is_within_a_hundredth_of_its_latencies(database: Database, latency: float) -> None:
    write_events(database, event(latency_us=latency))
    assert metrics(database, ALL)["latency_us"]["p50"] == pytest.approx(max(latency, 1e-3), rel=0.008)
