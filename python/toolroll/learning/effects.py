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

from toolroll._core import DELTA
from toolroll.identity import reporter_key, scopes
from toolroll.learning.exposure import Exposure, Shown
from toolroll.learning.outcomes import Kind

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


_NO_EFFECT = EFFECTS[None]


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

    def effect(self) -> Effect:
        """What the change adds."""
        now, then, weight = EFFECTS[self.after], EFFECTS[self.before], self.weight
        return Effect._make([weight * (new - old) for new, old in zip(now, then, strict=True)])


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
    for change in by_name.values():
        tools.setdefault(change.tool.name, change.tool)
    where = scopes(exposure.page, exposure.tier, exposure.category)
    reporter = reporter_key(exposure.reporter)
    rows = []
    for name, tool in tools.items():
        known = by_name.get(name)
        effect = _NO_EFFECT if known is None else known.effect()
        expected = (tool.expected * closes if closes else 0.0) + effect.expected
        pull = effect.pull if vector >= 0 else 0.0
        verdict = 0
        if known is not None and known.before is None and known.weight:
            said = EFFECTS[known.after]
            verdict = int(said.successes - said.failures)
        sums = (effect.successes, effect.failures, effect.calls, expected)
        if any(sums) or pull:
            at = vector if pull else -1
            rows.append((exposure.at, *where, *tool.key, *sums, at, verdict, pull, reporter))
    return np.array(rows, DELTA)
