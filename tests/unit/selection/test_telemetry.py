"""Observers, counters and log records of selections and reports."""

from __future__ import annotations

import asyncio
import logging
import threading

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Context, InvalidInput, Observer, OutcomeReport, Selection, Tool, Toolroll
from toolroll.model.errors import EmbedderUnavailable
from toolroll.model.tools import Definitions

TOOLS = [Tool("get_forecast", "The weather of the next days"), Tool("pay_invoice", "Pay an invoice")]
SECRET, USER = "zebra rain 4711", "anna@example.com"


class Recorder(Observer):
    def __init__(self):
        self.selections, self.reports = list[Selection](), list[OutcomeReport]()

    def on_selection(self, selection):
        self.selections.append(selection)

    def on_report(self, report):
        self.reports.append(report)


class Broken(Observer):
    def on_selection(self, selection):
        raise RuntimeError("no room")

    def on_report(self, report):
        raise RuntimeError("no room")


class Away:
    """An embedder that answers while tools are embedded, and never again."""

    identity, dim, is_instant, is_english = "away", 4, True, False
    is_away = False

    def embed(self, texts):
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))

    def embed_query(self, text):
        if self.is_away:
            raise EmbedderUnavailable("away")
        return self.embed([text])[0]


def roll_of(*observers, **options):
    return Toolroll.from_tools(TOOLS, embedder="none", observers=observers, **options)


# Observers.


def test_an_observer_gets_each_selection_before_its_caller():
    recorder = Recorder()
    roll = roll_of(recorder)
    first = roll.select("weather", k=1)
    assert recorder.selections == [first]
    second = asyncio.run(roll.aselect("weather", k=1))
    third = roll.session("s").select("weather", k=1)
    assert recorder.selections == [first, second, third]


def test_a_search_in_a_session_is_no_selection():
    recorder = Recorder()
    session = roll_of(recorder).session("s")
    session.select("weather")
    session.search("invoice")
    assert len(recorder.selections) == 1


@pytest.mark.parametrize("how", ["from_tools", "from_definitions", "from_folder"])
def test_every_constructor_takes_observers(how, tmp_path):
    recorder, source = Recorder(), TOOLS
    if how == "from_definitions":
        source = Definitions(tuple(TOOLS))
    elif how == "from_folder":
        source = tmp_path / "tools.jsonl"
        source.write_text('{"name": "get_forecast", "description": "The weather"}\n')
    roll = getattr(Toolroll, how)(source, embedder="none", observers=[recorder])
    roll.select("weather")
    assert len(recorder.selections) == 1


def test_an_observer_that_is_added_later_can_be_removed():
    recorder, roll = Recorder(), roll_of()
    roll.select("weather")
    remove = roll.observe(recorder)
    roll.select("weather")
    remove()
    remove()
    roll.select("weather")
    assert len(recorder.selections) == 1


def test_the_same_observer_added_twice_is_called_twice_and_removed_once():
    recorder, roll = Recorder(), roll_of()
    remove = roll.observe(recorder)
    roll.observe(recorder)
    roll.select("weather")
    assert len(recorder.selections) == 2
    remove()
    roll.select("weather")
    assert len(recorder.selections) == 3


def test_a_report_says_what_was_called_and_how_it_counted():
    recorder = Recorder()
    roll = roll_of(recorder)
    picked = roll.select("weather", Context(org="acme", user=USER))
    for _ in range(2):
        roll.record(picked, {"get_forecast": True, "pay_invoice": None}, final=False)
    outcomes = {"get_forecast": "succeeded", "pay_invoice": "called"}
    assert recorder.reports == [
        OutcomeReport(picked.event_id, "acme", outcomes, 2, False),
        OutcomeReport(picked.event_id, "acme", outcomes, 0, False),
    ]
    assert USER not in repr(recorder.reports)


def test_what_a_session_reports_is_a_report():
    recorder = Recorder()
    session = roll_of(recorder).session("s")
    session.select("weather")
    session.used({"get_forecast": True})
    session.end_turn()
    said = [(dict(report.outcomes), report.final) for report in recorder.reports]
    assert said == [({"get_forecast": "succeeded"}, False), ({}, True)]


def test_a_report_that_is_refused_reaches_no_observer():
    recorder = Recorder()
    roll = roll_of(recorder)
    with pytest.raises(InvalidInput):
        roll.record(roll.select("weather", k=1), ["unknown"])
    assert recorder.reports == []
    assert roll.counters().reports == 0


def test_an_observer_that_raises_breaks_nothing_is_logged_once_and_counted(caplog):
    recorder = Recorder()
    roll = roll_of(Broken(), recorder)
    with caplog.at_level(logging.WARNING, "toolroll"):
        for _ in range(3):
            picked = roll.select("weather", k=1)
        roll.record(picked, picked.names)
    assert len(recorder.selections) == 3 and len(recorder.reports) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "observer Broken: failed; its next errors are only counted"
    ]
    assert roll.counters().observer_errors == 4


