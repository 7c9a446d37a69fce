"""A network that is slow, loses, cuts, resets or garbles connections to PostgreSQL: selections go on."""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.outcomes import eventually
from tests.integration.tcp_proxy import FAULTS, Fault, Proxy
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.homes import registry as home
from toolroll.model.tools import Definitions
from toolroll.registry.follow import refresher
from toolroll.registry.registry import Registry
from toolroll.registry.store import database, tables
from toolroll.registry.store.database import Database

pytestmark = [pytest.mark.db, pytest.mark.slow]

FAULT_S = float(os.environ.get("TOOLROLL_FAULT_S", "3"))
ANN = Context(user="ann")
TOOLS = Definitions(tuple(Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(50)))


@pytest.fixture
def direct(new_database_url: Callable[[str], str]) -> str:
    """The URL of the database without a network."""
    url = new_database_url("postgresql")
    with Registry.open(url, actor="ada") as registry:
        registry.import_(TOOLS)
    return url


@pytest.fixture
def proxy(direct: str) -> Iterator[Proxy]:
    made = Proxy(direct)
    yield made
    made.close()


def p99_ms(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98] * 1e3


def counted(url: str) -> int:
    opened = Database.open(url, create=False, migrate=False)
    with opened.reading() as connection:
        number = connection.execute(sa.select(sa.func.count()).select_from(tables.outcomes)).scalar_one()
    opened.close()
    return int(number)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("fault", FAULTS)
def test_selections_go_on_outcomes_are_kept_and_all_is_well_again_by_itself(
    fault: Fault, proxy: Proxy, direct: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault != "slow":  # which needs longer, and is not to be degraded
        monkeypatch.setattr(refresher, "_QUICK_S", 1.0)
        monkeypatch.setattr(home, "_SILENCE_S", min(FAULT_S, 15.0))
    # of a transaction that the server does not know to be over, between and within batches of statements
    monkeypatch.setattr(database, "IDLE_S", 2.0)
    monkeypatch.setattr(database, "BATCH_S", 10.0)
    acknowledged, degraded = list[str](), set[str]()

    def work(seconds: float) -> list[float]:
        """Selects and reports; how long the selections took."""
        took_s, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            picked = roll.select(f"number {len(acknowledged) % 50}", ANN, k=5)
            took_s.append(time.perf_counter() - began)
            assert picked.names
            if len(took_s) % 5 == 0:
                acknowledged.append(roll.record(picked, [picked.names[-1]]).event_id)
                degraded.update(roll.health()["degraded"])
            time.sleep(0.002)
        return took_s

    def talk() -> None:
        """Two turns of a conversation, in a thread of its own."""
        for turn in ("number 3", "number 4"):
            began = time.monotonic()
            roll.session("talk", ANN).select(turn, k=3)
            waits_s.append(time.monotonic() - began)

    async def await_talk() -> None:
        began = time.monotonic()
        await (await roll.asession("other", ANN)).aselect("number 5", k=3)
        waits_s.append(time.monotonic() - began)

    waits_s: list[float] = []
    with Toolroll.open(
        proxy.url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        healthy = p99_ms(work(1.0))
        assert not degraded
        proxy.set(fault)
        talking = threading.Thread(target=talk)
        talking.start()
        faulty = p99_ms(work(FAULT_S))
        asyncio.run(await_talk())
        talking.join(30)
        assert not talking.is_alive()
        began = time.monotonic()
        proxy.set("none")
        eventually(lambda: roll.health()["degraded"] == [], 90)
        well_s = time.monotonic() - began
        assert roll.flush(30 + 2 * FAULT_S)
        print(
            f"{fault}: p99 {healthy:.2f} ms before, {faulty:.2f} ms meanwhile; longest wait of a conversation "
            f"{max(waits_s):.1f} s; degraded {sorted(degraded)}; well after {well_s:.1f} s; {len(acknowledged)} outcomes"
        )
        assert faulty <= max(20.0, 5 * healthy)
        assert max(waits_s) < 6
        assert bool(degraded) == (fault != "slow")
        assert counted(direct) == len(set(acknowledged)) == len(acknowledged)
        with Registry.open(direct, actor="ben") as registry:
            registry.create(Tool("whistle", "whistles a melody"))
        eventually(lambda: "whistle" in roll.select("whistles a melody", ANN, k=1).names, 20)


@pytest.mark.parametrize("fault", ["slow", "black hole", "half-open", "garble"])
def test_close_keeps_its_time_limit_whatever_the_network_does(
    fault: Fault, proxy: Proxy, direct: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "toolroll")
    roll = Toolroll.open(
        proxy.url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    )
    picked = roll.select("number 5", ANN, k=5)
    assert roll.flush(20)
    proxy.set(fault)
    time.sleep(1.0)
    roll.record(picked, {picked.names[-1]: True})
    began = time.monotonic()
    roll.close(timeout_s=2)
    took_s = time.monotonic() - began
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("toolroll")]
    print(f"{fault}: close(timeout_s=2) took {took_s:.2f} s, left {left}")
    assert took_s < 2.5
    assert left == []
    proxy.set("none")
    with Toolroll.open(
        direct, recording=Recording(outbox=tmp_path / "outbox")
    ):  # finds the report in the outbox, or in the store
        eventually(lambda: counted(direct) == 1, 20)
