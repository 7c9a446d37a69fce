"""Limits the messages and bytes from one MCP server, and removes broken tools from its lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from toolroll.gateway.budget import Budget
from toolroll.gateway.protocol import tool_problem
from toolroll.gateway.server_output import TOO_LONG, Meter, is_too_long

BURST = 1_000  # unexpected messages that a server may send at once
PER_SECOND = 200  # that it may send all the time
QUESTIONS_PER_S = 20  # of them, requests that are answered all the time
PATIENCE, PATIENCE_PER_S = 10_000, 100  # more messages than that, before the connection is ended
READ, READ_PER_S = 32_000_000, 8_000_000  # bytes of its output that are read at once, and all the time
MOST_BAD = 1_000  # lines that are no messages, before the connection is ended
# Seconds in which nothing is read: for a message above the limit that is dropped, for one that is not, and
# from how many on they are worth a pause.
_DROPPED_S, _PASSED_S, _PAUSE_S = 0.001, 0.005, 0.01
_MOST_TOLD = 20  # broken tools that are named


class Flood(Exception):
    """A server sends too much, so its connection ends."""


class Traffic(Meter):
    """Counts the messages of a server over one connection.

    Answers to requests are free. Notifications, questions and unexpected answers count.

    Attributes:
        dropped: number of notifications and requests above the limit.
        bad: number of lines that are no messages.
        broken: tools removed from lists: name → the reason.
        flood: the reason to end the connection; None while it is read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.dropped = self.bad = 0
        self.broken: dict[str, str] = {}
        self.flood: Flood | None = None
        self._unasked = Budget(BURST, PER_SECOND, clock)
        self._patience = Budget(PATIENCE, PATIENCE_PER_S, clock)
        self._bytes = Budget(READ, READ_PER_S, clock)
        self._questions = Budget(BURST, QUESTIONS_PER_S, clock)
        self._awaited = 0  # answers
        self._behind_s = 0.0  # until as many bytes may be read as were read, when that was last known
        self._pause_s = 0.0  # that nothing is to be read because of messages above the limit

    def asked(self) -> None:
        """Counts a request to the server; one answer to it is then expected."""
        self._awaited += 1

    def read(self, size: int) -> float:
        """Counts bytes of the server's output; returns the seconds to wait before more is read."""
        self._behind_s = self._bytes.owe(size)
        return self._behind_s

    def pause_s(self) -> float:
        """Returns the seconds to wait before the next message is read."""
        if not self._behind_s and self._pause_s < _PAUSE_S:
            return 0.0
        pause_s, self._pause_s = self.read(0) + self._pause_s, 0.0
        return pause_s

    def admits(self, item: Any) -> bool:
        """Whether the session gets this item. Removes broken tools from a list.

        Raises:
            Flood: too many of the server's lines are no messages, one is too long, or it sends too many
                unexpected messages.
        """
        if isinstance(item, Exception):
            if is_too_long(item):
                raise Flood(TOO_LONG)
            self.bad += 1
            if self.bad > MOST_BAD:
                raise Flood(f"{self.bad:,} lines of its output are no messages")
            return False
        message = item.message
        is_answer = getattr(message, "method", None) is None
        is_question = not is_answer and getattr(message, "id", None) is not None
        if is_answer and self._awaited:
            self._awaited -= 1
        elif not self._unasked.take():
            if not self._patience.take():
                raise Flood(f"it sent more than {PATIENCE:,} messages too many that nobody asked for")
            if not is_answer and not is_question:
                return self._drop()
            self._pause_s += _PASSED_S  # somebody waits for the answer to it, or for it
        if is_question and not self._questions.take():  # its answers wait until the server reads them
            return self._drop()
        if is_answer:
            result = getattr(message, "result", None)
            if isinstance(result, dict) and isinstance(result.get("tools"), list):
                result["tools"] = self._sound(result["tools"])
        return True

    def _drop(self) -> bool:
        self.dropped += 1
        self._pause_s += _DROPPED_S
        return False

    def _sound(self, tools: list[Any]) -> list[Any]:
        sound = []
        for position, tool in enumerate(tools):
            if problem := tool_problem(tool):
                name = tool.get("name") if isinstance(tool, dict) else None
                if len(self.broken) < _MOST_TOLD:
                    self.broken[name[:80] if isinstance(name, str) else f"tools[{position}]"] = problem[:300]
            else:
                sound.append(tool)
        return sound


class LimitedStream:
    """A transport's stream for a session, with only the items that `Traffic` admits.

    The session's own task reads and checks: a task in between would cost a tenth of each call. While it
    waits, the transport reads nothing, so the server has to wait as well.
    """

    def __init__(self, source: Any, traffic: Traffic, on_end: Callable[[], None]) -> None:
        """on_end: called before the session gets the end of the stream."""
        self._source, self._traffic, self._on_end = source, traffic, on_end

    async def receive(self) -> Any:
        """Returns the next item. Raises EndOfStream after the last one, as anyio's streams do."""
        try:
            while True:
                is_admitted = self._traffic.admits(item := await self._source.receive())
                if pause_s := self._traffic.pause_s():
                    await anyio.sleep(pause_s)
                if is_admitted:
                    return item
        except Flood as error:
            self._traffic.flood = error
            self._on_end()
            raise anyio.EndOfStream from None
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise

    def close(self) -> None:
        """Closes the transport's stream."""
        self._source.close()

    async def aclose(self) -> None:
        """Closes the transport's stream."""
        await self._source.aclose()

    def __aiter__(self) -> LimitedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> LimitedStream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
