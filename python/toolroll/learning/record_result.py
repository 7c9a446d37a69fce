"""The result of a report: the number of new outcomes, and why some change no estimate yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from toolroll._core import Learned
from toolroll.learning.effects import OutcomeChange
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import FAILED, SUCCEEDED, Report
from toolroll.model.identity import scopes

Pending: TypeAlias = Literal["repeated", "quota", "reporters"]
SENTENCES: Mapping[Pending, str] = {
    "repeated": "adds nothing: the same was reported before",
    "quota": "kept, but changes no estimate: this reporter has used up today's three for the tool",
    "reporters": "counted, waits for more reporters",
}
_JUDGED = SUCCEEDED | FAILED  # outcomes that say whether the tool works


@dataclass(frozen=True, slots=True)
class RecordResult:
    """The result of a report. `str` of it is a sentence for people.

    Attributes:
        counted: the number of tools with a new outcome; 0 for a repetition.
        org: the organisation of the selection.
        pending: tool → why its outcome changes no estimate yet: "repeated", "quota" (the reporter has used up
            today's outcomes for the tool; only the detection of broken tools still reads them) or "reporters"
            (the estimate moves once two users have reported, and sinks once four have reported failures).
            Over a registry, only this process's own knowledge counts, and the quota is not known.
    """

    event_id: str
    counted: int
    org: str
    pending: Mapping[str, Pending] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"{name}: {SENTENCES[why]}" for name, why in self.pending.items()]
        new = "1 new outcome" if self.counted == 1 else f"{self.counted} new outcomes"
        return "; ".join([new, *said])


def pending_of(
    report: Report, changes: Sequence[OutcomeChange], waiting: frozenset[str]
) -> dict[str, Pending]:
    """Tool → why its outcome changes no estimate yet. waiting: see `waiting_in`."""
    changed = {change.tool.name: change for change in changes}
    found: dict[str, Pending] = {}
    for entry in report.entries:
        change = changed.get(entry.name)
        if change is None:
            found[entry.name] = "repeated"
        elif not change.weight:
            found[entry.name] = "quota"
        elif entry.name in waiting:
            found[entry.name] = "reporters"
    return found


def waiting_in(learned: Learned, exposure: Exposure, changes: Sequence[OutcomeChange]) -> frozenset[str]:
    """The tools whose success or failure is new, but whose reliability is still the prior.

    learned: the statistics, with the changes.
    """
    judged = [change.tool for change in changes if change.after in _JUDGED]
    if not judged:
        return frozenset()
    where = scopes(exposure.page, exposure.tier, exposure.category)[:3]
    arms = np.array([tool.key.arm for tool in judged], np.uint64)
    known = learned.reliability(where, arms, exposure.at)
    unknown = Learned(learned.dim, learned.rates).reliability(where, arms, exposure.at)
    is_prior = (known[0] == unknown[0]) & (known[1] == unknown[1])
    return frozenset(tool.name for tool, waits in zip(judged, is_prior.tolist(), strict=True) if waits)
