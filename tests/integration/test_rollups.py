"""The sums of events are those of the events, whatever came in which order, and stay when events go."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.logged import event, write_events
from tests.integration.outcomes import exposure, said
from toolroll.learning.experiment_counts import ANSWERED, ExperimentCounts, UnitRow
from toolroll.learning.experiments import Experiment
from toolroll.registry.analytics.experiments import counts, find
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.plugin_calls import plugin_calls
from toolroll.registry.analytics.timeline import timeline
from toolroll.registry.analytics.tool_calls import tool_calls
from toolroll.registry.analytics.tools import unused
from toolroll.registry.analytics.usage import heatmap, hits
from toolroll.registry.analytics.window import Window
from toolroll.registry.events import rollups
from toolroll.registry.events.ingest import ingest
from toolroll.registry.events.maintenance import events_without_sums, prune, rebuild
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.tools import Definitions, Tool

ALL = Window()
ORGS = ("", "acme", "globex")
BEGIN = datetime(2026, 3, 1, tzinfo=timezone.utc)
TOOLS = [f"tool_{at}" for at in range(9)]
CALLED = ("succeeded", "failed", "called", "corrected")
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
        for _ in range(draws.choice([0, 0, 1, 1, 2, 3])):
            kinds = {name: draws.choice(CALLED) for name in draws.sample(shown, draws.randrange(3))}
            report = said(
                one,
                kinds,
                final=draws.random() < 0.7,
                after=draws.choice([1.0, 50.0, 40 * 86_400.0]),
                durations={name: draws.lognormvariate(4, 2) for name in kinds if draws.random() < 0.6},
            )
            reports.append(
                ReceivedReport(report.exposure, report.report, report.at, is_logged=draws.random() < 0.5)
            )
    draws.shuffle(events)
    draws.shuffle(reports)
    while events or reports:
        some, few = draws.randrange(12), draws.randrange(12)
        batch = events[:some], reports[:few]
        del events[:some], reports[:few]
        yield batch
        if draws.random() < 0.2:  # nobody knew whether it was written
            yield batch


def fill(database: Database, seed: int, count: int = 120) -> None:
    with database.recording() as connection:
        for name, kind in EXPERIMENTS.items():
            fields = {"org": "", "salt": "", "active": True, "begun_at": BEGIN, "ended_at": None}
            row = {"name": name, "unit": kind, "variants": {"a": 0.5, "b": 0.5}, **fields}
            connection.execute(sa.insert(tables.experiments), row)
    for events, reports in some_batches(seed, count):
        ingest(database, events, reports)


def rows_of_events(database: Database) -> list[Mapping[str, Any]]:
    with database.reading() as connection:
        return [dict(row._mapping) for row in connection.execute(sa.select(tables.selection_events))]


def cells(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    with database.reading() as connection:
        return {
            table.name: sorted(
                tuple(row)
                for row in connection.execute(sa.select(table))
                if any(value for column, value in zip(table.c, row, strict=True) if not column.primary_key)
            )
            for table in (*rollups.TABLES, tables.experiment_units)
        }


def weight(row: Mapping[str, Any]) -> float:
    return round(1_000 / row["share"]) / 1_000


def by_hand(rows: Sequence[Mapping[str, Any]]) -> dict[str, Counter[Any]]:
    """The plainest counts over events."""
    found: dict[str, Counter[Any]] = {
        name: Counter() for name in ("days", "outcomes", "selected", "called", "hits")
    }
    for row in rows:
        found["days"][f"{row['at']:%Y-%m-%d}"] += weight(row)
        found["outcomes"][row["outcome"]] += weight(row)
        for name in row["selected"]:
            found["selected"][name, row["page"]] += weight(row)
        for name, kind in (row["called"] or {}).items():
            found["called"][name, row["page"]] += weight(row)
            found["hits"][f"{row['at']:%Y-%m-%d}"] += (kind != "corrected") * weight(row)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_reports_by_sums_are_the_counts_of_the_events_that_are_there(database: Database, seed: int) -> None:
    fill(database, seed)
    rows = rows_of_events(database)
    assert len(rows) == 120 and any(row["called"] for row in rows)
    for org in (None, *ORGS):
        expected = by_hand([row for row in rows if org in (None, row["org"])])
        window = Window(org)
        found = metrics(database, window)
        assert found["total"] == round(sum(expected["days"].values()))
        assert found["logged"] == sum(org in (None, row["org"]) for row in rows)
        for outcome in ("succeeded", "failed", "corrected", "unused"):
            assert found["outcomes"][outcome] == round(expected["outcomes"][outcome])
        days = {point["at"]: point["selections"] for point in timeline(database, window)["points"]}
        assert days == {at: round(number) for at, number in expected["days"].items()}
        for of in ("selected", "called"):
            table = heatmap(database, window, of)  # type: ignore[arg-type]
            pairs = {
                (tool, page): count
                for tool, row in zip(table.tools, table.counts, strict=True)
                for page, count in zip(table.pages, row, strict=True)
                if count
            }
            assert pairs == {pair: round(number) for pair, number in expected[of].items() if number}
        needed = {day.day: day.calls for day in hits(database, window)}
        assert needed == {at: round(number) for at, number in expected["hits"].items() if number}


@pytest.mark.parametrize("seed", range(3, 7))
def test_sums_kept_as_events_arrive_are_those_made_of_the_events(database: Database, seed: int) -> None:
    fill(database, seed)
    before = cells(database)
    assert set(rebuild(database).values()) == {0}
    with database.recording() as connection:
        for table in rollups.TABLES:
            connection.execute(sa.delete(table))
    assert sum(rebuild(database).values()) > 0
    assert cells(database) == before
    assert set(rebuild(database).values()) == {0}


def test_a_window_reads_days_and_the_hours_before_and_after_them(database: Database) -> None:
    fill(database, 8)
    rows = rows_of_events(database)
    draws = random.Random(8)
    for _ in range(40):
        begin, end = sorted(draws.sample(range(-5, 3 * 24 + 5), 2))
        since, until = BEGIN + timedelta(hours=begin), BEGIN + timedelta(hours=end)
        for window in (Window("acme", since, until), Window(None, since), Window(None, None, until)):
            mine = [
                row
                for row in rows
                if (window.org in (None, row["org"]))
                and (window.since is None or row["at"] >= window.since)
                and (window.until is None or row["at"] < window.until)
            ]
            assert metrics(database, window)["logged"] == len(mine)
            for per in ("day", "hour"):
                points = timeline(database, window, per)["points"]  # type: ignore[arg-type]
                assert sum(point["selections"] for point in points) == pytest.approx(
                    sum(map(weight, mine)), abs=len(points) / 2 + 1
                )


def test_a_window_begins_and_ends_with_whole_hours_and_says_so(database: Database) -> None:
    at = BEGIN + timedelta(hours=5, minutes=10)
    ingest(database, [event(at=at)], [])
    found = metrics(database, Window(None, at + timedelta(minutes=10), at + timedelta(minutes=20)))
    assert found["total"] == 1
    assert (found["since"], found["until"]) == ("2026-03-01T05:00:00+00:00", "2026-03-01T06:00:00+00:00")


def test_sums_stay_when_events_are_deleted_and_go_when_they_are_old_themselves(database: Database) -> None:
    fill(database, 9)
    before, total = cells(database), metrics(database, ALL)["total"]
    now = BEGIN + timedelta(days=2, hours=7)
    assert prune(database, events_s=86_400.0, now=now) > 0
    assert prune(database, events_s=43_200.0, org="acme", now=now) > 0
    assert metrics(database, ALL)["total"] == total
    assert set(rebuild(database).values()) == {0}  # the days that lost events stay as they are
    assert cells(database) == before
    (row, *_) = [row for row in rows_of_events(database) if row["org"] == "globex" and row["at"] > now]
    late = exposure(row["event_id"], *row["selected"], org="globex", at=row["at"].timestamp())
    ingest(database, [], [said(late, dict.fromkeys(row["selected"], "failed"), after=2.0)])
    assert set(rebuild(database).values()) == {0}
    prune(database, rollups_s=3_600.0, now=now)
    assert min(row[2] for row in cells(database)["selection_rollups"]) == BEGIN + timedelta(days=2)
    assert set(rebuild(database).values()) == {0}


def test_plugins_and_tools_of_an_organisation_are_told_by_sums(database: Database, database_url: str) -> None:
    with Registry.open(database_url, actor="test", create=False) as registry:
        registry.sync([Tool(name, f"What {name} does.") for name in TOOLS], plugin="mail", plugin_version="1")
    fill(database, 11)
    rows = [row for row in rows_of_events(database) if row["org"] == "acme"]
    (found,) = plugin_calls(database, Window("acme"))
    calls = [(kind, weight(row)) for row in rows for kind in (row["called"] or {}).values()]
    assert found.calls == round(sum(number for _, number in calls))
    assert found.failed == round(sum(number for kind, number in calls if kind == "failed"))
    assert unused(database, Window("acme"))["events"] == round(sum(map(weight, rows)))


def test_events_of_a_process_that_adds_no_sums_are_counted_until_they_are_added(database: Database) -> None:
    now = datetime.now(timezone.utc)
    ages = (timedelta(hours=2), timedelta(days=2), timedelta(days=30))
    write_events(database, *(event(at=now - age) for age in ages))
    with database.recording() as connection:
        connection.execute(sa.insert(tables.learning_state), {"org": "acme", "seq": 0, "epoch": 0})
    with database.reading() as connection:
        assert rollups.missing(connection, now) == 0
    write_events(database, *(event(at=now - age) for age in ages), is_added=False)
    assert events_without_sums(database) == 2  # of the last week
    rebuild(database)
    assert events_without_sums(database) == 0


@pytest.mark.parametrize("seed", [12, 13])
def test_durations_by_sums_are_those_of_the_events_that_are_there(database: Database, seed: int) -> None:
    fill(database, seed)
    rows = [row for row in rows_of_events(database) if row["durations_ms"]]
    took: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        for name, duration_ms in row["durations_ms"].items():
            assert name in row["called"]
            took.setdefault((row["org"], name), []).append((duration_ms, weight(row)))
    found = {(each.org, each.tool): each for each in tool_calls(database, ALL, limit=1_000)}
    assert took.keys() == {key for key, each in found.items() if each.timed}
    for key, times in took.items():
        each, number = found[key], sum(count for _, count in times)
        p95 = next(time for time, rank in by_rank(times) if rank >= 0.95 * number - 1e-9)
        assert each.timed == round(number)
        assert each.duration_ms["mean"] == pytest.approx(
            sum(time * count for time, count in times) / number, rel=1e-3, abs=0.001
        )
        assert each.duration_ms["p95"] == pytest.approx(p95, rel=0.065)
    order = [each.duration_ms["p95"] or 0.0 for each in tool_calls(database, ALL, by="p95")]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("seed", [14, 15])
def test_an_experiments_units_by_sums_are_those_of_its_events(database: Database, seed: int) -> None:
    fill(database, seed, 400)
    rows = rows_of_events(database)
    for name, kind in EXPERIMENTS.items():
        of = {"user": "reporter", "session": "session", "org": "org"}[kind]
        units: dict[tuple[str, str, str], list[float]] = {}
        for row in rows:
            if row["experiment"] == name:
                org = "" if kind == "org" else row["org"]
                sums = units.setdefault((row["variant"], org, row[of]), [0.0, 0, 0])
                if row["outcome"] in ANSWERED:
                    sums[1] += 1
                    sums[2] += row["outcome"] == "succeeded"
                else:
                    sums[0] += weight(row)
        expected = ExperimentCounts.of(
            Experiment(name, {"a": 0.5, "b": 0.5}, kind),  # type: ignore[arg-type]
            (UnitRow(*key, sums[0], int(sums[1]), int(sums[2])) for key, sums in units.items()),
        )
        found = counts(database, find(database, name))
        assert (found.tallies, found.assigned, found.strays) == (
            expected.tallies,
            expected.assigned,
            expected.strays,
        )
        for variant, number in expected.unknown.items():  # which rounds for each unit
            assert found.unknown[variant] == pytest.approx(number, abs=len(units))
    prune(database, now=BEGIN + timedelta(days=2), events_s=86_400)
    before = [counts(database, find(database, name)) for name in EXPERIMENTS]
    assert set(rebuild(database).values()) == {0}  # what has lost events stays
    assert [counts(database, find(database, name)) for name in EXPERIMENTS] == before


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


@pytest.mark.parametrize("latency", [0.0, 1e-9, 0.5, 1.0, 67.3, 1e3, 123_456.7, 1e12])
def test_a_bucket_is_within_a_hundredth_of_its_latencies(latency: float) -> None:
    assert rollups.latency_of(rollups.bucket_of(latency)) == pytest.approx(max(latency, 1e-3), rel=0.008)
    bucket = rollups.bucket_of(latency, rollups.DURATION_STEPS)
    assert rollups.duration_of(bucket) == pytest.approx(max(latency, 1e-3), rel=0.063)
