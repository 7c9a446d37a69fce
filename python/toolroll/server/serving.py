"""Runs the service: one process, or several that share a port."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from toolroll.embedders import named
from toolroll.model.errors import InvalidDefinition, InvalidInput, ToolrollError
from toolroll.registry.keeper.process import KeeperProcess
from toolroll.registry.outbox.outbox import check_outbox, usual_outbox
from toolroll.registry.store.database import Database, listen_address
from toolroll.registry.store.read_replica import ReadReplica
from toolroll.registry.store.url import Address
from toolroll.selection.profiles import profile
from toolroll.server.admission import read_rate
from toolroll.server.application import identity_provider
from toolroll.server.drop_in.upstream import check_upstream
from toolroll.server.gate import is_loopback
from toolroll.server.logs import configure
from toolroll.server.resources import check_traces
from toolroll.server.setting_sources import SettingSources
from toolroll.server.settings import CLOSING_SHARE, ServerSettings

# A worker may answer late while it builds its catalog. After 5 s, uvicorn's default, it would be killed,
# and the next one too.
_WORKER_START_S = 600
_log = logging.getLogger(__name__)
_APPLICATION = "toolroll.server.worker:create_from_environment"
_CONNECTION = "toolroll.server.worker:connection"


def serve(settings: ServerSettings) -> None:
    """Serves until the process is asked to stop; then requests finish and outcomes are written.

    Workers read the settings from the environment, so this sets the variables of this process.

    Raises:
        NotFound, StoreUnavailable: the registry cannot be read.
        InvalidInput: the address is in use, or a setting is wrong.
    """
    for field, check in _CHECKS:
        if field != "embedder":  # each worker opens it
            check(settings)
    configure(settings.log)
    _log.info(
        "serving", extra={"url": f"http://{settings.host}:{settings.port}", "workers": settings.workers}
    )
    secret = settings.session_secret or secrets.token_urlsafe(32)  # all workers accept a session of one
    with _metrics_folder(settings) as folder, _keeper_process(settings) as keeper:
        own = {"metrics_folder": folder, "session_secret": secret, "keeper": keeper}
        shared = settings.model_copy(update=own)
        os.environ.update(shared.variables())
        _run(settings)


def _run(settings: ServerSettings) -> None:
    uvicorn.run(
        _APPLICATION,
        factory=True,
        host=settings.host.strip("[]"),
        port=settings.port,
        workers=settings.workers,
        http=_CONNECTION,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),  # else uvicorn believes this machine
        date_header=not settings.upstream,  # the provider's own is passed on
        timeout_worker_healthcheck=_WORKER_START_S,
        timeout_graceful_shutdown=max(1, int(settings.grace_s * (1 - CLOSING_SHARE))),
    )


def problems_with(
    settings: ServerSettings, sources: SettingSources, *, without: Collection[str] = ()
) -> Iterator[InvalidDefinition]:
    """Yields each reason why the service would not start, at the place of its setting. Changes nothing.

    without: settings to leave unchecked.
    """
    for field, check in _CHECKS:
        if field not in without:
            try:
                check(settings)
            except ToolrollError as error:
                sentence = str(error).removeprefix(f"{field}: ").removeprefix(f"{field} ")
                yield sources.problem((field,), sentence)


def check_access(settings: ServerSettings) -> None:
    """Refuses to serve other machines without keys, or by names that nobody has listed.

    Raises:
        InvalidInput: says what to set.
    """
    host = settings.host
    if is_loopback(host):
        return
    if settings.authentication == "none":
        raise InvalidInput(
            f"host is {host!r:.100}, must be an address of this machine alone, such as 127.0.0.1: with "
            "authentication = none, callers need no key"
        )
    if not settings.hosts:
        raise InvalidInput(
            f"hosts is empty, must list the names by which callers reach {host!r:.100}, such as "
            '["tools.example.com"], or be ["*"]'
        )


def check_address(settings: ServerSettings) -> None:
    """Refuses an address that `check_access` refuses, or that nobody can listen on.

    Raises:
        InvalidInput: says why.
    """
    check_access(settings)
    _check_port(settings)


def _check_port(settings: ServerSettings) -> None:
    host = settings.host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, settings.port))
        except OSError as error:
            raise InvalidInput(f"{host}:{settings.port}: cannot be listened on: {error}") from error


@contextmanager
def _metrics_folder(settings: ServerSettings) -> Iterator[str]:
    """The folder of the workers' metrics. A temporary one is deleted at the end of the context."""
    if settings.workers == 1 or settings.metrics_folder:
        yield settings.metrics_folder
        return
    with tempfile.TemporaryDirectory(prefix="toolroll-metrics-", ignore_cleanup_errors=True) as folder:
        yield folder


@contextmanager
def _keeper_process(settings: ServerSettings) -> Iterator[str]:
    """Starts one process that keeps the registry for all workers. Yields the workers' setting `keeper`."""
    if not settings.catalog or settings.keeper != "process":
        yield settings.keeper
        return
    keeper, before = KeeperProcess(settings.catalog), signal.getsignal(signal.SIGTERM)

    def end(number: int, _: object) -> None:
        keeper.close(settings.grace_s * CLOSING_SHARE)
        signal.signal(number, before)
        signal.raise_signal(number)

    signal.signal(signal.SIGTERM, end)  # which uvicorn raises again when it has stopped
    keeper.start()
    try:
        yield "none"
    finally:
        keeper.close(settings.grace_s * CLOSING_SHARE)


def _check_registry(settings: ServerSettings) -> None:
    if settings.catalog:
        Database.open(settings.catalog, create=False, migrate=False).close()
    elif settings.authentication == "keys":
        raise InvalidInput(
            "catalog is empty, must be the URL of a registry, which has the keys of callers; without one, "
            "set authentication = none on an address of this machine"
        )


def _check_read_replica(settings: ServerSettings) -> None:
    if settings.read_replica and settings.catalog:  # not opened: while it is away, only reports wait
        ReadReplica(settings.read_replica, Database(Address.of(settings.catalog)))


def _check_listen_url(settings: ServerSettings) -> None:
    if settings.listen_url and settings.catalog:
        listen_address(Address.of(settings.catalog), settings.listen_url)


def _check_outbox(settings: ServerSettings) -> None:
    if not settings.catalog:
        return
    try:
        outbox = Path(settings.outbox) if settings.outbox else usual_outbox(settings.catalog)
    except InvalidInput:  # the registry's own check says what is wrong with its URL
        return
    check_outbox(outbox)


def _check_upstream(settings: ServerSettings) -> None:
    if settings.upstream:
        check_upstream(settings.upstream)


# A setting, and a function that raises ToolrollError if its value is wrong.
_CHECKS: tuple[tuple[str, Callable[[ServerSettings], object]], ...] = (
    ("catalog", _check_registry),
    ("read_replica", _check_read_replica),
    ("listen_url", _check_listen_url),
    ("outbox", _check_outbox),
    ("upstream", _check_upstream),
    ("embedder", lambda settings: named.embedder(settings.embedder)),
    ("profile", lambda settings: profile(settings.profile)),
    ("key_rate", lambda settings: read_rate(settings.key_rate)),
    ("org_rate", lambda settings: read_rate(settings.org_rate, "org_rate")),
    ("sign_in_rate", lambda settings: read_rate(settings.sign_in_rate, "sign_in_rate")),
    ("max_in_flight_bytes", lambda settings: settings.front),
    ("oidc_issuer", lambda settings: identity_provider(settings, "unused")),
    ("traces_url", check_traces),
    ("host", check_access),
    ("port", _check_port),
)
