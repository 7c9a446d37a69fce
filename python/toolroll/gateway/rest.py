"""`GET /tools/list` and `POST /tools/call`: tools for programs that do not speak MCP."""

from __future__ import annotations

import math
import secrets
from typing import Any

from mcp import MCPError
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from toolroll.formats.strict_json import decode, parse
from toolroll.gateway.mcp_server import McpServer
from toolroll.gateway.protocol import INVALID_PARAMS
from toolroll.gateway.server_side import Incoming
from toolroll.model.errors import InvalidDefinition

_CONVERSATION = "mcp-session-id"


class RestEndpoint:
    """An ASGI application that answers one method of MCP as a plain request.

    The result is the one of MCP. The header `Mcp-Session-Id` names a conversation, and `?page=` a page. A
    request without the header begins a conversation, and the answer names it.
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
    """The result, or why it is no JSON: servers may send numbers and strings that JSON does not have."""
    try:
        return JSONResponse(result, headers={_CONVERSATION: conversation})
    except RecursionError:
        return _problem(502, f"{what} is nested too deeply")
    except ValueError:
        return _problem(502, f"{what} cannot be written as JSON: {_fault_in(result)}")


def _fault_in(value: Any, place: str = "it") -> str | None:
    """The first value below this one that JSON does not have, with its place; None if there is none."""
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
    """How a list's element is called: by its name, such as a tool's, or by its place."""
    name = value.get("name") if isinstance(value, dict) else None
    return f"{name:.80}" if isinstance(name, str) and name.isprintable() else str(at)


def _problem(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)
