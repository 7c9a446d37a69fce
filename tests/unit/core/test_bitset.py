"""Sets of rows, against Python's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll._core import Bitset

sizes = st.sampled_from([1, 63, 64, 65, 200])


def column(rows) -> np.ndarray:
    return np.array(sorted(rows), np.int32)


@given(sizes, st.data())
def test_the_operations_are_those_of_sets(size, data):
    subsets = st.sets(st.integers(0, size - 1))
    a, b = data.draw(subsets), data.draw(subsets)
    one, other = Bitset.of(size, column(a)), Bitset.of(size, column(b))
    assert (one & other).rows().tolist() == sorted(a & b)
    assert (one | other).rows().tolist() == sorted(a | b)
    assert (one - other).rows().tolist() == sorted(a - b)
    assert (Bitset.full(size) - one).rows().tolist() == sorted(set(range(size)) - a)
    assert len(one) == len(a)
    assert bool(one) == bool(a)
    assert (one == other) == (a == b)
    assert one.holds(column(b)).tolist() == [row in a for row in sorted(b)]
    assert one.holds_all(column(b)) == (b <= a)


@given(sizes, sizes, st.data())
def test_a_join_holds_both_and_slices_give_them_back(size, behind, data):
    head = data.draw(st.sets(st.integers(0, size - 1)))
    tail = data.draw(st.sets(st.integers(0, behind - 1)))
    one, other = Bitset.of(size, column(head)), Bitset.of(behind, column(tail))
    joined = Bitset.join(one, other)
    assert joined.size == size + behind
    assert joined.rows().tolist() == [*sorted(head), *(size + row for row in sorted(tail))]
    assert joined.slice(0, size) == one
    assert joined.slice(size, size + behind) == other


def test_a_slice_beyond_the_set_is_refused():
    with pytest.raises(ValueError, match=r"slice 2..4: must be within 0..3"):
        Bitset.full(3).slice(2, 4)


def test_rows_outside_are_in_no_set():
    full = Bitset.full(3)
    assert 2 in full
    assert 3 not in full
    assert -1 not in full
    assert full.holds(np.array([-1, 0, 3, 2**31 - 1], np.int32)).tolist() == [False, True, False, False]
    assert not full.holds_all(np.array([0, 3], np.int32))


def test_rows_outside_are_refused_when_a_set_is_made():
    for row in (-1, 3):
        with pytest.raises(ValueError, match=f"row {row}: must be in 0..3"):
            Bitset.of(3, np.array([row], np.int32))


def test_sets_of_two_catalogs_do_not_mix():
    with pytest.raises(ValueError, match="must be of the same catalog"):
        Bitset.full(3) & Bitset.full(4)


def test_the_empty_catalog_has_a_set():
    assert len(Bitset.full(0)) == 0
    assert Bitset.empty(0).rows().tolist() == []
