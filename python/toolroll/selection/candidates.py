"""What is still in play, how well it fits, and how it came to be so.

Five verbs change a candidate set, each returns a new one and leaves a step in its trail: `forbid` (for
good), `narrow` (for now), `admit` (brings back what is allowed), `rescore` and `reorder`; `arrange` is three
of them in one step. `allowed` only shrinks and what is in play stays within it, so what a hard stage removed
cannot return by pin, session or bug.

Until a stage narrows to rows, what is in play is a bitset (`pool`) with evidence for a few of its rows
beside it; from then on it is two columns, rows and scores, in order. So work follows what is in play and
not the size of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset
from toolroll.arrays import NO_ROWS, NO_SCORES, Rows, Scores

# Columns up to this length are reordered as lists: numpy releases the interpreter to take rows of an array.
_FEW = 256


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What each row's place was drawn from: enough to say how likely it was to be shown.

    Attributes:
        mean, spread: float32[n], of a normal distribution on the scale of the scores.
        show: float32[n], in [0, 1]: how likely the row took part at all; below 1 while it is on probation.
        core: bool[n]: rows that are selected whatever is drawn, and take no place.
        guarded: rows that take a place whatever is drawn, unless they are on probation.
        places: how many rows the draw had to choose.
        explore: how often the last place went to who is least known.
    """

    mean: Scores
    spread: Scores
    show: Scores
    core: npt.NDArray[np.bool_]
    guarded: Rows
    places: int
    explore: float


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Terms of a score that one stage found, for explanations.

    Attributes:
        rows: int32[n].
        terms: name of the term, its weight in the score, float32[n].
        words: toolkit → what switched it on, such as "keyword 'rain'".
        confidence: in [0, 1]: how sure it is that some tool serves the message; None where nobody judged.
        has_match: False where the confidence is too low for any tool.
        leaders: rows that would be first, had nothing been learnt; None where nobody ranked.
        draw: what the scores were drawn from; None where nothing was drawn.
    """

    rows: Rows
    terms: tuple[tuple[str, float, Scores], ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    confidence: float | None = None
    has_match: bool = True
    leaders: Rows | None = None
    draw: Draw | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """A set of catalog rows in play. Immutable.

    Attributes:
        allowed: rows that no hard stage removed; shrinks only.
        pool: rows in play while they are a set; None once they are columns.
        rows: int32[n]. With a pool: the rows that have evidence so far. Without: the rows in play, in order.
        scores: float32[n], aligned with rows; higher is better, 0 is no evidence.
        verb, reason: of the step that made this set, such as "forbid", "settings.missing".
        evidence: what the step found, where it found something.
        before: the set before that step; None at the start.
    """

    allowed: Bitset
    pool: Bitset | None
    rows: Rows
    scores: Scores
    verb: str = ""
    reason: str = ""
    evidence: Evidence | None = None
    before: Candidates | None = None

    @classmethod
    def everything(cls, size: int) -> Candidates:
        """All rows of a catalog, in play and without evidence."""
        full = Bitset.full(size)
        return cls(full, full, NO_ROWS, NO_SCORES)

    def forbid(self, denied: Bitset, reason: str) -> Candidates:
        """Removes rows for good."""
        if self.pool is None:
            stays = ~denied.holds(self.rows)
            return Candidates(
                self.allowed - denied,
                None,
                self.rows[stays],
                self.scores[stays],
                "forbid",
                reason,
                None,
                self,
            )
        rows, scores = self.rows, self.scores
        if len(rows):
            stays = ~denied.holds(rows)
            rows, scores = rows[stays], scores[stays]
        return Candidates(
            self.allowed - denied, self.pool - denied, rows, scores, "forbid", reason, None, self
        )

    def narrow(
        self, kept: Bitset | Rows | slice, reason: str, evidence: Evidence | None = None
    ) -> Candidates:
        """Keeps only these rows, for now. Rows instead of a bitset become the columns, in that order.

        A slice keeps these places of the columns. Rows that are not in play are passed over. Scores of kept
        rows stay what they were.
        """
        if isinstance(kept, slice):
            assert self.pool is None
            return Candidates(
                self.allowed, None, self.rows[kept], self.scores[kept], "narrow", reason, evidence, self
            )
        if isinstance(kept, Bitset):
            stays = kept.holds(self.rows)
            pool = None if self.pool is None else self.pool & kept
            return Candidates(
                self.allowed, pool, self.rows[stays], self.scores[stays], "narrow", reason, evidence, self
            )
        if self.pool is None:
            known = dict(zip(self.rows.tolist(), self.scores.tolist(), strict=True))
            found = [row for row in kept.tolist() if row in known]
            rows, scores = np.array(found, np.int32), np.array([known[row] for row in found], np.float32)
            return Candidates(self.allowed, None, rows, scores, "narrow", reason, evidence, self)
        rows = kept if self.pool.holds_all(kept) else kept[self.pool.holds(kept)]
        if len(self.rows):
            known = dict(zip(self.rows.tolist(), self.scores.tolist(), strict=True))
            scores = np.array([known.get(row, 0.0) for row in rows.tolist()], np.float32)
        else:
            scores = np.zeros(len(rows), np.float32)
        return Candidates(self.allowed, None, rows, scores, "narrow", reason, evidence, self)

    def admit(
        self, rows: Rows, reason: str, evidence: Evidence | None = None, *, behind: bool = False
    ) -> Candidates:
        """Brings allowed rows back into play, without a score; the others are passed over.

        behind: puts them behind what is in play, not in front.
        """
        if self.pool is not None:
            added = Bitset.of(self.allowed.size, rows[self.allowed.holds(rows)])
            return Candidates(
                self.allowed, self.pool | added, self.rows, self.scores, "admit", reason, evidence, self
            )
        present = set(self.rows.tolist())
        new = [row for row in rows[self.allowed.holds(rows)].tolist() if row not in present]
        if not new and evidence is None:
            return self
        added_rows, no_scores = np.array(new, np.int32), np.zeros(len(new), np.float32)
        return Candidates(
            self.allowed,
            None,
            np.concatenate((self.rows, added_rows) if behind else (added_rows, self.rows)),
            np.concatenate((self.scores, no_scores) if behind else (no_scores, self.scores)),
            "admit",
            reason,
            evidence,
            self,
        )

    def arrange(self, rows: Sequence[int], reason: str) -> Candidates:
        """Puts these rows into play and no others, in this order: `admit`, `narrow` and `reorder` at once.

        Rows that are not allowed are passed over; those that were not in play come without a score.
        """
        assert self.pool is None
        known = dict(zip(self.rows.tolist(), self.scores.tolist(), strict=True))
        arranged = np.array(rows, np.int32)
        if not self.allowed.holds_all(arranged):
            arranged = arranged[self.allowed.holds(arranged)]
            rows = arranged.tolist()
        scores = np.array([known.get(row, 0.0) for row in rows], np.float32)
        return Candidates(self.allowed, None, arranged, scores, "arrange", reason, None, self)

    def rescore(
        self, scores: Scores, reason: str, rows: Rows | None = None, evidence: Evidence | None = None
    ) -> Candidates:
        """Replaces the scores. With a pool, `rows` says whose they are, and only rows in play count."""
        if self.pool is None or rows is None:
            assert len(scores) == len(self.rows)
            rows = self.rows
        else:
            if not self.pool.holds_all(rows):
                held = self.pool.holds(rows)
                rows, scores = rows[held], scores[held]
        return Candidates(self.allowed, self.pool, rows, scores, "rescore", reason, evidence, self)

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

    def trail(self) -> Iterator[Candidates]:
        """The sets that led here, first one first, this one last."""
        steps = [self]
        while steps[-1].before is not None:
            steps.append(steps[-1].before)
        return reversed(steps)

    def last(self, is_it: Callable[[Candidates], bool]) -> Candidates | None:
        """The latest of the sets that led here, this one included, of which this holds."""
        step: Candidates | None = self
        while step is not None and not is_it(step):
            step = step.before
        return step

    def in_play(self, row: int) -> bool:
        """Whether the row is in this set. O(n) of the columns: for explanations."""
        if self.pool is not None:
            return row in self.pool
        return bool((self.rows == row).any())

    def score(self, row: int) -> float:
        """The row's score; 0 without evidence. O(n) of the columns: for explanations."""
        found = np.flatnonzero(self.rows == row)
        return float(self.scores[found[0]]) if len(found) else 0.0

    def __len__(self) -> int:
        return len(self.rows) if self.pool is None else len(self.pool)


def is_retrieved(step: Candidates) -> bool:
    """Whether the set is what retrieval found and scored, before outcomes had a say."""
    return step.reason == "retrieval.score"
