"""Reports an engine's selections while it runs: counters, log records, calls of observers.

This runs on the path of a selection, so nothing here waits. Neither counters nor log records hold the
message, names of users or arguments of tools.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from toolroll.model.errors import Failure, InvalidInput, quoted
from toolroll.runtime.counts import ConcurrentCounter, ConcurrentHistogram
from toolroll.selection.calls import Denial
from toolroll.selection.observer import Observer, OutcomeReport
from toolroll.selection.selection import Selection

_log = logging.getLogger("toolroll")
_selection_log = logging.getLogger("toolroll.selection")

# Upper ends of the buckets in microseconds: three a decade, from a small catalog to a slow embedder.
_BOUNDS_US = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
_BOUNDS_NS = tuple(1_000 * bound for bound in (*_BOUNDS_US, 1_000_000, 2_000_000, 5_000_000))
BOUNDS_S = tuple(bound / 1e9 for bound in _BOUNDS_NS)

# Keys of the counts, beside ("stage", name), ("kind", name) and ("denial", reason).
_REPORTS, _COUNTED, _ERRORS = "reports", "counted", "observer errors"


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """How long selections took.

    Attributes:
        bounds_s: upper ends of the buckets in seconds, ascending. The last bucket has none.
        counts: selections in each bucket, one more than `bounds_s`. A bucket includes its upper end.
        sum_s: seconds of all selections together.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float

    @property
    def cumulative(self) -> tuple[int, ...]:
        """How many selections took at most as long as each bound; the last number counts all."""
        return tuple(accumulate(self.counts))


@dataclass(frozen=True, slots=True)
class Counters:
    """The counts of a `Toolroll` in this process, since its creation or since the fork.

    Totals are exact with any number of threads, and never decrease. Between the reads of two totals, a
    selection may be counted.

    Attributes:
        selections: selections with an event.
        degraded: stage or dependency → its failures in selections, searches of conversations, and lists
            of visible tools.
        denied: reason → refused calls and refused reports with a receipt.
        latency: how long selections took, from reading the message to the decision.
        reports: recorded reports.
        outcomes: kind of outcome → reports of it for a tool; a repetition counts again.
        outcomes_counted: outcomes that were no repetition.
        observer_errors: exceptions that observers raised.
        catalog_since: the start of the shared catalog's use, in seconds since the epoch.
        catalog_age_s: seconds since then.
        build_s: seconds for its build, with the embedding of its texts.
        calls_refused: "embedder", "store" → calls from event loops that were refused because too many
            waited for a thread (`docs/server.md`).
        session_reads: conversations read from the registry; None in memory.
        session_timeouts: calls for a conversation that the registry did not answer in time; None in memory.
        outbox_bytes: bytes of reports that wait for the registry; None in memory.
    """

    selections: int
    degraded: Mapping[str, int]
    denied: Mapping[str, int]
    latency: LatencyHistogram
    reports: int
    outcomes: Mapping[str, int]
    outcomes_counted: int
    observer_errors: int
    catalog_since: float
    catalog_age_s: float
    build_s: float
    calls_refused: Mapping[str, int]
    session_reads: int | None = None
    session_timeouts: int | None = None
    outbox_bytes: int | None = None


@dataclass(slots=True, eq=False)
class _Observing:
    """An observer, and whether one of its errors was logged."""

    observer: Observer
    has_failed: bool = False


