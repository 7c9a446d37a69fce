"""How many sessions over HTTP are kept: nobody's are so many that others get none."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST = 2_000  # sessions, of some 40 kB
_SESSION = b"mcp-session-id"


@dataclass(slots=True)
class _Session:
    """One session.

    Attributes:
        owner: who opened it.
        scope: of the request that did.
        running: requests and streams of it that have not ended.
    """

    owner: object
    scope: Scope
    running: int = 0


class HttpSessions:
    """An ASGI application in front of the one that has the sessions.

    Where there are too many, one that nobody uses at the moment ends: of those whose owner has most, the one
    that was used longest ago. Its client opens another, as the protocol says.
    """

    def __init__(self, app: ASGIApp, most: int = MOST) -> None:
        """most: sessions that are kept; those with an open request or stream are kept in any case."""
        self._app, self._most = app, most
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # the one that was used last at the end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        session_id = _session_id(scope["headers"])
        if session_id is None:
            await self._app(scope, receive, self._noting(scope, send))
            while len(self._sessions) > self._most and (spare := self._spare()) is not None:
                await self._end(spare)
            return
        session = self._sessions.get(session_id)
        if session is None or session.owner != _owner(scope):
            await self._app(scope, receive, send)  # which refuses it
            return
        self._sessions.move_to_end(session_id)
        session.running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            session.running -= 1
            if scope["method"] == "DELETE":
                self._sessions.pop(session_id, None)

    def _noting(self, scope: Scope, send: Send) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                session_id = _session_id(message.get("headers", ()))
                if session_id is not None and message["status"] < 400:
                    self._sessions.setdefault(session_id, _Session(_owner(scope), scope))
            await send(message)

        return noted

    def _spare(self) -> str | None:
        """The session to end; None if all are in use."""
        counts = Counter(session.owner for session in self._sessions.values())
        unused = [name for name, session in self._sessions.items() if not session.running]
        return max(unused, key=lambda name: counts[self._sessions[name].owner], default=None)

    async def _end(self, session_id: str) -> None:
        """Ends a session as its own client would."""
        scope = self._sessions.pop(session_id).scope
        kept = [(name, value) for name, value in scope["headers"] if name in (b"host", b"accept")]
        headers = [*kept, (_SESSION, session_id.encode())]

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            """Nobody waits for the answer."""

        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, send)


def _session_id(headers: Any) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == _SESSION), None)


def _owner(scope: Scope) -> object:
    """Who sends a request: the bearer of its token, or its address where nobody signs in."""
    token = getattr(scope.get("user"), "access_token", None)
    if token is None:
        return (scope.get("client") or ("",))[0]
    return token.caller.org, token.caller.user
