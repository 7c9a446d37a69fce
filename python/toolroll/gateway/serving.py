"""Puts a gateway together from a configuration, and serves it over stdio or HTTP."""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolroll import InvalidInput, Registry, Toolroll
from toolroll.gateway.caller import CallerOf, configured_caller
from toolroll.gateway.configuration import Configuration
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.hooks import CallHook
from toolroll.gateway.mcp_server import McpServer
from toolroll.gateway.places import registry_url
from toolroll.gateway.status import write_status
from toolroll.gateway.tool_catalog import ToolCatalog
from toolroll.gateway.tool_names import ToolNames


@asynccontextmanager
async def open_gateway(
    configuration: Configuration,
    state: Path,
    *,
    caller_of: CallerOf | None = None,
    hooks: Iterable[CallHook] = (),
) -> AsyncIterator[tuple[Gateway, McpServer]]:
    """A running gateway and the server in front of it.

    state: the folder for what it keeps. caller_of: finds out who calls; by default the configured caller.
    hooks: run before and after each call.
    """
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    options = configuration.options
    url = registry_url(options, state)
    registry = await anyio.to_thread.run_sync(lambda: Registry.open(url, actor="gateway"))
    try:
        roll = await anyio.to_thread.run_sync(lambda: Toolroll.open(url))
        try:
            names = ToolNames(configuration.servers, options.separator)
            catalog = ToolCatalog(roll, registry, names, options.review, options.tags)
            gateway = Gateway(configuration, catalog, state, hooks)
            process = f"{os.getpid()}-{secrets.token_hex(4)}"
            server = McpServer(gateway, caller_of or configured_caller(options.caller, process))
            async with gateway.running(), write_status(gateway, state, process):
                yield gateway, server
        finally:
            with anyio.CancelScope(shield=True):
                await roll.aclose()
    finally:
        registry.close()


async def serve_stdio(configuration: Configuration, state: Path) -> None:
    """Serves the client that started this process, until it leaves."""
    async with open_gateway(configuration, state) as (_, server):
        await server.side.run_stdio()


async def serve_http(configuration: Configuration, state: Path, host: str, port: int) -> None:
    """Serves clients at `/mcp`, and at `/mcp/{page}` as callers on that page.

    Raises:
        InvalidInput: the address can be reached from other machines.
    """
    check_loopback(host)
    async with open_gateway(configuration, state) as (_, server):
        settings = uvicorn.Config(http_app(server), host=host, port=port, log_level="warning", ws="none")
        await uvicorn.Server(settings).serve()


def check_loopback(host: str) -> None:
    """Refuses addresses that other machines can reach: nobody signs in here.

    Raises:
        InvalidInput: it is such an address.
    """
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise InvalidInput(
            f"host is {host!r}, must be an address of this machine alone, such as 127.0.0.1: "
            "callers do not sign in"
        )


def http_app(server: McpServer) -> Starlette:
    """An ASGI application with `/mcp` and `/mcp/{page}`."""
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = [f"{name}:*" for name in names]
    manager = server.side.http([*names, *hosts], [f"http://{host}" for host in (*names, *hosts)])

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with manager.run():
            yield

    endpoint = _Endpoint(manager.handle_request)
    routes = [Route("/mcp", endpoint), Route("/mcp/{page}", endpoint)]
    return Starlette(routes=routes, lifespan=lifespan)


class _Endpoint:
    """An ASGI application as an object: Starlette takes functions for something else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
