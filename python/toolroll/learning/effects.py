"""The counts that one outcome adds to the statistics.

For a tool in a context there are three counts: successes and failures (reliability), calls, and the calls
that similarity alone would predict (lift is calls over these). For a tool alone, the vectors of the messages
that it answered are summed. A `DELTA` row has the additions of one event; half-lives decay them from the time
of the event.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolroll._core import DELTA
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import Kind
from toolroll.learning.reporters import NOBODY, reporter_keys
from toolroll.model.identity import scopes

_ROW = struct.Struct("=d7Q4d2idQ")  # a row of `DELTA`; an array of tuples takes twice as long
UNEXPECTED = 0.05  # predicted calls of a tool that was not shown


class Effect(NamedTuple):
    """The counts that an outcome of one kind adds, at full weight."""

    successes: float = 0.0
    failures: float = 0.0
    calls: float = 0.0
    expected: float = 0.0
    pull: float = 0.0


# A failed call was still the right choice, so it counts as a call, and its message counts half. A correction
# says nothing about whether the tool works.
EFFECTS: dict[Kind | None, Effect] = {
    None: Effect(),
    "succeeded": Effect(successes=1, calls=1, pull=1),
    "failed": Effect(failures=1, calls=1, pull=0.5),
    "called": Effect(calls=1),
    "corrected": Effect(),
    "wanted_succeeded": Effect(successes=1, calls=1, expected=UNEXPECTED, pull=1),
    "wanted_failed": Effect(failures=1, calls=1, expected=UNEXPECTED, pull=0.5),
    "wanted": Effect(calls=1, expected=UNEXPECTED),
    "meant": Effect(calls=1, expected=UNEXPECTED, pull=1),
}


class OutcomeChange(NamedTuple):
    """The outcome of one tool before and after a report.

    Attributes:
        tool: the tool with its keys.
        before: None if nothing was reported.
        after: the outcome now.
        weight: in [0, 1], the weight of this reporter for this tool, before and after.
        is_late: whether the report came too late to count.
        duration_ms: how long the tool's call took; None if that is not known.
    """

    tool: ShownTool
    before: Kind | None
    after: Kind
    weight: float = 1.0
    is_late: bool = False
    duration_ms: float | None = None

    def effect(self) -> Effect:
        """The difference of the counts."""
        now, then, weight = EFFECTS[self.after], EFFECTS[self.before], self.weight
        return Effect._make([weight * (new - old) for new, old in zip(now, then, strict=True)])

    def verdict(self) -> int:
        """The change detector's input: +1 or -1 for a first report of success or failure, else 0.

        It does not depend on the weight: the detector itself bounds the evidence of one reporter.
        """
        if self.is_late or self.before is not None:
            return 0
        after = EFFECTS[self.after]
        return int(after.successes - after.failures)


def deltas(
    exposure: Exposure, changes: Sequence[OutcomeChange], closes: float = 0.0, vector: int = -1
) -> npt.NDArray[np.void]:
    """DELTA[n]: the additions of the changes, one or two rows for each tool whose counts change.

    A tool has two rows if the reporter has different keys for reliability and for intent.

    closes: in [0, 1]: the weight of the event if this report closes it, since the model could have called
    every shown tool; otherwise 0. vector: the row of the event's vector beside these rows; -1 for none. A
    reporter who changes the sum of vectors counts as a caller, with or without such a row.
    """
    tools = {tool.name: tool for tool in exposure.shown} if closes else {}
    by_name = {change.tool.name: change for change in changes}
    for change in by_name.values():
        tools.setdefault(change.tool.name, change.tool)
    where = scopes(exposure.page, exposure.tier, exposure.category)
    reporter = reporter_keys(exposure.reporter, exposure.at) if exposure.reporter else NOBODY
    rows = []
    at_where = (exposure.at, *where)
    for name, tool in tools.items():
        known = by_name.get(name)
        if known is None:  # as for most tools: shown, and not called
            if expected := tool.expected * closes:
                keys = (*at_where, *tool.key)
                rows.append(_ROW.pack(*keys, 0.0, 0.0, 0.0, expected, -1, 0, 0.0, reporter.intent))
            continue
        effect = known.effect()
        expected = (tool.expected * closes if closes else 0.0) + effect.expected
        pull = 0.0 if exposure.vector is None else effect.pull
        verdict = known.verdict()
        works, wanted = (effect.successes, effect.failures), (effect.calls, expected)
        at, keys = vector if pull else -1, (*at_where, *tool.key)
        if reporter.reliability == reporter.intent:
            if any(works) or any(wanted) or pull or verdict:
                rows.append(_ROW.pack(*keys, *works, *wanted, at, verdict, pull, reporter.intent))
            continue
        if any(works) or verdict:
            rows.append(_ROW.pack(*keys, *works, 0.0, 0.0, -1, verdict, 0.0, reporter.reliability))
        if any(wanted) or pull:
            rows.append(_ROW.pack(*keys, 0.0, 0.0, *wanted, at, 0, pull, reporter.intent))
    return np.frombuffer(bytearray().join(rows), DELTA)
