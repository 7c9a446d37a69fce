"""Keeps the places of tools that were sent before, for the provider's prompt cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import Candidates
from toolroll.model.context import Turn


@dataclass(frozen=True, slots=True, eq=False)
class StableOrder:
    """Soft. Tools that were sent before keep their places, newcomers go behind them in their order.

    Attributes:
        names: tool name → row.
    """

    names: Mapping[str, int]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if not turn.sent or candidates.pool is not None:
            return candidates
        sent = dict.fromkeys(turn.sent)  # a name counts where it came first
        place = {self.names[name]: at for at, name in enumerate(sent) if name in self.names}
        behind = len(place)
        ranks = [place.get(row, behind) for row in candidates.rows.tolist()]
        return candidates.reorder(np.argsort(np.array(ranks), kind="stable"), "order.sent_first")
