"""Assembles a gateway from a configuration, and serves it over stdio or HTTP."""

from __future__ import annotations

import gc
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from toolroll import InvalidInput, Recording, Registry, Toolroll
from toolroll.front.bodies import BodiesInFlight, BoundedBodies
from toolroll.front.connections import Front
from toolroll.front.limits import FrontLimits, fitted
from toolroll.gateway.caller import FindCaller, configured_caller
from toolroll.gateway.configuration import Configuration
from toolroll.gateway.configured_hooks import checked_hook
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.hooks import Hook
from toolroll.gateway.http_endpoints import HttpSessions, RestEndpoint
from toolroll.gateway.identity import Identity, identified_caller, on_authentication_error
from toolroll.gateway.mcp_server import McpServer
from toolroll.gateway.options import is_loopback
from toolroll.gateway.places import private_folder, registry_url
from toolroll.gateway.sign_in_pages import CALLBACK, SignIns
from toolroll.gateway.status import write_status
from toolroll.gateway.tool_catalog import ToolCatalog
from toolroll.gateway.tool_names import ToolNames

_LAST_ANSWERS_S = 3  # after SIGTERM, until which open requests may end
_SETTLED_S = 30.0  # after the start, for servers to send their lists


@asynccontextmanager
async def open_gateway(
    configuration: Configuration,
    state: Path,
    *,
    caller_of: FindCaller | None = None,
    hooks: Iterable[Hook] = (),
    keeper: Literal["thread", "process"] = "thread",
) -> AsyncIterator[tuple[Gateway, McpServer]]:
    """Runs a gateway and the server in front of it.

    state: the folder for its state. caller_of: returns a request's caller; by default the configured one.
    hooks: run before and after each call, behind the hooks of the configuration. keeper: see `Recording`.

    Raises:
        InvalidDefinition: a hook of the configuration cannot be made.
        InvalidInput: one of `hooks` is no hook.
    """
    began = time.monotonic()  # opening a registry counts towards the time for the first list
    hooks = (*[each.make() for each in configuration.hooks], *map(checked_hook, hooks))
    private_folder(state)
    options = configuration.options
    url = registry_url(options, state)
    registry = await anyio.to_thread.run_sync(lambda: Registry.open(url, actor="gateway"))
    try:
        recording = Recording(keeper=keeper)
        roll = await anyio.to_thread.run_sync(
            lambda: Toolroll.open(
                url, embedder=options.embedder, profile=options.profile, recording=recording
            )
        )
        try:
            names = ToolNames(configuration.servers, options.separator)
            catalog = ToolCatalog(roll, registry, names, options.review, options.tags)
            gateway = Gateway(configuration, catalog, state)
            process = f"{os.getpid()}-{secrets.token_hex(4)}"
            caller_of = caller_of or configured_caller(options.caller, process)
            server = McpServer(gateway, caller_of, hooks)
            async with gateway.running(began), write_status(gateway, state, process):
                yield gateway, server
        finally:
            with anyio.CancelScope(shield=True):
                await roll.aclose()
    finally:
        registry.close()


async def serve_stdio(configuration: Configuration, state: Path) -> None:
    """Serves the client that started this process, until it leaves."""
    async with open_gateway(configuration, state) as (gateway, server):
        gateway.tasks.start_soon(spare_collections, gateway)
        await server.side.run_stdio()


async def serve_http(configuration: Configuration, state: Path, host: str, port: int) -> None:
    """Serves clients at `/mcp`, and at `/mcp/{page}` as callers on that page.

    Raises:
        InvalidInput: there is no sign-in, and other machines can reach the address.
    """
    identity = identity_of(configuration)
    if identity is None:
        check_loopback(host)
    caller_of = None if identity is None else identified_caller(secrets.token_hex(4))
    async with open_gateway(configuration, state, caller_of=caller_of, keeper="process") as (gateway, server):
        gateway.tasks.start_soon(spare_collections, gateway)
        identity = identity_of(configuration, gateway)
        base = f"http://{host}:{port}" if identity is None else identity.options.url.rstrip("/")
        limits = fitted(configuration.options.http.front)
        app = http_app(server, identity, sign_ins_of(gateway, base), limits)
        settings = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=Front(limits).connection,  # type: ignore[arg-type] # whatever makes a connection will do
            log_level="warning",
            ws="none",
            timeout_graceful_shutdown=_LAST_ANSWERS_S,  # streams of events do not end by themselves
        )
        await uvicorn.Server(settings).serve()


