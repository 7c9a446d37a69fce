"""The ASGI application of the drop-in: the proxy behind its gate, and beside it probes and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolroll import Registry, Toolroll, __version__
from toolroll.adapters.provider_requests import RequestSelector, form_of
from toolroll.adapters.provider_requests.forms import error_body
from toolroll.adapters.provider_requests.headers import KEY
from toolroll.embedders import named
from toolroll.front.bodies import BodiesInFlight
from toolroll.server.admission import OrgAdmission, RequestLimits
from toolroll.server.drop_in.proxy import Proxy, log_only_other_faults
from toolroll.server.drop_in.upstream import Connections, Upstream
from toolroll.server.gate import LOOPBACK, Gate, Headers
from toolroll.server.http_metrics import HttpMetrics, RequestMeter, org_refusals_in
from toolroll.server.key_reader import KeyReader
from toolroll.server.metrics import health_router, metrics_router
from toolroll.server.resources import close, open_registry, running, worker_metrics, worker_traces
from toolroll.server.settings import ServerSettings

PROBES = frozenset({"/healthz", "/readyz"})
METRICS = "/metrics"


def create_drop_in(settings: ServerSettings) -> ASGIApp:
    """Creates the proxy before the provider that the settings name. Its shutdown closes the registry.

    Raises:
        NotFound, StoreUnavailable, InvalidInput: as `Toolroll.open`; the upstream is no URL.
    """
    upstream = Upstream(settings.upstream)
    traces = worker_traces(settings)
    roll, registry = _open(settings)
    try:
        keys = (
            KeyReader(registry.keys) if registry is not None and settings.authentication == "keys" else None
        )
        selector = RequestSelector(
            roll,
            k=settings.upstream_k,
            max_tools=settings.upstream_max_tools,
            delivery=settings.upstream_delivery,
            allowed=settings.upstream_allowed,
        )
    except BaseException:
        close(roll, registry)
        raise
    log_only_other_faults()
    metrics = worker_metrics(settings, roll)
    connections = Connections(upstream.base, settings.upstream_timeout_s)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with running(settings, metrics, traces, roll, registry), aclosing(connections):
            yield

    own = FastAPI(title="toolroll", version=__version__, lifespan=lifespan, openapi_url=None)
    own.include_router(health_router(roll, keys))
    own.include_router(metrics_router(metrics))
    gate = Gate(
        _Routes({METRICS: own}, Proxy(upstream, selector, connections)),
        keys=keys,
        limits=RequestLimits(settings.key_rate, settings.key_concurrency, settings.concurrency),
        admission=OrgAdmission(settings.org_rate, settings.concurrency, org_refusals_in(metrics.registry)),
        hosts=frozenset(name.lower() for name in settings.hosts or LOOPBACK),
        bodies=BodiesInFlight(settings.front.body_bytes, settings.front.in_flight_bytes),
        open_paths=frozenset(),
        is_open=lambda path: False,
        key_of=_key,
        key_place="x-toolroll-key",
        refusal=_refusal,
    )
    behind: ASGIApp = RequestMeter(
        gate, metrics=HttpMetrics.in_registry(metrics.registry), is_logged=settings.log_requests
    )
    if traces is not None:
        behind = traces.middleware(behind)
    return _Routes(dict.fromkeys(PROBES, own), behind, lifespan=own)


@dataclass(frozen=True, slots=True)
class _Routes:
    """Chooses one of several applications by the path of a request."""

    by_path: dict[str, ASGIApp]
    others: ASGIApp
    lifespan: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.by_path.get(scope["path"], self.others)(scope, receive, send)
        elif scope["type"] == "lifespan" and self.lifespan is not None:
            await self.lifespan(scope, receive, send)


def _open(settings: ServerSettings) -> tuple[Toolroll, Registry | None]:
    embedder = named.embedder(settings.embedder)
    if settings.catalog:
        return open_registry(settings, embedder)
    return Toolroll.from_tools([], embedder=embedder or "none", profile=settings.profile), None


def _key(headers: Headers) -> str:
    """The service key. `Authorization` holds the provider's key, which we do not read."""
    return headers.get(KEY, b"").decode("latin-1")


def _refusal(scope: Scope, status: int, title: str, detail: str) -> Response:
    content = error_body(form_of(scope["method"], scope["path"]), status, detail)
    return Response(content, status, media_type="application/json")
