"""The toolkits that a message names: by keywords, patterns, or the cosine with their descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolroll._core import Bitset, parts_of
from toolroll.catalog.routes import RouteTable
from toolroll.catalog.toolkits_by_meaning import ToolkitIndex
from toolroll.model.context import Turn

RouteMode: TypeAlias = Literal["favour", "narrow", "fill", "ignore"]


@dataclass(frozen=True, slots=True, eq=False)
class RouteHits:
    """Finds the toolkits that a message hits.

    Attributes:
        table: compiled routes.
        toolkits: vectors of the toolkits; None to use only keywords and patterns.
        threshold: the least cosine of message and toolkit for a hit.
    """

    table: RouteTable
    toolkits: ToolkitIndex | None = None
    threshold: float = 0.0

    def hits(self, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        """Toolkit → the words that hit it; and toolkit → cosine, for other toolkits."""
        hits = self.table.hits(turn.text, turn.query)
        cosines: dict[str, float] = {}
        if self.toolkits is not None and turn.vector is not None and turn.trust > 0:
            near = self.toolkits.near(turn.vector, self.threshold)
            cosines = {name: cosine for name, cosine in near.items() if name not in hits}
            hits |= {name: f"dense {cosine:.2f}" for name, cosine in cosines.items()}
        return hits, cosines


@dataclass(frozen=True, slots=True, eq=False)
class KeywordsSuffice:
    """Whether a keyword or pattern names a toolkit in each part of the message.

    Such a message needs no vector if vectors only find toolkits that keywords miss. A part without a hit may
    ask for something that no keyword names ("if it rains, plan a workout and add it to my calendar"). A
    toolkit without a tool in play is not hit.
    """

    table: RouteTable

    def __call__(self, pool: Bitset, turn: Turn) -> bool:
        """Whether each part has a hit. False for a message without parts. pool: the rows in play."""
        message = parts_of(turn.text)
        return bool(message) and all(self._has_hit(part, pool) for part in message)

    def _has_hit(self, part: str, pool: Bitset) -> bool:
        return any(pool.holds(self.table.rows_of((name,))).any() for name in self.table.hits(part))
