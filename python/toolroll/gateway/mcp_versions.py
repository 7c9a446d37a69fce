"""What differs between versions 1 and 2 of the package `mcp`, and nothing else.

The rest of the gateway speaks of methods, and of parameters and results as JSON objects, which both versions
send and receive. Version 2 serves clients of the protocol 2026-07-28, too.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from inspect import signature
from typing import Any, ClassVar, NoReturn, TextIO, cast

import anyio
import mcp.client.stdio
import mcp.shared.exceptions
import mcp.types as types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._httpx_utils import create_mcp_http_client as create_mcp_http_client
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from toolroll import __version__
from toolroll.formats.foreign_text import paragraphs
from toolroll.gateway import http_answers
from toolroll.gateway.bounded_lines import CODEC, METER, Meter
from toolroll.gateway.http_answers import HTTPX
from toolroll.gateway.standard_input import StandardInput

# Each line of a server that is no message would be logged with a traceback: `Traffic` counts them instead.
logging.getLogger("mcp.client.stdio").addFilter(lambda record: "parse JSONRPC" not in record.msg)

MAJOR = int(version("mcp").split(".")[0])
ProtocolError: type[Exception] = getattr(
    mcp.shared.exceptions, "MCPError", getattr(mcp.shared.exceptions, "McpError", Exception)
)
HTTP_ERRORS: tuple[type[Exception], ...] = (HTTPX.HTTPError, HTTPX.InvalidURL)  # of its client's requests
CONNECT_ERRORS: tuple[type[Exception], ...] = (HTTPX.ConnectError, HTTPX.ConnectTimeout)
_HANDSHAKE = "2025-11-25"  # the last version of the protocol with a handshake
_LONGEST_MESSAGE = 8_000  # characters of a server's error
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603

Json = dict[str, Any]
Streams = tuple[Any, Any]
OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]
# Answers a request of a server: method and params → result. It raises ProtocolError.
OnQuestion = Callable[[str, Json], Awaitable[Json]]
OnNotification = Callable[[str, Json], Awaitable[None]]


def error_of(error: Exception) -> tuple[int, str, Any]:
    """Code, message and data of a ProtocolError."""
    found = error.error  # type: ignore[attr-defined]
    return found.code, found.message, found.data


def is_closed(error: Exception) -> bool:
    """Whether a ProtocolError says that the connection is closed. The package raises it, no server."""
    return error_of(error)[:2] == (types.CONNECTION_CLOSED, "Connection closed")


def host_of(error: Exception) -> str:
    """The text " at HOST:PORT", of a request that failed; "" where it is not known."""
    try:
        url = error.request.url  # type: ignore[attr-defined]
    except RuntimeError:
        return ""
    return f" at {url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"


def fail(code: int, message: str, data: Any = None) -> NoReturn:
    """Raises a ProtocolError: the other side gets it as the error of its request."""
    raise error(code, message, data)


def readable(given: Exception) -> Exception:
    """A server's ProtocolError for a model: its message is bounded, and all of it can be seen."""
    code, message, data = error_of(given)
    told = paragraphs(message, _LONGEST_MESSAGE)
    return given if told == message else error(code, told, data)


def error(code: int, message: str, data: Any) -> Exception:
    """A ProtocolError."""
    if MAJOR == 1:
        return ProtocolError(types.ErrorData(code=code, message=message, data=data))
    return ProtocolError(code, message, data)


# The package keeps the process that it starts to itself, and with it the exit code.
_PROCESS: ContextVar[Any] = ContextVar("process", default=None)
_EXIT_S = 0.3  # between the end of a process's output and its own
_CREATE = "_create_platform_compatible_process"


def _keep_processes(module: Any) -> None:
    """Makes the package's module leave each process that it starts in _PROCESS.

    A version without this function starts servers all the same, and nobody learns exit codes.
    """
    create = getattr(module, _CREATE, None)
    if create is None:
        return

    async def created(*arguments: Any, **named: Any) -> Any:
        process = await create(*arguments, **named)
        _PROCESS.set(process)
        return process

    setattr(module, _CREATE, created)


_keep_processes(mcp.client.stdio)


class _Message:
    """A request, notification or result as a JSON object, in place of the package's models.

    The package's models would lose fields that they do not know, and take time.
    """

    name_param: ClassVar[None] = None

    def __init__(self, body: Json) -> None:
        self._body = body
        self.method = body.get("method", "")

    def model_dump(self, **_: Any) -> Json:
        """The body."""
        return self._body


class _AnyResult:
    """Stands for a result's model where the result is wanted as it came."""

    @classmethod
    def model_validate(cls, value: Json, **_: Any) -> Json:
        """The value."""
        return value


def _message(method: str, params: Mapping[str, Any] | None) -> _Message:
    return _Message({"method": method} if params is None else {"method": method, "params": {**params}})


# The side that calls servers.


@asynccontextmanager
async def open_stdio(
    command: str,
    args: list[str],
    env: dict[str, str],
    cwd: str | None,
    errors: TextIO,
    on_exit: Callable[[int], None] | None = None,
) -> AsyncIterator[Streams]:
    """Starts a server's process with a clean environment and these variables.

    on_exit: gets the exit code of a process that ended by itself, a signal's as a negative number.
    """
    parameters = StdioServerParameters(command=command, args=args, env=env, cwd=cwd, encoding=CODEC)
    parameters.encoding_error_handler = "replace"
    source: Any = None
    try:
        async with stdio_client(parameters, errlog=errors) as streams:
            source, process = streams[0], _PROCESS.get()
            try:
                yield source, streams[1]
            finally:
                if on_exit is not None and process is not None:
                    await _exited(process, on_exit)
    except Exception as error:
        # Version 1 fails at a message that comes after the session has ended.
        if source is None or source.statistics().open_receive_streams or not _is_broken_pipe(error):
            raise


async def _exited(process: Any, on_exit: Callable[[int], None]) -> None:
    """Tells the exit code, if the process has ended or is about to: it closes its output a little earlier."""
    with anyio.move_on_after(_EXIT_S):
        while process.returncode is None:
            await anyio.sleep(0.01)
    if process.returncode is not None:
        on_exit(process.returncode)


def _is_broken_pipe(error: BaseException) -> bool:
    inner = getattr(error, "exceptions", None)
    return isinstance(error, anyio.BrokenResourceError) if inner is None else all(map(_is_broken_pipe, inner))


@asynccontextmanager
async def open_http(
    url: str, headers: dict[str, str], auth: Any = None, on_failed: Callable[[int], None] | None = None
) -> AsyncIterator[Streams]:
    """Connects by streamable HTTP.

    auth: signs requests. on_failed: gets each status from 400 on, but of the streams that a server need not
    have.
    """
    async with (
        _http_client(headers, auth, on_failed, {"POST"}) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


@asynccontextmanager
async def open_sse(
    url: str, headers: dict[str, str], auth: Any = None, on_failed: Callable[[int], None] | None = None
) -> AsyncIterator[Streams]:
    """Connects by server-sent events; the arguments are those of `open_http`."""

    def factory(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
        return _http_client(headers or {}, auth, on_failed, {"GET", "POST"}, timeout)

    async with sse_client(url, headers=headers, auth=auth, httpx_client_factory=factory) as streams:
        yield streams[0], streams[1]


def _http_client(
    headers: dict[str, str],
    auth: Any,
    on_failed: Callable[[int], None] | None,
    methods: set[str],
    timeout: Any = None,
) -> Any:
    client = http_client_with(auth, {**http_answers.PLAIN, **headers}, timeout)
    meter = METER.get(Meter())

    async def look(response: Any) -> None:
        http_answers.limit(response, meter)
        is_failed = response.status_code == 401 or (
            response.status_code >= 400 and response.request.method in methods
        )
        if is_failed and on_failed is not None:
            on_failed(response.status_code)

    client.event_hooks = {**client.event_hooks, "response": [look]}
    return client


def http_client_with(auth: Any, headers: dict[str, str] | None = None, timeout: Any = None) -> Any:
    """The package's HTTP client. auth: signs requests; None for nobody.

    In version 1 it follows redirects to any address, so there `auth` checks each of its requests.
    """
    client = create_mcp_http_client(headers=headers, timeout=timeout, auth=auth)
    if MAJOR == 1 and auth is not None:
        client.event_hooks = {"request": [auth.check]}
    return client


async def is_read_within(response: Any, limit: int) -> bool:
    """Reads a response of the HTTP client; False if it has more bytes than the limit."""
    content = b""
    async for part in response.aiter_bytes():
        content += part
        if len(content) > limit:
            return False
    response._content = content  # as its `aread` does
    return True


def not_found(request: Any) -> Any:
    """The answer to a request that is not sent."""
    return HTTPX.Response(404, content=b"", request=request)


def authorization_code(parameters: Mapping[str, str]) -> Any:
    """What an authorization server's redirect says, as the package's OAuth client wants it."""
    code, state = parameters.get("code", ""), parameters.get("state")
    if MAJOR == 1:
        return code, state
    from mcp.shared.auth import AuthorizationCodeResult

    return AuthorizationCodeResult(code=code, state=state, iss=parameters.get("iss"))


class Client:
    """A client's session over streams.

    Attributes:
        capabilities: of the server.
        instructions: of the server; "" for none.
        server: its own name and version.
    """

    def __init__(
        self,
        streams: Streams,
        on_question: OnQuestion,
        on_notification: OnNotification,
        on_request: Callable[[], object] | None = None,
    ) -> None:
        """on_request: is called before each request that is sent."""
        self.capabilities: Json = {}
        self.instructions = ""
        self.server = ""
        self._on_request = on_request
        self._on_question, self._on_notification = on_question, on_notification
        self._session = ClientSession(
            *streams,
            sampling_callback=self._sampling,
            elicitation_callback=self._elicitation,
            list_roots_callback=self._roots,
            message_handler=self._message,
            client_info=types.Implementation(name="toolroll", version=__version__),
        )

    async def __aenter__(self) -> Client:
        await self._session.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        ended: bool | None = await self._session.__aexit__(*error)
        return ended

    async def initialize(self) -> None:
        """Agrees with the server on the protocol's version and learns what it can do."""
        try:
            result = await self._session.initialize()
        except ProtocolError as error:
            if MAJOR == 1 or error_of(error)[0] != METHOD_NOT_FOUND:
                raise
            result = await self._session.discover()  # the server has no handshake any more
        found = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        self.capabilities = found.get("capabilities") or {}
        self.instructions = found.get("instructions") or ""
        info = found.get("serverInfo") or {}
        self.server = f"{info.get('name', '')} {info.get('version', '')}".strip()

    async def request(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None = None
    ) -> Json:
        """Sends a request and waits for its result. If the caller is cancelled, the server is told."""
        request = _message(method, params)
        if self._on_request is not None:
            self._on_request()
        if MAJOR > 1:
            found: Json = await self._session.send_request(request, _AnyResult, progress_callback=on_progress)
            return found
        own_id, is_done = self._session._request_id, False
        try:
            found = await self._session.send_request(request, _AnyResult, progress_callback=on_progress)
            is_done = True
            return found
        except ProtocolError:
            is_done = True
            raise
        finally:
            if not is_done:
                await self._cancel(own_id)

    async def _cancel(self, request_id: int) -> None:
        with anyio.move_on_after(1, shield=True):
            await self.notify("notifications/cancelled", {"requestId": request_id, "reason": "cancelled"})

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        await self._session.send_notification(_message(method, params))

    async def _sampling(self, _: Any, params: Any) -> Any:
        result = types.CreateMessageResult
        if getattr(params, "tools", None) and hasattr(types, "CreateMessageResultWithTools"):
            result = types.CreateMessageResultWithTools
        return await self._answer("sampling/createMessage", params, result)

    async def _elicitation(self, _: Any, params: Any) -> Any:
        return await self._answer("elicitation/create", params, types.ElicitResult)

    async def _roots(self, _: Any) -> Any:
        return await self._answer("roots/list", None, types.ListRootsResult)

    async def _answer(self, method: str, params: Any, result: Any) -> Any:
        given = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            return result.model_validate(await self._on_question(method, given))
        except ProtocolError as error:
            return error.error  # type: ignore[attr-defined]
        except ValidationError as error:
            told = f"the client's answer is no result of {method}: {error}"[:500]
            return types.ErrorData(code=INVALID_PARAMS, message=told)

    async def _message(self, message: Any) -> None:
        message = getattr(message, "root", message)  # version 1 wraps it
        method = getattr(message, "method", "")
        if not isinstance(method, str) or not method.startswith("notifications/"):
            return
        params = message.params
        await self._on_notification(
            method, {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        )


def tool_problem(tool: object) -> str:
    """Why the package refuses this tool of a list, in one line; "" if it does not.

    One wrong tool makes a whole list invalid, so wrong ones are taken out before the package sees the list.
    """
    try:
        if MAJOR > 1:
            types.methods.validate_server_result("tools/list", _HANDSHAKE, {"tools": [tool]})
        else:
            types.Tool.model_validate(tool)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


# The side that serves clients.


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request of a client.

    Attributes:
        method, params: as JSON.
        headers, path: of its HTTP request; none over stdio.
        client: the client's name for itself; "" where it does not say.
        request_id: as the client numbers it.
        session_id: of its connection; "" where the protocol has none.
        token: that the caller signed in with; None where nobody signs in.
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
        """Of the client."""
        if self._session is None:
            return {}
        if MAJOR > 1:
            found = self._session.client_capabilities
        else:
            client = self._session.client_params
            found = None if client is None else client.capabilities
        return {} if found is None else dict(found.model_dump(by_alias=True, exclude_none=True))

    @property
    def can_ask(self) -> bool:
        """Whether the client can be sent requests while it waits for this one."""
        return self._session is not None and (MAJOR == 1 or bool(self._session.can_send_request))

    @property
    def has_connection(self) -> bool:
        """Whether the client can be told something when it has no request.

        Clients of the protocol 2026-07-28 cannot: they listen with a request of their own.
        """
        return self.can_ask and bool(self.session_id or not self.headers)

    def on_end(self, function: Callable[[], object]) -> None:
        """Calls this when the client's connection has ended, also because it was idle for long."""
        if MAJOR > 1:
            ends = getattr(getattr(self._session, "_connection", None), "exit_stack", None)
        else:
            ends = getattr(self._session, "_exit_stack", None)
        if ends is not None:
            ends.callback(function)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Json:
        """Sends the client a request that belongs to this one, and waits for the result."""
        found: Json = await self._session.send_request(
            _message(method, params),
            _AnyResult,
            metadata=ServerMessageMetadata(related_request_id=self.request_id),
        )
        return found

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Sends the progress of this request, if the client wants to know it."""
        token = (self.params.get("_meta") or {}).get("progressToken")
        if token is None:
            return
        if MAJOR > 1:
            await self._session.report_progress(progress, total, message)
        else:
            await self._session.send_progress_notification(
                token, progress, total, message, related_request_id=str(self.request_id)
            )

    async def notify_later(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends the client a notification that belongs to no request. A plain request gets none."""
        if self._session is None:
            return
        await self._session.send_notification(_message(method, params))


class Prepared(dict[str, Any]):
    """A result that is sent many times. Nobody may change it.

    Attributes:
        forms: version of the protocol → what its clients are sent. The package checks and copies each result,
            which takes longer than all the rest of a long list; for this one it does so once a version.
    """

    def __init__(self, result: Json) -> None:
        super().__init__(result)
        self.forms: dict[str, Json] = {}

    def form(self, method: str, version: str) -> Json:
        """What clients of this version are sent."""
        if version not in self.forms:
            result = {**_ENVELOPES.get(method, _COMPLETE), **self}
            self.forms[version] = types.methods.serialize_server_result(method, version, result)
        return self.forms[version]


Answer = Callable[[Incoming], Awaitable[Json]]
# Subscribes a client to resources for as long as the context is open: the request, their URIs, and the
# function that gets the URI of each one that changed.
Subscribed = Callable[
    [Incoming, Sequence[str], Callable[[str], Awaitable[None]]], AbstractAsyncContextManager[None]
]
IDLE_S = 1_800.0  # after which a session over HTTP without any request or stream has ended
_MOST_LISTENERS = 1_024  # requests `subscriptions/listen` at the same time
_LIST_CHANGED = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


class _Server(Server):  # type: ignore[misc]
    """A server that says that its lists change, over HTTP too."""

    def create_initialization_options(
        self, notification_options: Any = None, *arguments: Any, **named: Any
    ) -> InitializationOptions:
        options = super().create_initialization_options(
            notification_options or _LIST_CHANGED, *arguments, **named
        )
        if options.capabilities.resources is not None:  # version 1 never says so
            options.capabilities.resources.subscribe = True
        return options


class ServerSide:
    """A low-level server whose requests are answered by functions, one for each method."""

    def __init__(
        self,
        name: str,
        own_version: str,
        instructions: str,
        answers: Mapping[str, Answer],
        subscribed: Subscribed | None = None,
    ) -> None:
        """subscribed: subscribes clients of the protocol 2026-07-28 to resources."""
        self._server = _Server(name, version=own_version, instructions=instructions)
        self._buses: list[Any] = []  # of the clients that listen
        self._subscribed = subscribed or _unsubscribed
        for method, answer in answers.items():
            self._add(method, answer)
        if MAJOR > 1:
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
        """Serves clients over streamable HTTP; only requests that this allows."""
        known = signature(StreamableHTTPSessionManager).parameters
        idle = {"session_idle_timeout": IDLE_S} if "session_idle_timeout" in known else {}
        return StreamableHTTPSessionManager(app=self._server, security_settings=security, **idle)

    async def publish(self, kind: str) -> None:
        """Tells clients of the protocol 2026-07-28 that a list changed: "tools", "prompts" or "resources"."""
        if self._buses:
            from mcp.server import subscriptions

            event = {
                "tools": subscriptions.ToolsListChanged,
                "prompts": subscriptions.PromptsListChanged,
                "resources": subscriptions.ResourcesListChanged,
            }[kind]
            for bus in list(self._buses):
                await bus.publish(event())

    async def _listen(self, context: Any, params: Any) -> Any:
        """Serves a request that stays open and gets the changes that the client wants to know.

        Each has a bus of its own: who hears of a resource is a matter of policy.
        """
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

        if len(self._buses) >= _MOST_LISTENERS:
            fail(INTERNAL_ERROR, f"{_MOST_LISTENERS:,} clients listen already")
        bus = InMemorySubscriptionBus()

        async def updated(uri: str) -> None:
            await bus.publish(ResourceUpdated(uri=uri))

        incoming = _incoming(context, "subscriptions/listen", dict(context.params or {}))
        self._buses.append(bus)
        try:
            async with self._subscribed(incoming, params.notifications.resource_subscriptions or (), updated):
                return await ListenHandler(bus)(context, params)
        finally:
            self._buses.remove(bus)

    def _add(self, method: str, answer: Answer) -> None:
        if MAJOR > 1:

            async def on_request(context: Any, params: Any) -> Json:
                found = await answer(_incoming(context, method, dict(context.params or {})))
                return {**_ENVELOPES.get(method, _COMPLETE), **found}

            self._server.add_request_handler(method, _PARAMS_2[method](), on_request)
            if method == "tools/list":
                self._add_straight(method, answer)
            return

        async def handle(request: Any) -> Any:
            params = request.params
            given = (
                {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_unset=True)
            )
            return _Message(await answer(_incoming(self._server.request_context, method, given)))

        self._server.request_handlers[_REQUESTS[method]] = handle

    def _add_straight(self, method: str, answer: Answer) -> None:
        """Answers a method under another name, too, whose results the package does not check."""
        straight = f"toolroll/{method}"

        async def on_request(context: Any, params: Any) -> Json:
            found = await answer(_incoming(context, method, dict(context.params or {})))
            prepared = found if isinstance(found, Prepared) else Prepared(found)
            return prepared.form(method, context.protocol_version)

        async def rename(context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
            return await call_next(replace(context, method=straight) if context.method == method else context)

        self._server.add_request_handler(straight, _PARAMS_2[method](), on_request)
        self._server.middleware.append(rename)


@asynccontextmanager
async def _unsubscribed(
    incoming: Incoming, uris: Sequence[str], updated: Callable[[str], Awaitable[None]]
) -> AsyncIterator[None]:
    yield


def _incoming(context: Any, method: str, params: Json) -> Incoming:
    session, request = context.session, context.request
    headers = {} if request is None else request.headers
    client = session.client_params
    info = (
        None
        if client is None
        else getattr(client, "client_info", None) or getattr(client, "clientInfo", None)
    )
    return Incoming(
        method,
        params,
        headers,
        "" if request is None else request.url.path,
        "" if info is None else info.name,
        context.request_id,
        headers.get("mcp-session-id", ""),
        None if request is None else getattr(request.scope.get("user"), "access_token", None),
        session,
    )


# What the protocol 2026-07-28 wants in results; older clients do not get it. No list is for others.
_COMPLETE = {"resultType": "complete"}
_PRIVATE = {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"}
_ENVELOPES: Mapping[str, Json] = {
    method: _PRIVATE
    for method in (
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    )
}
_REQUESTS: Mapping[str, Any] = {
    "tools/list": types.ListToolsRequest,
    "tools/call": types.CallToolRequest,
    "prompts/list": types.ListPromptsRequest,
    "prompts/get": types.GetPromptRequest,
    "resources/list": types.ListResourcesRequest,
    "resources/templates/list": types.ListResourceTemplatesRequest,
    "resources/read": types.ReadResourceRequest,
    "resources/subscribe": types.SubscribeRequest,
    "resources/unsubscribe": types.UnsubscribeRequest,
    "completion/complete": types.CompleteRequest,
}
_PARAMS_2: Mapping[str, Callable[[], Any]] = {
    "tools/list": lambda: types.PaginatedRequestParams,
    "tools/call": lambda: types.CallToolRequestParams,
    "prompts/list": lambda: types.PaginatedRequestParams,
    "prompts/get": lambda: types.GetPromptRequestParams,
    "resources/list": lambda: types.PaginatedRequestParams,
    "resources/templates/list": lambda: types.PaginatedRequestParams,
    "resources/read": lambda: types.ReadResourceRequestParams,
    "resources/subscribe": lambda: types.SubscribeRequestParams,
    "resources/unsubscribe": lambda: types.UnsubscribeRequestParams,
    "completion/complete": lambda: types.CompleteRequestParams,
}
