"""Measures POST /select over loopback, with one worker, beside the same framework's empty endpoint.

The client writes raw requests over connections that stay open, so that it takes little of the processor.
Sides take turns. The service has keys, limits and metrics as in production, and the demonstration catalog;
events are logged.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

import toolroll
from toolroll import Registry, read_folder

_MESSAGES = (
    "Should I bring an umbrella?",
    "pay the invoice of last month",
    "who is my biggest customer",
    "lights off",
)
_END = b"\r\n\r\n"


@dataclass(eq=False)
class Side:
    """A server, and what was measured of it."""

    name: str
    port: int
    path: str
    key: str = ""
    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def request(self, number: int) -> bytes:
        body = json.dumps({"message": _MESSAGES[number % len(_MESSAGES)], "k": 7}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}X-Service-Key: {self.key}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> None:
        self.socket.sendall(request)
        data = b""
        while (end := data.find(_END)) < 0:
            data += self._more()
        assert data.startswith(b"HTTP/1.1 200"), data[:500]
        at = data.lower().index(b"content-length:") + 15
        length = int(data[at : data.index(b"\r", at)])
        while len(data) < end + len(_END) + length:
            data += self._more()

    def _more(self) -> bytes:
        more = self.socket.recv(1 << 16)
        assert more, "the connection was closed"
        return more


def burst(side: Side, connections: int, seconds: float) -> float:
    """Requests a second, over so many connections, each with one request at a time."""
    counts, stop = [0] * connections, time.perf_counter() + seconds

    def ask(at: int) -> None:
        connection, requests = Connection(side.port), [side.request(number) for number in range(8)]
        while time.perf_counter() < stop:
            connection.ask(requests[counts[at] % 8])
            counts[at] += 1

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(connections)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def paced(side: Side, rate: float, seconds: float) -> list[float]:
    """Latencies at this rate, over four connections; a late request counts from when it was due."""
    found: list[list[float]] = [[] for _ in range(4)]

    def ask(at: int) -> None:
        connection, every = Connection(side.port), 4 / rate
        due = time.perf_counter() + every * at / 4
        end = due + seconds
        while due < end:
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            connection.ask(side.request(at))
            found[at].append(time.perf_counter() - due)
            due += every

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(itertools.chain.from_iterable(found))


@contextmanager
def running(port: int, *command: str) -> Iterator[int]:
    """A service that answers; yields the id of its process."""
    process = subprocess.Popen(
        [sys.executable, *command], env={**os.environ, "TOOLROLL_SERVER_KEY_RATE": "1000000/second"}
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except urllib.error.HTTPError:
                break  # it answers
            except urllib.error.URLError:
                assert process.poll() is None
                time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Turns of each side.")
@click.option("--seconds", default=4.0, show_default=True, help="Length of a burst.")
@click.option("--connections", default=8, show_default=True)
def main(rounds: int, seconds: float, connections: int) -> None:
    """Prints requests a second, and latencies at half that rate."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url = f"sqlite:///{folder}/tools.db"
        demo = Path(toolroll.__file__).with_name("demo") / "toolkits"
        with Registry.open(url) as registry:
            registry.import_(read_folder(demo))
            key = registry.keys.add("bench", roles=["select"], org=None)[1]
        ports = free_port(), free_port()
        stack.enter_context(running(ports[0], "-m", "bench.service.empty", str(ports[0])))
        serve = ("-m", "toolroll", "serve", "--catalog", url, "--port", str(ports[1]))
        stack.enter_context(running(ports[1], *serve))
        sides = [
            Side("empty endpoint", ports[0], "/select"),
            Side("names", ports[1], "/select", key),
            Side("schemas of OpenAI", ports[1], "/select?schemas=openai", key),
        ]
        for _ in range(rounds):
            for side in sides:
                side.rates.append(burst(side, connections, seconds))
        for side in sides:
            side.latencies = paced(side, statistics.median(side.rates) / 2, seconds)
        for side in sides:
            at = {
                share: side.latencies[int(share * (len(side.latencies) - 1))] * 1e3 for share in (0.5, 0.99)
            }
            print(
                f"{side.name:20} {statistics.median(side.rates):8,.0f} a second "
                f"(best {max(side.rates):,.0f}); at half of it p50 {at[0.5]:.2f} ms, p99 {at[0.99]:.2f} ms"
            )


if __name__ == "__main__":
    main()
