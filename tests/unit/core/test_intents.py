"""The nearest of each row's weighted vectors, against every one of them."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll._core import Intents

DIM = 6


def built(*groups: list[list[float]]) -> Intents:
    """Rows with these vectors, each of weight 1."""
    begins = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    vectors = np.array([vector for group in groups for vector in group], np.float32).reshape(-1, 2)
    return Intents.build(begins, vectors, np.ones(len(vectors), np.float32))


def row(*rows: int):
    return np.array(rows, np.int32)


X, Y = np.array([1, 0], np.float32), np.array([0, 1], np.float32)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 1000), st.data())
def test_the_nearest_is_the_greatest_weighted_cosine(counts, seed, data):
    rng = np.random.default_rng(seed)
    begins = np.cumsum([0, *counts]).astype(np.int64)
    vectors = rng.standard_normal((begins[-1], DIM)).astype(np.float32)
    vectors[rng.random(len(vectors)) < 0.2] = 0
    weights = rng.choice(np.array([0, 0.3, 1], np.float32), len(vectors))
    query = (data.draw(st.sampled_from([0, 1, 1e-6, 1e6])) * rng.standard_normal(DIM)).astype(np.float32)
    rows = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=12))  # any order, some twice

    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    cosines = vectors @ query / np.where(lengths > 0, lengths, 1)
    weighted = [weights[a:b] * cosines[a:b] for a, b in pairwise(begins)]
    expected = [max([0.0, *weighted[at]]) for at in rows]

    intents = Intents.build(begins, vectors, weights)
    assert (intents.size, intents.count, intents.dim) == (len(counts), begins[-1], DIM)
    assert np.allclose(intents.nearest(query, row(*rows)), expected, atol=1e-5)


def test_a_row_without_vectors_or_with_opposite_ones_has_none_that_is_near():
    intents = built([], [[-1, 0]], [[0, 1]], [[0.6, 0.8], [3, 0]], [])
    assert intents.nearest(X, row(0, 1, 2, 3, 4)).tolist() == pytest.approx([0, 0, 0, 1, 0])
    assert intents.nearest(np.zeros(2, np.float32), row(1, 3)).tolist() == [0, 0]
    assert len(intents.nearest(X, row())) == 0


def test_intents_without_any_vector_are_none_for_every_row():
    intents = built([], [])
    assert (intents.size, intents.count) == (2, 0)
    assert intents.nearest(X, row(0, 1)).tolist() == [0, 0]


def test_what_an_index_is_built_from_may_change_afterwards():
    begins, vectors, weights = np.array([0, 1]), np.array([X]), np.ones(1, np.float32)
    intents = Intents.build(begins, vectors, weights)
    begins[:], vectors[:], weights[:] = 0, Y, 0
    assert intents.nearest(X, row(0)).tolist() == [1]


def test_threads_that_share_intents_get_the_same_numbers():
    rng = np.random.default_rng(0)
    begins = np.arange(0, 2_001, 4)
    vectors = rng.standard_normal((2_000, 32)).astype(np.float32)
    intents = Intents.build(begins, vectors, np.ones(2_000, np.float32))
    queries = rng.standard_normal((50, 32)).astype(np.float32)
    rows = np.arange(500, dtype=np.int32)
    expected = [intents.nearest(query, rows).tolist() for query in queries]
    found: list[list[list[float]]] = [[] for _ in range(4)]

    def ask(place: int) -> None:
        found[place] = [intents.nearest(query, rows).tolist() for query in queries]

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@each_row(
    ("begins", "weights", "what"),
    [
        ([], [1, 1], "begins must ascend from 0 to 2, the number of weights"),
        ([1, 2], [1, 1], "begins must ascend"),
        ([0, 2, 1, 2], [1, 1], "begins must ascend"),
        ([0, -1, 2], [1, 1], "begins must ascend"),
        ([0, 1], [1, 1], "begins must ascend"),
        ([0, 3], [1, 1], "begins must ascend"),
        ([0, 2**62], [1, 1], "begins must ascend"),
        ([0, 1], [1], "has 2 vectors, must have 1"),
        ([0, 3], [1, 1, 1], "has 2 vectors, must have 3"),
        ([0, 2], [1, -0.1], r"weight is -0.1\d*, must be in \[0, 1\]"),
        ([0, 2], [1.1, 1], "weight is 1.1"),
        ([0, 2], [float("nan"), 1], "weight is nan"),
    ],
)
def test_columns_that_do_not_fit_are_refused(begins, weights, what):
    with pytest.raises(ValueError, match=what):
        Intents.build(np.array(begins, np.int64), np.array([X, Y]), np.array(weights, np.float32))


@each_row(
    ("vectors", "what"),
    [
        (np.array([X, [np.nan, 1]], np.float32), "finite"),
        (np.array([X, [np.inf, 1]], np.float32), "finite"),
        (np.empty((2, 0), np.float32), "dim"),
        (X, "vectors: must have 2 dimensions"),
    ],
)
def test_vectors_that_are_none_are_refused(vectors, what):
    with pytest.raises(ValueError, match=what):
        Intents.build(np.array([0, 2]), vectors, np.ones(2, np.float32))


@each_row(
    ("query", "rows", "what"),
    [
        (np.ones(3, np.float32), row(0), "3"),
        (np.array([np.nan, 0], np.float32), row(0), "finite"),
        (np.ones((1, 2), np.float32), row(0), "dimension"),
        (X, row(0, 2), "row 2, must be below 2"),
        (X, row(-1), "row -1, must be below 2"),
        (X, row(0)[None], "dimension"),
    ],
)
def test_a_query_or_a_row_that_does_not_fit_is_refused(query, rows, what):
    with pytest.raises(ValueError, match=what):
        built([[1, 0]], [[0, 1]]).nearest(query, rows)


def test_columns_of_another_type_are_refused():
    with pytest.raises(TypeError, match="incompatible"):
        Intents.build(np.array([0, 1], np.int32), np.array([X]), np.ones(1, np.float32))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="incompatible"):
        built([[1, 0]]).nearest(np.ones(2), row(0))  # type: ignore[arg-type]
