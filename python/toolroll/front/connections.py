"""`Front`: the connections of one process. Each may send limited bytes in a limited time.

uvicorn's faster parser takes headers of any length, and waits for a request and its body for as long as a
client likes. `Connection` counts bytes before they are kept. `Front` looks at all connections each second,
and closes the ones whose time has run out.

If there are too many connections, one that has sent only a part of a request makes room, the oldest first.
So a client with many open connections does not lock others out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Literal

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from toolroll.front.limits import FrontLimits

_LOOK_S = 1.0
_MOST_HEADERS = 128
_MOST_PIPELINED = 16  # requests before the answer to an earlier one; real clients send none
_UNREAD = 32 * 2**20  # bytes of answers, of all connections, that wait for clients to read them
_SLICE = 8 * 1_024  # bytes that are parsed before anything is counted
_SHORT_PARTS, _PART_BYTES = 1_000, 32  # parts of a body, above which they have this length on average
_FRAMES = 64 * 1_024  # bytes of a body beside its content: sizes of chunks, and trailers

# The part of a request that a client sends. "header": also before its first byte. "between": one request is
# complete, and the next has not begun.
_Phase = Literal["header", "body", "between"]
_OF_BODIES = frozenset({b"content-length", b"transfer-encoding"})
_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    413: b"Content Too Large",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Front:
    """The connections of one process. For one event loop."""

    def __init__(self, limits: FrontLimits) -> None:
        """Begins without connections."""
        self.limits = limits
        self._by_address: dict[str, dict[Connection, None]] = {}  # in the order in which they came
        self._n = 0
        self._is_looking = False

    def connection(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Connection:
        """Makes a connection, in place of uvicorn's `http`."""
        return Connection(self, config, server_state, app_state, _loop)

    def add(self, connection: Connection, address: str) -> bool:
        """Adds a connection, and closes another one if there are too many. Returns whether there was room."""
        own, free = self._by_address.get(address, {}), self.limits.connections - self._n
        if free <= 0:
            has_room = self._make_room(max(self._by_address.values(), key=len))
        elif len(own) >= free and not self.limits.is_proxy(address):
            has_room = self._make_room(own)
        else:
            has_room = True
        if not has_room:
            return False
        self._by_address.setdefault(address, {})[connection] = None
        self._n += 1
        if not self._is_looking:
            self._is_looking = True
            loop = asyncio.get_running_loop()
            loop.call_later(_LOOK_S, self._look, loop, time.monotonic())
        return True

    def remove(self, connection: Connection, address: str) -> None:
        """Forgets a connection."""
        of_address = self._by_address.get(address)
        if of_address is None or connection not in of_address:
            return
        del of_address[connection]
        self._n -= 1
        if not of_address:
            del self._by_address[address]

    def _make_room(self, among: dict[Connection, None]) -> bool:
        """Closes one of the connections that wait for their clients."""
        waiting = [one for one in among if one.is_waiting]
        # A part of a header costs its client nothing. A part of a body may be an honest upload.
        victim = next((one for one in waiting if one.phase == "header"), waiting[0] if waiting else None)
        if victim is None:
            return False
        victim.drop()
        return True

    def _look(self, loop: asyncio.AbstractEventLoop, before: float) -> None:
        now = time.monotonic()
        for connection in list(self._all()):
            connection.wait(now - before)
        self._drop_unread()
        self._is_looking = self._n > 0
        if self._is_looking:
            loop.call_later(_LOOK_S, self._look, loop, now)

    def _drop_unread(self) -> None:
        """Closes the connections of the slowest readers, until few bytes of answers are unread."""
        unread = sum([one.unread for one in self._all()])
        if unread <= _UNREAD:
            return
        for connection in sorted(self._all(), key=lambda one: one.unread_s, reverse=True):
            if unread <= _UNREAD:
                return
            if connection.unread:
                unread -= connection.unread
                connection.drop()

    def _all(self) -> Iterator[Connection]:
        for connections in self._by_address.values():
            yield from connections


