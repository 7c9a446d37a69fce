"""Favours the toolkits whose tools were just called: a user who has listed mails will read or answer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import Candidates, Evidence
from toolroll.model.arrays import Rows
from toolroll.model.context import Turn
from toolroll.model.conversation import Conversation
from toolroll.model.tools import Tool
from toolroll.selection.picker import CalledToolkits


@dataclass(frozen=True, slots=True, eq=False)
class Affinity:
    """Soft. Adds to the scores of toolkits whose tools the conversation called in its last turns.

    A call in the past is no evidence that this message needs a tool, so confidence does not count it.

    Attributes:
        weight: added for the last turn; half of it for the turn before, and so on.
        tools, names: of the catalog, by row, and name → row.
        below: toolkit → rows of its tools and of those below it.
    """

    weight: float
    tools: Sequence[Tool]
    names: Mapping[str, int]
    below: Mapping[str, Rows]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is None:
            return candidates
        gains: dict[int, float] = {}
        for toolkit, weight in self.called(turn.conversation):
            for row in toolkit.tolist():
                if gains.get(row, 0.0) < weight:
                    gains[row] = weight
        if not gains:
            return candidates
        rows = np.fromiter(gains, np.int32, len(gains))
        gained = np.fromiter(gains.values(), np.float32, len(gains))
        found = Evidence(rows, (("toolkit called before", 1.0, gained),))
        return candidates.gain(rows, gained, "session.affinity", found)

    def called(self, conversation: Conversation | None) -> list[tuple[Rows, float]]:
        """The rows of each toolkit that was called, and what they gain; the latest turn first."""
        if conversation is None or not conversation.called or not self.weight:
            return []
        return CalledToolkits(self.weight, self.tools, self.names, self.below).called(conversation)
