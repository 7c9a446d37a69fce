"""The gateway's server side: clients' requests, and a low-level server that answers them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import anyio
import anyio.to_thread
import mcp.types as types
from mcp import MCPError
from mcp.server import subscriptions
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import ServerMessageMetadata

from toolroll.gateway.protocol import INTERNAL_ERROR, Json, RawMessage, RawResult, Streams
from toolroll.gateway.server_output import LineDecoder

IDLE_S = 1_800.0  # after which a session over HTTP without any request or stream has ended
_MOST_LISTENERS = 1_024  # requests `subscriptions/listen` at the same time
_AT_ONCE = 65_536  # bytes of standard input
_LIST_CHANGED = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
_CHANGES = {
    "tools": subscriptions.ToolsListChanged,
    "prompts": subscriptions.PromptsListChanged,
    "resources": subscriptions.ResourcesListChanged,
}
# The protocol 2026-07-28 needs these fields; the package takes them out for older clients.
_COMPLETE = {"resultType": "complete"}
_PRIVATE = {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"}
# Method → the model of its parameters, and additions to its results.
_METHODS: Mapping[str, tuple[Any, Json]] = {
    "tools/list": (types.PaginatedRequestParams, _PRIVATE),
    "tools/call": (types.CallToolRequestParams, _COMPLETE),
    "prompts/list": (types.PaginatedRequestParams, _PRIVATE),
    "prompts/get": (types.GetPromptRequestParams, _COMPLETE),
    "resources/list": (types.PaginatedRequestParams, _PRIVATE),
    "resources/templates/list": (types.PaginatedRequestParams, _PRIVATE),
    "resources/read": (types.ReadResourceRequestParams, _PRIVATE),
    "resources/subscribe": (types.SubscribeRequestParams, _COMPLETE),
    "resources/unsubscribe": (types.UnsubscribeRequestParams, _COMPLETE),
    "completion/complete": (types.CompleteRequestParams, _COMPLETE),
}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request of a client.

    Attributes:
        method, params: as JSON.
        headers, path: of its HTTP request; empty over stdio.
        client: the client's own name; "" if it is unknown.
        request_id: the client's number of the request.
        session_id: names its connection; "" if the protocol has no sessions.
        token: the caller's token; None without sign-in.
    """

    method: str
    params: Json
    headers: Mapping[str, str]
    path: str
    client: str
    request_id: Any
    session_id: str
    token: Any = field(repr=False, default=None)
    _session: Any = field(repr=False, default=None)

    @property
    def capabilities(self) -> Json:
        """The capabilities that the client declares."""
        found = None if self._session is None else self._session.client_capabilities
        return {} if found is None else dict(found.model_dump(by_alias=True, exclude_none=True))

    @property
    def can_ask(self) -> bool:
        """Whether the client can be sent requests while it waits for this one."""
        return self._session is not None and bool(self._session.can_send_request)

    @property
    def has_connection(self) -> bool:
        """Whether the client can get notifications outside a request.

        Clients of the protocol 2026-07-28 cannot: they listen with a request of their own.
        """
        return self.can_ask and bool(self.session_id or not self.headers)

    def on_end(self, function: Callable[[], object]) -> None:
        """Registers a function to call when the client's connection ends, also after a long idle time."""
        ends = getattr(getattr(self._session, "_connection", None), "exit_stack", None)
        if ends is not None:
            ends.callback(function)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Json:
        """Sends the client a request within this one, and waits for the result."""
        metadata = ServerMessageMetadata(related_request_id=self.request_id)
        found: Json = await self._session.send_request(
            RawMessage(method, params), RawResult, metadata=metadata
        )
        return found

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Sends the progress of this request, if the client asked for it."""
        if (self.params.get("_meta") or {}).get("progressToken") is not None:
            await self._session.report_progress(progress, total, message)

    async def notify_later(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends the client a notification outside any request. Clients of plain requests get none."""
        if self._session is not None:
            await self._session.send_notification(RawMessage(method, params))


class SharedResult(dict[str, Any]):
    """A result that is sent many times. Nobody may change it.

    Attributes:
        forms: version of the protocol → the result for its clients. Checking and copying a long list takes
            the package longer than everything else, so it happens once for each version.
    """

    def __init__(self, result: Json) -> None:
        super().__init__(result)
        self.forms: dict[str, Json] = {}

    def form(self, method: str, version: str) -> Json:
        """Returns the result for clients of this version."""
        if version not in self.forms:
            result = {**_METHODS[method][1], **self}
            self.forms[version] = types.methods.serialize_server_result(method, version, result)
        return self.forms[version]


RequestFunction = Callable[[Incoming], Awaitable[Json]]
# Subscribes a client to resources for as long as the context is open: the request, their URIs, and the
# function that gets the URI of each changed resource.
Subscribe = Callable[
    [Incoming, Sequence[str], Callable[[str], Awaitable[None]]], AbstractAsyncContextManager[None]
]


class _Server(Server):  # type: ignore[misc]
    """A server that declares that its lists change, over HTTP too."""

    def create_initialization_options(
        self, notification_options: Any = None, *arguments: Any, **named: Any
    ) -> InitializationOptions:
        return super().create_initialization_options(
            notification_options or _LIST_CHANGED, *arguments, **named
        )


