"""From rows of outcomes to what a decision reads of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll.learning.effects import deltas
from toolroll.registry.events.rows import Counted
from toolroll.registry.store import tables
from toolroll.registry.store.gil import GilYielder

_SOME = 100  # rows that are read at a time: more would hold up selections meanwhile

Vectors = npt.NDArray[np.float32]
L = TypeVar("L", bound="Folds")


class Folds(Protocol):
    """What `toolroll._core.Learned` is here: immutable, and more after each fold."""

    def fold(self: L, deltas: npt.NDArray[np.void], vectors: Vectors | None) -> L:
        """The same, and what these add."""
        ...

    def to_bytes(self) -> bytes:
        """For a checkpoint."""
        ...


def outcomes_of(
    connection: sa.Connection, org: str, above: int = 0, up_to: int | None = None, *, voided: bool = False
) -> Iterator[Counted]:
    """An organisation's outcomes in the order in which they count.

    above, up_to: numbers between which they are. voided: also those that count no more.
    """
    table, yielder = tables.outcomes, GilYielder()
    while True:
        query = sa.select(table).where(table.c.org == org, table.c.seq > above)
        if up_to is not None:
            query = query.where(table.c.seq <= up_to)
        rows = connection.execute(query.order_by(table.c.seq).limit(_SOME)).all()
        for row in rows:
            yielder()
            if voided or row.voided_at is None:
                yield Counted.of(row)
        if len(rows) < _SOME:
            return
        above = rows[-1].seq


def fold(learned: L, outcomes: Sequence[Counted], dim: int, space: str) -> L:
    """What was learnt, and what these add.

    dim, space: width of the messages' vectors, and the embedder they must be of; others pull nothing.
    """
    parts, vectors = [], list[npt.NDArray[np.float16]]()
    yielder = GilYielder()
    for outcome in outcomes:
        yielder()
        exposure, at = outcome.exposure, -1
        if exposure.vector is not None and exposure.space == space and len(exposure.vector) == dim:
            at = len(vectors)
            vectors.append(exposure.vector)
        closes = outcome.closing_weight if outcome.closes else 0.0
        part = deltas(exposure, outcome.changes, closes, at)
        if len(part):
            parts.append(part)
    if not parts:
        return learned
    return learned.fold(np.concatenate(parts), np.stack(vectors).astype(np.float32) if vectors else None)


def rates_key(*parts: object) -> str:
    """A digest of what a fold depends on beside the outcomes."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:32]
