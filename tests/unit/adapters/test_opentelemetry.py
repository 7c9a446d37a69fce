"""Spans and metrics, as an SDK exports them."""

from __future__ import annotations

import gc
import json
import re
import weakref
from pathlib import Path

import pytest

from toolroll import Context, Tool, Toolroll

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolroll.adapters.opentelemetry import instrument

TOOLS = [Tool("get_forecast", "The weather of the next days"), Tool("pay_invoice", "Pay an invoice")]
PAGE = Path(__file__).parents[3] / "docs" / "observability.md"


class Exported:
    """An SDK that keeps what it would send."""

    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meter_provider = MeterProvider([self._metrics])
        self.providers = {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}

    @property
    def spans(self):
        return self._spans.get_finished_spans()

    def metrics(self):
        """Name → (unit, {attributes: value or histogram})."""
        data = self._metrics.get_metrics_data()
        return {
            metric.name: (
                metric.unit,
                {
                    tuple(point.attributes.items()): getattr(point, "value", point)
                    for point in metric.data.data_points
                },
            )
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def exported():
    return Exported()


@pytest.fixture
def roll():
    return Toolroll.from_tools(TOOLS, embedder="none")


def test_a_selection_is_a_span_below_the_callers(roll, exported):
    instrument(roll, **exported.providers)
    with exported.tracer_provider.get_tracer("host").start_as_current_span("request") as request:
        picked = roll.select("weather", Context(org="acme"), k=1)
    span = next(span for span in exported.spans if span.name == "toolroll.select")
    assert span.parent.span_id == request.get_span_context().span_id
    assert dict(span.attributes) == {
        "toolroll.event_id": picked.event_id,
        "toolroll.org": "acme",
        "toolroll.selected": 1,
        "toolroll.total": 2,
        "toolroll.has_match": picked.has_match,
        "toolroll.catalog.revision": picked.catalog_revision,
        "toolroll.k": 1,
        "toolroll.confidence": picked.confidence,
    }
    spent = sum(nanoseconds for _, nanoseconds in picked.timings)
    assert span.end_time - span.start_time == spent


def test_failures_are_named(exported):
    class Away:
        identity, dim, is_instant, is_english = "away", 4, True, False

        def embed(self, texts):
            return [[1.0, 0.0, 0.0, 0.0] for _ in texts]

        def embed_query(self, text):
            raise RuntimeError(text)

    roll = Toolroll.from_tools([Tool("send", "send it")], embedder=Away())
    instrument(roll, **exported.providers)
    roll.select("my secret", k=1)
    assert exported.spans[0].attributes["toolroll.degraded"] == ("embedder",)
    assert exported.metrics()["toolroll.selections.degraded"] == (
        "{selection}",
        {(("toolroll.stage", "embedder"),): 1},
    )
    assert "my secret" not in exported.spans[0].to_json()


def test_neither_message_nor_user_nor_session_is_exported(roll, exported):
    instrument(roll, **exported.providers, definitions=True)
    with exported.tracer_provider.get_tracer("host").start_as_current_span("request"):
        picked = roll.select("zebra", Context(user="anna", session="private"), history=["earlier zebra"])
        roll.record(picked, ["get_forecast"], reporter="bertha")
    everything = "".join(span.to_json() for span in exported.spans) + str(exported.metrics())
    for private in ("zebra", "anna", "private", "bertha"):
        assert private not in everything


def test_definitions_are_listed_when_they_are_asked_for(roll, exported):
    instrument(roll, **exported.providers, definitions=True)
    picked = roll.select("weather")
    listed = json.loads(exported.spans[0].attributes["gen_ai.tool.definitions"])
    assert listed == [{"type": "function", "name": name} for name in picked.names]


def test_an_outcome_is_an_event_of_the_current_span(roll, exported):
    instrument(roll, **exported.providers)
    picked = roll.select("weather", Context(org="acme"))
    with exported.tracer_provider.get_tracer("host").start_as_current_span("request"):
        roll.record(picked, {"get_forecast": False})
    roll.record(picked, {"get_forecast": True})  # no span is current
    (event,) = exported.spans[-1].events
    assert event.name == "toolroll.outcome"
    assert dict(event.attributes) == {
        "gen_ai.tool.name": "get_forecast",
        "toolroll.outcome": "failed",
        "toolroll.event_id": picked.event_id,
        "toolroll.org": "acme",
    }


def test_metrics_are_the_counters_of_the_roll(roll, exported):
    instrument(roll, **exported.providers)
    picked = roll.select("weather")
    roll.record(picked, {"get_forecast": True, "pay_invoice": False})
    metrics = exported.metrics()
    assert metrics["toolroll.reports"] == ("{report}", {(): 1})
    assert metrics["toolroll.outcomes"] == (
        "{outcome}",
        {(("toolroll.outcome", "failed"),): 1, (("toolroll.outcome", "succeeded"),): 1},
    )
    assert metrics["toolroll.outcomes.counted"][1] == {(): 2}
    assert metrics["toolroll.catalog.build.duration"] == ("s", {(): roll.counters().build_s})
    assert 0 <= metrics["toolroll.catalog.age"][1][()] < 60
    assert "toolroll.outbox.size" not in metrics  # in memory there is none


def test_durations_are_in_buckets_that_fit_selections(roll, exported):
    instrument(roll, **exported.providers)
    picked = roll.select("weather")
    unit, points = exported.metrics()["toolroll.selection.duration"]
    (point,) = points.values()
    assert (unit, point.count) == ("s", 1)
    assert point.sum == pytest.approx(picked.timings_us["total"] / 1e6)
    assert point.explicit_bounds == roll.counters().latency.bounds_s


def test_nothing_is_exported_after_the_end(roll, exported):
    end = instrument(roll, **exported.providers)
    roll.select("weather")
    before = exported.metrics()
    assert "toolroll.reports" in before
    end()
    roll.select("weather")
    assert len(exported.spans) == 1
    assert "toolroll.reports" not in exported.metrics()


def test_instruments_do_not_keep_a_roll_alive(exported):
    roll = Toolroll.from_tools(TOOLS, embedder="none")
    instrument(roll, **exported.providers)
    this = weakref.ref(roll)
    del roll
    gc.collect()
    assert this() is None
    assert "toolroll.reports" not in exported.metrics()


def test_without_an_sdk_nothing_happens(roll):
    instrument(roll)()
    assert roll.select("weather").names


def test_every_metric_and_attribute_is_documented(roll, exported):
    from toolroll.adapters import opentelemetry

    page = PAGE.read_text("utf-8")
    source = Path(opentelemetry.__file__).read_text("utf-8")
    for name in set(re.findall(r'"((?:toolroll|gen_ai)\.[a-z._]+)"', source)):
        assert f"`{name}`" in page, name


def test_the_opentelemetry_example_of_the_page_runs(roll):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "instrument" in block]
    exec(compile(block, "observability.md", "exec"), {"roll": roll})
