"""Outcomes in the store: what counts, how often, and for whom."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.outcomes import (
    DIM,
    NOW,
    Oracle,
    dump,
    exposure,
    raw_counts,
    rows_of,
    said,
)
from toolroll._core import Learned
from toolroll.learning.deduplication import MOST_SILENT
from toolroll.model.errors import InvalidInput
from toolroll.registry.events.fold import fold, outcomes_of
from toolroll.registry.events.learned_rows import arm_statistics
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.ingest import CLOSES_AFTER_S, is_due
from toolroll.registry.keeper.maintenance import OutcomeFilter, forget, rebuild
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

DAY_S = 86_400.0


def cell(database: Database, name: str, level: str = "everywhere", org: str = "acme") -> sa.Row:
    table = arm_statistics
    query = sa.select(table).where(table.c.org == org, table.c.tool == name, table.c.level == level)
    with database.reading() as connection:
        return connection.execute(query).one()


def folded(database: Database, org: str = "acme") -> Learned:
    """All outcomes from the first, in their order."""
    with database.reading() as connection:
        return fold(Learned(DIM), list(outcomes_of(connection, org)), DIM, "hash@1")


def some_reports(count: int, seed: int = 0, orgs: tuple[str, ...] = ("acme",)) -> list[ReceivedReport]:
    """Reports of all kinds: partial, doubled, revised, late, of tools that were found."""
    draws = random.Random(seed)
    names = [f"tool_{at}" for at in range(12)]
    reports: list[ReceivedReport] = []
    for at in range(count):
        shown = draws.sample(names, 4)
        org, reporter = draws.choice(orgs), draws.choice(["", "ann", "bob", "eve"])
        page, tier = draws.choice(["home", "crm"]), draws.choice(["free", "team"])
        event = exposure(
            f"{org}{at:06d}",
            *shown,
            org=org,
            reporter=reporter,
            page=page,
            tier=tier,
            at=NOW + 1_000 * draws.random(),
        )
        kind = draws.choice(["succeeded", "failed", "called", "corrected"])
        one = said(event, {shown[0]: kind}, final=draws.random() < 0.8)
        reports.append(one)
        if draws.random() < 0.2:
            reports.append(one)
        if draws.random() < 0.2:
            reports.append(said(event, {shown[0]: draws.choice(["succeeded", "failed"])}, after=2))
        if draws.random() < 0.1:
            found = draws.choice([name for name in names if name not in shown])
            reports.append(said(event, {found: "wanted_succeeded"}, found=[found], after=3))
        if draws.random() < 0.1:
            reports.append(said(event, {shown[1]: "succeeded"}, after=2 * LIFETIME_S))
    return reports


def test_of_two_reports_the_one_that_was_made_later_counts_whichever_comes_first(database):
    event = exposure("acme1", "a", "b")
    later = replace(said(event, {"a": "failed", "b": "called"}), at=NOW + 2)
    assert ingest(database, [], [later]).outcomes == 1
    assert ingest(database, [], [replace(said(event, {"a": "succeeded"}), at=NOW + 1)]).repeated == 1
    assert ingest(database, [], [replace(said(event, {"b": "succeeded"}), at=NOW + 3)]).outcomes == 1
    assert cell(database, "a").failures > 0 == cell(database, "a").successes
    assert cell(database, "b").successes > 0


def test_a_report_counts_for_each_level_of_its_context(database: Database) -> None:
    event = exposure("e1", "mail", "rain", page="crm", tier="team", category="read")
    done = ingest(database, [], [said(event, {"mail": "succeeded"})])
    assert (done.outcomes, done.repeated, done.refused) == (1, 0, [])
    for level, context in (
        ("everywhere", ""),
        ("page", "crm"),
        ("context", "team:crm:read"),
        ("plain", "team:crm:general"),
    ):
        mail, rain = cell(database, "mail", level), cell(database, "rain", level)
        assert (mail.context_key, rain.context_key) == (context, context)
        calls, expected = (0, 0) if level == "plain" else (1, 0.25)
        assert (mail.successes, mail.failures, mail.calls, mail.expected) == (1, 0, calls, expected)
        assert (rain.successes, rain.failures, rain.calls, rain.expected) == (0, 0, 0, expected)
        assert (mail.shown, mail.called, mail.succeeded) == (1, 1, 1)
        assert (rain.shown, rain.called, rain.succeeded) == (1, 0, 0)


def test_whatever_is_said_again_changes_nothing(database: Database) -> None:
    event = exposure("e1", "mail", "rain")
    one = said(event, {"mail": "succeeded"})
    ingest(database, [], [one, one])
    before, again = (
        dump(database, "acme"),
        ingest(database, [], [one, one, said(event, {"mail": "succeeded"}, after=9)]),
    )
    assert (again.outcomes, again.repeated) == (0, 3)
    assert dump(database, "acme") == before
    assert len(rows_of(database, tables.outcomes)) == 1


def test_saying_something_else_replaces_what_was_said(database: Database) -> None:
    event = exposure("e1", "mail", "rain")
    ingest(database, [], [said(event, {"mail": "failed"})])
    ingest(database, [], [said(event, {"mail": "succeeded"}, after=5)])
    mail = cell(database, "mail")
    assert (mail.successes, mail.failures, mail.calls, mail.expected) == (1, 0, 1, 0.25)
    assert (mail.shown, mail.called, mail.succeeded) == (1, 1, 1)
    first, second = rows_of(database, tables.outcomes)
    assert (first.step, first.closes, second.step, second.closes) == (1, True, 2, False)
    assert first.vector is not None and second.vector is not None  # rows that pull have what they pull by


def test_numbers_of_outcomes_have_no_gaps(database: Database) -> None:
    reports = some_reports(60, orgs=("acme", "umbrella"))
    for start in range(0, len(reports), 7):
        ingest(database, [], reports[start : start + 7])
    for org in ("acme", "umbrella"):
        seqs = [row.seq for row in rows_of(database, tables.outcomes) if row.org == org]
        assert seqs == list(range(1, len(seqs) + 1))
        (state,) = (row for row in rows_of(database, tables.learning_state) if row.org == org)
        assert state.seq == len(seqs)


@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_counts_are_the_oracles_whatever_the_batches(database: Database, size: int) -> None:
    reports, oracle = some_reports(120), Oracle()
    for report in reports:
        oracle.take(report)
    for start in range(0, len(reports), size):
        ingest(database, [], reports[start : start + size])
    assert raw_counts(database) == oracle.counts()


@pytest.mark.db
def test_batches_do_not_change_a_bit(new_database_url: Callable[[str], str]) -> None:
    reports, dumps, tapes = some_reports(80), [], []
    for dialect, size in (("sqlite", 1), ("sqlite", 50), ("postgresql", 9)):
        database = Database.open(new_database_url(dialect), create=False, migrate=False)
        for start in range(0, len(reports), size):
            ingest(database, [], reports[start : start + size])
        dumps.append(dump(database, "acme"))
        tapes.append(folded(database).to_bytes())
        database.close()
    assert dumps[0] == dumps[1] == dumps[2]
    assert tapes[0] == tapes[1] == tapes[2]


def test_rebuilding_gives_the_same_bits(database: Database) -> None:
    reports = some_reports(80)
    for start in range(0, len(reports), 11):
        ingest(database, [], reports[start : start + 11])
    before = dump(database, "acme")
    assert rebuild(database) == {"acme": 0}
    assert dump(database, "acme") == before
    with database.recording() as connection:
        connection.execute(sa.update(tables.learned).values(called=0))
    assert rebuild(database)["acme"] > 0
    assert dump(database, "acme") == before


def test_one_organisations_outcomes_move_no_bit_of_anothers(new_database_url: Callable[[str], str]) -> None:
    reports = some_reports(80, orgs=("acme", "umbrella"))
    alone = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    both = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    ingest(alone, [], [one for one in reports if one.exposure.org == "acme"])
    for start in range(0, len(reports), 13):
        ingest(both, [], reports[start : start + 13])
    assert dump(alone, "acme") == dump(both, "acme")
    assert folded(alone).to_bytes() == folded(both).to_bytes()
    assert dump(both, "umbrella") != dump(both, "acme")
    alone.close()
    both.close()


def test_a_report_on_anothers_event_says_nothing_of_it(database: Database) -> None:
    event = exposure("e1", "mail")
    ingest(database, [], [said(event, {"mail": "succeeded"})])
    before = [dump(database, "acme", table) for table in (tables.learned, tables.outcomes)]
    ingest(database, [], [said(replace(event, org="umbrella"), {"mail": "failed"})])
    assert [dump(database, "acme", table) for table in (tables.learned, tables.outcomes)] == before
    assert raw_counts(database)["umbrella", "mail"] == (1, 1, 0)  # an event of its own, of the same name


def test_a_tool_that_was_not_shown_is_refused_and_the_others_count(database: Database) -> None:
    event, other = exposure("e1", "mail"), exposure("e2", "mail")
    done = ingest(database, [], [said(event, {"tank": "succeeded"}), said(other, {"mail": "succeeded"})])
    assert (done.outcomes, len(done.refused)) == (1, 1)
    assert "was not shown" in str(done.refused[0][1])
    assert raw_counts(database) == {("acme", "mail"): (1, 1, 1)}


def test_counts_decay_from_the_time_of_the_event_whatever_the_order(database: Database) -> None:
    old, new = exposure("e1", "mail", at=NOW), exposure("e2", "mail", at=NOW + 14 * DAY_S)
    ingest(database, [], [said(new, {"mail": "succeeded"}), said(old, {"mail": "succeeded"})])
    mail, plain = cell(database, "mail"), cell(database, "mail", "plain")
    assert mail.successes == pytest.approx(1.5, rel=1e-12)
    assert mail.calls == pytest.approx(1 + 2 ** (-14 / 30), rel=1e-12)
    assert mail.updated_at == datetime.fromtimestamp(NOW + 14 * DAY_S, timezone.utc)
    assert (plain.successes, plain.called) == (2, 2)


def test_what_is_late_is_kept_and_weighs_nothing(database: Database) -> None:
    event = exposure("e1", "mail", "rain")
    done = ingest(database, [], [said(event, {"mail": "succeeded"}, after=LIFETIME_S + 1)])
    assert done.outcomes == 1
    mail = cell(database, "mail")
    assert (mail.successes, mail.calls, mail.expected) == (0, 0, 0)
    assert (mail.shown, mail.called, mail.succeeded) == (1, 1, 1)
    assert folded(database).size == 0


def test_a_reporter_counts_three_times_a_day_for_a_tool(database: Database) -> None:
    events = [exposure(f"e{at}", "mail", "rain", reporter="eve", at=NOW + at) for at in range(9)]
    for event in events:
        ingest(database, [], [said(event, {"mail": "succeeded"})])
    mail, rain = cell(database, "mail"), cell(database, "rain")
    assert mail.successes == pytest.approx(3, abs=1e-4) and mail.called == 9
    # expected calls without the calls would look as if nobody wanted it
    assert mail.expected == pytest.approx(0.75, abs=1e-4) and rain.expected == pytest.approx(0.75, abs=1e-4)
    ingest(database, [], [said(exposure("f", "mail", reporter="ann"), {"mail": "succeeded"})])
    ingest(database, [], [said(exposure("g", "mail", reporter="eve", at=NOW + DAY_S), {"mail": "succeeded"})])
    assert cell(database, "mail").successes == pytest.approx(
        3 * 2 ** (-1 / 14) + 1 + 2 ** (-1 / 14), rel=1e-4
    )


def test_the_application_itself_counts_without_a_limit(database: Database) -> None:
    ingest(database, [], [said(exposure(f"e{at}", "mail"), {"mail": "succeeded"}) for at in range(9)])
    assert cell(database, "mail").successes == 9


def test_events_without_a_call_have_a_limit_too(database: Database) -> None:
    events = [exposure(f"e{at}", "mail", reporter="eve") for at in range(MOST_SILENT + 5)]
    ingest(database, [], [said(event, {}) for event in events[:20]])
    ingest(database, [], [said(event, {}) for event in events[20:]])
    assert cell(database, "mail").expected == pytest.approx(0.25 * MOST_SILENT)


def test_a_revision_keeps_the_weight_of_what_it_revises(database: Database) -> None:
    events = [exposure(f"e{at}", "mail", reporter="eve") for at in range(4)]
    ingest(database, [], [said(event, {"mail": "failed"}) for event in events])
    ingest(database, [], [said(event, {"mail": "succeeded"}, after=2) for event in events])
    mail = cell(database, "mail")
    assert (mail.successes, mail.failures, mail.calls) == (3, 0, 3)


def test_a_partial_report_closes_its_event_later_and_once(database: Database) -> None:
    event = exposure("e1", "mail", "rain")
    ingest(database, [], [said(event, {"mail": "succeeded"}, final=False)])
    assert (cell(database, "mail").expected, cell(database, "mail").shown) == (0, 0)
    early, late = NOW + CLOSES_AFTER_S, NOW + CLOSES_AFTER_S + 2
    assert not is_due(database, early) and is_due(database, late)
    assert ingest(database, [], [], now=late).outcomes == 1
    assert not is_due(database, late) and ingest(database, [], [], now=late + 99).outcomes == 0
    assert (cell(database, "rain").expected, cell(database, "rain").shown) == (0.25, 1)
    assert ingest(database, [], [said(event, {}, after=999)]).repeated == 1


def test_a_partial_report_that_is_followed_by_a_final_one_is_closed_by_it(database: Database) -> None:
    event = exposure("e1", "mail", "rain")
    ingest(database, [], [said(event, {"mail": "succeeded"}, final=False)])
    ingest(database, [], [said(event, {"rain": "failed"})])
    assert not is_due(database, NOW + 2 * CLOSES_AFTER_S)
    assert raw_counts(database) == {("acme", "mail"): (1, 1, 1), ("acme", "rain"): (1, 1, 0)}


def test_what_a_search_found_counts_though_it_was_not_shown(database: Database) -> None:
    event = exposure("e1", "mail")
    ingest(database, [], [said(event, {"tank": "wanted_succeeded"}, found=["tank"])])
    tank = cell(database, "tank")
    assert (tank.successes, tank.calls, tank.expected) == (1, 1, 0.05)
    assert (tank.shown, tank.called, tank.succeeded) == (0, 1, 1)


def test_outcomes_that_were_taken_back_count_no_more_and_never_again(database: Database) -> None:
    mine = [exposure(f"m{at}", "mail", "rain", reporter="ann") for at in range(3)]
    hers = [exposure(f"h{at}", "mail", "rain", reporter="eve") for at in range(3)]
    ingest(database, [], [said(event, {"mail": "succeeded"}) for event in mine])
    before = dump(database, "acme")
    ingest(database, [], [said(event, {"rain": "failed"}) for event in hers])
    assert forget(database, "acme", OutcomeFilter(reporter="eve"), actor="ada", reason="a liar") == 3
    assert dump(database, "acme") == before
    assert folded(database).revision == 6
    again = ingest(database, [], [said(event, {"rain": "failed"}, after=5) for event in hers])
    assert again.repeated == 3
    ingest(database, [], [said(event, {"rain": "succeeded"}, after=6) for event in hers])
    assert cell(database, "rain").successes == 0
    (state,) = rows_of(database, tables.learning_state)
    assert state.epoch == 1
    (line,) = (row for row in rows_of(database, tables.changes) if row.action == "outcomes.forget")
    assert (line.org, line.actor, line.reason, line.details["events"]) == ("acme", "ada", "a liar", 3)
    assert rebuild(database) == {"acme": 0}


@pytest.mark.parametrize(
    ("which", "gone"),
    [
        (OutcomeFilter(event="e1"), {"e1"}),
        (OutcomeFilter(tool="rain"), {"e2"}),
        (OutcomeFilter(since=datetime.fromtimestamp(NOW + 15, timezone.utc)), {"e2", "e3"}),
        (OutcomeFilter(until=datetime.fromtimestamp(NOW + 25, timezone.utc), reporter="ann"), {"e1"}),
        (OutcomeFilter(tool="tank"), set()),
    ],
)
def test_what_is_taken_back_is_what_was_asked_for(
    database: Database, which: OutcomeFilter, gone: set[str]
) -> None:
    events = [
        exposure("e1", "mail", "rain", reporter="ann", at=NOW + 10),
        exposure("e2", "mail", "rain", reporter="eve", at=NOW + 20),
        exposure("e3", "mail", "rain", reporter="ann", at=NOW + 30),
    ]
    called = ("mail", "rain", "mail")
    ingest(
        database, [], [said(event, {name: "succeeded"}) for event, name in zip(events, called, strict=True)]
    )
    assert forget(database, "acme", which, actor="ada") == len(gone)
    assert {row.event_id for row in rows_of(database, tables.outcomes) if row.voided_at is not None} == gone


def test_taking_everything_back_has_to_be_said() -> None:
    with pytest.raises(InvalidInput, match="say which outcomes"):
        OutcomeFilter()
