"""Callers with a key whose requests are large: memory of the process, and what other organisations wait for."""

from __future__ import annotations

import http.client
import http.server
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from bench.service.servers import fill, free_port, resident_bytes, running

from tests.attacks import bounded
from toolroll import Registry

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process in /proc"),
]
MB = 1e6
ROLES = ["select", "report", "read", "sync"]


class Served:
    """A service or a drop-in.

    Attributes:
        port: where it listens.
        pid: of its process.
        acme, beta: keys of two organisations.
        url: of its registry.
    """

    def __init__(self, port: int, pid: int, acme: str, beta: str, url: str) -> None:
        self.port, self.pid, self.acme, self.beta, self.url = port, pid, acme, beta, url

    def post(self, path: str, body: bytes, key: str) -> tuple[int, float]:
        """Status and seconds of a request."""
        headers = {"Content-Type": "application/json", "X-Toolroll-Key": key, "X-Service-Key": key}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        begun = time.perf_counter()
        try:
            connection.request("POST", path, body, headers)
            status = connection.getresponse()
            status.read()
        finally:
            connection.close()
        return status.status, time.perf_counter() - begun


@contextmanager
def served(folder: Path, *options: str, **settings: object) -> Iterator[Served]:
    """A process over a registry with two organisations."""
    url = f"sqlite:///{folder}/tools.db"
    fill(url)
    with Registry.open(url) as registry:
        acme, beta = (
            registry.keys.add(org, roles=ROLES, org=org, plugin="big")[1] for org in ("acme", "beta")
        )
    port = free_port()
    command = ("-m", "toolroll", "serve", "--catalog", url, "--port", str(port), *options)
    with running(port, *command, **settings) as pid:
        yield Served(port, pid, acme, beta, url)


@contextmanager
def provider() -> Iterator[str]:
    """The URL of a provider that answers everything, shortly."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            left = int(self.headers.get("Content-Length", 0))
            while left > 0:
                left -= len(self.rfile.read(min(left, 1 << 20)))
            content = b'{"choices": []}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def tools(count: int, of: object) -> list[dict[str, Any]]:
    """Tools of a kilobyte each, other ones for each `of`."""
    told = "does a thing with the weather, a bill or a lamp, as the user has asked for it; " * 5
    parameters = {
        f"p{at}": {"type": "string", "description": "what the tool needs to know"} for at in range(8)
    }
    return [
        {
            "name": f"tool_{of}_{at}",
            "description": f"Number {at} of list {of}: {told}",
            "parameters": {"type": "object", "properties": parameters},
        }
        for at in range(count)
    ]


def chat(count: int, of: object) -> bytes:
    """A request to a provider with so many tools."""
    listed = [{"type": "function", "function": tool} for tool in tools(count, of)]
    messages = [{"role": "user", "content": "Should I bring an umbrella?"}]
    return json.dumps({"model": "m", "messages": messages, "tools": listed}).encode()


class Meanwhile:
    """Another organisation's requests, one after the other, until `stop`."""

    def __init__(self, served: Served, path: str, body: bytes) -> None:
        self.statuses: list[int] = []
        self.times_s: list[float] = []
        self._ends = threading.Event()

        def ask() -> None:
            while not self._ends.is_set():
                status, spent_s = served.post(path, body, served.beta)
                self.statuses.append(status)
                self.times_s.append(spent_s)
                time.sleep(0.02)

        self._thread = threading.Thread(target=ask)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def after(self, seconds: float) -> Meanwhile:
        time.sleep(seconds)
        self.stop()
        return self


