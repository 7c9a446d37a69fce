"""The spans that the service sends: requests, their selections and the stages; nothing that a caller wrote."""

from __future__ import annotations

import asyncio
import builtins
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.integration.served import Served, served
from tests.loopback_server import LoopbackHandler, LoopbackServer, closed_at_the_end
from tests.ports import free_port
from tests.unit.server.asgi import arequest
from toolroll import Registry, Tool
from toolroll.server.drop_in.application import create_drop_in
from toolroll.server.serving import problems_with
from toolroll.server.setting_sources import SettingSources
from toolroll.server.settings import ServerSettings

SECRET = "canary-of-a-message"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class _Collecting(LoopbackHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.of.requests.append({"path": self.path, "body": body})
        self.send(200, b"", Content_Type="application/x-protobuf")


class Collector(LoopbackServer):
    """A collector of OpenTelemetry."""

    def __init__(self) -> None:
        super().__init__(_Collecting)
        self.url = f"http://127.0.0.1:{self.port}/v1/traces"

    def resources(self) -> list[Any]:
        assert {request["path"] for request in self.requests} == {"/v1/traces"}
        sent = [ExportTraceServiceRequest.FromString(request["body"]) for request in self.requests]
        return [resource for each in sent for resource in each.resource_spans]

    def spans(self) -> list[Any]:
        return [
            span for resource in self.resources() for scope in resource.scope_spans for span in scope.spans
        ]

    def named(self, name: str) -> Any:
        (span,) = [span for span in self.spans() if span.name == name]
        return span


def attributes(of: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in of.attributes
        if each.value.WhichOneof("value") != "array_value"
    }


@pytest.fixture
def collector() -> Iterator[Collector]:
    with closed_at_the_end(Collector()) as server:
        yield server


@contextmanager
def service(folder: Any, traces_url: str, tools: int = 40) -> Iterator[tuple[Served, str]]:
    url = f"sqlite:///{folder}/tools.db"
    with Registry.open(url) as registry:
        for number in range(tools):  # more than are passed on whole, so that all stages run
            registry.create(Tool(f"ping_{number}", f"asks the host {number} whether it is there"))
        key = registry.keys.add("test", roles=["select", "read"], org=None)[1]
        with served(registry, url, traces_url=traces_url) as running:
            yield running, key


def test_a_request_its_selection_and_the_stages_are_one_trace_below_the_callers_span(tmp_path, collector):
    body = {"message": f"asks a host {SECRET}", "k": 3, "context": {"user": "anna-canary", "org": "acme"}}
    with service(tmp_path, collector.url) as (call, key):
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        status, _, picked = call("POST", "/select", body, key=key, headers=headers)
        assert status == 200
        assert call("GET", "/healthz")[0] == 200
    request, selection = collector.named("POST /select"), collector.named("toolroll.select")
    assert {span.trace_id.hex() for span in collector.spans()} == {TRACE}
    assert request.parent_span_id.hex() == PARENT
    assert selection.parent_span_id == request.span_id
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/select",
        "url.scheme": "http",
    }
    assert attributes(selection)["toolroll.event_id"] == picked["event_id"]
    stages = [span for span in collector.spans() if span.name.startswith("toolroll.stage.")]
    assert {span.parent_span_id for span in stages} == {selection.span_id}
    names = [span.name.removeprefix("toolroll.stage.") for span in stages]
    assert names[:2] == ["read", "embed"]
    assert "visibility" in names
    assert stages[0].start_time_unix_nano == selection.start_time_unix_nano
    assert stages[-1].end_time_unix_nano == selection.end_time_unix_nano
    for earlier, later in itertools.pairwise(stages):
        assert earlier.end_time_unix_nano == later.start_time_unix_nano
    (resource,) = {attributes(each.resource)["service.name"] for each in collector.resources()}
    assert resource == "toolroll"


