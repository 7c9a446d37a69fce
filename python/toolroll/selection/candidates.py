"""The tools that a turn may still select, their scores, and the steps that led there.

Each verb returns a new set with one more step in its trail: `forbid` (for good), `narrow` (for now) and
`arrange`. `allowed` only shrinks and rows in play stay within it, so no pin, session, step or bug brings a
tool back that a hard stage forbade. The soft stages run in the core (`PickedCandidates`).

Until rows are ranked, a bitset (`pool`) is in play; from then on two columns, rows and scores, in order. So
the work follows the tools in play and not the size of the catalog.

A later stage finds the evidence of an earlier stage by its type (`retrieved`, `fallback`, `reranked`,
`before_list`). Only explanations read the reason of a step.
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


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The terms of scores that one stage found, and words for explanations.

    Attributes:
        rows: int32[n].
        terms: name of the term, its weight in the score, float32[n].
        words: toolkit → the cause of its hit, such as "keyword 'rain'".
    """

    rows: Rows
    terms: tuple[Term, ...] = ()
    words: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RetrievalResult(Evidence):
    """The tools that retrieval found, before outcomes count.

    Attributes:
        scores: float32[n], aligned with rows, best first.
        confidence: in [0, 1]: how sure retrieval is that some tool serves the message.
        has_match: False if the confidence is too low for any tool.
        leaders: rows that would be first without any outcomes.
    """

    scores: Scores
    confidence: float
    has_match: bool
    leaders: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """The distributions behind each row's place. They give the probability that the row was shown.

    Attributes:
        mean, spread: float32[n], of a normal distribution on the scale of the scores.
        show: float32[n], in [0, 1]: the probability that the row took part; below 1 during its probation.
        core: bool[n]: rows that are always selected and take no place.
        guarded: rows that always take a place, unless they are on probation.
        places: the number of rows that the draw chose.
        explore: the probability that the last place went to the row with the fewest outcomes.
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
    """The scores after outcomes and a draw.

    Attributes:
        scores: float32[n], aligned with rows, in no order.
        draw: the distributions of the scores; None where they have no closed form.
    """

    scores: Scores
    draw: Draw | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BeforeList(Evidence):
    """The rows that the turn selected, before the list of the conversation changed them."""


AnyEvidence = TypeVar("AnyEvidence", bound=Evidence)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """A set of catalog rows in play. Immutable.

    Attributes:
        allowed: rows that no hard stage removed; shrinks only.
        pool: rows in play while they are a set; None once they are columns.
        rows: int32[n]. With a pool: the rows that have evidence so far. Without: the rows in play, in order.
        scores: float32[n], aligned with rows; higher is better, 0 is no evidence.
        verb, reason: the step that made this set, such as "forbid", "settings.missing".
        evidence: the step's evidence, if it found any.
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

    def narrow(self, kept: Bitset | Rows, reason: str) -> Candidates:
        """Keeps only these rows in play, for now. Rows that are not in play are ignored.

        After a bitset, a set is in play; after int32[n], columns in the order of these rows. Scores stay.
        """
        if isinstance(kept, Bitset):
            stays = kept.holds(self.rows)
            pool = None if self.pool is None else self.pool & kept
            rows, scores = self.rows[stays], self.scores[stays]
            return Candidates(self.allowed, pool, rows, scores, "narrow", reason, None, self)
        if self.pool is None:
            known = self._known()
            rows = np.array([row for row in kept.tolist() if row in known], np.int32)
        else:
            rows = kept if self.pool.holds_all(kept) else kept[self.pool.holds(kept)]
        scores = _scores(rows.tolist(), self._known())
        return Candidates(self.allowed, None, rows, scores, "narrow", reason, None, self)

    def arrange(self, rows: Sequence[int], reason: str, evidence: Evidence | None = None) -> Candidates:
        """Puts only these rows into play, in this order. Columns must be in play.

        Rows that are not allowed are ignored. Rows that were not in play get no score.
        """
        assert self.pool is None
        arranged = np.array(rows, np.int32)
        if not self.allowed.holds_all(arranged):
            arranged = arranged[self.allowed.holds(arranged)]
            rows = arranged.tolist()
        scores = _scores(rows, self._known())
        return Candidates(self.allowed, None, arranged, scores, "arrange", reason, evidence, self)

    @property
    def in_order(self) -> list[int]:
        """The rows as a list of Python numbers."""
        rows: list[int] = self.rows.tolist()
        return rows

    @property
    def retrieved(self) -> RetrievalResult | None:
        """The tools that retrieval found; None if it did not run."""
        return self._latest(RetrievalResult)

    def packed_calls(
        self,
        keys_of: Callable[[list[int]], list[bytes]],
        *,
        temperature: float,
        calls: float,
        elsewhere: float,
    ) -> bytes:
        """`toolroll._core.packed_calls` of these rows in order, with the scores of retrieval.

        keys_of: returns the packed keys of rows.
        """
        keys = keys_of(self.in_order)
        found = self.retrieved
        rows, scores = (NO_ROWS, NO_SCORES) if found is None else (found.rows, found.scores)
        return packed_calls(
            keys, self.rows, rows, scores, temperature=temperature, calls=calls, elsewhere=elsewhere
        )

    @property
    def fallback(self) -> Fallback | None:
        """The rows that stand in for a match; None if something matched."""
        return self._latest(Fallback)

    @property
    def matched(self) -> Candidates:
        """The set before the fallback; the set itself without one."""
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
        """The scores after outcomes; None if no outcome counted."""
        return self._latest(RerankingResult)

    @property
    def before_list(self) -> Rows:
        """int32[n]: the rows before the conversation's list; the final rows if there is no list."""
        found = self._latest(BeforeList)
        return self.rows if found is None else found.rows

    @property
    def list_turns(self) -> tuple[int, ...] | None:
        """The last turn of the conversation that selected each row; None if there is no list."""
        return None

    def trail(self) -> Iterator[Candidates]:
        """The sets of all steps, from the first one to this one."""
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
        """Yields this set, then each set before it."""
        step: Candidates | None = self
        while step is not None:
            yield step
            step = step.before

    def _latest(self, kind: type[AnyEvidence]) -> AnyEvidence | None:
        """The latest evidence of this type."""
        for step in self._steps():
            if isinstance(step.evidence, kind):
                return step.evidence
        return None

    def _known(self) -> dict[int, float]:
        """Row → score, from the columns."""
        return dict(zip(self.rows.tolist(), self.scores.tolist(), strict=True))


def _scores(rows: Sequence[int], known: dict[int, float]) -> Scores:
    if not known:
        return np.zeros(len(rows), np.float32)
    return np.array([known.get(row, 0.0) for row in rows], np.float32)
