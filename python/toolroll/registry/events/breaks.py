"""The times at which tools broke, as the change detector of the fold sees them.

A break is a row of `learned`. The outcomes since there is evidence of one are a row, too, so that the next
batch goes on where the last one ended.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime

from toolroll.registry.events.rows import instant

_MOST_REPORTERS = 100  # that one break counts


@dataclass(frozen=True, slots=True)
class Verdict:
    """One outcome of a tool as the detector saw it.

    Attributes:
        seq: the number of the outcome. worked, reporter: what it said, and who. at: when the tool was shown.
        believed: the tool's reliability before. evidence: of a break, after it; 0 for none.
        change: -1: the tool broke, +1: it came back; else 0.
    """

    seq: int
    worked: bool
    reporter: str
    at: float
    believed: float
    evidence: float
    change: float


@dataclass(frozen=True, slots=True)
class Break:
    """One time at which a tool stopped working, or from which it never worked.

    Attributes:
        alarm, first_failure: times of the last and the first failure of those that raised the alarm.
        worked: how often the tool was believed to work until then.
        failures, successes: from the first failure to the alarm.
        reporters: how many people's outcomes these are; the application itself counts as one.
        back: when a probe worked, so that selections show the tool again; None while they do not.
    """

    alarm: float
    first_failure: float
    worked: float
    failures: int
    successes: int
    reporters: int
    back: float | None = None

    def to_bytes(self) -> bytes:
        """For the column `state`."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Break:
        """Reverses `to_bytes`. Raises TypeError or ValueError for other bytes."""
        return cls(**json.loads(data))

    def times(self) -> tuple[datetime, datetime, datetime | None]:
        """The first failure, the alarm, and when the tool came back."""
        back = None if self.back is None else instant(self.back)
        return instant(self.first_failure), instant(self.alarm), back


@dataclass(slots=True)
class Run:
    """The outcomes of a tool since there is evidence that it breaks, or the break that hides it.

    Attributes:
        broke: the number of the outcome that raised the alarm, while selections hide the tool; else 0.
    """

    broke: int = 0
    worked: float | None = None
    first_failure: float | None = None
    failures: int = 0
    successes: int = 0
    reporters: list[str] = field(default_factory=list)

    def see(self, verdict: Verdict) -> tuple[int, Break | float] | None:
        """Adds a verdict.

        Returns:
            None, or the number of a break with the break, which is new, or with the time at which it ended.
        """
        if self.broke:
            if verdict.change <= 0:
                return None
            broke, self.broke = self.broke, 0
            return broke, verdict.at
        if self.worked is None:
            self.worked = verdict.believed
        self.failures += not verdict.worked
        self.successes += verdict.worked
        if not verdict.worked and self.first_failure is None:
            self.first_failure = verdict.at
        if verdict.reporter not in self.reporters and len(self.reporters) < _MOST_REPORTERS:
            self.reporters.append(verdict.reporter)
        found = None
        if verdict.change < 0:
            first = verdict.at if self.first_failure is None else self.first_failure
            counts = self.failures, self.successes, len(self.reporters)
            found = verdict.seq, Break(verdict.at, first, self.worked, *counts)
        if not verdict.evidence or verdict.change:
            self._clear()
        if found is not None:
            self.broke = verdict.seq
        return found

    def _clear(self) -> None:
        self.broke, self.worked, self.first_failure = 0, None, None
        self.failures, self.successes, self.reporters = 0, 0, []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not self.broke and self.worked is None

    def to_bytes(self) -> bytes:
        """For the column `state`."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Run:
        """Reverses `to_bytes`. Raises TypeError or ValueError for other bytes."""
        return cls(**json.loads(data))
