"""Endpoints over HTTP: sessions of MCP, and plain requests for programs without MCP."""

from __future__ import annotations

import math
import secrets
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

from mcp import MCPError
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolroll.formats.strict_json import decode, parse
from toolroll.gateway.mcp_server import McpServer
from toolroll.gateway.protocol import INVALID_PARAMS
from toolroll.gateway.server_side import Incoming
from toolroll.model.errors import InvalidDefinition

MOST = 2_000  # sessions, of some 40 kB
_SESSION = b"mcp-session-id"


@dataclass(slots=True)
class _Session:
    """One session.

    Attributes:
        owner: who opened it.
        scope: the scope of the request that opened it.
        running: number of its requests and streams that have not ended.
    """

    owner: object
    scope: Scope
    running: int = 0


class HttpSessions:
    """Limits the sessions of the application behind it, so that no client can use up the sessions of others.

    If there are too many, the owner with the most sessions loses its least recently used idle one. Its client
    then opens another, as the protocol requires.
    """

    def __init__(self, app: ASGIApp, most: int = MOST) -> None:
        """most: number of sessions. A session with an open request or stream is kept in any case."""
        self._app, self._most = app, most
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # the one that was used last at the end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        session_id = _session_id(scope["headers"])
        if session_id is None:
            await self._app(scope, receive, self._session_noter(scope, send))
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

    def _session_noter(self, scope: Scope, send: Send) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                session_id = _session_id(message.get("headers", ()))
                if session_id is not None and message["status"] < 400:
                    self._sessions.setdefault(session_id, _Session(_owner(scope), scope))
            await send(message)

        return noted

    def _spare(self) -> str | None:
        """Returns the session to end; None if all are in use."""
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
            """Discards the answer."""

        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, send)


def _session_id(headers: Any) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == _SESSION), None)


def _owner(scope: Scope) -> object:
    """Returns the sender of a request: the bearer of its token, or without sign-in its address."""
    token = getattr(scope.get("user"), "access_token", None)
    if token is None:
        return (scope.get("client") or ("",))[0]
    return token.caller.org, token.caller.user


_CONVERSATION = "mcp-session-id"


class RestEndpoint:
    """Answers one method of MCP as a plain request, with the result of MCP.

    The header `Mcp-Session-Id` names a conversation, and `?page=` a page. A request without the header begins
    a conversation, and the answer names it.
    """

    def __init__(self, server: McpServer, method: str, security: TransportSecuritySettings) -> None:
        self._server, self._method = server, method
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        is_post = request.method == "POST"
        refused: Response | None = await self._security.validate_request(request, is_post=is_post)
        if refused is not None:
            return refused
        params: Any = {}
        if is_post:
            try:
                body = await request.body()
            except HTTPException as error:  # of the front: it is too long
                return _problem(error.status_code, str(error.detail))
            try:
                params = parse(decode(body, "the body"), "the body")
            except InvalidDefinition as error:
                return _problem(422, str(error))
            if not isinstance(params, dict) or not isinstance(params.get("name"), str):
                return _problem(422, 'the body must be {"name": …, "arguments": {…}}')
            if not isinstance(params.get("arguments") or {}, dict):
                return _problem(422, "arguments must be an object")
            params = {"name": params["name"], "arguments": params.get("arguments") or {}}
        conversation = request.headers.get(_CONVERSATION, "")[:200] or secrets.token_hex(16)
        incoming = Incoming(
            self._method,
            params,
            request.headers,
            f"/mcp/{request.query_params.get('page', '')}",
            "",
            None,
            conversation,
            getattr(request.scope.get("user"), "access_token", None),
        )
        try:
            result = await self._server.answer(incoming)
            return _answer_with(result, f"the server's answer to {self._method}", conversation)
        except MCPError as error:
            return _problem(422 if error.code == INVALID_PARAMS else 502, error.message)


def _answer_with(result: Any, what: str, conversation: str) -> Response:
    """Answers with the result, or with an error for NaN and lone surrogates, which servers may send."""
    try:
        return JSONResponse(result, headers={_CONVERSATION: conversation})
    except RecursionError:
        return _problem(502, f"{what} is nested too deeply")
    except ValueError:
        return _problem(502, f"{what} cannot be written as JSON: {_fault_in(result)}")


def _fault_in(value: Any, place: str = "it") -> str | None:
    """Returns the place of the first value that JSON does not allow, in words; None if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} is {value}, must be a finite number"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{place} holds a lone surrogate, must be Unicode text"
    if isinstance(value, dict):
        inner = ((f"{place}.{name}".encode("utf-8", "replace").decode(), one) for name, one in value.items())
    elif isinstance(value, (list, tuple)):
        inner = ((f"{place}.{_name_of(one, at)}", one) for at, one in enumerate(value))
    else:
        return None
    return next((found for where, one in inner if (found := _fault_in(one, where))), None)


def _name_of(value: Any, at: int) -> str:
    """Returns the name of a list's element, such as a tool, or its index."""
    name = value.get("name") if isinstance(value, dict) else None
    return f"{name:.80}" if isinstance(name, str) and name.isprintable() else str(at)


def _problem(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)
