"""Spans and metrics of a `Toolroll` for OpenTelemetry (`toolroll[otel]`).

    from toolroll.adapters.opentelemetry import instrument

    instrument(roll)

Only the API of OpenTelemetry is used. Without an SDK it does nothing, and the application chooses SDK,
sampler and exporter. Neither spans nor metrics hold the message, names of users or arguments of tools.

Attributes of tools follow the semantic conventions for generative AI (`gen_ai.tool.*`). All others begin with
`toolroll.`.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation, get_meter
from opentelemetry.trace import (
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

import toolroll
from toolroll.roll import Toolroll
from toolroll.selection.observer import Observer, OutcomeReport
from toolroll.selection.selection import Selection
from toolroll.selection.telemetry import BOUNDS_S, Counters

_Attributes: TypeAlias = "dict[str, str | bool | int | float | tuple[str, ...]]"
_Read: TypeAlias = "Callable[[Counters], Iterable[Observation]]"

_SCOPE = "toolroll"


def instrument(
    roll: Toolroll,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    definitions: bool = False,
    stages: bool = False,
) -> Callable[[], None]:
    """Makes a span for each selection, an event for each outcome, and metrics of the counters.

    A span `toolroll.select` is a child of the caller's span. An outcome becomes an event `toolroll.outcome`
    of the span that is current in `record`. Instrument one roll of a process: instruments have fixed names.

    Args:
        roll: is not kept alive.
        tracer_provider: None for the global one.
        meter_provider: None for the global one.
        definitions: whether spans list the names of the selected tools (`gen_ai.tool.definitions`).
        stages: whether each stage of a selection is a span `toolroll.stage.NAME` below it.

    Returns:
        A function that stops the instrumentation.
    """
    tracer = get_tracer(_SCOPE, toolroll.__version__, tracer_provider)
    meter = get_meter(_SCOPE, toolroll.__version__, meter_provider)
    duration = meter.create_histogram(
        "toolroll.selection.duration",
        "s",
        "How long selections took.",
        explicit_bucket_boundaries_advisory=BOUNDS_S,
    )
    remove = roll.observe(_Observer(tracer, duration, definitions, stages))
    end_reading = _read_at_collection(roll, meter)

    def end() -> None:
        remove()
        end_reading()

    return end


class _Observer(Observer):
    """Makes the spans and the events, and records durations."""

    def __init__(self, tracer: Tracer, duration: Histogram, definitions: bool, stages: bool) -> None:
        self._tracer, self._duration = tracer, duration
        self._definitions, self._stages = definitions, stages

    def on_selection(self, selection: Selection) -> None:
        end = time.time_ns()
        spent = sum(nanoseconds for _, nanoseconds in selection.timings)
        span = self._tracer.start_span(
            "toolroll.select", attributes=_attributes(selection), start_time=end - spent
        )
        if self._definitions and span.is_recording():
            listed = [{"type": "function", "name": name} for name in selection.names]
            span.set_attribute("gen_ai.tool.definitions", json.dumps(listed, ensure_ascii=False))
        if self._stages and span.is_recording():
            self._trace_stages(selection, set_span_in_context(span), end - spent)
        span.end(end)
        self._duration.record(spent / 1e9)

    def _trace_stages(self, selection: Selection, parent: Context, begun: int) -> None:
        """Makes the spans of the stages, one after the other."""
        for stage, nanoseconds in selection.timings:
            span = self._tracer.start_span(f"toolroll.stage.{stage}", parent, start_time=begun)
            begun += nanoseconds
            if stage in selection.degraded:
                span.set_status(Status(StatusCode.ERROR))
            span.end(begun)

    def on_report(self, report: OutcomeReport) -> None:
        span = get_current_span()
        if not span.is_recording():
            return
        for name, kind in report.outcomes.items():
            attributes = {
                "gen_ai.tool.name": name,
                "toolroll.outcome": kind,
                "toolroll.event_id": report.event_id,
                "toolroll.org": report.org,
            }
            span.add_event("toolroll.outcome", attributes)


def _attributes(selection: Selection) -> _Attributes:
    turn, confidence = selection.turn, selection.confidence
    attributes: _Attributes = {
        "toolroll.event_id": selection.event_id,
        "toolroll.org": turn.context.org,
        "toolroll.selected": len(selection),
        "toolroll.total": selection.total,
        "toolroll.has_match": selection.has_match,
        "toolroll.catalog.revision": selection.catalog_revision,
    }
    if turn.k is not None:
        attributes["toolroll.k"] = turn.k
    if confidence is not None:
        attributes["toolroll.confidence"] = confidence
    if selection.degraded:
        attributes["toolroll.degraded"] = selection.degraded
    if turn.variant:
        attributes["toolroll.variant"] = turn.variant
    return attributes


def _read_at_collection(roll: Toolroll, meter: Meter) -> Callable[[], None]:
    """Makes instruments that read the counters at collection. Returns a function that ends this."""
    this, is_over = weakref.ref(roll), False

    def callback_of(read: _Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def callback(options: CallbackOptions) -> Iterable[Observation]:
            alive = this()
            return () if alive is None or is_over else read(alive.counters())

        return callback

    for name, unit, text, read in _TOTALS:
        meter.create_observable_counter(name, [callback_of(read)], unit, text)
    for name, unit, text, read in _VALUES:
        meter.create_observable_gauge(name, [callback_of(read)], unit, text)

    def end() -> None:
        nonlocal is_over
        is_over = True

    return end


def _one(field: str) -> _Read:
    """Reads a field of the counters; no observation if it is None."""

    def read(counters: Counters) -> Iterable[Observation]:
        value = getattr(counters, field)
        return () if value is None else (Observation(value),)

    return read


def _each(field: str, attribute: str) -> _Read:
    """One observation for each key of the field."""

    def read(counters: Counters) -> Iterable[Observation]:
        return [Observation(count, {attribute: key}) for key, count in getattr(counters, field).items()]

    return read


# Name, unit, description, and how to read it.
_TOTALS: tuple[tuple[str, str, str, _Read], ...] = (
    ("toolroll.selections.degraded", "{selection}", "Selections and lists in which a part failed.",
     _each("degraded", "toolroll.stage")),
    ("toolroll.denied", "{refusal}", "Calls and receipts that were refused.",
     _each("denied", "toolroll.reason")),
    ("toolroll.reports", "{report}", "Reports of outcomes that were recorded.", _one("reports")),
    ("toolroll.outcomes", "{outcome}", "Outcomes of tools as reported; a repetition counts again.",
     _each("outcomes", "toolroll.outcome")),
    ("toolroll.outcomes.counted", "{outcome}", "Outcomes of tools that said something new.",
     _one("outcomes_counted")),
    ("toolroll.observer.errors", "{error}", "Exceptions that observers raised.", _one("observer_errors")),
    ("toolroll.calls.refused", "{call}", "Calls of event loops that were not begun because too many waited.",
     _each("calls_refused", "toolroll.what")),
    ("toolroll.session.reads", "{read}", "Conversations read from the registry.", _one("session_reads")),
    ("toolroll.session.timeouts", "{call}", "Calls for a conversation that were not answered in time.",
     _one("session_timeouts")),
)  # fmt: skip
_VALUES: tuple[tuple[str, str, str, _Read], ...] = (
    ("toolroll.catalog.age", "s", "How long the shared catalog has served.", _one("catalog_age_s")),
    ("toolroll.catalog.build.duration", "s", "How long the shared catalog's build took.", _one("build_s")),
    ("toolroll.outbox.size", "By", "Bytes of reports that wait for the registry.", _one("outbox_bytes")),
)  # fmt: skip
