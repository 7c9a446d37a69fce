"""Gateways over scripted servers, with a client in the same process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.sse import SseServerTransport
from mcp.shared.memory import create_client_server_memory_streams
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from tests.ports import free_port
from toolroll.gateway.client import Client, open_http, open_stdio
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.identity import Identity
from toolroll.gateway.mcp_server import McpServer
from toolroll.gateway.protocol import Json, httpx_client
from toolroll.gateway.serving import http_app, open_gateway, sign_ins_of

SCRIPT = Path(__file__).with_name("scripted_mcp_server.py")


def tool(name: str, description: str = "", **more: Any) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description or f"Does {name}", "inputSchema": schema, **more}


def scripted(**behaviour: Any) -> Json:
    """The entry of a server in a configuration file."""
    return {"command": sys.executable, "args": ["-S", "-E", str(SCRIPT), json.dumps(behaviour)]}


def write_configuration(folder: Path, servers: Json, /, **options: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, "toolroll": options}))
    return path


class TestClient:
    """A client of a gateway. `questions` and `notes` hold what it was asked and told."""

    __test__ = False

    def __init__(
        self, client: Client, questions: list[tuple[str, Json]], notes: list[tuple[str, Json]]
    ) -> None:
        self.client, self.questions, self.notes = client, questions, notes

    async def names(self) -> list[str]:
        return [each["name"] for each in (await self.client.request("tools/list", {}))["tools"]]

    async def call(self, name: str, arguments: Json | None = None, **more: Any) -> tuple[str, bool]:
        """The text of a result, and whether it is an error."""
        result = await self.client.request("tools/call", {"name": name, "arguments": arguments or {}}, **more)
        return result["content"][0]["text"], result.get("isError", False)

    async def noted(self, method: str) -> None:
        with anyio.fail_after(60):
            while method not in [name for name, _ in self.notes]:
                await anyio.sleep(0.02)


OnQuestion = Callable[[str, Json], Awaitable[Json]]


async def _decline(method: str, params: Json) -> Json:
    return {"action": "decline"}


@asynccontextmanager
async def client_of(server: McpServer, on_question: OnQuestion = _decline) -> AsyncIterator[TestClient]:
    questions: list[tuple[str, Json]] = []
    notes: list[tuple[str, Json]] = []

    async def asked(method: str, params: Json) -> Json:
        questions.append((method, params))
        return await on_question(method, params)

    async def noted(method: str, params: Json) -> None:
        notes.append((method, params))

    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
        tasks.start_soon(server.side.run, theirs)
        async with Client((ours[0], ours[1]), asked, noted) as client:
            await client.initialize()
            yield TestClient(client, questions, notes)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def gateway_over(
    folder: Path, servers: Json, on_question: OnQuestion = _decline, /, **options: Any
) -> AsyncIterator[tuple[Gateway, TestClient]]:
    """A gateway, and a client that has read its list once all servers are known."""
    configuration = read_configuration(write_configuration(folder, servers, **options), {})
    async with (
        open_gateway(configuration, folder / "state") as (gateway, server),
        client_of(server, on_question) as client,
    ):
        await gateway.known(30)
        yield gateway, client


@asynccontextmanager
async def connected(streams: Any) -> AsyncIterator[TestClient]:
    """A client over a transport of the package."""
    notes: list[tuple[str, Json]] = []

    async def noted(method: str, params: Json) -> None:
        notes.append((method, params))

    async with streams as opened, Client(opened, _decline, noted) as client:
        await client.initialize()
        yield TestClient(client, [], notes)


def http_client(url: str, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return connected(open_http(url, headers))


def command_client(arguments: list[str]) -> Any:
    """A client of `toolroll` with these arguments, as a process of its own."""
    env = {name: os.environ[name] for name in ("PYTHONPATH", "XDG_STATE_HOME") if name in os.environ}
    command = ["-m", "toolroll", *arguments]
    return connected(open_stdio(sys.executable, command, env, None, sys.__stderr__))


@asynccontextmanager
async def http_server(
    server: McpServer, identity: Identity | None = None, gateway: Gateway | None = None, port: int = 0
) -> AsyncIterator[str]:
    """The URL of a server over HTTP. gateway: whose callers sign in at its servers."""
    port = port or free_port()
    sign_ins = None if gateway is None else sign_ins_of(gateway, f"http://127.0.0.1:{port}")
    async with serving(http_app(server, identity, sign_ins), port) as url:
        yield f"{url}/mcp"


@asynccontextmanager
async def sse_server(server: McpServer) -> AsyncIterator[str]:
    """The URL of a server by server-sent events."""
    transport = SseServerTransport("/messages/")

    async def connected(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.side.run(streams)
        return Response()

    routes = [Route("/sse", connected), Mount("/messages/", transport.handle_post_message)]
    async with serving(Starlette(routes=routes), free_port()) as url:
        yield f"{url}/sse"


class _Server(uvicorn.Server):
    """One of several in the process. Streams of events would end with the one that has the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: Any, port: int) -> AsyncIterator[str]:
    """The URL of an ASGI application on this port."""
    settings = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
    running = _Server(settings)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.serve)
        await until(lambda: running.started, 30)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            running.should_exit = True
            with anyio.move_on_after(10, shield=True):
                await until(lambda: not running.servers or not running.servers[0].is_serving())
                await anyio.sleep(0.2)


async def status_of(url: str, headers: dict[str, str]) -> int:
    """The status of an empty request."""
    async with httpx_client(headers=headers) as client:
        response = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        return int(response.status_code)


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    with anyio.fail_after(timeout_s):
        while not condition():
            await anyio.sleep(0.02)


def run(function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    """Runs a coroutine function; of a group of errors it raises the first one, which is the test's."""
    try:
        anyio.run(function, *arguments)
    except BaseException as error:
        while inner := getattr(error, "exceptions", ()):
            error = inner[0]
        raise error
