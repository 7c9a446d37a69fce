"""Hearing of changes: soon where it works, never late where it does not."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.outcomes import NOW, exposure
from toolroll.learning.outcomes import Report
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.maintenance import OutcomeFilter, forget
from toolroll.registry.store import notifications
from toolroll.registry.store.database import Database
from toolroll.registry.store.notifications import POLL_EVERY_S, Signal, Signals

WRITER = """
import sys
from toolroll.registry.store.database import Database

database = Database.open(sys.argv[1], create=False, migrate=False)
for line in sys.stdin:
    with database.writing("ann") as write:
        write.log("test", line.strip())
    print(write.revision, flush=True)
"""


class OtherProcess:
    """Writes to the same registry when it is told to."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.write()  # it is up when it has answered

    def write(self) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("x\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate("", timeout=120)


@pytest.fixture
def signals(database: Database) -> Iterator[Signals]:
    heard = Signals(database)
    assert wait(heard, 60)  # it says so when it has begun to listen
    yield heard
    heard.close()


def wait(signals: Signals, timeout_s: float) -> Signal:
    """What is heard next; nothing after so long."""
    deadline = time.monotonic() + timeout_s
    while not (heard := signals.hear()) and time.monotonic() < deadline:
        time.sleep(POLL_EVERY_S)
    return heard


def write(database: Database) -> None:
    with database.writing("ann") as change:
        change.log("test", "x")


@pytest.mark.slow
def test_another_processs_change_is_heard_within_a_second(
    database: Database, database_url: str, signals: Signals
) -> None:
    other = OtherProcess(database_url)
    while wait(signals, 0.3):
        pass
    took = []
    for _ in range(5):
        began = time.monotonic()
        threading.Timer(0.05, other.write).start()
        assert wait(signals, 60)
        took.append(time.monotonic() - began)
        while wait(signals, 0.3):
            pass
    assert sorted(took)[2] < 10
    assert database.revision() == 6
    other.close()


def test_a_change_between_two_calls_is_not_missed(database: Database, signals: Signals) -> None:
    while wait(signals, 0.3):
        pass
    write(database)
    time.sleep(0.3)
    assert signals.hear()


def test_without_listening_nothing_is_heard(database: Database) -> None:
    signals = Signals(database, listens=False)
    write(database)
    assert not wait(signals, 0.3)
    signals.close()


@pytest.mark.db
def test_a_lost_connection_is_found_again_and_said(
    new_database_url: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = new_database_url("postgresql")
    database = Database.open(url, create=False, migrate=False)
    heard = Signals(database)
    while wait(heard, 0.5):
        pass
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert wait(heard, 60)  # who was away may have missed something
    while wait(heard, 0.5):
        pass
    write(database)
    assert wait(heard, 60)
    heard.close()
    database.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a file in use stays where it is there")
def test_a_file_that_went_away_is_no_error(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    Path(url.removeprefix("sqlite:///")).unlink()
    heard = Signals(database)
    began = time.monotonic()
    assert not wait(heard, 0.3)
    assert time.monotonic() - began < 60
    heard.close()
    database.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a file in use stays where it is there")
def test_a_file_that_was_replaced_is_heard_of_and_listened_to(
    new_database_url: Callable[[str], str],
) -> None:
    url, other = new_database_url("sqlite"), new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    heard = Signals(database)
    while wait(heard, 0.5):
        pass
    for end in ("-wal", "-shm"):
        Path(f"{url.removeprefix('sqlite:///')}{end}").unlink(missing_ok=True)
    Path(other.removeprefix("sqlite:///")).replace(url.removeprefix("sqlite:///"))
    assert wait(heard, 60)
    while wait(heard, 0.5):
        pass
    write(database)
    assert wait(heard, 60)
    heard.close()
    database.close()


class Proxy:
    """Between a client and PostgreSQL's socket; `hold` swallows everything without closing anything."""

    def __init__(self, url: str) -> None:
        target = sa.make_url(url)
        host = str(target.query.get("host") or target.host)
        port = target.port or 5432
        self._target: object = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        self._family = socket.AF_UNIX if host.startswith("/") else socket.AF_INET
        self.hold = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._server]
        query = {name: value for name, value in target.query.items() if name != "host"}
        through = target.set(host="127.0.0.1", port=self._server.getsockname()[1], query=query)
        self.url = through.render_as_string(hide_password=False)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.socket(self._family)
                self._sockets += [client, server]
                server.connect(self._target)  # type: ignore[arg-type]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not self.hold.is_set():
                    sink.sendall(data)

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.mark.db
def test_a_network_that_swallows_everything_holds_nobody_up(
    new_database_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = new_database_url("postgresql")
    proxy = Proxy(direct)
    database = Database.open(proxy.url, create=False, migrate=False)
    writer = Database.open(direct, create=False, migrate=False)
    heard = Signals(database)
    while wait(heard, 0.5):
        pass
    write(writer)
    assert wait(heard, 60)
    proxy.hold.set()
    write(writer)
    began = time.monotonic()
    assert not wait(heard, 0.5)
    assert time.monotonic() - began < 60
    monkeypatch.setattr(notifications, "_CONNECT_S", 0.2)
    lost = Signals(database)  # cannot even connect
    began = time.monotonic()
    assert not wait(lost, 0.5)
    assert lost.failing and time.monotonic() - began < 60
    proxy.close()
    lost.close()
    heard.close()
    database.close()
    writer.close()


@pytest.mark.db
def test_outcomes_wake_nobody_unless_some_are_taken_back(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("postgresql")
    database = Database.open(url, create=False, migrate=False)
    heard = Signals(database)
    assert wait(heard, 60) is Signal.ANYTHING
    report = ReceivedReport(exposure("e1", "alpha"), Report("e1", ()), NOW)
    assert ingest(database, [], [report]).outcomes == 1
    assert not wait(heard, 0.5)
    write(database)
    assert wait(heard, 60) is Signal.REGISTRY
    assert forget(database, "acme", OutcomeFilter(event="e1"), actor="ann") == 1
    assert wait(heard, 60) is Signal.OUTCOMES
    heard.close()
    database.close()
