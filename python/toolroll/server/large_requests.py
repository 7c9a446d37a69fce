"""`LargeRequests`: requests with long bodies take turns, so that other requests do not wait for them.

Megabytes of JSON, read in the event loop, would stop all requests meanwhile. Many threads would compete with
the event loop for the interpreter. So threads work on a few at a time, one of each owner.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from toolroll.adapters.provider_requests.json_spans import Item, array_items, object_members, read_value
from toolroll.server.callers import Caller
from toolroll.server.metering import in_thread

LARGE_BYTES = 256 * 1_024
_AT_A_TIME = 2
_SWITCH_S = 0.0001  # when a thread that works on a large request lets the event loop go on


class LargeRequests:
    """Turns of large requests in one process. For one event loop."""

    def __init__(self) -> None:
        self._all, self._n = asyncio.Semaphore(_AT_A_TIME), 0
        self._usual_switch_s = sys.getswitchinterval()
        self._owners: dict[
            str, tuple[asyncio.Lock, int]
        ] = {}  # lock, and the number of requests that hold it or wait

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Waits for the owner's turn, which lasts as long as the context."""
        lock, count = self._owners.get(owner, (None, 0))
        lock = asyncio.Lock() if lock is None else lock
        self._owners[owner] = lock, count + 1
        try:
            async with lock, self._all:
                self._n += 1
                if self._n == 1:
                    self._favour_others()
                try:
                    yield
                finally:
                    self._n -= 1
                    if not self._n:
                        gc.enable()
                        sys.setswitchinterval(self._usual_switch_s)
        finally:
            count = self._owners[owner][1] - 1
            if count:
                self._owners[owner] = lock, count
            else:
                del self._owners[owner]

    def _favour_others(self) -> None:
        """Makes the interpreter switch sooner to other requests while a thread works on a large one."""
        gc.disable()  # a million objects of JSON cause collections, which stop all threads and find nothing
        self._usual_switch_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)

    async def answered(self, request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
        """The answer of `handle`. A large request waits for its turn, and a thread reads its JSON."""
        body = await request.body()
        if len(body) <= LARGE_BYTES:
            return await handle(request)
        async with self.turn(owner_of(request.scope)):
            found: Any
            try:
                found = await anyio.to_thread.run_sync(in_thread(read_json), body)
            except (ValueError, RecursionError) as error:  # the framework words the error
                found = error.with_traceback(None)  # its frames would keep the body
            return await handle(_ReadRequest(request, body, found))


class _ReadRequest(Request):
    """A request whose body was read before. found: its JSON value, or the error of the reader."""

    def __init__(self, request: Request, body: bytes, found: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._content, self._found = body, found

    async def body(self) -> bytes:
        """The bytes."""
        return self._content

    async def json(self) -> Any:
        """The JSON value. Raises ValueError or RecursionError: the body is no JSON."""
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def owner_of(scope: Scope) -> str:
    """The owner of a request's turn: the organisation, or the credential of a caller of any organisation."""
    caller: Caller = scope["state"]["caller"]
    return caller.credential if caller.org is None else f"organisation {caller.org}"


def read_json(body: bytes) -> Any:
    """Reads JSON as `json.loads` does, in steps, so that other threads can run in between.

    Raises:
        ValueError, RecursionError: it is no JSON.
    """
    text = body.decode(json.detect_encoding(body), "surrogatepass")  # as `json.loads` does
    try:
        members, end = object_members(text, len(text) - len(text.lstrip(" \t\n\r")), _read_member)
    except ValueError:
        return json.loads(text)  # no object, or wrong: json.loads words the error
    if text[end:].strip(" \t\n\r"):
        return json.loads(text)
    return {member.name: member.item.value for member in members}


def _read_member(_: str, text: str, at: int) -> Item:
    if text[at : at + 1] != "[":
        return read_value(text, at)
    items, end = array_items(text, at)
    return Item(at, end, [item.value for item in items])
