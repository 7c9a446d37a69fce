"""The final set of `Selector.pick`, which answers what `Candidates` answers and makes its steps on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from toolroll._core import Picked
from toolroll.arrays import NO_ROWS, Rows, Scores
from toolroll.context import Turn
from toolroll.selection.candidates import (
    BeforeList,
    Candidates,
    Draw,
    Evidence,
    Fallback,
    Hits,
    RerankingResult,
    RetrievalResult,
)
from toolroll.selection.stages.retrieval import terms_of

Words: TypeAlias = tuple[tuple[str, str], ...]

# Rows, scores, their terms, what damping took, confidence, whether it is enough, and the leaders.
FoundColumns: TypeAlias = tuple[Rows, Scores, tuple[Scores, ...], Scores, float, bool, Rows]

_set = object.__setattr__
_MADE = ("rows", "scores", "verb", "reason", "evidence", "before")


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What the columns of a selection do not say.

    Attributes:
        turn: what was asked.
        page, routes: toolkit → the words that switched it on.
        marks: label of each mark and service in the message.
        is_damped: whether evidence is damped.
        explore: how often the last place goes to the row of which least is known.
    """

    turn: Turn
    page: Words
    routes: Words
    marks: tuple[str, ...]
    is_damped: bool
    explore: float


class PickedCandidates(Candidates):
    """Candidates after all soft stages. Immutable, as all candidates are.

    The fields of the last step are made from the columns when one of them is first read, with the steps
    before it. Questions that a selection asks on its way are answered without that.
    """

    __slots__ = ("_picked", "_said", "_start")
    _picked: Picked
    _said: Said
    _start: Candidates

    def __init__(self, picked: Picked, start: Candidates, said: Said) -> None:
        """picked: the columns. start: the set before. said: what the columns do not say."""
        _set(self, "allowed", start.allowed)
        _set(self, "pool", None)
        _set(self, "_picked", picked)
        _set(self, "_start", start)
        _set(self, "_said", said)

    @property
    def in_order(self) -> list[int]:
        """The rows, as numbers of Python."""
        return self._picked.selected

    @property
    def retrieved(self) -> RetrievalResult | None:
        """What retrieval found."""
        by_words = self._picked.by_words
        return self._retrieved() if by_words is None else self._by_words(by_words)

    @property
    def before_list(self) -> Rows:
        """int32[n]: the rows before the list of the conversation had a say; these rows where it had none."""
        return self._picked.before_list

    def __len__(self) -> int:
        return len(self._picked.selected)

    def __getattr__(self, name: str) -> Any:
        """Makes the steps for the first field of them that is read. Two threads may both make them."""
        if name not in _MADE:
            raise AttributeError(name)
        last = self._last_step()
        for field in _MADE:
            _set(self, field, getattr(last, field))
        return getattr(last, name)

    def _last_step(self) -> Candidates:
        picked, start = self._picked, self._start
        pool = start.pool if picked.pool is None else picked.pool
        step = start
        for verb, reason, found, is_pool, rows, scores in picked.steps:
            in_play, evidence = pool if is_pool else None, self._evidence(found)
            step = Candidates(start.allowed, in_play, rows, scores, verb, reason, evidence, step)
        return step

    def _evidence(self, found: str) -> Evidence | None:
        """What a step found, from its columns."""
        picked, said = self._picked, self._said
        match found:
            case "page":
                return Evidence(NO_ROWS, words=said.page)
            case "routes":
                return Hits(NO_ROWS, words=said.routes, best=picked.route_best)
            case "marks":
                terms = zip(said.marks, picked.mark_gains, strict=True)
                gains = tuple([(label, 1.0, column) for label, column in terms])
                return Hits(picked.marked, gains, best=picked.mark_best)
            case "called":
                return Evidence(picked.called, (("toolkit called before", 1.0, picked.called_gains),))
            case "retrieved":
                return self._retrieved()
            case "by_words":
                assert picked.by_words is not None
                return self._by_words(picked.by_words)
            case "fallback":
                return Fallback(picked.fallback)
            case "reranked":
                return self._reranked()
            case "before_list":
                return BeforeList(picked.before_list)
        return None

    def _retrieved(self) -> RetrievalResult:
        said = self._said
        return _result(self._picked.retrieved, said.turn, said.is_damped)

    def _by_words(self, columns: FoundColumns) -> RetrievalResult:
        said = self._said
        return _result(columns, replace(said.turn, vector=None), said.is_damped)

    def _reranked(self) -> RerankingResult:
        columns = self._picked.reranked
        assert columns is not None
        rows, learnt, scores, mean, spread, show, core, guarded, places = columns
        draw = Draw(mean, spread, show, core, guarded, places, self._said.explore)
        return RerankingResult(rows, (("outcomes", 1.0, learnt),), scores=scores, draw=draw)


def _result(columns: FoundColumns, turn: Turn, is_damped: bool) -> RetrievalResult:
    rows, scores, terms, damped, confidence, has_match, leaders = columns
    return RetrievalResult(
        rows,
        terms_of(turn, terms, damped if is_damped else None),
        scores=scores,
        confidence=confidence,
        has_match=has_match,
        leaders=leaders,
    )