async def spare_collections(gateway: Gateway) -> None:
    """Excludes objects that live as long as the process from garbage collection."""
    await gateway.known(_SETTLED_S)
    gc.collect()
    gc.freeze()


def identity_of(configuration: Configuration, gateway: Gateway | None = None) -> Identity | None:
    """Returns the verifier of callers over HTTP; None if the configuration names none.

    gateway: its registry has the service keys, if they are accepted.
    """
    options = configuration.options
    if options.identity is None:
        return None
    keys = None
    if gateway is not None and options.identity.registry_keys is not None:
        keys = gateway.catalog.registry.keys
    return Identity(options.identity, options.caller, os.environ, configuration.folder, keys)


def check_loopback(host: str) -> None:
    """Refuses addresses that other machines can reach, for a gateway without sign-in."""
    if not is_loopback(host):
        raise InvalidInput(
            f"host is {host!r}, must be an address of this machine alone, such as 127.0.0.1: "
            "callers do not sign in; see `identity` in docs/gateway.md"
        )


def sign_ins_of(gateway: Gateway, base: str) -> SignIns:
    """Returns the gateway's sign-ins at servers. Browsers come back to this address of the gateway."""
    offered = gateway.sign_in_tool
    offered.callback = f"{base}{CALLBACK}"
    return offered.sign_ins


def http_app(
    server: McpServer,
    identity: Identity | None = None,
    sign_ins: SignIns | None = None,
    limits: FrontLimits | None = None,
) -> ASGIApp:
    """An ASGI application with `/mcp`, `/mcp/{page}`, `/tools/list` and `/tools/call`.

    identity: how callers sign in here. sign_ins: the callers' sign-ins at servers. limits: of bodies.
    """
    names = ["127.0.0.1", "localhost", "[::1]"]
    hosts = [*names, *[f"{name}:*" for name in names]]
    origins = [f"http://{host}" for host in hosts]
    if identity is not None:
        url = urlsplit(identity.options.url)
        hosts.append(url.netloc)
        origins.append(f"{url.scheme}://{url.netloc}")
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )
    manager = server.side.http(security)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with manager.run():
            yield

    sessions = HttpSessions(manager.handle_request)
    endpoints: dict[str, ASGIApp] = {
        "/mcp": sessions,
        "/mcp/{page}": sessions,
        "/tools/list": RestEndpoint(server, "tools/list", security),
        "/tools/call": RestEndpoint(server, "tools/call", security),
    }
    methods = {"/tools/list": ["GET"], "/tools/call": ["POST"]}
    routes: list[BaseRoute] = [] if sign_ins is None else sign_ins.routes()
    middleware: list[Middleware] = []
    if identity is not None:
        options, metadata_url = identity.options, None
        resource = AnyHttpUrl(options.resource)
        if options.issuer:
            metadata_url = build_resource_metadata_url(resource)
            routes += create_protected_resource_routes(
                resource, [AnyHttpUrl(options.issuer)], list(options.scopes) or None
            )
        endpoints = {
            path: RequireAuthMiddleware(endpoint, list(options.scopes), metadata_url)
            for path, endpoint in endpoints.items()
        }
        backend = BearerAuthBackend(identity)
        middleware = [Middleware(AuthenticationMiddleware, backend=backend, on_error=on_authentication_error)]
    routes += [Route(path, endpoint, methods=methods.get(path)) for path, endpoint in endpoints.items()]
    limits = FrontLimits() if limits is None else limits
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan)
    return BoundedBodies(app, BodiesInFlight(limits.body_bytes, limits.in_flight_bytes))
