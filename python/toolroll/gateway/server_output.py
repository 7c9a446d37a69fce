"""Limits the output of servers: lines over stdio, answers over HTTP, and lists with broken items.

The package `mcp` reads lines and answers of any length. It lets the caller name a codec for the output of a
process: `LineDecoder` decodes whole lines, and replaces a line that is too long by a short text. `Traffic`
recognises that text and ends the connection.

JSON parsers refuse a whole message for one value that is nested too deeply, or that has a lone surrogate, a
control character or a number of thousands of digits. In a list, `MARK` replaces such a value, and
`read_listing` omits the items with the mark.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from typing import Any

import anyio
import httpx2
from pydantic import ValidationError
from pydantic_core import from_json

from toolroll.gateway.budget import Budget

MARK = "nested too deeply, or no text or number of JSON"
DEEPEST = 100  # levels of a message
LARGEST = 10_000_000  # bytes; a longer list is refused anyway
PER_S = 100_000  # bytes that are always searched for such values; 8 MB take a second
_LISTS = re.compile(rb'"(?:tools|prompts|resources|resourceTemplates)"\s*:')
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s,:"\[\]{}]+', re.DOTALL)
_ODD = re.compile(rb"[\\\x00-\x1f\x80-\xff]")  # in a string
_MARK = json.dumps(MARK).encode()


class WholeLists:
    """Repairs lists of one server, within limits."""

    def __init__(self) -> None:
        self._budget = Budget(2 * LARGEST, PER_S)

    def readable(self, message: bytes) -> bytes:
        """Returns the message. In a list that parsers refuse, `MARK` replaces the values that they refuse."""
        if len(message) > LARGEST or not has_list(message) or _is_json(message):
            return message
        return _marked(message) if self._budget.take(len(message)) else message


def has_list(message: bytes) -> bool:
    """Whether a message may contain a list. Quick."""
    return _LISTS.search(message) is not None


def _marked(message: bytes) -> bytes:
    parts: list[bytes] = []
    at, depth, begin = 0, 0, -1  # begin: of a value that is nested too deeply
    for token in _TOKENS.finditer(message):
        kind = token[0][:1]
        if kind in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                begin = token.start()
        elif kind in b"]}":
            depth -= 1
            if depth == DEEPEST and begin >= 0:
                parts += message[at:begin], _MARK
                at, begin = token.end(), -1
        elif begin < 0 and (kind != b'"' or _ODD.search(token[0])) and not _is_json(token[0]):
            parts += message[at : token.start()], _MARK
            at = token.end()
    return b"".join((*parts, message[at:]))


def _is_json(text: bytes) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True


CODEC = "toolroll_lines"
LONGEST = 32_000_000  # bytes


class Meter:
    """Counts a server's bytes, without limits.

    Attributes:
        held: bytes of unfinished answers.
    """

    def __init__(self) -> None:
        self.held = 0

    def read(self, size: int) -> float:
        """Counts bytes of the server's output; returns the seconds to wait before more is read."""
        return 0.0


METER: ContextVar[Meter] = ContextVar("meter")  # of the server that is opened in this context
TOO_LONG = f"a line of its output has more than {LONGEST:,} bytes"


class LineDecoder(codecs.IncrementalDecoder):
    """Decodes whole lines of UTF-8, and keeps the beginning of a line until its end arrives."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._partial, self._is_skipping = bytearray(), False
        self._meter, self._lists = METER.get(Meter()), WholeLists()

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        """Returns the lines that end in the data. final: whether the last line ends here, too."""
        self._meter.read(len(data))
        if self._is_skipping:
            _, end, data = bytes(data).partition(b"\n")
            if not end:
                return ""
            self._is_skipping = False
        lines, end, rest = bytes(data).rpartition(b"\n")
        text = ""
        if end:
            lines = bytes(self._partial) + lines if self._partial else lines
            if has_list(lines):
                lines = b"\n".join(map(self._lists.readable, lines.split(b"\n")))
            text = lines.decode("utf-8", self.errors) + "\n"
            self._partial.clear()
        self._partial += rest
        if len(self._partial) > LONGEST:
            self._partial.clear()
            self._is_skipping = True
            text += f"{TOO_LONG}\n"
        if final:
            text += self._partial.decode("utf-8", self.errors)
            self._partial.clear()
        return text

    def reset(self) -> None:
        """Drops an unfinished line."""
        self._partial, self._is_skipping = bytearray(), False


def is_too_long(error: Exception) -> bool:
    """Whether the error comes from the text that replaces a line that was too long."""
    return isinstance(error, ValidationError) and any(
        each.get("input") == TOO_LONG for each in error.errors(include_url=False, include_context=False)
    )


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    return codecs.CodecInfo(
        codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=LineDecoder, name=CODEC
    )


codecs.register(_codec)


MOST_HELD = 2 * LONGEST  # bytes of all answers of a server that have begun and not ended
PLAIN = {"accept-encoding": "identity"}  # a small compressed answer may become a huge one
_LINE_END = re.compile(rb"[\r\n]")


def limit(response: Any, meter: Meter) -> None:
    """Limits a response before it is read. meter: its server's.

    Raises:
        StreamError: of the package `httpx2`: the answer is compressed.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise httpx2.StreamError(f"its answer is compressed ({coding[:20]}), which nobody asked for")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    whole = _lines if kind == "text/event-stream" else _body
    response.stream = _Parts(response.stream, whole(_paced(response.stream, meter), _PartialAnswer(meter)))


class _Parts(httpx2.AsyncByteStream):
    """The parts of an answer, each counted and limited."""

    def __init__(self, stream: Any, parts: AsyncGenerator[bytes]) -> None:
        self._stream, self._parts = stream, parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        """Closes the connection's stream."""
        await self._parts.aclose()
        await self._stream.aclose()


class _PartialAnswer:
    """The bytes of an unfinished answer, or of an unfinished line of it."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._partial = meter, bytearray()

    def add(self, part: bytes) -> None:
        """Adds a part.

        Raises:
            StreamError: it is too long, or the server's unfinished answers are too long together.
        """
        self._partial += part
        self._meter.held += len(part)
        if len(self._partial) > LONGEST:
            raise httpx2.StreamError(f"its answer, or a line of it, has more than {LONGEST:,} bytes")
        if self._meter.held > MOST_HELD:
            raise httpx2.StreamError(f"its answers that have not ended have more than {MOST_HELD:,} bytes")

    def taken(self, end: int | None = None) -> bytes:
        """Removes and returns the bytes before this place; by default all."""
        found = bytes(self._partial[:end])
        del self._partial[:end]
        self._meter.held -= len(found)
        return found

    @property
    def line_end(self) -> int:
        """The place behind the last complete line; 0 if there is none."""
        return max(self._partial.rfind(b"\n"), self._partial.rfind(b"\r")) + 1


async def _paced(stream: Any, meter: Meter) -> AsyncIterator[bytes]:
    async for part in stream:
        yield part
        if wait_s := meter.read(len(part)):
            await anyio.sleep(wait_s)


async def _body(parts: AsyncIterator[bytes], begun: _PartialAnswer) -> AsyncGenerator[bytes]:
    try:
        async for part in parts:
            begun.add(part)
        yield WholeLists().readable(begun.taken())
    finally:
        begun.taken()


async def _lines(parts: AsyncIterator[bytes], begun: _PartialAnswer) -> AsyncGenerator[bytes]:
    """Yields whole lines of a stream of events."""
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
