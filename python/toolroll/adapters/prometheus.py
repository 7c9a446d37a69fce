"""A `Toolroll`'s counters for Prometheus (`toolroll[prometheus]`).

    from prometheus_client import REGISTRY
    from toolroll.adapters.prometheus import ToolrollCollector

    REGISTRY.register(ToolrollCollector(roll))

Nothing is counted twice: each scrape reads `Toolroll.counters()` and `Toolroll.health()`, so selections cost
no more than without the collector. Each process has its own numbers. The multi-process mode of
`prometheus_client` does not read custom collectors: let Prometheus scrape each worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from toolroll.roll import Toolroll
from toolroll.selection.telemetry import Counters


class ToolrollCollector:
    """Reads the counters of one `Toolroll` at each scrape. Safe to share between threads."""

    def __init__(self, roll: Toolroll) -> None:
        """roll: kept alive by the collector; unregister the collector to let go of it."""
        self._roll = roll

    def collect(self) -> Iterator[Metric]:
        """All metrics, with their present values."""
        counters, health = self._roll.counters(), self._roll.health()
        yield from _of_selections(counters)
        yield from _of_catalog(counters, health)
        if health["recording"] is not None:
            yield from _of_registry(counters, health)


def _of_selections(counters: Counters) -> Iterator[Metric]:
    latency = counters.latency
    bounds = [*map(str, latency.bounds_s), "+Inf"]
    yield HistogramMetricFamily(
        "toolroll_selection_duration_seconds",
        "How long selections took.",
        buckets=list(zip(bounds, latency.cumulative, strict=True)),
        sum_value=latency.sum_s,
    )
    yield _counters(
        "degraded_selections",
        "Selections, searches and lists in which a stage or dependency failed.",
        "stage",
        counters.degraded,
    )
    yield _counters("denied", "Calls and receipts that were refused.", "reason", counters.denied)
    yield _counter("reports", "Reports of outcomes that were recorded.", counters.reports)
    yield _counters(
        "outcomes", "Outcomes of tools as reported; a repetition counts again.", "kind", counters.outcomes
    )
    yield _counter(
        "outcomes_counted", "Outcomes of tools that said something new.", counters.outcomes_counted
    )
    yield _counter("observer_errors", "Exceptions that observers raised.", counters.observer_errors)
    yield _counters("calls_refused", "Calls of event loops that were not begun because too many waited.",
                    "what", counters.calls_refused)  # fmt: skip


def _of_catalog(counters: Counters, health: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge("ready", "1 while requests may come, 0 once it is closed.", float(health["ready"]))
    yield _gauge("catalog_tools", "Tools in the shared catalog.", health["tools"])
    yield _gauge(
        "catalog_loaded_timestamp_seconds",
        "When the shared catalog began to serve, in seconds since the epoch.",
        counters.catalog_since,
    )
    yield _gauge("catalog_build_seconds", "How long the shared catalog's build took.", counters.build_s)
    yield _gauge("degraded_parts", "Parts that fail now.", len(health["degraded"]))
    yield _gauge("conversations", "Conversations in memory.", health["sessions"]["held"])


def _of_registry(counters: Counters, health: Mapping[str, Any]) -> Iterator[Metric]:
    sessions, recording, organisations = health["sessions"], health["recording"], health["organisations"]
    events = recording["events"]
    yield _gauge("registry_revision", "Revision of the registry that was read last.", health["revision"])
    yield _gauge(
        "registry_read_timestamp_seconds",
        "When the registry was last known to be current, in seconds since the epoch.",
        time.time() - health["age_s"],
    )
    states = {**_some(organisations, "ready", "waiting", "unread"), "failing": len(organisations["failing"])}
    yield _labelled(
        GaugeMetricFamily, "organisations", "Organisations with tools of their own.", "state", states
    )
    yield _counter("session_reads", "Conversations read.", counters.session_reads or 0)
    yield _counter(
        "session_timeouts",
        "Calls for a conversation that were not answered in time.",
        counters.session_timeouts or 0,
    )
    yield _counters(
        "session_writes",
        "Writes of conversations.",
        "result",
        _some(sessions, "written", "conflicts", "dropped"),
    )
    yield _gauge("sessions_waiting", "Conversations that wait to be written.", sessions["waiting"])
    yield _counters("events", "Selections for the event log.", "result", _some(events, "written", "dropped"))
    yield _gauge("events_waiting", "Selections that wait for the event log.", events["waiting"])
    yield _counters(
        "stored_reports",
        "Reports since the registry's keeper took over.",
        "result",
        _some(recording["keeper"], "counted", "repeated", "refused"),
    )
    yield _gauge("outbox_bytes", "Bytes of reports that wait for the registry.", counters.outbox_bytes or 0)
    yield _gauge("outbox_wait_seconds", "How long the oldest waiting report has waited.",
                 recording["outcomes"]["waiting_s"])  # fmt: skip


def _counter(name: str, text: str, value: int) -> Metric:
    """The format adds `_total` to the name."""
    return CounterMetricFamily(f"toolroll_{name}", text, value=value)


def _counters(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    return _labelled(CounterMetricFamily, name, text, label, counts)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"toolroll_{name}", text, value=value)


def _labelled(family: Any, name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    """One sample for each value of the label."""
    made: Metric = family(f"toolroll_{name}", text, labels=[label])
    for key, count in counts.items():
        made.add_metric([key], count)
    return made


def _some(counts: Mapping[str, int], *names: str) -> dict[str, int]:
    return {name: counts[name] for name in names}
