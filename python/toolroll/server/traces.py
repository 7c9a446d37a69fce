"""Spans of requests and of the stages of their selections, sent to a collector of OpenTelemetry.

A request is a span of its own, below the caller's if the request has a `traceparent`. Spans have no message,
no path, no arguments of tools and no names of users. A thread sends them; if the collector is away, spans are
dropped and requests go on.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio.to_thread
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolroll import Toolroll, __version__
from toolroll.adapters.opentelemetry import instrument
from toolroll.server.http_metrics import UNROUTED, route_of

EXPORT_TIMEOUT_S = 10.0
_UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds, by machines
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_PROPAGATOR = TraceContextTextMapPropagator()
_PROPAGATED = (b"traceparent", b"tracestate")


class Traces:
    """The spans of one process.

    The variables of OpenTelemetry, such as OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and
    OTEL_EXPORTER_OTLP_HEADERS, apply as in any program.
    """

    def __init__(self, url: str) -> None:
        """url: where the collector takes spans, as OTLP over HTTP."""
        service = {"service.name": "toolroll", "service.version": __version__}
        resource = Resource.create({**service, **OTELResourceDetector().detect().attributes})
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_TIMEOUT_S)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))

    @asynccontextmanager
    async def sent(self, roll: Toolroll, closing_s: float) -> AsyncIterator[None]:
        """Makes spans of the roll's selections while the context is open; its end sends what is left.

        closing_s: how long that may take.
        """
        end = instrument(roll, tracer_provider=self.provider, stages=True)
        try:
            yield
        finally:
            end()
            # The SDK waits for up to 30 s. This leaves its thread behind when the time is over.
            last = threading.Thread(target=self.provider.shutdown, daemon=True)
            last.start()
            await anyio.to_thread.run_sync(last.join, closing_s)

    def middleware(self, application: ASGIApp) -> RequestTracer:
        """The application, whose requests become spans."""
        return RequestTracer(application, self.provider.get_tracer("toolroll.server", __version__))


@dataclass(frozen=True, eq=False)
class RequestTracer:
    """An ASGI middleware that makes a span of each request."""

    application: ASGIApp
    tracer: Tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http" or scope["path"] in _UNTRACED:
            await self.application(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _PROPAGATED
        }
        span = self.tracer.start_span(method, _PROPAGATOR.extract(carrier), SpanKind.SERVER)
        status = 500

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            # The text of an exception could quote the caller, so none is recorded.
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await self.application(scope, receive, send_noting)
        finally:
            if span.is_recording():
                span.set_attributes(
                    {"http.request.method": method, "http.response.status_code": status}
                    | {"url.scheme": scope.get("scheme", "http")}
                )
                route = route_of(scope)
                if route != UNROUTED:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                if status >= 500:
                    span.set_status(Status(StatusCode.ERROR))
                    span.set_attribute("error.type", str(status))
            span.end()
