"""A PostgreSQL that stops answering: no event loop waits for it, and `close` keeps its time limit."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.integration.conftest import HAS_WHEEL, Server, own_server
from tests.integration.outcomes import eventually
from tests.server_of_run import server_root
from toolroll import Context, Recording, Tool, Toolroll
from toolroll.model.errors import StoreUnavailable
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database

pytestmark = [
    pytest.mark.db,
    pytest.mark.slow,
    pytest.mark.skipif(
        not HAS_WHEEL or not hasattr(signal, "SIGSTOP"), reason="no server can be stopped here"
    ),
]

LONGEST_PAUSE_S = 0.020
ROUNDS = 3  # a call that blocks does so in each; a thread that lost its processor with the GIL does not


class StoppableServer(Server):
    """A PostgreSQL of its own, whose processes can be stopped."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        with psycopg.connect(uri) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        self._postmaster = int((Path(row[0]) / "postmaster.pid").read_text().splitlines()[0])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops all its processes, as a machine that hangs does: connections stay open and nothing answers."""
        processes = self._processes()
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in {*processes, *self._processes()}:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def _processes(self) -> list[int]:
        found = [self._postmaster]
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(path.read_text().rsplit(")", 1)[1].split()[1]) == self._postmaster:
                    found.append(int(path.parent.name))
        return found


@pytest.fixture(scope="module")
def server() -> Iterator[StoppableServer]:
    """Not the server of the other tests, which may run at the same time."""
    with own_server(Path(tempfile.mkdtemp(prefix="toolroll-pg-", dir=server_root()))) as uri:
        yield StoppableServer(uri)


@pytest.fixture
def url(server: StoppableServer) -> Iterator[str]:
    name = server.create()
    Database.open(server.url_of(name), create=True, migrate=True).close()
    with Registry.open(server.url_of(name), actor="ada") as registry:
        for at in range(20):
            registry.create(Tool(f"tool_{at}", f"does the thing of number {at}"))
    yield server.url_of(name)
    server.drop(name)


def toolroll_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("toolroll"))


def descriptors() -> int:
    gc.collect()  # what an error of the driver refers to
    return len(os.listdir("/proc/self/fd"))


class Pauses:
    """Measures how long a program keeps its own event loop from running."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def __aenter__(self) -> Pauses:
        self._watching = asyncio.ensure_future(self._watch())
        await asyncio.sleep(0.01)
        self.longest_s = 0.0
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0.01)
        self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            began, waited_s = time.perf_counter(), self._waited_s()
            await asyncio.sleep(0.001)
            pause_s = time.perf_counter() - began - 0.001
            self.longest_s = max(self.longest_s, pause_s - (self._waited_s() - waited_s))

    def _waited_s(self) -> float:
        """How long this thread could run and had no processor: other programs had them all."""
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


async def outcome_of(call: Callable[[], Any]) -> Any:
    try:
        found = call()
        return await found if isinstance(found, Awaitable) else found
    except StoreUnavailable as error:
        return error


def test_no_call_of_an_event_loop_waits_for_a_database_that_hangs(
    server: StoppableServer, url: str, tmp_path: Path
) -> None:
    ann = Context(user="ann")
    with Toolroll.open(url, recording=Recording(outbox=tmp_path / "other")) as other:
        foreign = [other.select(f"number {at}", ann, k=5) for at in range(ROUNDS)]
        receipts = [other.receipt(one) for one in foreign]
        assert other.flush(20)

    async def main() -> None:
        async with Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox")) as roll:
            roll.session("known").select("number 3", k=3)
            assert await roll.aflush(20)
            own = roll.select("number 5", ann, k=5)
            with server.stopped():
                pauses: dict[str, list[float]] = {}
                for at in range(ROUNDS):
                    calls: dict[str, Callable[[], Any]] = {
                        "aselect": lambda: roll.aselect("number 7", ann, k=5),
                        "select": lambda: roll.select("number 7", ann, k=5),
                        "record(selection)": lambda: roll.record(own, {own.names[-1]: True}),
                        "record(receipt)": lambda at=at: roll.record(
                            receipts[at], {foreign[at].names[-1]: True}
                        ),
                        "arecord(event id)": lambda at=at: roll.arecord(
                            foreign[at].event_id, {foreign[at].names[-1]: True}
                        ),
                        "receipt": lambda: roll.receipt(own),
                        "areceipt": lambda: roll.areceipt(own),
                        "asession(known)": lambda: roll.asession("known"),
                        "asession(new)": lambda at=at: roll.asession(f"new{at}"),
                        "aflush": lambda: roll.aflush(0.2),
                        "health": roll.health,
                    }
                    for name, call in calls.items():
                        async with Pauses() as measured:
                            answer = await outcome_of(call)
                        pauses.setdefault(name, []).append(measured.longest_s)
                        if not name.startswith(("arecord", "aflush")):
                            assert not isinstance(answer, StoreUnavailable), name
                assert roll.ready
                blocking = {
                    name: least for name, all_ in pauses.items() if (least := min(all_)) > LONGEST_PAUSE_S
                }
                print({name: [round(1e3 * one, 1) for one in all_] for name, all_ in pauses.items()})
                assert not blocking

            def is_well() -> bool:
                return roll.health()["degraded"] == []

            eventually(is_well, 30)
            assert (await roll.arecord(foreign[0].event_id, {foreign[0].names[-1]: True})).event_id
            assert await roll.aflush(20)

    asyncio.run(main())


@pytest.mark.parametrize("waits", [False, True])
def test_close_keeps_its_time_limit_while_the_database_hangs_and_leaves_no_thread(
    server: StoppableServer, url: str, tmp_path: Path, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "toolroll")  # a record keeps its error, and that a connection
    Toolroll.open(
        url, recording=Recording(outbox=tmp_path / "outbox")
    ).close()  # what a process opens once and keeps
    threads, open_files = toolroll_threads(), descriptors()
    roll = Toolroll.open(url, recording=Recording(outbox=tmp_path / "outbox"))
    picked = roll.select("number 5", Context(user="ann"), k=5)
    roll.session("talk").select("number 3", k=3)
    assert roll.flush(20)
    answers: dict[str, object] = {}

    def ask(name: str, call: Callable[[], object]) -> None:
        try:
            answers[name] = call()
        except StoreUnavailable as error:
            answers[name] = type(error)

    calls: dict[str, Callable[[], object]] = {
        "known": lambda: roll.session("talk").loaded,
        "new": lambda: roll.session("new").loaded,
        "event": lambda: roll.record("0" * 24),
        "refresh": roll.refresh,
    }
    callers = [threading.Thread(target=ask, args=one) for one in calls.items() if waits]
    with server.stopped():
        roll.record(picked, {picked.names[-1]: True})
        for caller in callers:
            caller.start()
        time.sleep(0.3 if waits else 6.0)  # six seconds: calls are given up, and others connect again
        began = time.perf_counter()
        roll.close(timeout_s=2)
        took_s = time.perf_counter() - began
        left = toolroll_threads()
        for caller in callers:
            caller.join(10)
        print(f"close(timeout_s=2): {took_s:.2f} s, left: {left}")
        assert took_s < 2.5
        assert left == threads
    if waits:
        assert answers == dict.fromkeys(calls, StoreUnavailable)  # a closed roll refuses sessions, too
    assert descriptors() <= open_files
    with Toolroll.open(
        url, recording=Recording(outbox=tmp_path / "outbox")
    ) as later:  # which finds the report in the outbox
        eventually(lambda: later.health()["recording"]["keeper"]["counted"] == 1, 20)
