"""Folds rows of outcomes into the statistics that selection reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import error as StructError
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll.learning.effects import deltas
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.rows import OutcomeRow, outcome_rows
from toolroll.registry.store import tables
from toolroll.registry.store.gil import GilYielder
from toolroll.registry.store.row_reader import UnreadableRow, read_rows

_SOME = 100  # rows in one query: more would hold up selections
_CHUNK = 2_000  # outcomes in one fold
# What the packed part of a damaged row raises. An error of the database has a class of its own.
_OF_DETAILS = (ValueError, TypeError, LookupError, ArithmeticError, StructError)

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
    damaged: list[str] | None = None,
) -> Iterator[OutcomeRow]:
    """An organisation's outcomes in the order in which they count, without those that cannot be read.

    above, up_to: the range of their numbers, without `above`. voided: whether to return voided ones, too.
    damaged: gets a line for each outcome that cannot be read.
    """
    table, yielder, read = tables.outcomes, GilYielder(), EntryReader(connection)
    damaged = [] if damaged is None else damaged
    while True:
        where = [table.c.org == org, table.c.seq > above, *([] if up_to is None else [table.c.seq <= up_to])]
        rows = list(read_rows(connection, list(table.c), *where, order_by=(table.c.seq,), limit=_SOME))
        whole = []
        for row in rows:
            if isinstance(row, UnreadableRow):
                damaged.append(row.problem)
            elif voided or row["voided_at"] is None:
                whole.append(SimpleNamespace(**row))
        for outcome in readable_outcomes(read, whole, damaged):
            yielder()
            yield outcome
        numbers = [row.values.get("seq") if isinstance(row, UnreadableRow) else row["seq"] for row in rows]
        known = [number for number in numbers if isinstance(number, int)]
        if len(rows) < _SOME or not known:
            return
        above = known[-1]


def readable_outcomes(reader: EntryReader, rows: Sequence[Any], damaged: list[str]) -> list[OutcomeRow]:
    """The outcomes in rows, without those whose details cannot be read. damaged: gets a line for each."""
    if not rows:
        return []
    try:
        return outcome_rows(reader, rows)
    except _OF_DETAILS as error:
        if len(rows) == 1:
            damaged.append(f"outcome {rows[0].seq} cannot be read: {error}")
            return []
    middle = len(rows) // 2
    first = readable_outcomes(reader, rows[:middle], damaged)
    return first + readable_outcomes(reader, rows[middle:], damaged)


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


def fold_all(
    learned: L, outcomes: Iterable[OutcomeRow], dim: int, space: str, damaged: list[str] | None = None
) -> L:
    """`fold` for any number of outcomes, in parts, without those that cannot be folded.

    damaged: gets a line for each of these.
    """
    outcomes = iter(outcomes)
    while some := list(islice(outcomes, _CHUNK)):
        learned = _fold_readable(learned, some, dim, space, [] if damaged is None else damaged)
    return learned


def _fold_readable(learned: L, outcomes: Sequence[OutcomeRow], dim: int, space: str, damaged: list[str]) -> L:
    try:
        return fold(learned, outcomes, dim, space)
    except _OF_DETAILS as error:
        if len(outcomes) == 1:
            damaged.append(f"outcome {outcomes[0].seq} does not count: {error}")
            return learned
    middle = len(outcomes) // 2
    learned = _fold_readable(learned, outcomes[:middle], dim, space, damaged)
    return _fold_readable(learned, outcomes[middle:], dim, space, damaged)


def rates_key(*parts: object) -> str:
    """A digest of everything beside the outcomes that a fold depends on."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:32]
