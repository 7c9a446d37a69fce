"""The interface between a `Toolroll` and code that observes it, such as metrics, traces and audits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toolroll.learning.outcomes import Kind
from toolroll.selection.selection import Selection


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """A recorded report. It does not tell its reporter.

    Attributes:
        event_id, org: the selection's.
        outcomes: tool → "succeeded", "failed", "called" (the result is unknown), "corrected" (it was the
            wrong tool), "meant" (it was the right one), or "wanted", "wanted_succeeded", "wanted_failed" (a
            search found it afterwards).
        counted: the number of tools about which the report was new; 0 for a repetition.
        final: False if more reports on this selection are expected.
        durations_ms: tool → the duration of its call, for measured calls.
    """

    event_id: str
    org: str
    outcomes: Mapping[str, Kind]
    counted: int
    final: bool
    durations_ms: Mapping[str, float] = field(default_factory=dict)


class Observer(Protocol):
    """Called with each selection and with each report of a `Toolroll`.

    The calls come in the thread of the selection or the report, before the caller gets its result. So an
    observer must not wait: it may count, or put something into a queue. Many threads may call it at once. If
    it raises, the first error is logged, all errors are counted, and the selection goes on.

    A subclass may define only one of the two methods.
    """

    def on_selection(self, selection: Selection) -> None:
        """Called with each selection that becomes an event. A search in a session does not."""

    def on_report(self, report: OutcomeReport) -> None:
        """Called with each report that `Toolroll.record` or a session has recorded."""
