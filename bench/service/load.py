"""A client for load over loopback: one thread, raw requests, connections that stay open.

It takes little of the processor, so that what is measured is the server.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

_END = b"\r\n\r\n"
_WAIT_S = 30.0  # for answers, once nothing more is sent


@dataclass(eq=False)
class Load:
    """What came of the requests.

    Attributes:
        seconds: from the first request to the last answer.
        statuses: answers by status.
        latencies: of answers with status 200, in seconds, ascending.
        unannounced: refusals (429, 503) that do not say when to come again.
        broken: requests whose connection ended without an answer.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    unannounced: int = 0
    broken: int = 0

    @property
    def rate(self) -> float:
        """Answers with status 200 in a second."""
        return self.statuses[200] / self.seconds

    def at(self, share: float) -> float:
        """The latency that this share of the answers does not exceed, in seconds."""
        return self.latencies[int(share * (len(self.latencies) - 1))]


class _Connection:
    """One connection, with a request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self._port), timeout=_WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._came, self._length = b"", 0

    def send(self, request: bytes, since: float) -> None:
        self.since = since
        self.socket.sendall(request)

    def receive(self) -> tuple[int, bytes] | None:
        """The status and the headers, once the whole answer is there. Raises OSError if it never will be."""
        more = self.socket.recv(1 << 18)
        if not more:
            raise ConnectionResetError("the connection was closed")
        self._came += more
        if not self._length:
            end = self._came.find(_END)
            if end < 0:
                return None
            head = self._came[:end].lower()
            at = head.index(b"content-length:") + 15
            self._length = end + len(_END) + int(head[at:].split(b"\r\n", 1)[0])
        if len(self._came) < self._length:
            return None
        head, self._came, self._length = self._came.partition(_END)[0], b"", 0
        return int(head[9:12]), head.lower()

    def reopen(self) -> None:
        self.socket.close()
        self._open()


def closed_loop(port: int, requests: Sequence[bytes], *, connections: int, seconds: float) -> Load:
    """Each connection sends a request as soon as it has the answer to the one before."""
    return _run(port, requests, connections, seconds, None)


def open_loop(port: int, requests: Sequence[bytes], *, connections: int, seconds: float, rate: float) -> Load:
    """So many requests a second, whatever the answers. A request that is late counts from when it was due."""
    return _run(port, requests, connections, seconds, rate)


def _run(port: int, requests: Sequence[bytes], connections: int, seconds: float, rate: float | None) -> Load:
    load, number = Load(), 0
    with selectors.DefaultSelector() as selector:
        free = [_Connection(port) for _ in range(connections)]
        for each in free:
            selector.register(each.socket, selectors.EVENT_READ, each)
        begun = due = time.perf_counter()
        end = begun + seconds
        try:
            while (now := time.perf_counter()) < end or len(free) < connections:
                if now > end + _WAIT_S:
                    load.broken += connections - len(free)
                    break
                while free and now < end and (rate is None or due <= now):
                    free.pop().send(requests[number % len(requests)], now if rate is None else due)
                    number += 1
                    if rate is not None:
                        due = begun + number / rate
                wait_s = end - now if rate is None or not free else due - now
                for key, _ in selector.select(min(max(wait_s, 0.0), 0.1) if now < end else 0.1):
                    _take(key.data, load, free, selector)
        finally:
            load.seconds = time.perf_counter() - begun
            for key in list(selector.get_map().values()):
                key.data.socket.close()
    load.latencies.sort()
    return load


def _take(
    connection: _Connection, load: Load, free: list[_Connection], selector: selectors.BaseSelector
) -> None:
    try:
        answer = connection.receive()
    except OSError:
        load.broken += 1
        selector.unregister(connection.socket)
        connection.reopen()
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        free.append(connection)
        return
    if answer is None:
        return
    status, head = answer
    load.statuses[status] += 1
    if status == 200:
        load.latencies.append(time.perf_counter() - connection.since)
    elif status in (429, 503):
        load.unannounced += b"\r\nretry-after:" not in head
    free.append(connection)
