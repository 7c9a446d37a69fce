"""Favours the tools that deal with a mark of the message, or belong to a service that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.oracle.candidates import Candidates, Hits
from toolroll._core import Bitset
from toolroll.catalog.mark_table import MarkHit, MarkTable
from toolroll.catalog.stacked import StackedColumn
from toolroll.model.arrays import Scores
from toolroll.model.context import Turn

_IN_A_PART = 0.5  # of several clauses a mark is in one, and says nothing about the others


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Soft. Adds to the scores of these tools: the same for each, so the message decides among them.

    A tool gains once, by the greatest of the weights.

    Attributes:
        table: the tools for each mark and service.
        services: added for a service.
        marks: added for a mark; half of it in a message of several clauses.
        damping: float32[n], a factor of all gains of a tool; None for 1.
    """

    table: MarkTable
    services: float
    marks: float
    damping: Scores | StackedColumn[np.float32] | None = None

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        pool = candidates.pool
        hits = self.table.hits(turn.text, turn.query) if pool is not None else ()
        if not hits or pool is None:
            return candidates
        rows = hits[0].rows
        if len(hits) > 1:  # not np.unique: it releases the interpreter
            rows = Bitset.of(pool.size, np.concatenate([hit.rows for hit in hits])).rows()
        if not pool.holds_all(rows):
            rows = rows[pool.holds(rows)]
        if not len(rows):
            return candidates
        gains = [np.full(len(rows), weight, np.float32) for weight in self.weights(hits, turn)]
        if len(hits) > 1:
            _leave_greatest(gains, [Bitset.of(pool.size, hit.rows).holds(rows) for hit in hits])
        if self.damping is not None:
            factors = self.damping[rows]
            for column in gains:
                column *= factors
        gained = gains[0] if len(gains) == 1 else np.add.reduce(gains)
        terms = tuple([(hit.label, 1.0, column) for hit, column in zip(hits, gains, strict=True)])
        return candidates.gain(rows, gained, "mark.hit", Hits(rows, terms, best=float(gained.max())))

    def weights(self, hits: Sequence[MarkHit], turn: Turn) -> list[float]:
        """What each of the hits adds to a score."""
        in_part = _IN_A_PART if len(turn.clauses) > 1 else 1.0
        return [self.services if hit.is_service else in_part * self.marks for hit in hits]


def _leave_greatest(gains: Sequence[Scores], means: Sequence[npt.NDArray[np.bool_]]) -> None:
    """Leaves of each row's gains the greatest, of equal ones the first. means: the rows that each means."""
    left = np.ones(len(gains[0]), np.bool_)
    for column, meant in sorted(zip(gains, means, strict=True), key=lambda pair: -pair[0][0]):
        column *= meant & left
        left &= ~meant
