"""A TCP proxy in front of a PostgreSQL server that does what networks do."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import sqlalchemy as sa

Fault = Literal["none", "slow", "black hole", "half-open", "refuse", "cut", "reset", "garble"]
FAULTS: tuple[Fault, ...] = ("slow", "black hole", "half-open", "refuse", "cut", "reset", "garble")
SLOW_S = 0.1  # for each piece of data
CUT_AFTER = 3_000  # bytes of a connection, on average


class Proxy:
    """Passes bytes between clients on a port of its own and the server, in a thread of its own.

    The faults, beside "none": "slow" delays each piece of data; "black hole" keeps all data, and passes it on
    afterwards; "half-open" keeps it for good, and does not pass on anything of such a connection later;
    "refuse" ends all connections and takes no new one; "cut" ends each after some bytes; "reset" does so in
    the middle of what the server answers, without a proper end; "garble" changes bytes of its answers.
    """

    def __init__(self, url: str) -> None:
        """url: of a database of the server, as SQLAlchemy writes it."""
        self._url, self._fault = sa.make_url(url), "none"
        self._draws = random.Random(7)
        self._clients: set[asyncio.StreamWriter] = set()
        self._lost: set[asyncio.StreamWriter] = set()  # connections of which nothing is passed on any more
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()
        self.connections = 0  # so far
        self.port: int = self._run(self._start)

    @property
    def url(self) -> str:
        """Of the same database, through this proxy."""
        url = self._url.set(host="127.0.0.1", port=self.port, query={})
        return url.render_as_string(hide_password=False)

    def set(self, fault: Fault) -> None:
        """From now on, until the next call."""
        self._run(lambda: self._set(fault))

    def close(self) -> None:
        self._run(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, call: Callable[[], Any]) -> Any:
        async def main() -> Any:
            found = call()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(main(), self._loop).result(30)

    async def _start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _stop(self) -> None:
        self._server.close()
        for client in list(self._clients):
            client.transport.abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _set(self, fault: Fault) -> None:
        self._fault = fault
        self._changed.set()
        self._changed = asyncio.Event()
        if fault == "half-open":
            self._lost |= self._clients
        if fault in ("refuse", "reset"):
            for client in list(self._clients):
                self._end(client)

    async def _upstream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = self._url.query.get("host", self._url.host)
        port = self._url.port or self._url.query.get("port") or 5432
        if str(host).startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(str(host), int(str(port)))

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._fault in ("refuse", "reset"):
            self._end(client)
            return
        self._clients.add(client)
        if self._fault == "half-open":
            self._lost.add(client)
        server: asyncio.StreamWriter | None = None
        try:
            answers, server = await self._upstream()
            done, rest = await asyncio.wait(
                [
                    asyncio.ensure_future(self._pump(reader, server, client, is_answer=False)),
                    asyncio.ensure_future(self._pump(answers, client, client, is_answer=True)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in rest:
                task.cancel()
            await asyncio.gather(*done, *rest, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (client, server):
                if end is not None:
                    end.transport.abort()
            self._clients.discard(client)
            self._lost.discard(client)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
        *,
        is_answer: bool,
    ) -> None:
        left = self._draws.randrange(1, 2 * CUT_AFTER)
        while data := await source.read(65_536):
            if self._fault == "slow":
                await asyncio.sleep(SLOW_S)
            while self._fault == "black hole" or client in self._lost:
                await self._changed.wait()
            if self._fault == "garble" and is_answer:
                at = self._draws.randrange(len(data))
                data = data[:at] + bytes(byte ^ 0x5A for byte in data[at : at + 4]) + data[at + 4 :]
            if self._fault == "cut":
                data, left = data[:left], left - len(data)
            with suppress(ConnectionError):
                sink.write(data)
                await sink.drain()
            if self._fault == "cut" and left <= 0:
                return

    def _end(self, client: asyncio.StreamWriter) -> None:
        """Ends a connection: with an RST for "reset"."""
        if self._fault == "reset":
            connection = client.get_extra_info("socket")
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.transport.abort()
