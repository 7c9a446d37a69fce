"""Exactly once: what of a report is new, given all that was said of its event before.

The state of an event is one kind for each tool, and whether it is closed. The same kind again is nothing
new, another kind revises, and an event closes once. So whatever is retried, doubled or late, the sum of the
changes is what was said last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from toolroll.errors import InvalidInput
from toolroll.learning.effects import Change
from toolroll.learning.exposure import Exposure, Shown
from toolroll.learning.outcomes import NOT_SHOWN, Kind, Report

MOST_A_DAY = 3  # outcomes of one reporter that count for one tool; the others are kept and weigh nothing
MOST_SILENT = 30  # events of one reporter a day that count though no tool of theirs was called
NO_TOOL = ""  # what those are counted under
MOST_FOUND = 8  # tools of one event that a search may have found


class Said(NamedTuple):
    """What is known of one tool of an event, and what it counted."""

    kind: Kind
    weight: float


@dataclass(frozen=True, slots=True)
class Settled:
    """What has been said of an event so far.

    Attributes:
        said: tool's name → what became of it.
        closed: whether somebody said that it is over.
    """

    said: Mapping[str, Said] = field(default_factory=dict)
    closed: bool = False


NOTHING_SAID = Settled()


@dataclass(frozen=True, slots=True)
class Step:
    """What a report adds.

    Attributes:
        changes: tool by tool; empty where nothing is new.
        closes: whether it closes the event.
        settled: the event after it.
    """

    changes: tuple[Change, ...]
    closes: bool
    settled: Settled

    @property
    def is_new(self) -> bool:
        """Whether anything has to be counted."""
        return bool(self.changes) or self.closes


def deduplicate(
    exposure: Exposure, before: Settled, report: Report, weight_of: Callable[[str], float] = lambda name: 1.0
) -> Step:
    """What of the report is new.

    weight_of: tool's name → what this reporter still counts for it today; asked once for each tool of an
        event.

    Raises:
        InvalidInput: the report names a tool that was not shown, or finds one that was.
    """
    shown = {tool.name: tool for tool in exposure.shown}
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
        if known is not None and known.kind == entry.kind:
            continue
        weight = weight_of(entry.name) if known is None else known.weight
        changes.append(Change(tool, None if known is None else known.kind, entry.kind, weight))
        said[entry.name] = Said(entry.kind, weight)
    closes = report.is_final and not before.closed
    return Step(tuple(changes), closes, Settled(said, before.closed or report.is_final))


def closing_weight(step: Step, weight_of: Callable[[str], float]) -> float:
    """What the event counts as a whole, where the step closes it: no more than the least of what was said.

    Expected calls without the calls would make a tool look as if nobody wanted it. weight_of: asked for
    `NO_TOOL` where nothing was called.
    """
    if not step.closes:
        return 0.0
    said = step.settled.said.values()
    return min(each.weight for each in said) if said else weight_of(NO_TOOL)


def most_a_day(tool: str) -> int:
    """How many outcomes of one reporter count for the tool, or for `NO_TOOL`, in a day."""
    return MOST_SILENT if tool == NO_TOOL else MOST_A_DAY


def _tool(
    report: Report, name: str, kind: Kind, shown: Mapping[str, Shown], found: Mapping[str, Shown]
) -> Shown:
    if kind == "meant":  # the right one may have been among the tools shown
        tool = shown.get(name) or found.get(name)
    else:
        tool = (found if kind in NOT_SHOWN else shown).get(name)
    if tool is not None:
        return tool
    if name in shown:
        raise InvalidInput(
            f"event {report.event_id}: tool {name!r} was shown, so it was not found: say called"
        )
    raise InvalidInput(
        f"event {report.event_id}: tool {name!r} was not shown; shown: {', '.join(shown) or 'none'}. "
        "One that a search found afterwards is wanted"
    )
