"""The state of servers: of running gateways, or of servers started once for a diagnosis."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from toolroll.embedders.named import embedder
from toolroll.gateway.accounts import ServerAccount, ServerAccounts
from toolroll.gateway.client import Client
from toolroll.gateway.configuration import SECTION, Configuration
from toolroll.gateway.connection import ServerConnection
from toolroll.gateway.identity import Identity
from toolroll.gateway.listing import Listing, read_listing, without_excluded
from toolroll.gateway.logs import ServerLog
from toolroll.gateway.places import log_file, private_folder
from toolroll.gateway.protocol import Json
from toolroll.gateway.references import address_of, process_of, resolved
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.errors import InvalidDefinition, InvalidInput, ToolrollError
from toolroll.registry.store.url import Address
from toolroll.runtime.files import replace_file

if TYPE_CHECKING:
    from toolroll.gateway.gateway import Gateway
    from toolroll.gateway.upstream import Upstream

_EVERY_S = 2.0
_FRESH_S = 15.0  # an older file is of a process that was killed
_MOST_PROBLEMS = 20


@asynccontextmanager
async def write_status(gateway: Gateway, state: Path, process: str) -> AsyncIterator[None]:
    """Writes the gateway's state to a file every two seconds, and removes the file at the end."""
    path = private_folder(state / "running") / f"{process}.json"
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write, gateway, path)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
    finally:
        path.unlink(missing_ok=True)  # now: a thread may have written it until here


async def _write(gateway: Gateway, path: Path) -> None:
    written = b""
    while True:
        content = json.dumps(status_of(gateway)).encode()
        with suppress(InvalidInput, OSError):  # a full disk costs the status, not the calls
            if content != written:  # in a thread: it waits for the disk
                await anyio.to_thread.run_sync(replace_file, path, content)
                written = content
            os.utime(path)
        await anyio.sleep(_EVERY_S)


def status_of(gateway: Gateway) -> dict[str, Any]:
    """Returns the state of a gateway as JSON."""
    return {
        "pid": os.getpid(),
        "mode": gateway.options.mode,
        "tools": len(gateway.catalog.routes),
        "servers": [_server(upstream, gateway) for upstream in gateway.upstreams.values()],
    }


def _server(upstream: Upstream, gateway: Gateway) -> dict[str, Any]:
    connection, listing = upstream.main, upstream.listing
    problems = () if listing is None else listing.problems
    return {
        "name": upstream.spec.name,
        "state": connection.state,
        "reason": connection.reason,
        "next_try": connection.next_try if connection.state == "down" else None,
        "starts": connection.starts,
        "tools": sum(route.server == upstream.spec.name for route in gateway.catalog.routes.values()),
        "held": [
            *gateway.catalog.held.get(upstream.spec.name, ()),
            *gateway.reviewed.offered[upstream.spec.name].held[:_MOST_PROBLEMS],
        ],
        "refusal": upstream.refusal,
        "problems": list(problems[:_MOST_PROBLEMS]),
        "dropped_notifications": connection.traffic.dropped,
    }


def running_gateways(state: Path) -> Iterator[dict[str, Any]]:
    """Yields the states of the running gateways of this folder."""
    for path in sorted((state / "running").glob("*.json")):
        try:
            found, written = json.loads(path.read_text("utf-8")), path.stat().st_mtime
        except (OSError, ValueError):
            continue
        if time.time() - written < _FRESH_S:
            yield found


_AT_ONCE = 8  # servers that are started at the same time


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of starting a server once.

    Attributes:
        tools, prompts, resources: number of items that it lists.
        start_s: the time until its lists were read.
        told: its own name and version.
        problem: the reason why it cannot be used, or the problem of its lists; "" for none.
    """

    server: str
    ok: bool
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    start_s: float = 0.0
    told: str = ""
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def check(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields the problems of a configuration that show before any server starts."""
    folder = configuration.folder
    for spec in configuration.servers.values():
        if problem := problem_of(spec, environ, folder):
            yield f"{spec.place}: server {spec.name!r}: {problem}"
    yield from check_options(configuration, environ)


def problem_of(spec: ServerSpec, environ: Mapping[str, str], folder: Path) -> str:
    """Returns the reason why a server cannot start, as far as it shows before the start; "" for none."""
    try:
        if spec.transport == "stdio":
            process_of(spec, environ, folder)
        else:
            address_of(spec, environ, folder)
    except InvalidInput as error:
        return str(error)
    return ""


def check_options(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields the problems of the options."""
    options, folder = configuration.options, configuration.folder
    try:
        if options.catalog:
            Address.of(options.catalog)
    except InvalidInput as error:
        yield f"{SECTION}.catalog: {error}"
    try:
        embedder(options.embedder)
    except ToolrollError as error:
        yield f"{SECTION}.embedder: {error}"
    try:
        if options.identity is not None:
            Identity(options.identity, options.caller, environ, folder)
    except InvalidInput as error:
        yield f"{SECTION}.{error}"
    try:
        resolved(options.tokens_key, environ, folder)
    except InvalidInput as error:
        yield f"{SECTION}.tokens_key: {error}"
    for hook in configuration.hooks:
        try:
            hook.make()
        except InvalidDefinition as error:
            yield str(error)


async def diagnose(configuration: Configuration, state: Path) -> list[Diagnosis]:
    """Starts every server once, in the order of the configuration, and stops it again."""
    found: dict[str, Diagnosis] = {
        name: Diagnosis(name, True, problem=f"switched off: {why}")
        for name, why in configuration.disabled.items()
    }
    limiter = anyio.Semaphore(_AT_ONCE)
    accounts = ServerAccounts.of_configuration(configuration, state)

    async def one(spec: ServerSpec) -> None:
        async with limiter:
            account = accounts.of(spec, "")
            found[spec.name] = await _tried(spec, configuration.folder, log_file(state, spec.name), account)

    async with anyio.create_task_group() as tasks:
        for spec in configuration.servers.values():
            tasks.start_soon(one, spec)
    return [found[name] for name in (*configuration.servers, *configuration.disabled)]


async def _tried(spec: ServerSpec, folder: Path, log: Path, account: ServerAccount | None) -> Diagnosis:
    listings: list[tuple[Listing, str]] = []

    async def on_up(client: Client) -> None:
        listing = without_excluded(await read_listing(client), spec.include_tools, spec.exclude_tools)
        listings.append((listing, client.server))

    async def on_notification(method: str, params: Json) -> None:
        """Ignores it."""

    connection = ServerConnection(spec, folder, ServerLog(log), on_up, on_notification, account)
    began = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await connection.tried()
        reason, broken = connection.reason, connection.traffic.broken
        tasks.cancel_scope.cancel()
    if not listings or reason:
        return Diagnosis(spec.name, False, start_s=_since(began), problem=reason)
    listing, told = listings[0]
    problems = [*listing.problems, *[f"tool {name!r}: {why}" for name, why in broken.items()]]
    return Diagnosis(
        spec.name,
        True,
        len(listing.tools),
        len(listing.prompts),
        len(listing.resources) + len(listing.templates),
        _since(began),
        told,
        "; ".join(problems[:5]),
    )


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)