def test_lists_of_23_megabytes_take_700_megabytes_at_the_most_and_hold_nobody_up(tmp_path: Path) -> None:
    """Before: 24 lists of 20,000 tools grew the drop-in from 141 to 4,011 MB, 160 MB a list, and stayed there.
    Another organisation's slowest request took 2,812 ms in place of 68.
    """
    count = bounded(3, 24)
    bodies = [chat(20_000, at) for at in range(count)]  # before: making one would hold up this process
    usual = chat(60, "usual")
    with provider() as upstream, served(tmp_path, "--upstream", upstream) as drop_in:
        path, most = "/v1/chat/completions", 0.0
        for _ in range(10):
            drop_in.post(path, usual, drop_in.beta)
        alone = Meanwhile(drop_in, path, usual).after(bounded(3.0, 10.0))
        beside = Meanwhile(drop_in, path, usual)
        statuses = []
        for body in bodies:
            statuses.append(drop_in.post(path, body, drop_in.acme)[0])
            most = max(most, resident_bytes(drop_in.pid))
        beside.stop()
    slowest, slowest_alone = max(beside.times_s), max(alone.times_s)
    print(
        f"{len(bodies[0]) / MB:.1f} MB each, {statuses}: {most / MB:.0f} MB; the other's slowest of "
        f"{len(beside.times_s)}: {slowest * 1e3:.0f} ms, alone {slowest_alone * 1e3:.0f} ms; "
        f"{len(beside.statuses) - beside.statuses.count(200)} of them refused"
    )
    assert most <= 700 * MB
    assert set(statuses) == set(beside.statuses) == {200}
    # The slowest but for one in twenty: another process on the machine may cost any of them anything.
    assert sorted(beside.times_s)[len(beside.times_s) * 19 // 20] <= max(3 * slowest_alone, 0.03)


def test_syncs_of_one_organisation_refuse_none_of_another_ones_requests(tmp_path: Path) -> None:
    """Before: beside 50 dry-run syncs of 2.6 MB in 12 s, 45 of 391 selections of another were refused."""
    body = json.dumps(
        {"plugin_id": "big", "dry_run": True, "tools": tools(bounded(1_000, 2_600), "s")}
    ).encode()
    select = json.dumps({"message": "Should I bring an umbrella?", "context": {"org": "beta"}}).encode()
    with served(tmp_path) as service:
        beside = Meanwhile(service, "/select", select)
        path, answered = "/internal/tool-registry/plugins/sync", list[int]()
        syncs = [
            threading.Thread(target=lambda: answered.append(service.post(path, body, service.acme)[0]))
            for _ in range(bounded(12, 50))
        ]
        for sync in syncs:
            sync.start()
            time.sleep(0.1)
        for sync in syncs:
            sync.join()
        beside.stop()
    refused = len(beside.statuses) - beside.statuses.count(200)
    slow = sorted(beside.times_s)
    print(
        f"{len(body) / MB:.1f} MB each; {refused} of {len(slow)} refused; they took {slow[len(slow) // 2] * 1e3:.0f} "
        f"ms at the median and {slow[-1] * 1e3:.0f} ms at the most"
    )
    assert 200 in answered and set(answered) <= {200, 503}
    assert set(beside.statuses) == {200}


def grown_by(service: Served, path: str, body: bytes, statuses: set[int]) -> float:
    """Bytes of memory that the process has more after some of these requests, beside which others go on."""
    select = chat(3, "usual") if path.startswith("/v1/") else json.dumps({"message": "umbrella?"}).encode()
    asked = path if path.startswith("/v1/") else "/select"
    for _ in range(5):
        service.post(asked, select, service.beta)
    before, beside = resident_bytes(service.pid), Meanwhile(service, asked, select)
    answers = [service.post(path, body, service.acme) for _ in range(2)]
    beside.stop()
    grown = resident_bytes(service.pid) - before
    print(
        f"{len(body) / MB:.1f} MB: {answers}, grown by {grown / MB:.0f} MB; others {max(beside.times_s):.2f} s"
    )
    assert {status for status, _ in answers} == statuses
    assert set(beside.statuses) == {200}
    assert max(beside.times_s) < 2
    return grown


def test_a_body_in_which_everything_is_wrong_takes_what_one_wrong_item_takes(tmp_path: Path) -> None:
    """Before: one body of 4 MB, `history: [1, 1, …]`, was answered with 251 MB of problems; it took the service
    from 326 to 5,044 MB and stopped everybody for 29 s.
    """
    ones = b",".join([b"1"] * bounded(500_000, 1_900_000))
    members = b",".join([b'"m%d":1' % at for at in range(bounded(100_000, 280_000))])
    bodies = {
        "/select": [b'{"message": "a", "history": [' + ones + b"]}", b'{"message": "a", ' + members + b"}"],
        "/outcomes": [
            b'{"selection": "a", "called": [' + ones + b"]}",
            b'{"selection": "a", "corrected": {' + members + b"}}",
        ],
    }
    with served(tmp_path) as service:
        for path, of_path in bodies.items():
            for body in of_path:
                assert grown_by(service, path, body, {422}) <= 200 * MB


def test_lists_of_tiny_tools_take_no_more_than_others(tmp_path: Path) -> None:
    """Before: 350,000 tools `[]` in 1 MB took 20 s of a thread and 490 MB; 64 MB may have 22 million."""
    items = bounded(300_000, 5_000_000)
    bodies = [
        b'{"messages": [{"role": "user", "content": "a"}], "tools": [' + b",".join([b"[]"] * items) + b"]}",
        b'{"messages": [{"role": "user", "content": "a"}], "tools": [{"functionDeclarations": ['
        + b",".join([b"{}"] * items)
        + b"]}]}",
        b'{"messages": [' + b",".join([b"{}"] * 5_000_000) + b'], "tools": [{"name": "a"}]}',
    ]
    with provider() as upstream, served(tmp_path, "--upstream", upstream) as drop_in:
        for body in bodies:
            assert grown_by(drop_in, "/v1/chat/completions", body, {200}) <= 200 * MB
