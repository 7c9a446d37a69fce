"""`Proxy`: an ASGI application that passes requests on, with fewer tools, and answers as they come.

Nothing of a request is stored or logged. Paths, queries and headers may hold the caller's key, so no log line
has them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from contextvars import ContextVar

import anyio
import anyio.to_thread
import httpx
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from toolroll.adapters.provider_requests import (
    HEADER,
    OutgoingRequest,
    RequestForm,
    RequestHeaders,
    RequestSelector,
    form_of,
)
from toolroll.adapters.provider_requests.forms import error_body
from toolroll.model.context import Context
from toolroll.model.errors import ToolrollError
from toolroll.server.callers import Caller
from toolroll.server.drop_in.upstream import Connections, Upstream, headers_for_client, headers_for_upstream
from toolroll.server.large_requests import LARGE_BYTES, owner_of
from toolroll.server.metering import in_thread
from toolroll.server.problems import STATUSES

is_cut: ContextVar[bool] = ContextVar("is_cut", default=False)  # of the request in this task


def log_only_other_faults() -> None:
    """Keeps uvicorn's lines about cut answers out of the log. May be called again.

    ASGI has no message for an answer that ends early because the provider's does. The application returns, so
    uvicorn closes the connection and logs an error. `Proxy` logs each cut itself.
    """
    logging.getLogger("uvicorn.error").addFilter(_is_of_another_fault)


def _is_of_another_fault(record: logging.LogRecord) -> bool:
    return not (is_cut.get() and record.getMessage() == "ASGI callable returned without completing response.")


_log = logging.getLogger(__name__)

# Errors of a connection that was open.
_DROPPED = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
_STATUSES = range(200, 600)  # of an answer, that a server can pass on
PASSED_ON = "/{path}"  # the route, in logs and metrics, of requests that have no tools to select from


class Proxy:
    """Passes requests on to one provider. For requests that the gate has let in."""

    def __init__(self, upstream: Upstream, selector: RequestSelector, connections: Connections) -> None:
        """connections: to the provider; their owner closes them."""
        self._upstream, self._selector, self._connections = upstream, selector, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        form = form_of(scope["method"], scope["path"])
        scope["route"] = PASSED_ON if form is None else form.route
        exchange = _Exchange(form, receive, send)
        content: bytes | AsyncIterator[bytes] | None
        try:
            caller: Caller = scope["state"]["caller"]
            caller.require("select")
            if form is None and not _has_body(scope):
                changed, content = OutgoingRequest(b""), None
                exchange.has_no_body()
            else:
                own, context = _headers_and_context(scope, caller)
                if not _is_empty(scope):
                    path = _raw_path(scope).split(b"?")[0].decode("latin-1")
                    self._selector.check_path(form, path, own, context)
                if form is None:
                    changed, content = OutgoingRequest(b""), exchange.parts()
                else:
                    body = await exchange.body()
                    changed = await self._select(scope, form, body, own, context)
                    content = changed.body
        except _Disconnected:
            return
        except HTTPException as error:
            await exchange.refuse(error.status_code, str(error.detail))
            return
        except ToolrollError as error:
            status = next((found for kind, (found, _) in STATUSES.items() if isinstance(error, kind)), 500)
            wait_s = getattr(error, "retry_after_s", None)
            retry_after = (
                [] if wait_s is None else [(b"retry-after", str(max(1, math.ceil(wait_s))).encode())]
            )
            # 422 is of no provider
            await exchange.refuse(400 if status == 422 else status, str(error), retry_after)
            return
        is_changed = form is not None and changed.body is not body
        headers = headers_for_upstream(scope["headers"], is_changed=is_changed)
        try:
            url = self._upstream.url(_raw_path(scope), scope["query_string"])
            request = httpx.Request(scope["method"], url, headers=headers, content=content)
        except (httpx.InvalidURL, ValueError):
            await exchange.refuse(400, "the path cannot be passed on")
            return
        added = [] if changed.report is None else [(HEADER.encode(), str(changed.report).encode())]
        async with anyio.create_task_group() as group:

            async def end_with_client() -> None:
                await exchange.disconnected()
                group.cancel_scope.cancel()

            group.start_soon(end_with_client)
            await self._forward(exchange, request, added)
            group.cancel_scope.cancel()

    async def _select(
        self, scope: Scope, form: RequestForm, body: bytes, own: RequestHeaders, context: Context
    ) -> OutgoingRequest:
        caller: Caller = scope["state"]["caller"]
        may_report, reporter = "report" in caller.roles, caller.reporter_of(None)
        if len(body) <= LARGE_BYTES:
            return await self._selector.aselect(
                body, form, own, context, may_report=may_report, reporter=reporter
            )
        select = in_thread(self._selector.select)
        async with scope["state"]["large"].turn(owner_of(scope)):
            return await anyio.to_thread.run_sync(
                lambda: select(body, form, own, context, may_report=may_report, reporter=reporter)
            )

    async def _forward(
        self, exchange: _Exchange, request: httpx.Request, added: list[tuple[bytes, bytes]]
    ) -> None:
        """Sends the request, and passes the answer on as it comes."""
        try:
            response = await self._connections.send(request)
        except _Disconnected:
            return
        except HTTPException as error:  # a body that is passed on as it comes has become too long
            await exchange.refuse(error.status_code, str(error.detail))
            return
        except httpx.TimeoutException:
            await exchange.refuse(504, f"the provider ({request.url.host}) did not answer in time", added)
            return
        except (httpx.HTTPError, httpx.StreamError) as error:
            fault = "dropped the connection" if isinstance(error, _DROPPED) else "cannot be reached"
            _log.warning("the provider %s: %s", fault, type(error).__name__)
            await exchange.refuse(502, f"the provider ({request.url.host}) {fault}", added)
            return
        if response.status_code not in _STATUSES:
            await response.aclose()
            detail = f"the provider ({request.url.host}) answered with the HTTP status {response.status_code}"
            await exchange.refuse(502, detail, added)
            return
        try:
            await exchange.begin(response.status_code, [*headers_for_client(response.headers.raw), *added])
            async for part in response.aiter_raw():
                await exchange.pass_on(part)
        except (httpx.HTTPError, httpx.StreamError) as error:
            # The server closes the connection of an answer without an end, so the client sees the cut.
            is_cut.set(True)
            _log.warning("the answer of the provider was cut: %s", type(error).__name__)
        else:
            await exchange.end()
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()


class _Disconnected(Exception):
    """The client is gone."""


class _Exchange:
    """A request and its answer, as ASGI has them."""

    def __init__(self, form: RequestForm | None, receive: Receive, send: Send) -> None:
        self._form, self._receive, self._send = form, receive, send
        self._is_read = anyio.Event()

    async def parts(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        has_more = not self._is_read.is_set()
        while has_more:
            message = await self._next()
            has_more = message.get("more_body", False)
            if not has_more:
                self._is_read.set()
            yield message.get("body", b"")

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([part async for part in self.parts()])

    def has_no_body(self) -> None:
        """Marks the request as read: it has no body."""
        self._is_read.set()

    async def disconnected(self) -> None:
        """Waits until the client is gone."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def pass_on(self, part: bytes) -> None:
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self, part: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": part, "more_body": False})

    async def refuse(self, status: int, message: str, added: list[tuple[bytes, bytes]] | None = None) -> None:
        """Answers with an error in the provider's form."""
        content = error_body(self._form, status, message)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await self.begin(status, [*headers, *(added or [])])
        await self.end(content)

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._is_read.set()
            raise _Disconnected
        return message


def _headers_and_context(scope: Scope, caller: Caller) -> tuple[RequestHeaders, Context]:
    """Reads our headers and the context. Raises Denied if the caller may not act for its organisation."""
    headers = RequestHeaders.of(scope["headers"])
    org = headers.context.get("org", "")
    return headers, headers.of_org(caller.org_of(org if isinstance(org, str) else ""))


def _raw_path(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path


def _is_empty(scope: Scope) -> bool:
    return not any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
