"""Observers and counters of a `Toolroll` over a registry."""

from __future__ import annotations

import asyncio
import threading

import pytest

from toolroll import Context, Observer, OutcomeReport, Overloaded, Recording, Tool, Toolroll
from toolroll.model.errors import Denied
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database
from toolroll.runtime.threads import CallPool

TOOLS = (Tool("get_forecast", "The weather of the next days"), Tool("pay_invoice", "Pay an invoice"))


@pytest.fixture
def url(database_url: str) -> str:
    database = Database.open(database_url, create=False, migrate=False)
    Registry(database, actor="ann").import_(Definitions(TOOLS))
    database.close()
    return database_url


class Recorder(Observer):
    def __init__(self) -> None:
        self.events, self.reports = list[str](), list[OutcomeReport]()

    def on_selection(self, selection):
        self.events.append(selection.event_id)

    def on_report(self, report):
        self.reports.append(report)


def test_observers_see_selections_and_whatever_way_they_are_reported(url, tmp_path):
    recorder = Recorder()
    with Toolroll.open(
        url, embedder="none", observers=[recorder], recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        picked = roll.select("weather", Context(org="acme", user="ann"))
        roll.record(picked, ["get_forecast"], final=False)
        roll.record(roll.receipt(picked), {"get_forecast": True, "pay_invoice": False}, final=False)
        assert roll.flush()
        roll.record(picked.event_id, ["get_forecast"])
    assert recorder.events == [picked.event_id]
    assert {(report.event_id, report.org) for report in recorder.reports} == {(picked.event_id, "acme")}
    assert [(dict(report.outcomes), report.counted, report.final) for report in recorder.reports] == [
        ({"get_forecast": "succeeded"}, 1, False),
        ({"get_forecast": "succeeded", "pay_invoice": "failed"}, 1, False),
        ({"get_forecast": "succeeded"}, 0, True),
    ]


def test_counters_include_the_sessions_and_the_outbox(url, tmp_path):
    with Toolroll.open(url, embedder="none", recording=Recording(outbox=tmp_path / "outbox")) as roll:
        before = roll.counters()
        assert (before.session_reads, before.session_timeouts, before.outbox_bytes) == (0, 0, 0)
        roll.session("s").select("weather")
        roll.session("s")
        counters = roll.counters()
        assert (counters.selections, counters.session_reads, counters.session_timeouts) == (1, 2, 0)


def test_a_report_of_an_event_loop_that_gets_no_thread_is_refused_and_counted(url, tmp_path):
    let_go = threading.Event()

    async def main() -> None:
        async with Toolroll.open(
            url, embedder="none", recording=Recording(outbox=tmp_path / "outbox")
        ) as roll:
            roll._home._calls = CallPool(1, "toolroll-calls", patience_s=0.01)
            picked = await roll.aselect("weather")
            hung = asyncio.ensure_future(roll._home.arun(let_go.wait))
            await asyncio.sleep(0.05)
            with pytest.raises(Overloaded) as raised:
                await roll.arecord(picked, ["get_forecast"])
            assert raised.value.retry_after_s
            assert roll.counters().calls_refused == {"embedder": 0, "store": 1}
            let_go.set()
            await hung
            assert (await roll.arecord(picked, ["get_forecast"])).counted == 1

    asyncio.run(main())


def test_reports_that_wait_for_the_database_are_counted_in_bytes(url, tmp_path, monkeypatch):
    monkeypatch.setattr("toolroll.registry.outbox.shipper.SHIP_EVERY_S", 60)
    with Toolroll.open(url, embedder="none", recording=Recording(outbox=tmp_path / "outbox")) as roll:
        roll.record(roll.select("weather"), ["get_forecast"])
        assert (roll.counters().outbox_bytes or 0) > 0
        assert roll.flush()
        assert roll.counters().outbox_bytes == 0


def test_a_refused_receipt_is_counted_once_as_denied(url, tmp_path):
    with Toolroll.open(url, embedder="none", recording=Recording(outbox=tmp_path / "outbox")) as roll:
        receipt = roll.receipt(roll.select("weather", Context(org="acme")))
        for wrong, org in ((receipt[:-4] + "AAAA", "acme"), (receipt, "globex")):
            with pytest.raises(Denied):
                roll.record(wrong, ["get_forecast"], org=org)
        assert roll.counters().denied == {"receipt": 2}
        roll.record(receipt, ["get_forecast"])
        assert roll.counters().denied == {"receipt": 2}


def test_the_catalog_is_as_old_as_its_last_change(url, tmp_path):
    with Toolroll.open(url, embedder="none", recording=Recording(outbox=tmp_path / "outbox")) as roll:
        before = roll.counters()
        roll.refresh()
        assert roll.counters().catalog_since == before.catalog_since
        database = Database.open(url, create=False, migrate=False)
        Registry(database, actor="ann").import_(Definitions((Tool("send_mail", "Send a mail"),)))
        database.close()
        roll.refresh()
        after = roll.counters()
        assert after.catalog_since > before.catalog_since and after.build_s > 0
