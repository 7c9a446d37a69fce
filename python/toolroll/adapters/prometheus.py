"""A `Toolroll`'s counters for Prometheus (`toolroll[prometheus]`).

    from prometheus_client import REGISTRY
    from toolroll.adapters.prometheus import ToolrollCollector

    REGISTRY.register(ToolrollCollector(roll))

Each scrape reads `Toolroll.counters()` and `Toolroll.health()`, so the collector adds no cost to selections.
Each process has its own numbers. The multi-process mode of `prometheus_client` does not read custom
collectors: let Prometheus scrape each worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from toolroll.roll import Toolroll
from toolroll.selection.telemetry import Counters

_Read: TypeAlias = "Callable[[Counters, Mapping[str, Any]], Any]"
_Row: TypeAlias = "tuple[str, str, str, _Read]"


class ToolrollCollector:
    """Reads the counters of one `Toolroll` at each scrape. Safe to share between threads."""

    def __init__(self, roll: Toolroll) -> None:
        """roll: kept alive by the collector; unregister the collector to release it."""
        self._roll = roll

    def collect(self) -> Iterator[Metric]:
        """All metrics, with their present values."""
        counters, health = self._roll.counters(), self._roll.health()
        latency = counters.latency
        yield HistogramMetricFamily(
            "toolroll_selection_duration_seconds",
            "How long selections took.",
            buckets=list(zip([*map(str, latency.bounds_s), "+Inf"], latency.cumulative, strict=True)),
            sum_value=latency.sum_s,
        )
        has_registry = health["recording"] is not None
        for family, rows, registry_rows in (
            (CounterMetricFamily, _TOTALS, _REGISTRY_TOTALS),
            (GaugeMetricFamily, _VALUES, _REGISTRY_VALUES),
        ):
            for name, label, text, read in (*rows, *(registry_rows if has_registry else ())):
                yield _metric(family, f"toolroll_{name}", label, text, read(counters, health))


def _metric(family: Any, name: str, label: str, text: str, value: Any) -> Metric:
    """A metric with one value, or with one for each value of its label."""
    made = family(name, text, labels=[label]) if label else family(name, text, value=value)
    for key, count in value.items() if label else ():
        made.add_metric([key], count)
    assert isinstance(made, Metric)
    return made


def _some(counts: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: counts[name] for name in names}


# Name, label ("" for none), description, and the value or the values by label. Prometheus adds `_total`.
_TOTALS: tuple[_Row, ...] = (
    ("degraded_selections", "stage", "Selections, searches and lists in which a stage or dependency failed.",
     lambda counters, _: counters.degraded),
    ("denied", "reason", "Calls and receipts that were refused.", lambda counters, _: counters.denied),
    ("reports", "", "Reports of outcomes that were recorded.", lambda counters, _: counters.reports),
    ("outcomes", "kind", "Outcomes of tools as reported; a repetition counts again.",
     lambda counters, _: counters.outcomes),
    ("outcomes_counted", "", "Outcomes of tools that said something new.",
     lambda counters, _: counters.outcomes_counted),
    ("observer_errors", "", "Exceptions that observers raised.",
     lambda counters, _: counters.observer_errors),
    ("calls_refused", "what", "Calls of event loops that were not begun because too many waited.",
     lambda counters, _: counters.calls_refused),
)  # fmt: skip
_VALUES: tuple[_Row, ...] = (
    ("ready", "", "1 while requests may come, 0 once it is closed.",
     lambda _, health: float(health["ready"])),
    ("catalog_tools", "", "Tools in the shared catalog.", lambda _, health: health["tools"]),
    ("catalog_loaded_timestamp_seconds", "",
     "When the shared catalog began to serve, in seconds since the epoch.",
     lambda counters, _: counters.catalog_since),
    ("catalog_build_seconds", "", "How long the shared catalog's build took.",
     lambda counters, _: counters.build_s),
    ("degraded_parts", "", "Parts that fail now.", lambda _, health: len(health["degraded"])),
    ("conversations", "", "Conversations in memory.", lambda _, health: health["sessions"]["held"]),
)  # fmt: skip
_REGISTRY_TOTALS: tuple[_Row, ...] = (
    ("session_reads", "", "Conversations read.", lambda counters, _: counters.session_reads or 0),
    ("session_timeouts", "", "Calls for a conversation that were not answered in time.",
     lambda counters, _: counters.session_timeouts or 0),
    ("session_writes", "result", "Writes of conversations.",
     lambda _, health: _some(health["sessions"], ("written", "conflicts", "dropped"))),
    ("events", "result", "Selections for the event log.",
     lambda _, health: _some(health["recording"]["events"], ("written", "dropped"))),
    ("stored_reports", "result", "Reports since the registry's keeper took over.",
     lambda _, health: _some(health["recording"]["keeper"], ("counted", "repeated", "refused"))),
)  # fmt: skip
_REGISTRY_VALUES: tuple[_Row, ...] = (
    ("registry_revision", "", "Revision of the registry that was read last.",
     lambda _, health: health["revision"]),
    ("registry_read_timestamp_seconds", "",
     "When the registry was last known to be current, in seconds since the epoch.",
     lambda _, health: time.time() - health["age_s"]),
    ("organisations", "state", "Organisations with tools of their own.",
     lambda _, health: _some(health["organisations"], ("ready", "waiting", "unread"))
     | {"failing": len(health["organisations"]["failing"])}),
    ("sessions_waiting", "", "Conversations that wait to be written.",
     lambda _, health: health["sessions"]["waiting"]),
    ("events_waiting", "", "Selections that wait for the event log.",
     lambda _, health: health["recording"]["events"]["waiting"]),
    ("outbox_bytes", "", "Bytes of reports that wait for the registry.",
     lambda counters, _: counters.outbox_bytes or 0),
    ("outbox_wait_seconds", "", "How long the oldest waiting report has waited.",
     lambda _, health: health["recording"]["outcomes"]["waiting_s"]),
)  # fmt: skip
