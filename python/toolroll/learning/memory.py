"""Outcomes of a process without a store: folded as they arrive, and lost with the process."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np

from toolroll._core import Learned, LearningRates
from toolroll.learning.deduplication import (
    MOST_A_DAY,
    MOST_SILENT,
    NEW_EVENT,
    NO_TOOL,
    EventState,
    closing_weight,
    deduplicate,
)
from toolroll.learning.effects import OutcomeChange, deltas
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Report
from toolroll.learning.record_result import RecordResult, pending_of, waiting_in
from toolroll.model.errors import NotFound

MOST_EVENTS = 50_000  # events whose reports are remembered, so that no outcome counts twice
_DAY_S = 86_400


class Memory:
    """Statistics by organisation. Recording takes a lock; reading `learned` takes none."""

    def __init__(self, dim: int, rates: LearningRates | None = None) -> None:
        """dim: the width of the vectors of messages; 0 without an embedder."""
        self._dim, self._rates = dim, rates or LearningRates()
        self.recording = threading.Lock()  # to be held during a fork, too
        self._states: dict[str, tuple[float, EventState]] = {}  # event → when shown, its state; oldest first
        self._forgotten_until = float("-inf")  # events up to then may have been forgotten
        self._counted: dict[int, Counter[tuple[str, str, str]]] = {}  # day → (org, tool, reporter) → outcomes
        self.learned: dict[str, Learned] = {}

    def record(self, exposure: Exposure, report: Report, *, explains: bool = True) -> RecordResult:
        """Counts the new part of the report.

        explains: whether the result has `pending`.

        Raises:
            InvalidInput: it names a tool that was not shown.
            NotFound: the event is too old: its earlier reports are no longer remembered.
        """
        with self.recording:
            _, before = self._states.get(exposure.event_id, (0.0, None))
            if before is None and exposure.at <= self._forgotten_until:
                raise NotFound(
                    f"event {exposure.event_id}: is older than the {MOST_EVENTS:,} events that are remembered"
                )
            today = self._today(exposure)

            org, reporter = exposure.org, exposure.reporter
            most = {NO_TOOL: MOST_SILENT, **dict.fromkeys([one.name for one in report.entries], MOST_A_DAY)}
            weights = {
                tool: 1.0 if not reporter or today[org, tool, reporter] < count else 0.0
                for tool, count in most.items()
            }
            step = deduplicate(exposure, before or NEW_EVENT, report, weights.__getitem__)
            if step.changes or step.closes:
                closes = closing_weight(step, weights.__getitem__) if step.closes else 0.0
                self._fold(exposure, step.changes, closes)
            # Counted now that the report is accepted.
            new = [change.tool.name for change in step.changes if change.before is None]
            if step.closes and not step.settled.said:
                new.append(NO_TOOL)
            today.update([(org, tool, reporter) for tool in new])
            self._states[exposure.event_id] = exposure.at, step.settled
            if len(self._states) > MOST_EVENTS:
                forgotten, _ = self._states.pop(next(iter(self._states)))
                self._forgotten_until = max(self._forgotten_until, forgotten)
            if not explains:
                return RecordResult(exposure.event_id, len(step.changes), org)
            learned = self.learned.get(org)
            waiting = frozenset[str]() if learned is None else waiting_in(learned, exposure, step.changes)
            pending = pending_of(report, step.changes, waiting)
            return RecordResult(exposure.event_id, len(step.changes), org, pending)

    def _fold(self, exposure: Exposure, changes: tuple[OutcomeChange, ...], closes: float) -> None:
        vectors = None
        if exposure.vector is not None and len(exposure.vector) == self._dim:
            vectors = exposure.vector.astype(np.float32)[None]
        added = deltas(exposure, changes, closes, -1 if vectors is None else 0)
        known = self.learned.get(exposure.org) or Learned(self._dim, self._rates)
        self.learned[exposure.org] = known.fold(added, vectors)

    def _today(self, exposure: Exposure) -> Counter[tuple[str, str, str]]:
        day = int(exposure.at // _DAY_S)
        today = self._counted.get(day)
        if today is None:
            self._counted = {known: counts for known, counts in self._counted.items() if known >= day - 1}
            today = self._counted[day] = Counter()
        return today
