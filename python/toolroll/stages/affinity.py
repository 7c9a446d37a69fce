"""Lets the toolkits of what was just called count: who has listed mails is about to read or answer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolroll.candidates import Candidates, Evidence, Rows
from toolroll.context import Turn
from toolroll.tools import Tool

AFFINITY = "session.affinity"

_FADES = 0.5  # with every turn
_MOST_ROWS = 2_000  # of a toolkit: that one of so many was called says nothing of the others


@dataclass(frozen=True, slots=True, eq=False)
class Affinity:
    """Soft. Adds to the scores of toolkits whose tools the conversation called in its last turns.

    It is no evidence that the message needs a tool, so confidence does not count it.

    Attributes:
        weight: what it adds for the last turn; half of that for the turn before, and so on.
        tools, names: of the catalog, by row, and name → row.
        below: toolkit → rows of its tools and of those below it.
    """

    weight: float
    tools: Sequence[Tool]
    names: Mapping[str, int]
    below: Mapping[str, Rows]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        conversation = turn.conversation
        if conversation is None or not conversation.called or not self.weight or candidates.pool is None:
            return candidates
        weights: dict[str, float] = {}
        for number, names in conversation.called:
            weight = self.weight * _FADES ** max(conversation.turn - number - 1, 0)
            for name in names:
                if name in self.names:
                    weights.setdefault(self.tools[self.names[name]].toolkit, weight)
        near = [(self.below[toolkit], weight) for toolkit, weight in weights.items() if toolkit in self.below]
        near = [(rows, weight) for rows, weight in near if len(rows) <= _MOST_ROWS]
        if not near:
            return candidates
        rows = np.unique(np.concatenate([candidates.rows, *[some for some, _ in near]])).astype(np.int32)
        gained = np.zeros(len(rows), np.float32)
        for some, weight in near:
            at = np.searchsorted(rows, some)
            gained[at] = np.maximum(gained[at], np.float32(weight))
        scores = gained.copy()
        scores[np.searchsorted(rows, candidates.rows)] += candidates.scores
        found = Evidence(rows, (("toolkit called before", 1.0, gained),))
        return candidates.rescore(scores, AFFINITY, rows, found)
