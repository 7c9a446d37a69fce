"""The answers of a remote server, within limits: the package `mcp` reads them however long they get."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import anyio
import httpx2

from toolroll.gateway.bounded_lines import LONGEST, Meter
from toolroll.gateway.whole_lists import WholeLists

MOST_HELD = 2 * LONGEST  # bytes of all answers of a server that have begun and not ended
PLAIN = {"accept-encoding": "identity"}  # a small compressed answer may become a huge one
_LINE_END = re.compile(rb"[\r\n]")


def limit(response: Any, meter: Meter) -> None:
    """Limits what is read of a response of which nothing was read yet.

    meter: of its server.

    Raises:
        StreamError: of the package `httpx2`: the answer is compressed.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise httpx2.StreamError(f"its answer is compressed ({coding[:20]}), which nobody asked for")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    whole = _lines if kind == "text/event-stream" else _body
    response.stream = _Parts(response.stream, whole(_paced(response.stream, meter), _Begun(meter)))


class _Parts(httpx2.AsyncByteStream):
    """The parts of an answer, in place of those of its connection."""

    def __init__(self, stream: Any, parts: AsyncGenerator[bytes]) -> None:
        self._stream, self._parts = stream, parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        """Closes the connection's stream."""
        await self._parts.aclose()
        await self._stream.aclose()


class _Begun:
    """What was read of an answer, or of a line of it, that has not ended."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._begun = meter, bytearray()

    def add(self, part: bytes) -> None:
        """Adds a part.

        Raises:
            StreamError: it is too long, or all answers of its server together are.
        """
        self._begun += part
        self._meter.held += len(part)
        if len(self._begun) > LONGEST:
            raise httpx2.StreamError(f"its answer, or a line of it, has more than {LONGEST:,} bytes")
        if self._meter.held > MOST_HELD:
            raise httpx2.StreamError(f"its answers that have not ended have more than {MOST_HELD:,} bytes")

    def taken(self, end: int | None = None) -> bytes:
        """Takes what was read up to this place; by default all."""
        found = bytes(self._begun[:end])
        del self._begun[:end]
        self._meter.held -= len(found)
        return found

    @property
    def line_end(self) -> int:
        """Behind the last line that has ended; 0 for none."""
        return max(self._begun.rfind(b"\n"), self._begun.rfind(b"\r")) + 1


async def _paced(stream: Any, meter: Meter) -> AsyncIterator[bytes]:
    async for part in stream:
        yield part
        if wait_s := meter.read(len(part)):
            await anyio.sleep(wait_s)


async def _body(parts: AsyncIterator[bytes], begun: _Begun) -> AsyncGenerator[bytes]:
    try:
        async for part in parts:
            begun.add(part)
        yield WholeLists().readable(begun.taken())
    finally:
        begun.taken()


async def _lines(parts: AsyncIterator[bytes], begun: _Begun) -> AsyncGenerator[bytes]:
    """Whole lines of a stream of events."""
    lists = WholeLists()
    try:
        async for part in parts:
            begun.add(part)
            if _LINE_END.search(part):
                lines = begun.taken(begun.line_end).split(b"\n")
                yield b"\n".join(_event(line, lists) for line in lines)
        yield begun.taken()
    finally:
        begun.taken()


def _event(line: bytes, lists: WholeLists) -> bytes:
    field, separator, value = line.partition(b":")
    return field + separator + lists.readable(value) if field == b"data" else line
