"""Exactly-once counting: finds the new part of a report, given the earlier reports about its event.

The state of an event is one outcome for each tool, and whether the event is closed. A repeated outcome adds
at most an unknown duration, another outcome revises the first, and an event closes once. So retries,
duplicates and late reports change nothing: the changes always add up to the last reported outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from toolroll.learning.effects import OutcomeChange
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import NOT_SHOWN, Kind, Report
from toolroll.model.errors import InvalidInput, quoted

# Outcomes of one reporter that have weight for one tool. Further ones are stored with weight 0: only the
# change detector sees them.
MOST_A_DAY = 3
MOST_SILENT = 30  # events without a call that count for one reporter in a day
NO_TOOL = ""  # stands for the tool of an event without a call
MOST_FOUND = 8  # tools of one event that a search may have found
_LISTED, _LONGEST_NAME = 20, 80  # names in an error, and characters of each


class ReportedOutcome(NamedTuple):
    """The reported outcome of one tool of an event.

    Attributes:
        weight: the weight with which it counted.
        at: when it was reported, seconds since the epoch; 0 if reports arrive in their order.
        duration_ms: the duration of the call; None if no report has one.
    """

    kind: Kind
    weight: float
    at: float = 0.0
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class EventState:
    """The reported state of an event.

    Attributes:
        said: tool's name → its outcome.
        closed: whether a report has closed it.
    """

    said: Mapping[str, ReportedOutcome] = field(default_factory=dict)
    closed: bool = False


NEW_EVENT = EventState()


@dataclass(frozen=True, slots=True)
class Step:
    """The additions of a report.

    Attributes:
        changes: one for each tool whose outcome is new or revised.
        closes: whether the report closes the event.
        settled: the state of the event after the report.
    """

    changes: tuple[OutcomeChange, ...]
    closes: bool
    settled: EventState

    @property
    def is_new(self) -> bool:
        """Whether the report adds anything."""
        return bool(self.changes) or self.closes


def deduplicate(
    exposure: Exposure,
    before: EventState,
    report: Report,
    weight_of: Callable[[str], float] = lambda name: 1.0,
    *,
    is_late: bool = False,
    at: float = 0.0,
) -> Step:
    """The new part of the report.

    weight_of: tool's name → the weight that this reporter has left for it today; called once for each tool of
    an event. is_late: whether the report came too late to count. at: when the report was made. If the
    store gets the later report of two processes first, the earlier one changes nothing.

    Raises InvalidInput if a called tool was not shown, or a found tool was shown.
    """
    shown = {tool.name: tool for tool in exposure.shown} if report.entries else {}
    found = {tool.name: tool for tool in report.found}
    if len(found) > MOST_FOUND:
        raise InvalidInput(
            f"event {report.event_id}: finds {len(found)} tools that were not shown, "
            f"must be at most {MOST_FOUND}"
        )
    said = dict(before.said)
    changes = []
    for entry in report.entries:
        tool = _tool(report, entry.name, entry.kind, shown, found)
        known = said.get(entry.name)
        if known is not None and at < known.at:
            continue
        duration_ms = entry.duration_ms
        if (
            known is not None
            and known.kind == entry.kind
            and (duration_ms is None or known.duration_ms is not None)
        ):
            said[entry.name] = known._replace(at=at)
            continue
        weight = weight_of(entry.name) if known is None else known.weight
        if known is not None and duration_ms is None:  # a correction has none, and the call took as long
            duration_ms = known.duration_ms
        before_it = None if known is None else known.kind
        changes.append(OutcomeChange(tool, before_it, entry.kind, weight, is_late, duration_ms))
        said[entry.name] = ReportedOutcome(entry.kind, weight, at, duration_ms)
    closes = report.is_final and not before.closed
    return Step(tuple(changes), closes, EventState(said, before.closed or report.is_final))


def closing_weight(step: Step, weight_of: Callable[[str], float]) -> float:
    """The weight of the event as a whole if the step closes it: the lowest weight of its outcomes, else 0.

    If predicted calls counted more than the calls themselves, a tool would look unwanted. weight_of: called
    with `NO_TOOL` if no tool was called.
    """
    if not step.closes:
        return 0.0
    said = step.settled.said.values()
    return min(each.weight for each in said) if said else weight_of(NO_TOOL)


def most_a_day(tool: str) -> int:
    """How many outcomes of one reporter count in a day, for this tool or for `NO_TOOL`."""
    return MOST_SILENT if tool == NO_TOOL else MOST_A_DAY


def _tool(
    report: Report, name: str, kind: Kind, shown: Mapping[str, ShownTool], found: Mapping[str, ShownTool]
) -> ShownTool:
    if kind == "meant":  # the right one may have been among the tools shown
        tool = shown.get(name) or found.get(name)
    else:
        tool = (found if kind in NOT_SHOWN else shown).get(name)
    if tool is not None:
        return tool
    if name in shown:
        raise InvalidInput(
            f"event {report.event_id}: tool {quoted(name)} was shown, so report it as called, not as wanted"
        )
    raise InvalidInput(
        f"event {report.event_id}: tool {quoted(name)} was not shown; shown: {_listed(shown)}. "
        "Report a tool that a search found afterwards as wanted"
    )


def _listed(names: Collection[str]) -> str:
    """The first names, and the number of the others."""
    first = ", ".join(name[:_LONGEST_NAME] for name in islice(names, _LISTED))
    more = len(names) - _LISTED
    return f"{first} and {more} more" if more > 0 else first or "none"