class Telemetry:
    """Counts the selections and reports of one engine, logs them and calls observers."""

    def __init__(self) -> None:
        self._durations = ConcurrentHistogram(_BOUNDS_NS)
        self._counts = ConcurrentCounter()
        self._observers: list[_Observing] = []  # `append` and `remove` are atomic; read as a copy

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Calls the observer from now on. Returns a function that removes it.

        Raises:
            InvalidInput: it lacks a method, or a method is a coroutine function, which nobody would await.
        """
        for name in ("on_selection", "on_report"):
            method = getattr(observer, name, None)
            if isinstance(observer, type) or not callable(method) or inspect.iscoroutinefunction(method):
                raise InvalidInput(
                    f"observers: {quoted(observer)} must be an object with a plain method {name}; "
                    "subclass toolroll.Observer"
                )
        added = _Observing(observer)

        def remove() -> None:
            with suppress(ValueError):  # it has ended before
                self._observers.remove(added)

        self._observers.append(added)
        return remove

    def selected(self, selection: Selection, nanoseconds: int) -> None:
        """Counts, logs and reports a selection."""
        self._durations.add(nanoseconds)
        if selection.failures:
            self.failed(selection.failures)
        for one in self._observers.copy():
            try:
                one.observer.on_selection(selection)
            except Exception as error:
                self._failed(one, error)
        if _selection_log.isEnabledFor(logging.DEBUG):
            _write(selection, nanoseconds)

    def failed(self, failures: Sequence[Failure]) -> None:
        """Counts the failures of one selection, search or list: each part once."""
        for stage in {failure.where for failure in failures}:
            self._counts.add(("stage", stage))

    def denied(self, reason: Denial) -> None:
        """Counts a refused call or report."""
        self._counts.add(("denial", reason))

    def recorded(self, report: OutcomeReport) -> None:
        """Counts a recorded report, and passes it to the observers."""
        kinds = [("kind", kind) for kind in report.outcomes.values()]
        self._counts.add_all([_REPORTS, *([_COUNTED] * report.counted), *kinds])
        for one in self._observers.copy():
            try:
                one.observer.on_report(report)
            except Exception as error:
                self._failed(one, error)

    def counters(
        self, *, now: float, catalog_since: float, build_s: float, calls_refused: Mapping[str, int]
    ) -> Counters:
        """All totals so far; the arguments are fields of `Counters`."""
        totals = self._counts.totals()
        buckets, nanoseconds = self._durations.totals()
        return Counters(
            selections=sum(buckets),
            degraded=_named(totals, "stage"),
            denied=_named(totals, "denial"),
            latency=LatencyHistogram(BOUNDS_S, buckets, nanoseconds / 1e9),
            reports=totals[_REPORTS],
            outcomes=_named(totals, "kind"),
            outcomes_counted=totals[_COUNTED],
            observer_errors=totals[_ERRORS],
            catalog_since=catalog_since,
            catalog_age_s=max(now - catalog_since, 0.0),
            build_s=build_s,
            calls_refused=calls_refused,
        )

    def _failed(self, one: _Observing, error: Exception) -> None:
        self._counts.add(_ERRORS)
        if not one.has_failed:
            one.has_failed = True
            name = type(one.observer).__name__
            _log.warning("observer %s: failed; its next errors are only counted", name, exc_info=error)


def _named(totals: Mapping[Hashable, int], group: str) -> dict[str, int]:
    """The totals of one group of keys, by name."""
    return {
        key[1]: n for key, n in sorted(totals.items(), key=repr) if isinstance(key, tuple) and key[0] == group
    }


def _write(selection: Selection, nanoseconds: int) -> None:
    """Writes one log record, as documented in docs/observability.md."""
    turn, selected, total, us = selection.turn, len(selection), selection.total, nanoseconds / 1e3
    fields = {
        "event_id": selection.event_id,
        "org": turn.context.org,
        "k": turn.k,
        "selected": selected,
        "total": total,
        "us": us,
        "degraded": selection.degraded,
        "confidence": selection.confidence,
        "has_match": selection.has_match,
        "tokens_saved": selection.tokens.saved,
        "variant": turn.variant,
        "catalog_revision": selection.catalog_revision,
    }
    # `debug` would look through the stack for its caller, which is this function.
    _selection_log.handle(
        _selection_log.makeRecord(
            _selection_log.name,
            logging.DEBUG,
            __file__,
            _write.__code__.co_firstlineno,
            "selected %d of %d tools in %.0f µs",
            (selected, total, us),
            None,
            _write.__name__,
            fields,
        )
    )
