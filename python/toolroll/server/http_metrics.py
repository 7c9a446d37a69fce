"""Counts requests and their latency, for Prometheus, and writes the log of requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolroll.server.callers import Caller, address_of

_log = logging.getLogger(__name__)

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
UNROUTED = "-"  # refused requests, and paths that do not exist


@dataclass(frozen=True, eq=False)
class HttpMetrics:
    """Counters of one process: requests by method, route and status, and durations by route."""

    requests: Counter
    duration: Histogram

    @classmethod
    def in_registry(cls, registry: CollectorRegistry) -> HttpMetrics:
        """Creates counters that the registry collects."""
        return cls(
            Counter(
                "toolroll_http_requests",
                "Requests that were answered.",
                ["method", "route", "status"],
                registry=registry,
            ),
            Histogram(
                "toolroll_http_request_duration_seconds",
                "How long requests took, from their first byte to the end of the answer.",
                ["route"],
                buckets=BOUNDS_S,
                registry=registry,
            ),
        )


def org_refusals_in(registry: CollectorRegistry) -> Callable[[str], None]:
    """Creates a counter of organisations' refused requests. Returns a function that counts one."""
    counter = Counter(
        "toolroll_organisation_refusals",
        "Requests that were refused because their organisation had too many.",
        ["limit"],
        registry=registry,
    )
    for limit in ("rate", "slots", "share"):
        counter.labels(limit)  # so that it is there before the first refusal
    return lambda limit: counter.labels(limit).inc()


@dataclass(frozen=True, eq=False)
class RequestMeter:
    """An ASGI middleware that counts requests. is_logged: whether each request has a line in the log."""

    application: ASGIApp
    metrics: HttpMetrics
    is_logged: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.application(scope, receive, send_noting)
        finally:
            route = route_of(scope)
            self.metrics.requests.labels(scope["method"], route, status).inc()
            spent_s = time.perf_counter() - begun
            self.metrics.duration.labels(route).observe(spent_s)
            if self.is_logged:
                _log.info("request", extra=_line(scope, route, status, spent_s))


def route_of(scope: Scope) -> str:
    """The path of the request's route, with its prefix, and with names in place of values.

    Depending on FastAPI's version, a route knows the prefix of its router or not.
    """
    route = scope.get("route")
    if isinstance(route, str):  # of the drop-in
        return route
    if not isinstance(route, APIRoute):
        return UNROUTED
    tail = route.path_format.format(**scope.get("path_params", {}))
    path: str = scope["path"]
    return path.removesuffix(tail) + route.path_format if path.endswith(tail) else route.path_format


def _line(scope: Scope, route: str, status: int, spent_s: float) -> dict[str, object]:
    """The fields of a request in the log. The path is no field: it may name users and conversations."""
    caller = scope.get("state", {}).get("caller")
    return {
        "method": scope["method"],
        "route": route,
        "status": status,
        "ms": round(spent_s * 1_000, 3),
        "key": caller.key_id if isinstance(caller, Caller) else "",
        "address": address_of(scope.get("client")),
    }
