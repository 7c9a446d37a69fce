"""Finds toolkits by keywords and patterns in the message, or by the cosine with their descriptions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import Candidates, Evidence, Hits
from tests.oracle.cap import Cap
from toolroll._core import Bitset
from toolroll.catalog.routes import RouteTable
from toolroll.catalog.toolkits_by_meaning import ToolkitIndex
from toolroll.model.arrays import NO_ROWS, Rows, Scores
from toolroll.model.context import Turn
from toolroll.selection.routes import RouteHits, RouteMode


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Soft. Turns hits into evidence ("favour"), or selects whole toolkits.

    A keyword is right about what it names and silent about the rest of the message ("if it rains, add it to
    my calendar"), so by default a hit adds to the scores of its tools and removes no others.

    "narrow" keeps only the toolkits that were hit. "fill" runs after retrieval and puts the rest of their
    tools behind what it found; where nothing was retrieved it narrows. For both, a toolkit that has no tool
    in play was not hit: a keyword of a toolkit that is denied, or lacks its settings, says nothing. "ignore"
    lets the message hit nothing.

    Attributes:
        table: the compiled routes.
        mode: what a hit means.
        weight: with "favour", added to the score of each tool of the toolkit.
        no_hit: otherwise, toolkits that count as hit where none is; None keeps all with "narrow" and
            "ignore", and adds none with "fill".
        toolkits: vectors of the toolkits; None for keywords and patterns alone.
        threshold: the cosine of message and toolkit from which on the toolkit is hit.
        cap: with "fill", cuts what retrieval found first; a tool that was cut may come back behind.
        scores: whether, with "narrow", the tools have the strength of the hit as their score: for profiles
            without retrieval, which would add to it.
    """

    table: RouteTable
    mode: RouteMode = "favour"
    weight: float = 0.25
    no_hit: tuple[str, ...] | None = None
    toolkits: ToolkitIndex | None = None
    threshold: float = 0.0
    cap: Cap | None = None
    scores: bool = False

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if self.mode == "ignore":
            if self.no_hit is None:
                return candidates
            return candidates.narrow(self.table.bitset_of(self.no_hit), "route.ignore")
        hits, cosines = self.hits(turn)
        if self.mode == "favour":
            return self._favour(candidates, hits)
        # What an earlier stage left is what can be hit; retrieval has since picked some of it.
        pool = candidates.last_pool
        hits = {name: word for name, word in hits.items() if pool.holds(self.table.rows_of((name,))).any()}
        if self.mode == "fill" and candidates.pool is None:
            return self._fill(candidates, hits, pool, turn)
        return self._narrow(candidates, hits, cosines)

    def hits(self, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """See `RouteHits`."""
        return RouteHits(self.table, self.toolkits, self.threshold).hits(turn)

    def _favour(self, candidates: Candidates, hits: dict[str, str]) -> Candidates:
        if not hits:
            return candidates
        rows = self.table.rows_of(hits)
        if not candidates.last_pool.holds_all(rows):
            rows = rows[candidates.last_pool.holds(rows)]
        weights = np.full(len(rows), self.weight, np.float32)
        found = Hits(NO_ROWS, words=tuple(hits.items()), best=float(weights.max(initial=0)))
        return candidates.rescore(weights, "route.hit", rows, found)

    def _narrow(self, candidates: Candidates, hits: dict[str, str], cosines: dict[str, float]) -> Candidates:
        if not hits:
            if self.no_hit is None:
                return candidates
            return candidates.narrow(self.table.bitset_of(self.no_hit), "route.default")
        if not self.scores:
            return candidates.narrow(self.table.bitset_of(hits), "route.hit", _evidence(hits))
        rows = self.table.rows_of(hits)
        strengths = self._strengths(rows, {name: cosines.get(name, 1.0) for name in hits})
        kept = candidates.narrow(Bitset.of(self.table.size, rows), "route.hit")
        return kept.rescore(strengths, "route.score", rows, _evidence(hits))

    def _fill(self, candidates: Candidates, hits: dict[str, str], pool: Bitset, turn: Turn) -> Candidates:
        if hits:
            rows, reason, evidence = self.table.rows_of(hits), "route.fill", _evidence(hits)
        elif self.no_hit is not None:
            rows, reason, evidence = self.table.rows_of(self.no_hit), "route.default", None
        else:
            return candidates
        if self.cap is not None:
            candidates = self.cap.found(candidates, turn)
        return candidates.admit(rows[pool.holds(rows)], reason, evidence, behind=True)

    def _strengths(self, rows: Rows, hits: dict[str, float]) -> Scores:
        """float32[len(rows)]: for each row the strongest hit that means it. rows: of all hits, ascending."""
        strengths = np.zeros(len(rows), np.float32)
        for name, strength in hits.items():
            at = np.searchsorted(rows, self.table.rows_of((name,)))
            strengths[at] = np.maximum(strengths[at], np.float32(strength))
        return strengths


def _evidence(hits: dict[str, str]) -> Evidence:
    return Evidence(NO_ROWS, words=tuple(hits.items()))
