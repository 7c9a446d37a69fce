"""Folds rows of outcomes into the statistics that selection reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll._gil import GilYielder
from toolroll.learning.effects import deltas
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.rows import OutcomeRow, outcome_rows
from toolroll.registry.store import tables
from toolroll.registry.store.errors import is_damage
from toolroll.registry.store.row_reader import UnreadableRow, read_rows
from toolroll.registry.store.unreadable_rows import each_readable

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


class DamagedOutcome(NamedTuple):
    """An outcome of an organisation that does not count. Its number is None if that cannot be read."""

    seq: int | None
    problem: str


def outcomes_of(
    connection: sa.Connection,
    org: str,
    above: int = 0,
    up_to: int | None = None,
    *,
    voided: bool = False,
    damaged: list[DamagedOutcome] | None = None,
) -> Iterator[OutcomeRow]:
    """An organisation's outcomes in the order in which they count, without those that cannot be read.

    above, up_to: the range of their numbers, without `above`. voided: whether to return voided ones, too.
    damaged: gets those that cannot be read.
    """
    table, yielder, read = tables.outcomes, GilYielder(), EntryReader(connection)
    damaged = [] if damaged is None else damaged
    while True:
        where = [table.c.org == org, table.c.seq > above, *([] if up_to is None else [table.c.seq <= up_to])]
        rows = list(read_rows(connection, list(table.c), *where, order_by=(table.c.seq,), limit=_SOME))
        whole = []
        for row in rows:
            if isinstance(row, UnreadableRow):
                damaged.append(DamagedOutcome(row.values.get("seq"), row.problem))
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


def readable_outcomes(
    reader: EntryReader, rows: Sequence[Any], damaged: list[DamagedOutcome]
) -> list[OutcomeRow]:
    """The outcomes in rows, without those whose details cannot be read, which `damaged` gets."""
    return each_readable(
        partial(outcome_rows, reader),
        rows,
        lambda row, error: damaged.append(
            DamagedOutcome(row.seq, f"outcome {row.seq} cannot be read: {error}")
        ),
    )


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
    learned: L,
    outcomes: Iterable[OutcomeRow],
    dim: int,
    space: str,
    damaged: list[DamagedOutcome] | None = None,
) -> L:
    """`fold` for any number of outcomes, in parts, without those that cannot be folded.

    damaged: gets these.
    """
    outcomes = iter(outcomes)
    while some := list(islice(outcomes, _CHUNK)):
        learned = _fold_readable(learned, some, dim, space, [] if damaged is None else damaged)
    return learned


def _fold_readable(
    learned: L, outcomes: Sequence[OutcomeRow], dim: int, space: str, damaged: list[DamagedOutcome]
) -> L:
    try:
        return fold(learned, outcomes, dim, space)
    except Exception as error:
        if not is_damage(error):
            raise
        if len(outcomes) == 1:
            seq = outcomes[0].seq
            damaged.append(DamagedOutcome(seq, f"outcome {seq} does not count: {error}"))
            return learned
    middle = len(outcomes) // 2
    learned = _fold_readable(learned, outcomes[:middle], dim, space, damaged)
    return _fold_readable(learned, outcomes[middle:], dim, space, damaged)


def rates_key(*parts: object) -> str:
    """A digest of everything beside the outcomes that a fold depends on."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()[:32]
