"""The state of running gateways, in files that `toolroll mcp status` reads."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from toolroll.gateway.places import private_folder
from toolroll.model.errors import InvalidInput
from toolroll.runtime.files import replace_file

if TYPE_CHECKING:
    from toolroll.gateway.gateway import Gateway
    from toolroll.gateway.upstream import Upstream

_EVERY_S = 2.0
_FRESH_S = 15.0  # an older file is of a process that was killed
_MOST_PROBLEMS = 20


@asynccontextmanager
async def write_status(gateway: Gateway, state: Path, process: str) -> AsyncIterator[None]:
    """Writes the gateway's state every two seconds, and removes it at the end."""
    path = private_folder(state / "running") / f"{process}.json"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write, gateway, path)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            path.unlink(missing_ok=True)


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
    """The state of a gateway as JSON."""
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


def running(state: Path) -> Iterator[dict[str, Any]]:
    """The states of the gateways that run now with this folder."""
    for path in sorted((state / "running").glob("*.json")):
        try:
            found, written = json.loads(path.read_text("utf-8")), path.stat().st_mtime
        except (OSError, ValueError):
            continue
        if time.time() - written < _FRESH_S:
            yield found
