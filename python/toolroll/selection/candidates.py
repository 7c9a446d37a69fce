"""What is still in play, how well it fits, and how it came to be so.

Five verbs change a candidate set, each returns a new one and leaves a step in its trail: `forbid` (for
good), `narrow` (for now), `admit` (brings back what is allowed), `rescore` and `reorder`; `arrange` is three
of them in one step. `allowed` only shrinks and what is in play stays within it, so what a hard stage removed
cannot return by pin, session or bug.

A stage hands on what it found as evidence of a type of its own, and a later stage asks for that type (`hits`,
`retrieved`, `fallback`, `reranked`, `before_list`). The reason of a step is for explanations alone.

Until a stage narrows to rows, what is in play is a bitset (`pool`) with evidence for a few of its rows
beside it; from then on it is two columns, rows and scores, in order. So work follows what is in play and
not the size of the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, packed_calls
from toolroll.model.arrays import NO_ROWS, NO_SCORES, Rows, Scores

Term: TypeAlias = tuple[str, float, Scores]  # its name, its weight in the score, and the term of each row

# Columns up to this length are reordered as lists: numpy releases the interpreter to take rows of an array.
_FEW = 256


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What one stage found: terms of scores, and words for explanations.

    Attributes:
        rows: int32[n].
        terms: name of the term, its weight in the score, float32[n].
        words: toolkit → what switched it on, such as "keyword 'rain'".
    """

    rows: Rows
    terms: tuple[Term, ...] = ()
    words: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Hits(Evidence):
    """Keywords, patterns and marks in the message: evidence that some tool serves it.

    Attributes:
        best: the greatest score that they gave to a row in play.
    """

    best: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RetrievalResult(Evidence):
    """What retrieval found, before outcomes had a say.

    Attributes:
        scores: float32[n], aligned with rows, best first.
        confidence: in [0, 1]: how sure it is that some tool serves the message.
        has_match: False where the confidence is too low for any tool.
        leaders: rows that would be first, had nothing been learnt.
    """

    scores: Scores
    confidence: float
    has_match: bool
    leaders: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What each row's place was drawn from: enough to say how likely it was to be shown.

    Attributes:
        mean, spread: float32[n], of a normal distribution on the scale of the scores.
        show: float32[n], in [0, 1]: how likely the row took part at all; below 1 while it is on probation.
        core: bool[n]: rows that are selected whatever is drawn, and take no place.
        guarded: rows that take a place whatever is drawn, unless they are on probation.
        places: how many rows the draw had to choose.
        explore: how often the last place went to the row of which least is known.
    """

    mean: Scores
    spread: Scores
    show: Scores
    core: npt.NDArray[np.bool_]
    guarded: Rows
    places: int
    explore: float


@dataclass(frozen=True, slots=True, eq=False)
class Fallback(Evidence):
    """The rows that are selected because nothing matched the message."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RerankingResult(Evidence):
    """What outcomes and a draw made of the scores.

    Attributes:
        scores: float32[n], aligned with rows, in no order.
        draw: what the scores were drawn from; None where it has no closed form.
    """

    scores: Scores
    draw: Draw | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BeforeList(Evidence):
    """The rows that the turn selected, before the list of the conversation had a say."""


AnyEvidence = TypeVar("AnyEvidence", bound=Evidence)


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
        rows, scores = self.rows, self.scores
        if len(rows):
            stays = ~denied.holds(rows)
            rows, scores = rows[stays], scores[stays]
        allowed, pool = self.allowed - denied, self.pool
        if pool is not None:
            pool = allowed if pool is self.allowed else pool - denied
        return Candidates(allowed, pool, rows, scores, "forbid", reason, None, self)

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
        """Puts these rows into play and no others, in this order: `admit`, `narrow` and `reorder` at once.

        Rows that are not allowed are passed over; those that were not in play come without a score.
        """
        assert self.pool is None
        arranged = np.array(rows, np.int32)
        if not self.allowed.holds_all(arranged):
            arranged = arranged[self.allowed.holds(arranged)]
            rows = arranged.tolist()
        scores = _scores(rows, self._known())
        return Candidates(self.allowed, None, arranged, scores, "arrange", reason, evidence, self)

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
    def in_order(self) -> list[int]:
        """The rows, as numbers of Python."""
        rows: list[int] = self.rows.tolist()
        return rows

    @property
    def hits(self) -> float:
        """The evidence of `Hits` for some row: what each of their steps gave at most, added up."""
        return sum(step.evidence.best for step in self._steps() if isinstance(step.evidence, Hits))

    @property
    def retrieved(self) -> RetrievalResult | None:
        """What retrieval found; None where it did not run."""
        return self._latest(RetrievalResult)

    def packed_calls(
        self,
        keys_of: Callable[[list[int]], list[bytes]],
        *,
        temperature: float,
        calls: float,
        elsewhere: float,
    ) -> bytes:
        """`toolroll._core.packed_calls` of these rows in order, by the scores of what retrieval found.

        keys_of: rows → the packed key of each.
        """
        keys = keys_of(self.in_order)
        found = self.retrieved
        rows, scores = (NO_ROWS, NO_SCORES) if found is None else (found.rows, found.scores)
        return packed_calls(
            keys, self.rows, rows, scores, temperature=temperature, calls=calls, elsewhere=elsewhere
        )

    @property
    def fallback(self) -> Fallback | None:
        """The rows that stand in for a match; None where something matched."""
        return self._latest(Fallback)

    @property
    def matched(self) -> Candidates:
        """The set without a fallback: where nothing matched, the one before it."""
        step = self
        if self.fallback is not None:
            while not isinstance(step.evidence, Fallback):
                assert step.before is not None
                step = step.before
            assert step.before is not None
            step = step.before
        return step

    @property
    def reranked(self) -> RerankingResult | None:
        """What outcomes made of that; None where they had no say."""
        return self._latest(RerankingResult)

    @property
    def before_list(self) -> Rows:
        """int32[n]: the rows before the list of the conversation had a say; these rows where it had none."""
        found = self._latest(BeforeList)
        return self.rows if found is None else found.rows

    @property
    def list_turns(self) -> tuple[int, ...] | None:
        """For each row, the turn of the conversation that last selected it; None where nobody has counted."""
        return None

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

    def trail(self) -> Iterator[Candidates]:
        """The sets that led here, first one first, this one last."""
        return reversed(tuple(self._steps()))

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

    def _steps(self) -> Iterator[Candidates]:
        """Yields this set, then those before it."""
        step: Candidates | None = self
        while step is not None:
            yield step
            step = step.before

    def _latest(self, kind: type[AnyEvidence]) -> AnyEvidence | None:
        """The evidence of this type that was found last."""
        for step in self._steps():
            if isinstance(step.evidence, kind):
                return step.evidence
        return None

    def _known(self) -> dict[int, float]:
        """Row → score, of the columns."""
        return dict(zip(self.rows.tolist(), self.scores.tolist(), strict=True))


def _scores(rows: Sequence[int], known: dict[int, float]) -> Scores:
    if not known:
        return np.zeros(len(rows), np.float32)
    return np.array([known.get(row, 0.0) for row in rows], np.float32)