def test_no_span_has_what_a_caller_wrote(tmp_path, collector):
    with service(tmp_path, collector.url) as (call, key):
        body = {"message": SECRET, "context": {"user": "anna-canary"}}
        assert call("POST", "/select", body, key=key)[0] == 200
        assert call("POST", "/sessions/canary-of-a-conversation/select", body, key=key)[0] == 200
        assert call("POST", "/select", {"message": SECRET, "k": -1}, key=key)[0] == 422
        assert call("POST", "/select", body, key="trk_canary")[0] == 401
    assert len(collector.spans()) > 10
    sent = b"".join(request["body"] for request in collector.requests)
    assert b"canary" not in sent
    assert b"trk_" not in sent
    assert [
        attributes(span)["http.response.status_code"] for span in collector.spans() if span.kind == 2
    ] == [
        200,
        200,
        422,
        401,
    ]


def test_a_name_in_the_environment_is_the_services_name(tmp_path, collector, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "picks")
    with service(tmp_path, collector.url, 1) as (call, key):
        assert call("POST", "/select", {"message": "a host"}, key=key)[0] == 200
    assert attributes(collector.resources()[0].resource)["service.name"] == "picks"


def test_a_collector_that_is_away_delays_no_request_and_no_stop(tmp_path, caplog):
    with service(tmp_path, "http://127.0.0.1:9/v1/traces", 1) as (call, key):
        begun = time.monotonic()
        for _ in range(20):
            assert call("POST", "/select", {"message": "a host"}, key=key)[0] == 200
        assert time.monotonic() - begun < 5
        begun = time.monotonic()
    assert time.monotonic() - begun < 8  # the exporter alone would go on trying for 10 s


def test_without_a_collector_nothing_of_opentelemetry_is_made(tmp_path):
    with service(tmp_path, "", 1) as (call, key):
        assert call("POST", "/select", {"message": "a host"}, key=key)[0] == 200
        assert "RequestTracer" not in str(call.application.user_middleware)


def test_a_wrong_url_is_found_by_the_check(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    with pytest.raises(ValueError, match="traces_url"):
        ServerSettings(catalog=url, traces_url="collector:4317")
    sources = SettingSources.read(catalog=url, traces_url="http://localhost:4318/v1/traces", port=free_port())
    settings = sources.settings()
    assert [*problems_with(settings, sources)] == []
    real = builtins.__import__

    def without_exporter(name: str, *arguments: Any) -> Any:
        if name == "toolroll.server.traces":
            raise ModuleNotFoundError("No module", name="opentelemetry.exporter")
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_exporter)
    (problem,) = problems_with(settings, sources)
    assert str(problem) == ("option --traces-url: needs opentelemetry.exporter: pip install 'toolroll[otel]'")


class _Providing(LoopbackHandler):
    def do_POST(self) -> None:
        self.of.requests.append({"body": self.rfile.read(int(self.headers["Content-Length"]))})
        self.send(200, b"{}", Content_Type="application/json")


def test_a_request_to_the_drop_in_and_its_selection_are_a_trace(collector):
    tools = [
        {"type": "function", "function": {"name": f"ping_{number}", "description": f"asks the host {number}"}}
        for number in range(60)
    ]
    body = {"model": "m", "messages": [{"role": "user", "content": f"host 7 {SECRET}"}], "tools": tools}

    async def ask(url: str) -> int:
        application = create_drop_in(
            ServerSettings(upstream=url, authentication="none", upstream_k=3, traces_url=collector.url)
        )
        lifespan = application.lifespan.router.lifespan_context(application.lifespan)
        async with lifespan:
            status, _, _ = await arequest(
                application,
                "POST",
                "/v1/chat/completions",
                body,
                headers={"content-length": str(len(json.dumps(body)))},
            )
        return status

    with closed_at_the_end(LoopbackServer(_Providing)) as provider:
        assert asyncio.run(ask(f"http://127.0.0.1:{provider.port}/v1")) == 200
    assert len(json.loads(provider.requests[0]["body"])["tools"]) < 60
    request = collector.named("POST /chat/completions")
    assert collector.named("toolroll.select").parent_span_id == request.span_id
    assert SECRET.encode() not in b"".join(each["body"] for each in collector.requests)
