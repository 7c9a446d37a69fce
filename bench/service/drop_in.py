"""Measures what the drop-in adds to a request with many tools: `python -m bench.service.drop_in`.

A provider on loopback, written in asyncio without a framework, answers at once. The same client asks it
directly and through the proxy, over connections that stay open; the two take turns, request by request. Each
request has another message, so each is selected for. For streams the provider sends a part, waits, and sends
another. Between two streams both sides are idle, so answers after such a pause are measured beside them.
"""

from __future__ import annotations

import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from bench.service.servers import free_port, running
from toolroll.lab.evaluation import workloads

_END = b"\r\n\r\n"
_PAUSE_S = 0.1  # between the parts of a stream


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


def request(number: int, count: int, port: int, stream: bool) -> bytes:
    """A chat completion with so many tools, as official clients write it."""
    tools = [{"type": "function", "function": tool} for tool in workloads.tools(count)]
    server, verb, *noun = workloads.tools(count)[number % count]["name"].split("_")
    text = f"Could you {verb} the {' '.join(noun)} in {server}, case {number}?"
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": text}]
    members = {"model": "m", "messages": messages, "tools": tools, "stream": stream}
    body = json.dumps(members, separators=(",", ":")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer x\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def answer_s(connection: Connection, content: bytes) -> float:
    """Seconds until the whole answer is there."""
    begun = time.perf_counter()
    connection.ask(content)
    return time.perf_counter() - begun


def first_part_s(connection: Connection, content: bytes) -> float:
    """Seconds until the first part of a stream is there. Reads the stream to its end."""
    begun = time.perf_counter()
    connection.socket.sendall(content)
    data, found = b"", 0.0
    while not data.endswith(b"0\r\n\r\n"):
        data += connection.socket.recv(1 << 16)
        if not found and b"data: 1" in data:
            found = time.perf_counter() - begun
    return found


def processor_s(pid: int) -> float:
    """Seconds of the processor that a process has used: less than time on a busy machine."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def provider(port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.service.loopback_provider", str(port), str(_PAUSE_S)]
    process = subprocess.Popen(command)
    try:
        while True:
            try:
                Connection(port).socket.close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


@click.command()
@click.option("--requests", default=400, show_default=True, help="Of each side.")
@click.option("--streams", default=30, show_default=True, help="Of each side.")
@click.option("--tools", default=200, show_default=True, help="In each request.")
def main(requests: int, streams: int, tools: int) -> None:
    """Prints the latency of requests and of the first part of streams, direct and through the proxy."""
    ports = free_port(), free_port()
    options = ("--upstream", f"http://127.0.0.1:{ports[0]}/v1", "--authentication", "none")
    serve = ("-m", "toolroll", "serve", *options, "--port", str(ports[1]))
    with provider(ports[0]), running(ports[1], *serve) as pid:
        sides = {"direct": Connection(ports[0]), "drop-in": Connection(ports[1])}
        found: dict[str, list[float]] = {name: [] for name in sides}
        firsts: dict[str, list[float]] = {name: [] for name in sides}
        paused: dict[str, list[float]] = {name: [] for name in sides}
        before = 0.0
        for number in range(-50, requests):
            if not number:
                before = processor_s(pid)
            for at, (name, connection) in enumerate(sides.items()):
                spent = answer_s(connection, request(number, tools, ports[at], stream=False))
                if number >= 0:
                    found[name].append(spent)
        busy = (processor_s(pid) - before) / requests
        for number in range(streams):
            for at, (name, connection) in enumerate(sides.items()):
                firsts[name].append(first_part_s(connection, request(number, tools, ports[at], stream=True)))
                time.sleep(_PAUSE_S)  # as long as the other side's stream takes
                paused[name].append(answer_s(connection, request(number, tools, ports[at], stream=False)))
    size = len(request(0, tools, ports[0], stream=False))
    print(f"{tools} tools, {size:,} bytes; processor time of the drop-in {busy * 1e3:.2f} ms a request")
    for title, measured in (
        ("answer", found),
        ("answer after a pause", paused),
        ("first part of a stream", firsts),
    ):
        for name, seconds in measured.items():
            at = sorted(seconds)
            print(
                f"{title:24} {name:8} p50 {statistics.median(at) * 1e3:6.2f} ms   "
                f"p99 {at[int(0.99 * (len(at) - 1))] * 1e3:6.2f} ms"
            )
        added = statistics.median(measured["drop-in"]) - statistics.median(measured["direct"])
        print(f"{title:24} added at p50: {added * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
