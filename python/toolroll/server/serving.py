"""Runs the service: one process, or several that share a port."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator

import uvicorn

from toolroll.embedders import named
from toolroll.errors import InvalidInput, ToolrollError
from toolroll.registry.store.database import Database
from toolroll.selection.profiles import profile
from toolroll.server.application import CLOSING_SHARE
from toolroll.server.settings import ServerSettings

# A worker may answer late while it builds its catalog. After 5 s, uvicorn's default, it would be killed,
# and the next one too.
_WORKER_START_S = 600
_APPLICATION = "toolroll.server.application:create_from_environment"


def serve(settings: ServerSettings) -> None:
    """Serves until the process is asked to stop; then requests finish and outcomes are written.

    Workers read the settings from the environment, so this sets the variables of this process.

    Raises:
        NotFound, StoreUnavailable: the registry cannot be read.
        InvalidInput: the address is in use, or can be reached from other machines.
    """
    for check in (_check_registry, _check_profile, _check_address):
        check(settings)
    os.environ.update(settings.variables())
    uvicorn.run(
        _APPLICATION,
        factory=True,
        host=settings.host.strip("[]"),
        port=settings.port,
        workers=settings.workers,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_worker_healthcheck=_WORKER_START_S,
        timeout_graceful_shutdown=max(1, int(settings.grace_s * (1 - CLOSING_SHARE))),
    )


def problems_with(settings: ServerSettings) -> Iterator[str]:
    """A sentence for each reason why the service would not start. Changes nothing."""
    for check in (_check_registry, _check_embedder, _check_profile, _check_address):
        try:
            check(settings)
        except ToolrollError as error:
            yield str(error)


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
            f"host is {host!r:.100}, must be an address of this machine alone, such as 127.0.0.1: callers do "
            "not sign in"
        )


def _check_registry(settings: ServerSettings) -> None:
    Database.open(settings.catalog, create=False, migrate=False).close()


def _check_embedder(settings: ServerSettings) -> None:
    named.embedder(settings.embedder)


def _check_profile(settings: ServerSettings) -> None:
    profile(settings.profile)


def _check_address(settings: ServerSettings) -> None:
    check_loopback(settings.host)
    host = settings.host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, settings.port))
        except OSError as error:
            raise InvalidInput(f"{host}:{settings.port}: cannot be listened on: {error}") from error
