"""The candidates that `Selector.pick` returns. Their steps are made from columns on the first read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from toolroll._core import Picked
from toolroll.catalog.mark_table import MarkHit
from toolroll.model.arrays import NO_ROWS, Rows, Scores
from toolroll.model.context import Turn
from toolroll.selection.candidates import (
    BeforeList,
    Candidates,
    Draw,
    Evidence,
    Fallback,
    RerankingResult,
    RetrievalResult,
    Term,
)

Words: TypeAlias = tuple[tuple[str, str], ...]

# Rows, scores, their terms, the loss by damping, confidence, whether it is enough, and the leaders.
FoundColumns: TypeAlias = tuple[Rows, Scores, tuple[Scores, ...], Scores, float, bool, Rows]

# Beside the columns: the turn; toolkit → the words that activated it, of the page and of routes; the marks
# in the message; whether evidence is damped; how often the last place explores; names of the caller's steps.
Said: TypeAlias = tuple[Turn, Words, Mapping[str, str], Sequence[MarkHit], bool, float, tuple[str, ...]]

_TERMS = ("dense", "examples", "lexical", "clause", "earlier turns")

_set = object.__setattr__
_OF_STEP = ("verb", "reason", "evidence", "before")


class PickedCandidates(Candidates):
    """Candidates after all soft stages. Immutable.

    The steps are made from the columns on the first read. Most selections never need one.
    """

    __slots__ = ("_columns", "in_order")
    in_order: list[int]  # a property of the class above
    _columns: tuple[Picked, Candidates, Said]

    def __init__(self, picked: Picked, start: Candidates, said: Said) -> None:
        """picked: the columns. start: the set before the soft stages. said: see `Said`."""
        _set_allowed(self, start.allowed)
        _set_pool(self, None)
        _set_order(self, picked.selected)
        _set_columns(self, (picked, start, said))

    @property
    def _picked(self) -> Picked:
        return self._columns[0]

    @property
    def _said(self) -> Said:
        return self._columns[2]

    @property
    def retrieved(self) -> RetrievalResult | None:
        """The tools that retrieval found; None if it did not run."""
        by_words = self._picked.by_words
        return self._retrieved() if by_words is None else self._by_words(by_words)

    def packed_calls(
        self,
        keys_of: Callable[[list[int]], list[bytes]],
        *,
        temperature: float,
        calls: float,
        elsewhere: float,
    ) -> bytes:
        """See `Candidates.packed_calls`."""
        keys = keys_of(self.in_order)
        return self._picked.packed_calls(keys, temperature=temperature, calls=calls, elsewhere=elsewhere)

    @property
    def before_list(self) -> Rows:
        """See `Candidates.before_list`."""
        return self._picked.before_list

    @property
    def list_turns(self) -> tuple[int, ...] | None:
        """See `Candidates.list_turns`."""
        return self._picked.list_turns

    def __len__(self) -> int:
        return len(self.in_order)

    def __getattr__(self, name: str) -> Any:
        """Makes a field when it is first read. Two threads may both make it; the values are equal."""
        if name == "rows" or name == "scores":
            _set(self, name, getattr(self._picked, name))
        elif name in _OF_STEP:
            last = self._last_step()
            for field in _OF_STEP:
                _set(self, field, getattr(last, field))
        else:
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def _last_step(self) -> Candidates:
        picked, start, _ = self._columns
        pools, step, own_steps = (start.pool, *picked.pools), start, iter(picked.own_steps)
        for verb, reason, found, at, rows, scores in picked.steps:
            in_play = None if at < 0 else pools[at]
            if found == "own_step":
                name = self._said[-1][next(own_steps)]
                reason, ranked = f"step {name}", slice(picked.core, None)
                before = dict(zip(step.rows.tolist(), step.scores.tolist(), strict=True))
                change = scores[ranked] - np.array([before[row] for row in rows[ranked].tolist()], np.float32)
                evidence: Evidence | None = Evidence(rows[ranked], ((name, 1.0, change),))
            else:
                evidence = self._evidence(found)
            step = Candidates(start.allowed, in_play, rows, scores, verb, reason, evidence, step)
        return step

    def _evidence(self, found: str) -> Evidence | None:
        """The evidence of a step, from its columns."""
        picked = self._picked
        _, page, routes, marks, *_ = self._said
        match found:
            case "page":
                return Evidence(NO_ROWS, words=page)
            case "routes":
                return Evidence(NO_ROWS, words=tuple(routes.items()))
            case "routed":
                words = tuple(routes.items())
                return Evidence(NO_ROWS, words=tuple([words[at] for at in picked.routed]))
            case "marks":
                gains = zip(marks, picked.mark_gains, strict=True)
                terms = tuple([(mark.label, 1.0, column) for mark, column in gains])
                return Evidence(picked.marked, terms)
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
            case "drawn":
                assert picked.reranked is not None
                rows, _, scores, *_ = picked.reranked
                return RerankingResult(rows, (("thompson", 1.0, scores),), scores=scores)
            case "before_list":
                return BeforeList(picked.before_list)
        return None

    def _retrieved(self) -> RetrievalResult | None:
        turn, is_damped = self._said[0], self._said[4]
        columns = self._picked.retrieved
        return None if columns is None else _result(columns, turn, is_damped)

    def _by_words(self, columns: FoundColumns) -> RetrievalResult:
        turn, is_damped = self._said[0], self._said[4]
        return _result(columns, replace(turn, vector=None), is_damped)

    def _reranked(self) -> RerankingResult:
        columns = self._picked.reranked
        assert columns is not None
        rows, learnt, scores, mean, spread, show, core, guarded, places = columns
        draw = Draw(mean, spread, show, core, guarded, places, self._said[5])
        return RerankingResult(rows, (("outcomes", 1.0, learnt),), scores=scores, draw=draw)


# As the constructor of a frozen dataclass sets fields, in a third of the time.
_set_allowed, _set_pool = (vars(Candidates)[name].__set__ for name in ("allowed", "pool"))
_set_order, _set_columns = (vars(PickedCandidates)[name].__set__ for name in ("in_order", "_columns"))


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


def terms_of(turn: Turn, terms: Sequence[Scores], damped: Scores | None) -> tuple[Term, ...]:
    """The terms that the scores of this turn can have. damped: the loss by damping; None without damping."""
    is_dense = turn.vector is not None and turn.trust > 0
    asked = (is_dense, is_dense, True, turn.clauses, turn.earlier)
    columns = [
        (name, 1.0, column) for name, column, is_asked in zip(_TERMS, terms, asked, strict=True) if is_asked
    ]
    return tuple(columns) if damped is None else (*columns, ("damped", 1.0, damped))
