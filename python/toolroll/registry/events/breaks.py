"""Breaks of tools, as the fold's change detector finds them.

Each break is a row of `learned`. Another row keeps the outcomes since the first evidence of a break, so that
the next batch can continue.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

_MOST_REPORTERS = 100  # that one break counts


@dataclass(frozen=True, slots=True)
class DetectorStep:
    """One outcome of a tool, and the detector's result.

    Attributes:
        seq: the number of the outcome.
        at: when the tool was shown.
        believed: the tool's estimated reliability before the outcome.
        evidence: of a break, after the outcome; 0 for none.
        change: -1 if the tool broke, +1 if it came back, else 0.
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
    """A tool stopped working, or never worked.

    Attributes:
        alarm, first_failure: times of the last and the first failure before the alarm.
        worked: the tool's reliability before the break.
        failures, successes: from the first failure to the alarm.
        reporters: how many people reported these outcomes; the application counts as one.
        back: when a probe succeeded and selections showed the tool again; None until then.
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


@dataclass(slots=True)
class Run:
    """A tool's outcomes since the first evidence of a break, or the break that hides the tool.

    Attributes:
        broke: while selections hide the tool: the number of the outcome that raised the alarm; else 0.
    """

    broke: int = 0
    worked: float | None = None
    first_failure: float | None = None
    failures: int = 0
    successes: int = 0
    reporters: list[str] = field(default_factory=list)

    def see(self, verdict: DetectorStep) -> tuple[int, Break | float] | None:
        """Adds a verdict. Returns a break's number, with the new break or the time of its end."""
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
            self.broke, self.worked, self.first_failure = 0, None, None
            self.failures, self.successes, self.reporters = 0, 0, []
        if found is not None:
            self.broke = verdict.seq
        return found

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be stored."""
        return not self.broke and self.worked is None

    def to_bytes(self) -> bytes:
        """For the column `state`."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Run:
        """Reverses `to_bytes`. Raises TypeError or ValueError for other bytes."""
        return cls(**json.loads(data))
