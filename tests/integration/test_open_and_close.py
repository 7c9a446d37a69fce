"""The two ends of a `Toolroll` over a registry: what `open` has read, and what `close` leaves behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.outcomes import eventually, rows_of
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.model.errors import StoreUnavailable
from toolroll.registry.events import receipts
from toolroll.registry.outbox import recording
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.engines import sqlite_module

pytestmark = pytest.mark.slow

ANN = Context(user="ann")
has_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of descriptors here")


@pytest.fixture
def url(database_url: str) -> str:
    with Registry.open(database_url, actor="ada") as registry:
        for at in range(12):
            registry.create(Tool(f"tool_{at}", f"does the thing of number {at}"))
    return database_url


@pytest.fixture
def opened(url: str, tmp_path: Path) -> Iterator[Callable[[], Toolroll]]:
    yield lambda: Toolroll.open(
        url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    )


def toolroll_threads() -> list[str]:
    return sorted(one.name for one in threading.enumerate() if one.name.startswith("toolroll"))


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# The end.


@has_proc
def test_rolls_that_nobody_closes_are_named_and_leave_neither_threads_nor_descriptors(
    opened: Callable[[], Toolroll], url: str
) -> None:
    opened().close()  # what a process opens once and keeps
    eventually(lambda: toolroll_threads() == [])
    before = descriptors()
    for at in range(11):
        roll = opened()
        picked = roll.select(f"number {at}", ANN, k=3)
        roll.record(picked, {picked.names[0]: True})
        with pytest.warns(ResourceWarning, match="was not closed") as warned:
            del roll
        assert len(warned) == 1 and "Toolroll.open" in str(warned[0].message)
    eventually(lambda: toolroll_threads() == [], 30)
    eventually(lambda: descriptors() <= before, 30)
    database = Database.open(url, create=False, migrate=False)
    assert len(rows_of(database, tables.outcomes)) == 11  # they are closed as if somebody had called `close`
    database.close()


def test_a_session_or_a_waiting_call_keeps_its_roll_open(opened: Callable[[], Toolroll]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = opened().session("talk", ANN)
        gc.collect()
        assert session.select("number 3", k=3).degraded == ()
        with pytest.warns(ResourceWarning):
            del session
    eventually(lambda: toolroll_threads() == [])


def test_a_roll_that_is_closed_warns_of_nothing_however_often(opened: Callable[[], Toolroll]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roll = opened()
        roll.close(timeout_s=5)
        roll.close()
        assert toolroll_threads() == []
        assert not roll.ready and roll.health()["why"][0].startswith("this Toolroll is closed")
        del roll
        gc.collect()


def test_a_closed_roll_and_its_sessions_refuse_all_calls_alike(opened: Callable[[], Toolroll]) -> None:
    roll = opened()
    picked, lists = roll.select("number 3", ANN, k=3), roll.with_tools([Tool("own")])
    receipt, talk, fresh = roll.receipt(picked), roll.session("talk", ANN), roll.session("fresh", ANN)
    talk.select("number 3")
    roll.close()
    calls: list[Callable[[], object]] = [
        lambda: roll.select("a"),
        lambda: asyncio.run(roll.aselect("a")),
        lambda: roll.with_tools([Tool("own")]),
        lambda: lists.select("a"),
        lambda: roll.session("talk"),
        lambda: asyncio.run(roll.asession("new")),
        lambda: roll.may("tool_3"),
        lambda: roll.visible(),
        lambda: roll.why("tool_3"),
        lambda: roll.record(picked, ["tool_3"]),
        lambda: roll.record(receipt, ["tool_3"]),
        lambda: roll.record(picked.event_id, ["tool_3"]),
        lambda: asyncio.run(roll.arecord(picked, ["tool_3"])),
        lambda: roll.receipt(picked),
        lambda: asyncio.run(roll.areceipt(picked)),
        lambda: roll.forget_outcomes(actor="ada", tool="tool_3"),
        lambda: roll.refresh(),
        lambda: roll.warm_up(),
        lambda: roll.flush(),
        lambda: picked.check("tool_3"),
    ]
    for session in (talk, fresh):
        calls += [
            lambda s=session: s.select("a"),
            lambda s=session: s.selection,
            lambda s=session: s.deliver("openai"),
            lambda s=session: s.used(["tool_3"]),
            lambda s=session: s.load("tool_3"),
            lambda s=session: s.unload("tool_3"),
            lambda s=session: s.fallback(),
            lambda s=session: s.search("a"),
            lambda s=session: s.hints(),
            lambda s=session: s.answer("search_tools", {"queries": ["a"]}),
            lambda s=session: s.check("tool_3"),
            lambda s=session: asyncio.run(s.acheck("tool_3")),
            lambda s=session: s.end_turn(),
            lambda s=session: s.delete(),
        ]
    for at, call in enumerate(calls):
        with pytest.raises(StoreUnavailable, match="this Toolroll is closed"):
            call()
            pytest.fail(f"call {at}")
    assert picked.explain() and picked.schemas("openai") and talk.turn == 1 and len(roll.catalog) == 12


def test_closing_while_another_thread_closes_ends_once(opened: Callable[[], Toolroll]) -> None:
    roll = opened()
    closers = [threading.Thread(target=roll.close) for _ in range(8)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(20)
    assert toolroll_threads() == []


def test_without_any_time_a_close_still_ends_every_thread_soon(opened: Callable[[], Toolroll]) -> None:
    roll = opened()
    picked = roll.select("number 3", ANN, k=3)
    roll.record(picked, {picked.names[0]: True})
    roll.close(timeout_s=0)
    eventually(lambda: toolroll_threads() == [])


def lock_holder(url: str) -> Any:
    # By the same library: the locks of a file belong to the process, and two libraries do not see each other's.
    holder = sqlite_module().connect(url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    return holder


def test_close_keeps_its_time_limit_while_another_process_holds_the_lock_of_sqlite(
    new_database_url: Callable[[str], str], tmp_path: Path
) -> None:
    url = new_database_url("sqlite")
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("tool_0", "does a thing"))
    roll = Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox"))
    picked = roll.select("a thing")
    with closing(lock_holder(url)):
        roll.record(picked, {"tool_0": True})
        time.sleep(0.5)  # a thread waits for the lock
        began = time.perf_counter()
        roll.close(timeout_s=1)
        assert 0.4 < time.perf_counter() - began < 60  # it has tried to write; the lock is never given back
    eventually(lambda: toolroll_threads() == [])
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox")) as later:
        assert later.flush(20)
        with closing(Database.open(url, create=False, migrate=False)) as database:
            eventually(lambda: len(rows_of(database, tables.outcomes)) == 1)


# In an event loop.


def test_over_a_registry_every_call_that_may_wait_has_a_twin(opened: Callable[[], Toolroll]) -> None:
    async def main() -> None:
        async with opened() as roll, opened() as other:
            session = await roll.asession("talk", ANN)
            assert len(await session.aselect("number 3", k=3)) >= 3
            picked = await roll.aselect("number 5", ANN, k=3)
            receipt = await roll.areceipt(picked)
            assert (await roll.arecord(picked, {picked.names[0]: True})).counted == 1
            assert await roll.aflush(20)
            for one in (receipt, picked.event_id):
                assert (await other.arecord(one, {picked.names[0]: True})).event_id == picked.event_id
            assert len(await roll.arefresh()) == 12
            await roll.awarm_up()
            await other.aflush(20)
            assert await roll.aforget_outcomes(actor="ann", event=picked.event_id) == 1
        assert not roll.ready and not other.ready

    asyncio.run(main())
    eventually(lambda: toolroll_threads() == [])


def test_of_cancelled_calls_the_report_counts_and_the_roll_goes_on(
    opened: Callable[[], Toolroll], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with opened() as roll:
            picked = roll.select("number 5", ANN, k=3)
            begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()
            record = roll._home.record

            def slowly(*arguments: object, **options: object) -> object:
                begun.set()
                let_go.wait(10)
                try:
                    return record(*arguments, **options)  # type: ignore[arg-type]
                finally:
                    ended.set()

            monkeypatch.setattr(roll._home, "record", slowly)
            reporting = asyncio.ensure_future(roll.arecord(picked, {picked.names[0]: True}))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            reporting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reporting
            monkeypatch.undo()
            let_go.set()
            assert await asyncio.to_thread(ended.wait, 10)
            assert (await roll.arecord(picked, {picked.names[0]: True})).counted == 0  # it has counted
            assert await roll.aflush(20)
            assert roll.health()["recording"]["keeper"]["counted"] == 1

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_awaits_by_threads_of_its_own(opened: Callable[[], Toolroll]) -> None:
    async def main(roll: Toolroll) -> int:
        session = await roll.asession("talk", ANN)
        picked = await session.aselect("number 3", k=3)
        counted = (await roll.arecord(await roll.areceipt(picked), {picked.names[0]: True})).counted
        assert await roll.aflush(20)
        await roll.aclose()
        return counted

    with opened() as roll:
        assert asyncio.run(main_once(roll)) == 3
        child = os.fork()
        if not child:
            status = 1
            try:
                status = 7 if asyncio.run(main(roll)) == 1 and not roll.ready else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert roll.ready and asyncio.run(main_once(roll)) == 3


async def main_once(roll: Toolroll) -> int:
    return len((await roll.asession("here", ANN)).select("number 4", k=3, max_tools=3))


# The keys of receipts.


def test_a_receipt_asks_the_database_nothing(
    opened: Callable[[], Toolroll], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        pytest.fail("the database was asked")

    with opened() as roll, opened() as other:
        picked = roll.select("number 5", ANN, k=3)
        for one in (roll, other):
            monkeypatch.setattr(one._home._recording, "_read_keys", asked)  # type: ignore[attr-defined]
        assert other.record(roll.receipt(picked), {picked.names[0]: True}).event_id == picked.event_id
        monkeypatch.undo()


def test_keys_that_open_could_not_read_are_read_in_the_background(
    opened: Callable[[], Toolroll], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(recording, "_RETRY_S", 0.05)
    monkeypatch.setattr(recording, "signer_of", away)
    with opened() as roll:
        picked = roll.select("number 5", ANN, k=3)
        health = roll.health()
        assert health["ready"] and health["degraded"] == ["receipts"]
        assert "have not been read" in health["why"][0]
        with pytest.raises(StoreUnavailable, match="the database is away"):
            roll.receipt(picked)
        monkeypatch.setattr(recording, "signer_of", receipts.signer_of)
        eventually(lambda: roll.health()["degraded"] == [])
        monkeypatch.setattr(recording, "signer_of", away)
        assert roll.record(roll.receipt(picked), {picked.names[0]: True}).counted == 1


def test_a_new_key_is_used_without_a_wait_once_the_old_ones_are_old(
    opened: Callable[[], Toolroll], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_RETRY_S", 0.05)
    monkeypatch.setattr(recording, "_KEYS_KNOWN_S", 0.2)
    with opened() as roll:
        picked = roll.select("number 5", ANN, k=3)
        database = Database.open(url, create=False, migrate=False)
        current = receipts.rotate(database).current
        database.close()
        eventually(lambda: roll.receipt(picked).split(".")[1] == current)


# Health.


def test_health_has_the_same_keys_in_memory_and_over_a_registry(opened: Callable[[], Toolroll]) -> None:
    with opened() as roll, Toolroll.demo() as demo:
        assert list(roll.health()) == list(demo.health())
        assert roll.health()["ready"] and roll.health()["degraded"] == roll.health()["why"] == []


def test_what_waits_for_a_store_that_is_away_is_said_and_does_not_unready_the_process(
    opened: Callable[[], Toolroll], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the database is away")

    with opened() as roll:
        roll.select("number 3", ANN, k=3)
        assert roll.flush(20)
        with monkeypatch.context() as broken:
            database = roll._home._database  # type: ignore[attr-defined]
            broken.setattr(database, "reading", away)
            broken.setattr(database, "autocommit", away)
            broken.setattr(database, "recording", away)
            broken.setattr(database, "at_once", away)
            picked = roll.select("number 5", ANN, k=3)
            roll.record(picked, {picked.names[0]: True})
            roll.session("talk").load("tool_5")
            eventually(
                lambda: {"registry", "recording", "learning", "sessions"} == set(roll.health()["degraded"])
            )
            assert all("the database is away" in sentence for sentence in roll.health()["why"])
            assert roll.ready and roll.health()["ready"]
        eventually(lambda: roll.health()["degraded"] == [], 20)


@has_proc
def test_an_open_that_fails_leaves_nothing_open(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreUnavailable("out of luck")

    monkeypatch.setattr("toolroll.homes.registry.StoredConversations", fails)
    before = descriptors()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="out of luck"):
            Toolroll.open(url)
    assert toolroll_threads() == [] and descriptors() <= before


def test_an_empty_registry_is_made_if_asked_and_keeps_what_lists_of_requests_teach(
    database_url: str, tmp_path: Path
) -> None:
    """As an adapter of an agent framework uses it: the tools are the framework's."""
    tools = [Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(12)]
    options = {
        "create": True,
        "follow": Follow(poll_s=0.1),
        "recording": Recording(outbox=tmp_path / "outbox"),
    }
    with Toolroll.open(database_url, **options) as roll:
        session = roll.with_tools(tools).session("c")
        name = session.select("the thing of number 7", k=2).names[0]
        session.used({name: True})
        session.end_turn()
    with Toolroll.open(database_url, **options) as again:
        assert again.with_tools(tools).session("c").turn == 1
        again.with_tools(tools).select("the thing of number 7")
        eventually(lambda: again.health()["recording"]["learning"]["outcomes"] == 1)
