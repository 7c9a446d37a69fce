"""An HTTP server on loopback, real down to its sockets, that a test can end while clients are connected."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, TypeVar

Server = TypeVar("Server", bound="LoopbackServer")


class LoopbackServer:
    """Attributes: port, requests (each body, with the path and headers it came with), closing."""

    def __init__(self, handler: type[LoopbackHandler], port: int = 0) -> None:
        """Serves at once, in a thread. port: 0 for a free one."""
        self.requests: list[dict[str, Any]] = []
        self.closing = Event()
        self.connections: set[socket.socket] = set()
        of_this = type(handler.__name__, (handler,), {"of": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", port), of_this)
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self._thread = Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        for connection in list(self.connections):  # else those that are kept alive go on being served
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def closed_at_the_end(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.close()


class LoopbackHandler(BaseHTTPRequestHandler):
    """Attributes: of (the server, which knows the connection)."""

    of: Any
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.of.connections.add(self.connection)

    def finish(self) -> None:
        self.of.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def send(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass
