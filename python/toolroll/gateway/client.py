"""The gateway's client side: transports to servers, and a session over a transport."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TextIO

import anyio
import mcp.client.stdio
import mcp.types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from toolroll import __version__
from toolroll.gateway import server_output
from toolroll.gateway.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Json,
    OnProgress,
    RawMessage,
    RawResult,
    Streams,
    httpx_client,
)
from toolroll.gateway.server_output import CODEC, METER, Meter

# The package logs each line of a server that is no message with a traceback; `Traffic` counts them instead.
logging.getLogger("mcp.client.stdio").addFilter(lambda record: "parse JSONRPC" not in record.msg)

OnQuestion = Callable[
    [str, Json], Awaitable[Json]
]  # a server's request: method, params → result, or MCPError
OnNotification = Callable[[str, Json], Awaitable[None]]

# The package keeps the process that it starts to itself, and with it the exit code.
_PROCESS: ContextVar[Any] = ContextVar("process", default=None)
_EXIT_S = 0.3  # between the end of a process's output and its own
_CREATE = "_create_platform_compatible_process"


def _keep_processes(module: Any) -> None:
    """Patches the package so that it leaves each process that it starts in _PROCESS.

    In a version without this function, servers start all the same, but their exit codes are unknown.
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

    on_exit: gets the exit code of a process that ended by itself; a signal is a negative number.
    """
    parameters = StdioServerParameters(command=command, args=args, env=env, cwd=cwd, encoding=CODEC)
    parameters.encoding_error_handler = "replace"
    async with stdio_client(parameters, errlog=errors) as streams:
        process = _PROCESS.get()
        try:
            yield streams
        finally:
            if on_exit is not None and process is not None:
                await _wait_for_exit(process, on_exit)


async def _wait_for_exit(process: Any, on_exit: Callable[[int], None]) -> None:
    """Passes on the exit code if the process ends within a moment: it closes its output slightly earlier."""
    with anyio.move_on_after(_EXIT_S):
        while process.returncode is None:
            await anyio.sleep(0.01)
    if process.returncode is not None:
        on_exit(process.returncode)


@asynccontextmanager
async def open_http(
    url: str, headers: dict[str, str], auth: Any = None, on_failed: Callable[[int], None] | None = None
) -> AsyncIterator[Streams]:
    """Connects by streamable HTTP.

    auth: signs requests. on_failed: gets each status from 400 on, except of optional streams.
    """
    async with (
        _limited_client(headers, auth, on_failed, {"POST"}) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


@asynccontextmanager
async def open_sse(
    url: str, headers: dict[str, str], auth: Any = None, on_failed: Callable[[int], None] | None = None
) -> AsyncIterator[Streams]:
    """Connects by server-sent events. The arguments are the same as for `open_http`."""

    def factory(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
        return _limited_client(headers or {}, auth, on_failed, {"GET", "POST"}, timeout)

    async with sse_client(url, headers=headers, auth=auth, httpx_client_factory=factory) as streams:
        yield streams[0], streams[1]


def _limited_client(
    headers: dict[str, str],
    auth: Any,
    on_failed: Callable[[int], None] | None,
    methods: set[str],
    timeout: Any = None,
) -> Any:
    meter = METER.get(Meter())

    async def look(response: Any) -> None:
        server_output.limit(response, meter)
        is_failed = response.status_code == 401 or (
            response.status_code >= 400 and response.request.method in methods
        )
        if is_failed and on_failed is not None:
            on_failed(response.status_code)

    client = httpx_client({**server_output.PLAIN, **headers}, auth, timeout)
    client.event_hooks = {"response": [look]}
    return client


class Client:
    """A client's session over streams.

    Attributes:
        capabilities: declared by the server.
        server: the server's own name and version.
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
        """Agrees with the server on the protocol's version, and reads its capabilities."""
        try:
            result = await self._session.initialize()
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            result = await self._session.discover()  # the server has no handshake any more
        found = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        self.capabilities = found.get("capabilities") or {}
        info = found.get("serverInfo") or {}
        self.server = f"{info.get('name', '')} {info.get('version', '')}".strip()

    async def request(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None = None
    ) -> Json:
        """Sends a request and waits for its result. If the caller is cancelled, the server is told."""
        if self._on_request is not None:
            self._on_request()
        request = RawMessage(method, params)
        found: Json = await self._session.send_request(request, RawResult, progress_callback=on_progress)
        return found

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        await self._session.send_notification(RawMessage(method, params))

    async def _sampling(self, _: Any, params: Any) -> Any:
        has_tools = bool(getattr(params, "tools", None))
        result = types.CreateMessageResultWithTools if has_tools else types.CreateMessageResult
        return await self._answer("sampling/createMessage", params, result)

    async def _elicitation(self, _: Any, params: Any) -> Any:
        return await self._answer("elicitation/create", params, types.ElicitResult)

    async def _roots(self, _: Any) -> Any:
        return await self._answer("roots/list", None, types.ListRootsResult)

    async def _answer(self, method: str, params: Any, result: Any) -> Any:
        asked = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            return result.model_validate(await self._on_question(method, asked))
        except MCPError as error:
            return error.error
        except ValidationError as error:
            told = f"the client's answer is no result of {method}: {error}"[:500]
            return types.ErrorData(code=INVALID_PARAMS, message=told)

    async def _message(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if isinstance(method, str) and method.startswith("notifications/"):
            params = message.params
            await self._on_notification(
                method,
                {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True),
            )
