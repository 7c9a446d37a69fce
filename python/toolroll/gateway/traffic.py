"""Limits what one MCP server may send: floods of notifications, endless lines, broken lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from toolroll.gateway.bounded_lines import TOO_LONG, is_too_long
from toolroll.gateway.mcp_versions import tool_problem

BURST = 1_000  # notifications that a server may send at once
PER_SECOND = 200  # that it may send all the time
MOST_BAD = 1_000  # lines that are no messages, before the connection is ended
_MOST_TOLD = 20  # broken tools that are named


class Flood(Exception):
    """A server sends so much that is no message that it gets no more attention."""


class Traffic:
    """What a server has sent over one connection.

    Attributes:
        dropped: notifications that were more than the limit.
        bad: lines that are no messages.
        broken: tools that were taken out of lists: name → why.
        flood: why nothing more is read; None while it is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = self.bad = 0
        self.broken: dict[str, str] = {}
        self.flood: Flood | None = None
        self._clock, self._at, self._left = clock, clock(), float(BURST)

    def admits(self, item: Any) -> bool:
        """Whether the session gets this item. Takes broken tools out of a list.

        Raises:
            Flood: too many of the server's lines are no messages, or one is too long.
        """
        if isinstance(item, Exception):
            if is_too_long(item):
                raise Flood(TOO_LONG)
            self.bad += 1
            if self.bad > MOST_BAD:
                raise Flood(f"{self.bad:,} lines of its output are no messages")
            return False
        message = getattr(item.message, "root", item.message)  # version 1 wraps it
        result = getattr(message, "result", None)
        if isinstance(result, dict):
            if isinstance(result.get("tools"), list):
                result["tools"] = self._sound(result["tools"])
        elif _is_notification(message) and not self._may_notify():
            self.dropped += 1
            return False
        return True

    def _may_notify(self) -> bool:
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

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


def _is_notification(message: Any) -> bool:
    return getattr(message, "method", None) is not None and getattr(message, "id", None) is None


class LimitedStream:
    """The stream that a session reads: a transport's, without the items that `Traffic` does not admit.

    The session's own task reads and checks. A task in between would cost a tenth of each call.
    """

    def __init__(self, source: Any, traffic: Traffic, on_end: Callable[[], None]) -> None:
        """on_end: is called before the session learns that nothing more comes."""
        self._source, self._traffic, self._on_end = source, traffic, on_end

    async def receive(self) -> Any:
        """The next item. Raises EndOfStream after the last one, as streams of anyio do."""
        try:
            while not self._traffic.admits(item := await self._source.receive()):
                pass
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
