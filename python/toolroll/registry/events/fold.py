"""Reads an organisation's outcomes and folds them into a state of the core, for replay and judging.

The keeper folds outcomes into the rows that selections read: see `learned_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll._core import Learned
from toolroll.learning.effects import deltas
from toolroll.learning.exposure import Exposure
from toolroll.model.identity import key
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.logged_tools import signed
from toolroll.registry.events.rows import OutcomeRow, outcome_rows
from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import read_rows
from toolroll.runtime.gil import GilYielder

_SOME = 100  # rows in one query: more would hold up selections
_CHUNK = 2_000  # outcomes in one fold


class Space(NamedTuple):
    """The vectors of one embedder. Without an embedder, the name is empty and the width 0."""

    name: str
    dim: int

    @property
    def scope(self) -> int:
        """The scope of the tool's rows in `learned`."""
        return signed(key("space", self.name, str(self.dim)))


def space_of(exposure: Exposure) -> Space:
    """The space of an event's vector; the empty one if the vector is missing or not finite."""
    vector = exposure.vector
    if vector is None or not np.isfinite(vector).all():
        return Space("", 0)
    return Space(exposure.space, len(vector))


def outcomes_of(
    connection: sa.Connection,
    org: str,
    above: int = 0,
    up_to: int | None = None,
    *,
    voided: bool = False,
) -> Iterator[OutcomeRow]:
    """An organisation's outcomes in their order.

    above, up_to: the range of their numbers, without `above`. voided: whether to include voided outcomes.
    """
    table, yielder, read = tables.outcomes, GilYielder(), EntryReader(connection)
    while True:
        where = [table.c.org == org, table.c.seq > above, *([] if up_to is None else [table.c.seq <= up_to])]
        rows = list(read_rows(connection, list(table.c), *where, order_by=(table.c.seq,), limit=_SOME))
        whole = [SimpleNamespace(**row) for row in rows if voided or row["voided_at"] is None]
        for outcome in outcome_rows(read, whole):
            yielder()
            yield outcome
        if len(rows) < _SOME:
            return
        above = rows[-1]["seq"]


@dataclass(frozen=True, slots=True, eq=False)
class FoldInput:
    """Outcomes as input of the core's fold.

    Attributes:
        rows: DELTA[n].
        outcomes, spaces: one for each row.
        vectors: space → the vectors of its rows.
    """

    rows: npt.NDArray[np.void]
    outcomes: Sequence[OutcomeRow]
    spaces: Sequence[Space]
    vectors: Mapping[Space, Sequence[npt.NDArray[np.float16]]]

    @classmethod
    def of(cls, outcomes: Sequence[OutcomeRow]) -> FoldInput:
        """From at least one outcome; outcomes are in order."""
        parts, said, spaces = [], list[OutcomeRow](), list[Space]()
        vectors, yielder = dict[Space, list[npt.NDArray[np.float16]]](), GilYielder()
        for outcome in outcomes:
            yielder()
            space, at = space_of(outcome.exposure), -1
            if outcome.exposure.vector is not None and space.dim:
                at = len(vectors.setdefault(space, []))
                vectors[space].append(outcome.exposure.vector)
            closes = outcome.closing_weight if outcome.closes else 0.0
            parts.append(deltas(outcome.exposure, outcome.changes, closes, at))
            said += [outcome] * len(parts[-1])
            spaces += [space] * len(parts[-1])
        return cls(np.concatenate(parts), said, spaces, vectors)

    def to(self, space: Space) -> tuple[npt.NDArray[np.void], npt.NDArray[np.float32] | None]:
        """The rows and vectors for a state of this space. Messages of other spaces get no vector."""
        rows, vectors = self.rows.copy(), self.vectors.get(space)
        rows["vector"][np.array([each != space for each in self.spaces], bool)] = -1
        return rows, None if vectors is None else np.stack(vectors).astype(np.float32)


def fold(learned: Learned, outcomes: Sequence[OutcomeRow], dim: int, space: str) -> Learned:
    """The state with these outcomes added. dim, space: vectors of this space count."""
    return learned.fold(*FoldInput.of(outcomes).to(Space(space, dim))) if outcomes else learned


def fold_all(learned: Learned, outcomes: Iterable[OutcomeRow], dim: int, space: str) -> Learned:
    """`fold` for any number of outcomes, in parts."""
    outcomes = iter(outcomes)
    while some := list(islice(outcomes, _CHUNK)):
        learned = fold(learned, some, dim, space)
    return learned
