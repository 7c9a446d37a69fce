"""Keywords and patterns in the message switch toolkits on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from toolroll._core import Automaton, Bitset
from toolroll.candidates import Candidates, Evidence, Rows, Scores
from toolroll.context import Turn

Reading: TypeAlias = Literal["favour", "narrow"]


@dataclass(frozen=True, slots=True, eq=False)
class RouteTable:
    """What a catalog's routes were compiled to.

    Attributes:
        automaton: keywords of all routes; None where there are none.
        patterns: a compiled `re2.Set` of all routes' patterns; None where there are none.
        keywords: keyword → (how it reads in an explanation, toolkits it switches on).
        expressions: the same for each pattern.
        rows: toolkit → its rows and those of the toolkits below it, ascending.
        size: rows in the catalog.
    """

    automaton: Automaton | None
    patterns: Any
    keywords: tuple[tuple[str, tuple[str, ...]], ...]
    expressions: tuple[tuple[str, tuple[str, ...]], ...]
    rows: dict[str, Rows]
    size: int

    def hits(self, text: str) -> dict[str, str]:
        """Toolkit → the first keyword or pattern that switched it on. Empty where nothing did."""
        found: dict[str, str] = {}
        if self.automaton is not None:
            for keyword in self.automaton.find(text):
                word, toolkits = self.keywords[keyword]
                for toolkit in toolkits:
                    found.setdefault(toolkit, word)
        if self.patterns is not None:
            for pattern in self.patterns.Match(text) or ():
                expression, toolkits = self.expressions[pattern]
                for toolkit in toolkits:
                    found.setdefault(toolkit, expression)
        return found


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
    """

    table: RouteTable
    reading: Reading = "favour"
    weight: float = 0.25
    no_hit: tuple[str, ...] | None = None

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        hits = self.table.hits(turn.text)
        if not hits:
            if self.reading == "favour" or self.no_hit is None:
                return candidates
            return candidates.narrow(self._rows_of(self.no_hit), "route.default")
        words = Evidence(words=tuple(hits.items()))
        if self.reading == "narrow":
            return candidates.narrow(self._rows_of(tuple(hits)), "route.hit", words)
        known = [self.table.rows[toolkit] for toolkit in hits]
        rows = known[0] if len(known) == 1 else np.unique(np.concatenate(known))
        return candidates.rescore(self._weights(len(rows)), "route.hit", rows, words)

    def _rows_of(self, toolkits: tuple[str, ...]) -> Bitset:
        known = [self.table.rows[toolkit] for toolkit in toolkits if toolkit in self.table.rows]
        return Bitset.of(self.table.size, np.concatenate(known) if known else np.empty(0, np.int32))

    def _weights(self, n: int) -> Scores:
        return np.full(n, self.weight, np.float32)
