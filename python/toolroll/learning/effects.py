"""What one outcome adds to the statistics.

For a tool in a context three things are counted: successes and failures (reliability), calls, and the calls
that similarity alone would predict (lift is calls over these). For a tool alone, the vectors of the messages
that it answered are summed. A `DELTA` row is what one event adds to these counts; half-lives decay it from
the time that the tools were shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolroll._core import DELTA as DELTA  # the layout of a row, which the registry writes too
from toolroll.identity import reporter_key, scopes
from toolroll.learning.exposure import Exposure, Shown
from toolroll.learning.outcomes import Kind

UNEXPECTED = 0.05  # predicted calls of a tool that was not shown


class Effect(NamedTuple):
    """What a kind of outcome adds to the counts, at full weight."""

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


class Change(NamedTuple):
    """The outcome of one tool before and after a report.

    Attributes:
        tool: with its keys.
        before: None if nothing was reported. after: the outcome now.
        weight: in [0, 1], of this reporter for this tool; the same before and after.
    """

    tool: Shown
    before: Kind | None
    after: Kind
    weight: float = 1.0


def deltas(
    exposure: Exposure, changes: Sequence[Change], closes: float = 0.0, vector: int = -1
) -> npt.NDArray[np.void]:
    """DELTA[n]: what the changes add, one row for each tool whose counts change.

    closes: in [0, 1]: the weight of the event as a whole if this report closes it, since every tool that was
        shown could have been called; otherwise 0.
    vector: the row of the event's vector among the vectors that go with these rows; -1 for none.
    """
    tools: dict[str, Shown] = {}
    if closes:
        tools.update((tool.name, tool) for tool in exposure.shown)
    by_name = {change.tool.name: change for change in changes}
    for name, change in by_name.items():
        tools.setdefault(name, change.tool)
    where = scopes(exposure.page, exposure.tier, exposure.category)
    reporter = reporter_key(exposure.reporter)
    rows = []
    for name, tool in tools.items():
        said = by_name.get(name)
        successes = failures = calls = pull = 0.0
        expected = tool.expected * closes if closes else 0.0
        verdict = 0
        if said is not None:
            now, then, weight = EFFECTS[said.after], EFFECTS[said.before], said.weight
            successes = weight * (now.successes - then.successes)
            failures = weight * (now.failures - then.failures)
            calls = weight * (now.calls - then.calls)
            expected += weight * (now.expected - then.expected)
            pull = weight * (now.pull - then.pull) if vector >= 0 else 0.0
            if said.before is None and weight:
                verdict = int(now.successes - now.failures)
        if successes or failures or calls or expected or pull:
            at = vector if pull else -1
            rows.append(
                (
                    exposure.at,
                    *where,
                    *tool.key,
                    successes,
                    failures,
                    calls,
                    expected,
                    at,
                    verdict,
                    pull,
                    reporter,
                )
            )
    return np.array(rows, DELTA)
