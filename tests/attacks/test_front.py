"""Whoever reaches the port of `toolroll serve`, without a key: memory, connections, time."""

from __future__ import annotations

import json
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from bench.service.servers import fill, free_port, resident_bytes, running, serving

from tests.attacks import bounded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process in /proc"),
]
MB = 1e6


class Service:
    """A service under attack.

    Attributes:
        port: where it listens.
        key: of a caller who selects, for any organisation.
    """

    def __init__(self, port: int, pid: int, key: str) -> None:
        self.port, self.key, self._pid = port, key, pid
        for _ in range(20):  # what the first requests need is no attacker's
            self.select()
        self._usual = resident_bytes(pid)

    def grown(self) -> float:
        """Bytes of memory that it has more than before the attack."""
        return resident_bytes(self._pid) - self._usual

    def descriptors(self) -> int:
        """How many files and connections it has open."""
        return len(list(Path(f"/proc/{self._pid}/fd").iterdir()))

    def connect(self) -> socket.socket:
        """A connection from this machine."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def select(self) -> int:
        """The status of a selection on a connection of its own."""
        headers = {"X-Service-Key": self.key, "Content-Type": "application/json"}
        body = json.dumps({"message": "Should I bring an umbrella?"}).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/select", body, headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            answer.read()
            return int(answer.status)


@contextmanager
def service(folder: Path, **settings: object) -> Iterator[Service]:
    """A service over a registry in this folder."""
    url = f"sqlite:///{folder}/tools.db"
    key = fill(url)
    with serving(url, **settings) as (port, pid):
        yield Service(port, pid, key)


def ends_after(connection: socket.socket, most_s: float) -> float:
    """Seconds until the other side has closed the connection; more than `most_s` if it has not."""
    begun = time.monotonic()
    connection.settimeout(most_s)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return most_s + 1
    return time.monotonic() - begun


def pushed(connection: socket.socket, part: bytes, most: int) -> int:
    """Bytes of a part, sent over and over, that the other side took before it closed the connection."""
    sent = 0
    try:
        while sent < most:
            connection.sendall(part)
            sent += len(part)
    except OSError:
        pass
    return sent


def test_an_endless_header_takes_two_megabytes_and_fifteen_seconds_at_the_most(tmp_path: Path) -> None:
    """Before: + 308 MB in 0.7 s over one connection, without an end, and 384 MB stayed."""
    lines = b"".join([b"X-A: " + b"y" * 16_000 + b"\r\n" for _ in range(4)])
    kinds = {
        "lines": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", lines),
        "one line": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"y" * 64_000),
        "many short lines": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"a:\r\n" * 16_000),
        "an address": (b"GET /", b"y" * 64_000),
        "nothing but line ends": (b"", b"\r\n" * 32_000),
        "trailers": (
            b"POST /select HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            lines,
        ),
        "sizes of chunks": (
            b"POST /select HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            b"y" * 64_000,
        ),
        "requests without an answer": (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_500),
    }
    with service(tmp_path) as served:
        for kind, (first, part) in kinds.items():
            with served.connect() as connection:
                connection.sendall(first)
                taken = pushed(connection, part, bounded(64, 2_000) * 1_000_000)
                ends_s = ends_after(connection, 15)
            print(f"{kind}: {taken / MB:.1f} MB taken, grown by {served.grown() / MB:.1f} MB, {ends_s:.1f} s")
            assert served.grown() <= 2 * MB, kind
            assert ends_s <= 15, kind
        assert served.select() == 200


def test_headers_and_bodies_that_rest_are_closed_after_fifteen_seconds(tmp_path: Path) -> None:
    """Before: 3,000 of 3,000 open after 60 s."""
    begun = {
        "nothing": b"",
        "half a header": b"GET /healthz HTTP/1.1\r\nHost: loc",
        "half a body": b"POST /admin/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    }
    with service(tmp_path) as served, ExitStack() as stack:
        open_ones = {kind: stack.enter_context(served.connect()) for kind in begun}
        for kind, connection in open_ones.items():
            connection.sendall(begun[kind])
        drip = stack.enter_context(served.connect())
        drip.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        begun_s = time.monotonic()
        try:
            while time.monotonic() - begun_s < 16:
                drip.sendall(b"y")
                time.sleep(0.25)
        except OSError:
            pass
        assert time.monotonic() - begun_s < 15
        for kind, connection in open_ones.items():
            assert ends_after(connection, 1) <= 1, kind


def test_a_hundred_unfinished_bodies_take_forty_megabytes_at_the_most(tmp_path: Path) -> None:
    """Before: + 420 MB by 100 bodies of 4 MB to a route that is open to everybody; all open after 60 s."""
    head = b"POST /admin/sign-in HTTP/1.1\r\nHost: localhost\r\nX-Toolroll-Page: 1\r\n"
    with service(tmp_path) as served, ExitStack() as stack:
        connections = [stack.enter_context(served.connect()) for _ in range(100)]
        for at, connection in enumerate(connections):
            framing = b"Transfer-Encoding: chunked\r\n\r\n" if at % 2 else b"Content-Length: 4000000\r\n\r\n"
            connection.sendall(head + b"Content-Type: application/json\r\n" + framing)
        most = 0.0
        for at, connection in enumerate(connections):
            part = b"10000\r\n" + b"y" * 65_536 + b"\r\n" if at % 2 else b"y" * 65_536
            pushed(connection, part, 3_900_000)
            most = max(most, served.grown())
        print(f"grown by {most / MB:.1f} MB")
        assert most <= 40 * MB
        time.sleep(2)
        assert served.select() == 200


def test_half_open_requests_keep_nobody_out(tmp_path: Path) -> None:
    """Before: with 1,024 descriptors, 1,300 half-open requests shut everybody out; each stayed for good."""
    n = bounded(1_500, 3_000)
    half = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nX-Half"
    with service(tmp_path, max_connections=1_000) as served, ExitStack() as stack:
        statuses = []
        for at in range(n):
            connection = stack.enter_context(served.connect())
            connection.sendall(half)
            if at % 50 == 49:
                statuses.append(served.select())
        statuses += [served.select() for _ in range(20)]
        print(
            f"{len(statuses)} of others, {statuses.count(200)} answered; grown by {served.grown() / MB:.1f} MB"
        )
        assert set(statuses) == {200}


def test_the_gateway_over_http_has_the_same_front(tmp_path: Path) -> None:
    """Before: an endless header, a body of any length at any pace, and any number of connections."""
    pytest.importorskip("mcp")
    configuration = tmp_path / "mcp.json"
    http = {"max_connections": 40, "patience_s": 2}
    configuration.write_text(
        json.dumps({"mcpServers": {"away": {"command": "false"}}, "toolroll": {"http": http}})
    )
    port = free_port()
    command = ("-m", "toolroll", "mcp", "--config", str(configuration), "--http", f"127.0.0.1:{port}")
    with running(port, *command) as pid, ExitStack() as stack:
        usual = resident_bytes(pid)

        def connected(first: bytes) -> socket.socket:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            connection.sendall(first)
            return connection

        header = connected(b"GET /tools/list HTTP/1.1\r\nHost: localhost\r\n")
        pushed(header, b"X-A: " + b"y" * 16_000 + b"\r\n", 64_000_000)
        assert ends_after(header, 15) <= 15
        post = b"POST /tools/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
        body = connected(post)
        pushed(body, b"y" * 65_536, 4_900_000)
        half = [connected(b"GET /tools/list HTTP/1.1\r\nHost: loc") for _ in range(100)]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/tools/list", timeout=30) as answer:
            assert answer.status == 200
        assert ends_after(half[-1], 15) <= 15
        grown = resident_bytes(pid) - usual
        print(f"gateway grown by {grown / MB:.1f} MB")
        assert grown <= 16 * MB  # 4 of them are the body that may be that long


def test_a_body_is_never_read_as_a_request(tmp_path: Path) -> None:
    """Before: the body behind `Upgrade: h2c` was the next request. A proxy that passes such headers on would
    have let a caller hide requests from it.
    """
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    length = b"Content-Length: %d\r\n" % len(hidden)
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
    requests = {
        "upgrade": upgrade + length + b"\r\n" + hidden,
        "upgrade in chunks": upgrade + chunks,
        "upgrade to a socket": b"Connection: upgrade\r\nUpgrade: websocket\r\n" + length + b"\r\n" + hidden,
        "two lengths": length + b"Content-Length: 0\r\n\r\n" + hidden,
        "length and chunks": length + chunks,
        "no key": length + b"\r\n" + hidden,
    }
    with service(tmp_path) as served:
        for kind, rest in requests.items():
            with served.connect() as connection:
                head, end, body = rest.partition(b"\r\n\r\n")
                connection.sendall(b"POST /select HTTP/1.1\r\nHost: localhost\r\n" + head + end)
                time.sleep(0.2)
                connection.settimeout(1)
                answers = b""
                try:
                    connection.sendall(body)
                    while part := connection.recv(65_536):
                        answers += part
                except (TimeoutError, ConnectionError):
                    pass
            assert answers.count(b"HTTP/1.1 ") == 1, kind
            assert b" 200 OK" not in answers, kind


def test_answers_that_nobody_reads_take_little(tmp_path: Path) -> None:
    """Before: 700 connections that asked for the description of the service, and did not read it, stayed open for
    a minute, and took 340 MB.
    """
    asks = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with service(tmp_path) as served, ExitStack() as stack:
        connections = []
        for _ in range(600):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            connection.connect(("127.0.0.1", served.port))
            connection.sendall(16 * asks)
            connections.append(connection)
        deadline, n_open = time.monotonic() + 45, len(connections)
        while n_open > 350 and time.monotonic() < deadline:
            time.sleep(1)
            n_open = served.descriptors()
        print(f"{n_open} open, grown by {served.grown() / MB:.0f} MB")
        assert n_open <= 350
        assert served.select() == 200


def test_a_body_in_parts_of_a_byte_is_refused(tmp_path: Path) -> None:
    """Before: 240 kB of them held up the event loop for 110 ms, as often as anybody liked."""
    head = b"POST /admin/sign-in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with service(tmp_path) as served:
        with served.connect() as connection:
            connection.sendall(head)
            taken = pushed(connection, b"1\r\ny\r\n" * 10_000, 64_000_000)
            assert ends_after(connection, 15) <= 15
            assert taken < 4_000_000
        assert served.select() == 200
