"""Keywords and patterns in the message switch toolkits on, and its nearness to what they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from toolroll.candidates import NO_ROWS, Candidates, Evidence
from toolroll.context import Turn
from toolroll.route_table import RouteTable
from toolroll.toolkit_index import ToolkitIndex

Reading: TypeAlias = Literal["favour", "narrow"]


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Soft. Turns hits into evidence ("favour") or into the only toolkits in play ("narrow").

    A keyword is right about what it names and silent about the rest of the message ("if it rains, add it
    to my calendar"), so the default lets it add to a tool's score and not take others away.

    Attributes:
        table: the compiled routes.
        reading: what a hit means.
        weight: what a hit adds to the score of each tool of the toolkit.
        no_hit: with "narrow", toolkits that stay when nothing hits; None keeps all.
        toolkits: vectors of the toolkits; None leaves them to their keywords and patterns.
        threshold: cosine of message and toolkit from which on it counts as hit.
    """

    table: RouteTable
    reading: Reading = "favour"
    weight: float = 0.25
    no_hit: tuple[str, ...] | None = None
    toolkits: ToolkitIndex | None = None
    threshold: float = 0.0

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        hits = self.table.hits(turn.text, turn.query)
        if self.toolkits is not None and turn.vector is not None and turn.trust > 0:
            hits = self.toolkits.near(turn.vector, self.threshold) | hits
        if not hits:
            if self.reading == "favour" or self.no_hit is None:
                return candidates
            return candidates.narrow(self.table.bitset_of(self.no_hit), "route.default")
        words = Evidence(NO_ROWS, words=tuple(hits.items()))
        if self.reading == "narrow":
            return candidates.narrow(self.table.bitset_of(hits), "route.hit", words)
        rows = self.table.rows_of(hits)
        return candidates.rescore(np.full(len(rows), self.weight, np.float32), "route.hit", rows, words)
