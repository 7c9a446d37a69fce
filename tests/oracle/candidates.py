"""`Candidates` with the verbs of the slow stages: what each soft stage of the core does, one step at a time.

Beside the verbs of the package (`forbid`, `narrow`, `arrange`) a stage may `admit` rows (bring back what is
allowed), `rescore` and `reorder`. All of them return candidates of this class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset
from toolroll.model.arrays import NO_ROWS as NO_ROWS
from toolroll.model.arrays import NO_SCORES, Rows, Scores
from toolroll.selection import candidates as package
from toolroll.selection.candidates import BeforeList as BeforeList
from toolroll.selection.candidates import Draw as Draw
from toolroll.selection.candidates import Evidence as Evidence
from toolroll.selection.candidates import Fallback as Fallback
from toolroll.selection.candidates import RerankingResult as RerankingResult
from toolroll.selection.candidates import RetrievalResult as RetrievalResult
from toolroll.selection.candidates import Term as Term
from toolroll.selection.candidates import _scores

_FEW = 256


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Hits(Evidence):
    """Keywords, patterns and marks in the message: evidence that some tool serves it.

    Attributes:
        best: the greatest score that they gave to a row in play.
    """

    best: float


class Candidates(package.Candidates):
    """A set of catalog rows in play. Immutable."""

    __slots__ = ()

    @classmethod
    def of(cls, start: package.Candidates) -> Candidates:
        """The same set with the verbs below."""
        return cls(
            start.allowed,
            start.pool,
            start.rows,
            start.scores,
            start.verb,
            start.reason,
            start.evidence,
            start.before,
        )

    @classmethod
    def everything(cls, size: int) -> Candidates:
        """All rows of a catalog, in play and without evidence."""
        full = Bitset.full(size)
        return cls(full, full, NO_ROWS, NO_SCORES)

    def forbid(self, denied: Bitset, reason: str) -> Candidates:
        """Removes rows for good."""
        return Candidates.of(super().forbid(denied, reason))

    def narrow(
        self,
        kept: Bitset | Rows | slice,
        reason: str,
        evidence: Evidence | None = None,
        scores: Scores | None = None,
    ) -> Candidates:
        """Keeps only these rows, for now. Rows instead of a bitset become the columns, in that order.

        A slice keeps these places of the columns. Rows that are not in play are passed over. Scores of kept
        rows stay what they were.

        scores: of rows, all of them in the pool, in place of the scores that they have.
        """
        pool = None
        if isinstance(kept, slice):
            assert self.pool is None
            rows, scores = self.rows[kept], self.scores[kept]
        elif isinstance(kept, Bitset):
            stays = kept.holds(self.rows)
            rows, scores = self.rows[stays], self.scores[stays]
            pool = None if self.pool is None else self.pool & kept
        elif scores is not None:
            assert self.pool is not None
            assert self.pool.holds_all(kept)
            rows = kept
        elif self.pool is None:
            known = self._known()
            rows = np.array([row for row in kept.tolist() if row in known], np.int32)
            scores = _scores(rows.tolist(), known)
        else:
            rows = kept if self.pool.holds_all(kept) else kept[self.pool.holds(kept)]
            scores = _scores(rows.tolist(), self._known())
        return Candidates(self.allowed, pool, rows, scores, "narrow", reason, evidence, self)

    def admit(
        self, rows: Rows, reason: str, evidence: Evidence | None = None, *, behind: bool = False
    ) -> Candidates:
        """Brings allowed rows back into play, without a score; the others are passed over.

        behind: puts them behind what is in play, not in front.
        """
        allowed = self.allowed
        if self.pool is not None:
            pool = self.pool | Bitset.of(allowed.size, rows[allowed.holds(rows)])
            return Candidates(allowed, pool, self.rows, self.scores, "admit", reason, evidence, self)
        present = set(self.rows.tolist())
        added = rows if allowed.holds_all(rows) else rows[allowed.holds(rows)]
        new = [row for row in added.tolist() if row not in present]
        if not new and evidence is None:
            return self
        size, n = len(self.rows) + len(new), len(new)
        old, place = (slice(size - n), slice(size - n, size)) if behind else (slice(n, size), slice(n))
        both, scores = np.empty(size, np.int32), np.zeros(size, np.float32)
        both[place], both[old], scores[old] = new, self.rows, self.scores
        return Candidates(allowed, None, both, scores, "admit", reason, evidence, self)

    def arrange(self, rows: Sequence[int], reason: str, evidence: Evidence | None = None) -> Candidates:
        """Puts these rows into play and no others, in this order."""
        return Candidates.of(super().arrange(rows, reason, evidence))

    def rescore(
        self, scores: Scores, reason: str, rows: Rows | None = None, evidence: Evidence | None = None
    ) -> Candidates:
        """Replaces the scores. With a pool, `rows` are the rows of the scores; only rows in play count."""
        if self.pool is None or rows is None:
            assert len(scores) == len(self.rows)
            rows = self.rows
        elif not self.pool.holds_all(rows):
            held = self.pool.holds(rows)
            rows, scores = rows[held], scores[held]
        return Candidates(self.allowed, self.pool, rows, scores, "rescore", reason, evidence, self)

    def gain(self, rows: Rows, gains: Scores, reason: str, evidence: Evidence) -> Candidates:
        """Adds to the scores of these rows, each named once; they have 0 so far if they have none."""
        assert self.pool is not None
        if not len(self.rows):
            return self.rescore(gains, reason, rows, evidence)
        is_known = np.isin(rows, self.rows)
        both = np.concatenate((self.rows, rows[~is_known]))
        scores = np.concatenate((self.scores, gains[~is_known]))
        if is_known.any():
            added = dict(zip(rows.tolist(), gains.tolist(), strict=True))
            scores[: len(self.rows)] += [added.get(row, 0.0) for row in self.rows.tolist()]
        return self.rescore(scores, reason, both, evidence)

    def reorder(self, order: npt.NDArray[np.intp] | Rows, reason: str) -> Candidates:
        """Puts the columns into another order: a permutation of positions."""
        assert self.pool is None
        if len(order) <= _FEW:
            places = order.tolist()
            rows, scores = self.rows.tolist(), self.scores.tolist()
            arranged = np.array([rows[place] for place in places], np.int32)
            by_place = np.array([scores[place] for place in places], np.float32)
        else:
            arranged, by_place = self.rows[order], self.scores[order]
        return Candidates(self.allowed, None, arranged, by_place, "reorder", reason, None, self)

    @property
    def hits(self) -> float:
        """The evidence of `Hits` for some row: what each of their steps gave at most, added up."""
        return sum(step.evidence.best for step in self._steps() if isinstance(step.evidence, Hits))

    @property
    def last_pool(self) -> Bitset:
        """What was in play when that was last a set: what later stages chose from."""
        step = self
        while step.pool is None:
            assert step.before is not None
            step = step.before
        return step.pool

    @property
    def last_choice(self) -> Bitset:
        """What was in play when that was last a set with any row in it; empty where nothing is allowed."""
        step: Candidates | None = self
        while step is not None:
            if step.pool:
                return step.pool & self.allowed
            step = step.before
        return self.allowed