class Connection(HttpToolsProtocol):
    """One connection, whose client sends requests.

    Attributes:
        phase: the part of a request that it sends.
        unread: bytes of answers that the client has not read.
        unread_s: seconds since the client last read some of them.
    """

    def __init__(
        self,
        front: Front,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._front, self._limits = front, front.limits
        self._address = ""
        self._is_refused = False
        self.phase: _Phase = "header"
        self._step = 0  # counts phases
        self._bytes = 0  # that came in this phase
        self._parts = self._content = 0  # of a body, and their bytes
        self._patience_s = self._limits.patience_s
        self.unread, self.unread_s = 0, 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for the client: it answers none of the client's requests."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return not is_answering or (self.phase == "body" and not self.flow.read_paused)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the connection, or refuses it."""
        super().connection_made(transport)
        self._address = "" if self.client is None else self.client[0]
        if not self._front.add(self, self._address):
            self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._front.remove(self, self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts the bytes, and refuses a request that is too long."""
        if self._is_refused:
            return
        if self.phase == "between":
            self._begin("header")
        # The parser keeps all header bytes that it gets at once.
        while len(data) > _SLICE and self.phase != "body" and not self._is_refused:
            self._feed(data[:_SLICE])
            data = data[_SLICE:]
        if not self._is_refused:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        step = self._step
        super().data_received(data)
        if self._is_refused:
            return
        if len(self.pipeline) > _MOST_PIPELINED:
            self._refuse(400)
        elif self._step == step:
            self._bytes += len(data)
            if self.phase == "header":
                if self._bytes > self._limits.header_bytes:
                    self._refuse(431)
            else:
                limits = self._limits
                earned_s = len(data) / limits.slowest_bytes_s
                self._patience_s = min(limits.patience_s, self._patience_s + earned_s)
                if self._bytes > 2 * limits.body_bytes + _FRAMES:
                    self._refuse(413)

    def wait(self, seconds: float) -> None:
        """Counts time; closes the connection when the client's time has run out."""
        unread = self.transport.get_write_buffer_size()
        if unread and unread >= self.unread:
            self.unread_s += seconds
            if self.unread_s > self._limits.answer_s:
                self.drop()
        else:
            self.unread_s = 0.0
        self.unread = unread
        if self.phase != "between" and self.is_waiting:
            self._patience_s -= seconds
            if self._patience_s < 0:
                self._refuse(408)

    def drop(self) -> None:
        """Closes the connection at once."""
        self._is_refused = True
        self._front.remove(self, self._address)
        self.transport.abort()

    # What the parser found.

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._is_refused:
            return
        if self.phase != "header":  # else its time runs already
            self._begin("header")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request is to be answered."""
        if not self._is_refused and len(self.headers) > _MOST_HEADERS:
            self._refuse(431)
        if self.parser.should_upgrade() and any(name in _OF_BODIES for name, _ in self.headers):
            self._refuse(400)  # the parser would take the body for the next request
        if self._is_refused:
            return
        self._begin("body")
        super().on_headers_complete()
        self.headers = _Trailers()

    def on_body(self, body: bytes) -> None:
        """A part of a body. Each costs some microseconds, however short it is."""
        if self._is_refused:
            return
        self._parts += 1
        self._content += len(body)
        if self._parts > _SHORT_PARTS and self._parts * _PART_BYTES > self._content:
            self._refuse(400)
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete."""
        if not self._is_refused:
            self._begin("between")
            super().on_message_complete()

    # Underneath.

    def _begin(self, phase: _Phase) -> None:
        self.phase = phase
        self._step += 1
        self._bytes = self._parts = self._content = 0
        self._patience_s = self._limits.patience_s

    def _refuse(self, status: int) -> None:
        """Answers with a status and closes the connection. Discards all further bytes."""
        if self._is_refused:
            return
        if self.transport.get_write_buffer_size():  # it would wait for a client that does not read
            self.drop()
            return
        self._is_refused = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            reason = _REASONS[status]
            self.transport.write(
                b"HTTP/1.1 %d %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % (status, reason)
            )
        if cycle is not None and not cycle.response_complete:  # discards its further answers
            cycle.disconnected = True
            cycle.message_event.set()
        self.headers, self.url = [], b""
        self.transport.close()  # it counts until its last bytes are gone


class _Trailers(list[tuple[bytes, bytes]]):
    """Discards headers behind a body."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Discards the header."""
