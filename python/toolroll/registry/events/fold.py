"""Folds rows of outcomes into the statistics that selection reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll._gil import GilYielder
from toolroll.learning.effects import deltas
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.rows import OutcomeRow, outcome_rows
from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import read_rows

_SOME = 100  # rows in one query: more would hold up selections
_CHUNK = 2_000  # outcomes in one fold

Vectors = npt.NDArray[np.float32]
L = TypeVar("L", bound="LearnedState")


class LearnedState(Protocol):
    """The part of `toolroll._core.Learned` that a fold uses. It is immutable."""

    def fold(self: L, deltas: npt.NDArray[np.void], vectors: Vectors | None) -> L:
        """The state with the deltas added."""
        ...

    def to_bytes(self) -> bytes:
        """The bytes for a checkpoint."""
        ...


def outcomes_of(
    connection: sa.Connection,
    org: str,
    above: int = 0,
    up_to: int | None = None,
    *,
    voided: bool = False,
) -> Iterator[OutcomeRow]:
    """An organisation's outcomes in the order in which they count.

    above, up_to: the range of their numbers, without `above`. voided: whether to return voided ones, too.
    """
    table, yielder, read = tables.outcomes, GilYielder(), EntryReader(connection)
    while True:
        where = [table.c.org == org, table.c.seq > above, *([] if up_to is None else [table.c.seq <= up_to])]
        rows = list(read_rows(connection, list(table.c), *where, order_by=(table.c.seq,), limit=_SOME))
        whole = []
        for row in rows:
            if voided or row["voided_at"] is None:
                whole.append(SimpleNamespace(**row))
        for outcome in outcome_rows(read, whole):
            yielder()
            yield outcome
        if len(rows) < _SOME:
            return
        above = rows[-1]["seq"]


def fold(learned: L, outcomes: Sequence[OutcomeRow], dim: int, space: str) -> L:
    """The state with these outcomes added.

    dim, space: the width and the embedder that the messages' vectors must have; others are left out.
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


def fold_all(learned: L, outcomes: Iterable[OutcomeRow], dim: int, space: str) -> L:
    """`fold` for any number of outcomes, in parts."""
    outcomes = iter(outcomes)
    while some := list(islice(outcomes, _CHUNK)):
        learned = fold(learned, some, dim, space)
    return learned


def rates_key(*parts: object) -> str:
    """A digest of everything beside the outcomes that a fold depends on."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:32]
