"""MCP's messages for both sides of the gateway: JSON objects, errors and the HTTP client.

The gateway passes parameters and results on as JSON objects. The models of the package `mcp` would lose
unknown fields, and take time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import httpx2
import mcp.types as types
from mcp import MCPError
from pydantic import ValidationError

from toolroll.formats.foreign_text import paragraphs

HTTP_ERRORS: tuple[type[Exception], ...] = (httpx2.HTTPError, httpx2.InvalidURL)
CONNECT_ERRORS: tuple[type[Exception], ...] = (httpx2.ConnectError, httpx2.ConnectTimeout)
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603
_HANDSHAKE = "2025-11-25"  # the last version of the protocol with a handshake
_LONGEST_MESSAGE = 8_000  # characters of a server's error
_TIMEOUT_S, _READ_S = 30.0, 300.0  # of a request; between two parts of a stream of events

Json = dict[str, Any]
Streams = tuple[Any, Any]
OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class RawMessage:
    """A request or notification as a JSON object, in place of the package's models."""

    name_param: ClassVar[None] = None

    def __init__(self, method: str, params: Mapping[str, Any] | None) -> None:
        self.method = method
        self._body: Json = {"method": method} if params is None else {"method": method, "params": {**params}}

    def model_dump(self, **_: Any) -> Json:
        """Returns the body."""
        return self._body


class RawResult:
    """Replaces a result's model if the unchanged result is needed."""

    @classmethod
    def model_validate(cls, value: Json, **_: Any) -> Json:
        """Returns the value."""
        return value


def text_result(text: str, is_error: bool = False) -> Json:
    """The result of a call that is a text."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def is_closed(error: MCPError) -> bool:
    """Whether the error says that the connection is closed. Only the package raises it, never a server."""
    return (error.code, error.message) == (types.CONNECTION_CLOSED, "Connection closed")


def visible_error(error: MCPError) -> MCPError:
    """A server's error for a model, with a bounded message of visible characters only."""
    told = paragraphs(error.message, _LONGEST_MESSAGE)
    return error if told == error.message else MCPError(error.code, told, error.data)


def host_of(error: Exception) -> str:
    """The text " at HOST:PORT" of a failed HTTP request; "" if it is unknown."""
    try:
        url = error.request.url  # type: ignore[attr-defined]
    except RuntimeError:
        return ""
    return f" at {url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"


def httpx_client(headers: Mapping[str, str] | None = None, auth: Any = None, timeout: Any = None) -> Any:
    """An HTTP client that follows no redirects. auth: signs requests."""
    timeout = timeout or httpx2.Timeout(_TIMEOUT_S, read=_READ_S)
    return httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout)


def tool_problem(tool: object) -> str:
    """Why the package refuses this tool, in one line; "" if it accepts it.

    One wrong tool makes a whole list invalid, so the gateway removes wrong tools first.
    """
    try:
        types.methods.validate_server_result("tools/list", _HANDSHAKE, {"tools": [tool]})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""
