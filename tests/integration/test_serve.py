"""`toolroll serve` as processes: workers on one port, a stop that loses nothing, a database that goes away."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

pytest.importorskip("fastapi")

from tests.ports import free_port
from toolroll import Registry, Tool
from toolroll.registry.store import tables

pytestmark = pytest.mark.slow
SECRET = "canary-of-a-message"  # is in every message here, and must be in no log


class Running:
    """A running service.

    Attributes:
        base: its URL.
        process: the process to stop.
        url: of its registry.
        log: the file with what it has printed.
        key: a service key of any organisation that selects, reports and reads.
    """

    def __init__(self, base: str, process: subprocess.Popen[bytes], url: str, log: Path, key: str) -> None:
        self.base, self.process, self.url, self.log, self.key = base, process, url, log, key

    def __call__(self, path: str, body: object = None) -> Any:
        """The answer: JSON, or text."""
        headers = {"X-Service-Key": self.key, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.base + path, data, headers)
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:
                content = answer.read()
                return json.loads(content) if "json" in answer.headers["Content-Type"] else content.decode()
        except urllib.error.HTTPError as error:
            error.close()  # else its socket is open until garbage is collected, in some later test
            raise

    def select(self) -> Any:
        """A selection."""
        return self("/select?receipt=true", {"message": f"asks a host {SECRET}"})

    def wait_until(self, is_true: Callable[[], bool], seconds: float = 60) -> None:
        """Waits until the service says so."""
        deadline = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < deadline
            assert self.process.poll() is None
            time.sleep(0.2)

    def stop(self, seconds: float) -> None:
        """Asks it to stop, and waits for so long."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=seconds)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Running]:
    """A service that is ready."""
    url = f"sqlite:///{folder}/tools.db"
    with Registry.open(url) as registry:
        registry.create(Tool("ping", "asks whether a host is there"))
        key = registry.keys.add("test", roles=["select", "report", "read"], org=None)[1]
    port, log = free_port(), folder / "log.txt"
    command = [sys.executable, "-m", "toolroll", "serve", "--catalog", url, "--port", str(port), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output)
    service = Running(f"http://127.0.0.1:{port}", process, url, log, key)

    def is_ready() -> bool:
        try:
            return bool(service("/readyz")["ready"])
        except urllib.error.URLError:
            return False

    try:
        service.wait_until(is_ready, 240)
        yield service
    finally:
        process.kill()
        process.wait()


def count(url: str, table: sa.Table) -> int:
    with Registry.open(url) as registry, registry.database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_ends_within_its_grace_and_loses_no_answer_no_event_and_no_outcome(tmp_path, workers):
    with serving(tmp_path, "--workers", str(workers), "--grace", "20") as service:
        assert service("/healthz") == {"status": "ok"}
        answered: list[Any] = []
        broken: list[Exception] = []

        def ask() -> None:
            while True:
                try:
                    picked = service.select()
                    answered.append(picked)
                    service("/outcomes", {"selection": picked["receipt"], "called": {"ping": True}})
                except urllib.error.URLError as error:
                    if not isinstance(error.reason, ConnectionRefusedError):
                        broken.append(error)
                    return
                except (ConnectionError, OSError) as error:  # a connection that was closed before its request
                    broken.append(error)
                    return

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        service.wait_until(lambda: len(answered) > 30)
        begun = time.monotonic()
        service.stop(120)
        assert time.monotonic() - begun < 100
        for thread in asking:
            thread.join()
        with pytest.raises(urllib.error.URLError):
            service("/healthz")
        # A kernel may reset connections that wait to be accepted as the socket closes; at most one a client.
        assert len(broken) <= len(asking)
        assert count(service.url, tables.selection_events) >= len(answered)
        assert count(service.url, tables.outcomes) >= len(answered) - len(asking)


def test_a_scrape_of_two_workers_counts_what_both_have_answered(tmp_path):
    with serving(tmp_path, "--workers", "2") as service:
        for _ in range(40):
            service.select()

        def counted() -> dict[str, float]:
            return {
                line.rpartition('worker="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
                for line in service("/metrics").splitlines()
                if line.startswith("toolroll_http_requests_total{") and 'route="/select"' in line
            }

        service.wait_until(lambda: sum(counted().values()) == 40, 20)


@pytest.mark.skipif(sys.platform == "win32", reason="a worker shares its socket with the parent there")
def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path):
    def is_listening() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", int(service.base.rpartition(":")[2]))) == 0

    with serving(tmp_path, "--workers", "2") as service:
        service.process.kill()
        service.process.wait()
        deadline = time.monotonic() + 60
        while is_listening():
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_service_that_loses_its_database_goes_on_selecting_and_says_so(tmp_path):
    file, away = tmp_path / "tools.db", tmp_path / "away"
    with serving(tmp_path) as service:
        picked = service.select()
        away.mkdir()
        names = [path.name for path in tmp_path.glob("tools.db*") if path.is_file()]
        for name in names:
            (tmp_path / name).rename(away / name)

        def degraded() -> list[str]:
            answer = service("/readyz")
            assert answer["ready"]
            assert service.select()["names"] == ["ping"]
            return list(answer["degraded"])

        service.wait_until(lambda: {"registry", "keys"} <= set(degraded()))
        done = service("/outcomes", {"selection": picked["receipt"], "called": {"ping": True}})
        assert done["counted"] == 1
        for name in names:
            (away / name).rename(tmp_path / name)
        service.wait_until(lambda: not degraded())
        assert file.exists()
        service.wait_until(lambda: count(service.url, tables.outcomes) == 1)


def test_no_log_has_a_message_or_a_key_and_each_line_is_an_object(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLROLL_SERVER_LOG", "json")
    monkeypatch.setenv("TOOLROLL_SERVER_LOG_REQUESTS", "true")
    with serving(tmp_path) as service:
        service.select()
        with pytest.raises(urllib.error.HTTPError):
            service("/select", {"message": SECRET, "k": -1})
        with pytest.raises(urllib.error.HTTPError):
            service("/nowhere")
        service.stop(40)
    printed = service.log.read_text()
    assert SECRET not in printed
    assert "trk_" not in printed
    lines = [json.loads(line) for line in printed.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert ("POST", "/select", 200) in {(line["method"], line["route"], line["status"]) for line in requests}
    assert ("GET", "-", 404) in {(line["method"], line["route"], line["status"]) for line in requests}
    assert all(line["key"] and line["ms"] >= 0 for line in requests if line["route"] == "/select")
