"""Limits what one MCP server may send: floods of notifications, lines that are no messages, broken lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from toolroll.gateway.mcp_versions import Streams, tool_problem

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
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped = self.bad = 0
        self.broken: dict[str, str] = {}
        self._clock, self._at, self._left = clock, clock(), float(BURST)

    async def pass_on(self, source: Any, target: Any) -> None:
        """Passes a server's messages on until it has no more.

        Raises:
            Flood: too many of its lines are no messages.
        """
        async with target:
            async for item in source:
                if isinstance(item, Exception):
                    self.bad += 1
                    if self.bad > MOST_BAD:
                        raise Flood(f"{self.bad:,} lines of its output are no messages")
                    continue
                message = getattr(item.message, "root", item.message)  # version 1 wraps it
                result = getattr(message, "result", None)
                if isinstance(result, dict) and isinstance(result.get("tools"), list):
                    result["tools"] = self._sound(result["tools"])
                elif _is_notification(message) and not self._may_notify():
                    self.dropped += 1
                    continue
                try:
                    await target.send(item)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # the session is over

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


def between() -> tuple[Any, Any]:
    """A stream between a connection and its session: what is sent, and what is received."""
    send, receive = anyio.create_memory_object_stream[Any](0)
    return send, receive


def with_reading(streams: Streams, receive: Any) -> Streams:
    """The streams with another one to read from."""
    return receive, streams[1]