class ServerSide:
    """A low-level server whose requests are answered by functions, one for each method."""

    def __init__(
        self,
        name: str,
        own_version: str,
        instructions: str,
        answers: Mapping[str, RequestFunction],
        subscribed: Subscribe | None = None,
    ) -> None:
        """subscribed: subscribes clients of the protocol 2026-07-28 to resources."""
        self._server = _Server(name, version=own_version, instructions=instructions)
        self._buses: list[Any] = []  # of the clients that listen
        self._subscribed = subscribed or _unsubscribed
        for method, answer in answers.items():
            self._add(method, answer)
        self._server.add_request_handler(
            "subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen
        )

    async def run_stdio(self) -> None:
        """Serves one client over standard input and output, until it leaves."""
        lines = cast("anyio.AsyncFile[str]", StandardInput())
        async with stdio_server(lines) as streams:
            await self.run(streams)

    async def run(self, streams: Streams) -> None:
        """Serves one client over streams, until it leaves."""
        await self._server.run(streams[0], streams[1], self._server.create_initialization_options())

    def http(self, security: TransportSecuritySettings) -> StreamableHTTPSessionManager:
        """Serves clients over streamable HTTP. security: the allowed hosts and origins."""
        return StreamableHTTPSessionManager(
            app=self._server, security_settings=security, session_idle_timeout=IDLE_S
        )

    async def publish(self, kind: str) -> None:
        """Tells clients of the protocol 2026-07-28 that a list changed: "tools", "prompts" or "resources"."""
        for bus in list(self._buses):
            await bus.publish(_CHANGES[kind]())

    async def _listen(self, context: Any, params: Any) -> Any:
        """Serves a request that stays open and gets the changes that the client wants to know.

        Each has its own bus, since policy decides which clients may know of a resource.
        """
        if len(self._buses) >= _MOST_LISTENERS:
            raise MCPError(INTERNAL_ERROR, f"{_MOST_LISTENERS:,} clients listen already")
        bus = subscriptions.InMemorySubscriptionBus()

        async def updated(uri: str) -> None:
            await bus.publish(subscriptions.ResourceUpdated(uri=uri))

        incoming = _incoming(context, "subscriptions/listen")
        self._buses.append(bus)
        try:
            async with self._subscribed(incoming, params.notifications.resource_subscriptions or (), updated):
                return await subscriptions.ListenHandler(bus)(context, params)
        finally:
            self._buses.remove(bus)

    def _add(self, method: str, answer: RequestFunction) -> None:
        params_type, envelope = _METHODS[method]

        async def on_request(context: Any, params: Any) -> Json:
            return {**envelope, **await answer(_incoming(context, method))}

        self._server.add_request_handler(method, params_type, on_request)
        if method == "tools/list":
            self._add_straight(method, answer)

    def _add_straight(self, method: str, answer: RequestFunction) -> None:
        """Answers a method under a second name, under which the package does not check results."""
        straight = f"toolroll/{method}"

        async def on_request(context: Any, params: Any) -> Json:
            found = await answer(_incoming(context, method))
            prepared = found if isinstance(found, SharedResult) else SharedResult(found)
            return prepared.form(method, context.protocol_version)

        async def rename(context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
            return await call_next(replace(context, method=straight) if context.method == method else context)

        self._server.add_request_handler(straight, _METHODS[method][0], on_request)
        self._server.middleware.append(rename)


@asynccontextmanager
async def _unsubscribed(
    incoming: Incoming, uris: Sequence[str], updated: Callable[[str], Awaitable[None]]
) -> AsyncIterator[None]:
    yield


def _incoming(context: Any, method: str) -> Incoming:
    session, request = context.session, context.request
    headers = {} if request is None else request.headers
    client = session.client_params
    return Incoming(
        method,
        dict(context.params or {}),
        headers,
        "" if request is None else request.url.path,
        "" if client is None else client.client_info.name,
        context.request_id,
        headers.get("mcp-session-id", ""),
        None if request is None else getattr(request.scope.get("user"), "access_token", None),
        session,
    )


class StandardInput:
    """The lines that a client writes to standard input, as an asynchronous iterator.

    The package `mcp` waits for the next line even after it was cancelled, and the process cannot end.
    """

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, without their ends."""
        decoder, descriptor = LineDecoder("replace"), sys.stdin.fileno()
        while data := await _read(descriptor):
            for line in decoder.decode(data).split("\n")[:-1]:
                yield line
        if rest := decoder.decode(b"", final=True):
            yield rest


async def _read(descriptor: int) -> bytes:
    """The next bytes; empty at the end.

    A process cannot end while one of its threads reads standard input. So no thread reads it, except on
    Windows, where an event loop can wait for sockets only.
    """
    if sys.platform != "win32":
        with suppress(PermissionError):  # a file, which never makes a reader wait
            await anyio.wait_readable(descriptor)
            return os.read(descriptor, _AT_ONCE)
    return await anyio.to_thread.run_sync(os.read, descriptor, _AT_ONCE, abandon_on_cancel=True)
