"""What a fold changed, as rows: whoever puts them in place has the bits of the fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slow_learned import random_deltas
from toolroll._core import Learned

DIM = 4
CELL, RECORD = ("kind", "key", "scope"), ("kind", "key")


@dataclass
class Stored:
    """The rows as a store keeps them: the last one of each key."""

    cells: dict[Any, Any] = field(default_factory=dict)
    records: dict[Any, Any] = field(default_factory=dict)

    def put(self, rows: tuple[list[Any], list[Any]]) -> None:
        self.cells |= {(kind, key, scope): sums for kind, key, scope, *sums in rows[0]}
        self.records |= {(kind, key): state for kind, key, state in rows[1]}

    def rows(self, keys: set[int] | None = None, scopes: set[int] | None = None) -> tuple[Any, Any]:
        cells = [
            (*at, *sums)
            for at, sums in self.cells.items()
            if keys is None or (at[1] in keys and (scopes is None or at[2] in scopes))
        ]
        records = [(*at, state) for at, state in self.records.items() if keys is None or at[1] in keys]
        return cells, records


def some(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes with vectors, verdicts, and reports that are taken back."""
    random = np.random.default_rng(seed)
    found = random_deltas(seed, n, days=3, verdict=0)
    found["vector"] = random.integers(-1, 6, n)
    found["pull"] = np.where(random.random(n) < 0.7, random.choice([1.0, 0.5], n), 0)
    found["verdict"] = random.choice([1, -1, 0], n)
    back = np.flatnonzero(random.random(n) < 0.4)
    for name in ("successes", "failures", "calls", "expected", "pull"):
        for at in back[back > 0]:
            found[name][at] = -found[name][at - 1]
    for name in ("at", "arm", "intent", "group", "vector", "reporter"):
        for at in back[back > 0]:
            found[name][at] = found[name][at - 1]
    return found, random.normal(size=(6, DIM)).astype(np.float32)


def keys_of(deltas: np.ndarray) -> tuple[set[int], set[int]]:
    """The keys and the scopes in these deltas."""
    keys = {int(delta[name]) for delta in deltas for name in ("arm", "intent", "group")}
    return keys, {int(delta[name]) for delta in deltas for name in ("everywhere", "page", "leaf", "plain")}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.data())
def test_rows_of_any_batches_give_every_reader_the_bits_of_one_fold(
    seed: int, n: int, data: st.DataObject
) -> None:
    deltas, vectors = some(seed, n)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    nothing, stored = Learned(DIM), Stored()
    follower, revision = nothing, 0
    for begin, end in zip([0, *cuts], [*cuts, n], strict=True):
        part = deltas[begin:end]
        # As a writer does that holds nothing: it reads the rows that the part is about, and no others.
        before = nothing.with_rows(*stored.rows(*keys_of(part)), revision)
        after = before.fold(part, vectors)
        revision = after.revision
        changed = after.rows(before)
        stored.put(changed)
        if data.draw(st.booleans()):
            follower = follower.with_rows(*changed, revision)
        else:  # one that reads everything again
            follower = nothing.with_rows(*stored.rows(), revision)
    whole = nothing.fold(deltas, vectors)
    assert follower.to_bytes() == whole.to_bytes()
    assert nothing.with_rows(*stored.rows(), revision).to_bytes() == whole.to_bytes()
    assert (follower.size, follower.vectors) == (whole.size, whole.vectors)
    assert follower.rows(whole) == ([], []) or follower.rows(whole)[0] == []
    for subject in {int(delta["group"] or delta["intent"]) for delta in deltas}:
        mine, other = whole.vector(subject), follower.vector(subject)
        assert (mine is None) == (other is None)
        assert mine is None or (mine[0].tobytes(), mine[1]) == (other[0].tobytes(), other[1])


def test_only_what_a_fold_changed_is_among_its_rows() -> None:
    deltas, vectors = some(1, 40)
    before = Learned(DIM).fold(deltas, vectors)
    one = deltas[:1].copy()
    one["vector"], one["pull"] = -1, 0
    cells, records = before.fold(one).rows(before)
    assert {key for _, key, *_ in (*cells, *records)} <= keys_of(one)[0]
    assert len(cells) <= 7 and all(kind != 2 for kind, *_ in records)
    assert before.rows(before) == ([], [])
    assert len(before.rows(Learned(DIM))[0]) == before.size


def test_rows_that_no_fold_made_are_refused() -> None:
    nothing = Learned(DIM)
    for cells, records in (
        ([(0, 1, 0, 0.0, 0.0, 0.0)], []),
        ([(0, 1, 2, float("nan"), 0.0, 0.0)], []),
        ([(0, 1, 2, 0.0, 0.0, 1e300)], []),
        ([(3, 1, 2, 0.0, 0.0, 0.0)], []),
        ([], [(0, 1, b"short")]),
        ([], [(1, 1, b"\xff" * 96)]),
        ([], [(2, 1, b"\xff" * 24)]),
        ([], [(2, 1, b"\x00" * 40)]),
        ([], [(3, 1, b"")]),
    ):
        with pytest.raises(ValueError):
            nothing.with_rows(cells, records, 1)