async def waits(selection):
    pass


class Waiting(Observer):
    on_selection = waits


@each_row("observer", [print, Recorder, Waiting(), None])
def test_what_cannot_observe_is_refused(observer):
    with pytest.raises(InvalidInput, match=r"observers: .* must be an object with a plain method on_"):
        roll_of(observer)


def test_an_observer_may_define_one_method():
    class Counting(Observer):
        count = 0

        def on_report(self, report):
            self.count += 1

    counting = Counting()
    roll = roll_of(counting)
    roll.record(roll.select("weather", k=1), ())
    assert counting.count == 1


# Counters.


def test_counters_are_exact_whatever_the_number_of_threads():
    roll = roll_of()

    def work():
        for _ in range(100):
            picked = roll.select("weather", k=1)
        roll.record(picked, picked.names)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counters = roll.counters()
    assert (counters.selections, counters.reports) == (800, 8)
    assert counters.latency.cumulative[-1] == sum(counters.latency.counts) == 800


def test_a_selection_is_counted_in_the_bucket_of_its_time():
    roll = roll_of()
    picked = roll.select("weather", k=1)
    telemetry = roll._engine.telemetry
    before = roll.counters().latency
    for nanoseconds in (50_000, 50_001, 6_000_000_000):
        telemetry.selected(picked, nanoseconds)
    after = roll.counters().latency
    added = {
        bound: count - was
        for bound, count, was in zip((*after.bounds_s, "more"), after.counts, before.counts, strict=True)
        if count != was
    }
    assert added == {50e-6: 1, 100e-6: 1, "more": 1}
    assert after.sum_s - before.sum_s == pytest.approx(6.000100001)


def test_failures_are_counted_by_stage():
    embedder = Away()
    roll = Toolroll.from_tools(TOOLS, embedder=embedder)
    roll.select("weather", k=1)
    assert roll.counters().degraded == {}
    embedder.is_away = True
    for _ in range(2):
        roll.select("weather", k=1)
    with pytest.raises(EmbedderUnavailable):
        roll.select("weather", k=1, strict=True)
    assert roll.counters().degraded == {"embedder": 3}
    assert roll.counters().selections == 4


def test_outcomes_are_counted_by_kind():
    roll = roll_of()
    picked = roll.select("weather")
    roll.record(picked, {"get_forecast": False}, final=False)
    roll.record(picked, {"get_forecast": False}, final=False)
    roll.record(picked, corrected={"get_forecast": "pay_invoice"})
    counters = roll.counters()
    assert counters.outcomes == {"failed": 2, "corrected": 1, "meant": 1}
    assert (counters.reports, counters.outcomes_counted) == (3, 3)


def test_the_age_of_the_catalog_begins_again_with_a_refresh(tmp_path):
    path = tmp_path / "tools.jsonl"
    path.write_text('{"name": "get_forecast", "description": "The weather"}\n')
    roll = Toolroll.from_folder(path, embedder="none")
    before = roll.counters()
    assert 0 <= before.catalog_age_s < 60 and 0 < before.build_s < 60
    roll._engine.swap(roll._engine.snapshot)  # the same catalog
    assert roll.counters().catalog_since == before.catalog_since
    roll.refresh()
    assert roll.counters().catalog_since > before.catalog_since


# The logger.


def test_a_selection_is_one_log_record_with_fields(caplog):
    caplog.set_level(logging.DEBUG, "toolroll.selection")
    picked = roll_of().select("weather", Context(org="acme"), k=1)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolroll.selection", logging.DEBUG)
    assert (record.event_id, record.org, record.k) == (picked.event_id, "acme", 1)
    assert (record.selected, record.total, record.degraded) == (1, 2, ())
    assert (record.confidence, record.has_match) == (picked.confidence, picked.has_match)
    assert (record.tokens_saved, record.variant) == (picked.tokens.saved, "")
    assert record.catalog_revision == picked.catalog_revision
    assert record.us >= picked.timings_us["total"] > 0
    assert record.getMessage().startswith("selected 1 of 2 tools in ")


def test_no_message_and_no_user_gets_into_the_log(caplog):
    caplog.set_level(logging.DEBUG, "toolroll.selection")
    embedder = Away()
    roll = Toolroll.from_tools(TOOLS, embedder=embedder)
    embedder.is_away = True
    roll.select(SECRET, Context(user=USER, session="private"), k=1, history=[f"{SECRET} before"])
    written = [str(vars(record)) for record in caplog.records if record.name == "toolroll.selection"]
    assert len(written) == 1
    for private in (SECRET, USER, "private"):
        assert private not in written[0]


def test_nothing_is_logged_above_debug(caplog):
    caplog.set_level(logging.INFO, "toolroll.selection")
    roll_of().select("weather")
    assert caplog.records == []
