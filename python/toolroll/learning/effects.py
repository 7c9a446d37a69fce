"""What one outcome adds to the statistics.

Three sums are kept for a tool and a context: how often it succeeded and failed (reliability), how often it
was called, and how often similarity alone made one expect it to be (lift). And one for a tool alone: the
vectors of the messages that it answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolroll.identity import reporter_key, scopes
from toolroll.learning.exposure import Exposure, Shown
from toolroll.learning.outcomes import Kind

DELTA = np.dtype(
    [
        ("at", "f8"),  # when it was shown, seconds since the epoch: counts decay from then
        ("everywhere", "u8"),
        ("page", "u8"),
        ("leaf", "u8"),
        ("plain", "u8"),
        ("arm", "u8"),
        ("intent", "u8"),
        ("group", "u8"),
        ("successes", "f8"),
        ("failures", "f8"),
        ("calls", "f8"),
        ("expected", "f8"),
        ("vector", "i4"),  # row of the vectors that go with it; -1 for none
        ("verdict", "i4"),  # 1 or -1: a success or failure that the change detector has not seen
        ("pull", "f8"),  # what the vector counts; below 0 takes it back
        ("reporter", "u8"),
    ]
)
UNEXPECTED = 0.05  # calls that one expected of a tool that was not shown


class Effect(NamedTuple):
    """What a kind of outcome says, at full weight."""

    successes: float = 0.0
    failures: float = 0.0
    calls: float = 0.0
    expected: float = 0.0
    pull: float = 0.0


# A failed call was wanted nevertheless: it counts as one, and its message half as one that was solved. A
# correction does not say whether a tool works.
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
    """What is said of a tool now, and what was said of it before.

    Attributes:
        tool: with its keys.
        before, after: None for nothing.
        weight: in [0, 1]: what this reporter still counts for this tool; the same before and after.
    """

    tool: Shown
    before: Kind | None
    after: Kind
    weight: float = 1.0


def deltas(
    exposure: Exposure, changes: Sequence[Change], closes: float = 0.0, vector: int = -1
) -> npt.NDArray[np.void]:
    """DELTA[n]: what the changes add, one row for each tool that something is added for.

    closes: in [0, 1]: what the event counts as a whole, the first time that it is said to be over: every tool
        that was shown could have been called. 0 otherwise. vector: the row of the event's vector among those
        that are passed along; -1 where there is none.
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
