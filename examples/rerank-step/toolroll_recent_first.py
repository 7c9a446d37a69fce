"""Two steps for toolroll: `RecentFirst` reranks tools, `OwnRegion` leaves tools out."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolroll import StepTurn, Tool, VisibleTools


class RecentFirst:
    """Raises the tools that the same user called lately, the latest one most."""

    name = "recent_first"

    def __init__(self, most: int = 10, weight: float = 0.2) -> None:
        """most: calls that count for each user. weight: what the latest call adds to a score."""
        self._weight = weight
        self._called: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=most))

    def called(self, user: str, name: str) -> None:
        """Remembers a call."""
        self._called[user].appendleft(name)

    def rerank(
        self, tools: Sequence[Tool], scores: npt.NDArray[np.float32], turn: StepTurn
    ) -> npt.NDArray[np.float32] | None:
        """A higher score for each tool that this user has called; None if there is none."""
        called = list(self._called.get(turn.context.user, ()))
        if not called:
            return None
        gains = [
            self._weight * 0.8 ** called.index(tool.name) if tool.name in called else 0.0 for tool in tools
        ]
        return scores + np.array(gains, np.float32)


class OwnRegion:
    """Leaves out the tools of another region than the user's. Tools without a region stay."""

    name = "own_region"

    def __init__(self, regions: Mapping[str, str]) -> None:
        """regions: user → region."""
        self._regions = regions

    def narrow(self, allowed: VisibleTools, turn: StepTurn) -> list[str]:
        """The names of the tools that this user's region has."""
        region = self._regions.get(turn.context.user)
        found = ((tool.name, tool.annotations or {}) for tool in allowed.definitions)
        return [name for name, told in found if told.get("region", region) == region]
