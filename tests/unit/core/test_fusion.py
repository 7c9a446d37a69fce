"""The fused ranking, against both indexes asked for every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll._core import Bitset, Bm25Index, Retriever, VectorIndex

WORDS = ("rain", "mail", "deal", "light", "song", "note")
NO_ROWS, NO_SCORES = np.empty(0, np.int32), np.empty(0, np.float32)
DIM = 8


@st.composite
def worlds(draw: st.DrawFn):
    n = draw(st.integers(1, 20))  # no more than each index names: the union is everything
    seed = draw(st.integers(0, 1000))
    vectors = np.random.default_rng(seed).standard_normal((n, DIM)).astype(np.float32)
    vectors[draw(st.lists(st.integers(0, n - 1), max_size=2))] = 0
    texts = [" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=4))) for _ in range(n)]
    query = np.random.default_rng(seed + 1).standard_normal(DIM).astype(np.float32)
    in_play = draw(st.lists(st.integers(0, n - 1), unique=True))
    known = draw(st.lists(st.sampled_from(in_play), unique=True)) if in_play else []
    return n, vectors, texts, query, in_play, known, draw(st.sampled_from(WORDS))


@given(
    worlds(),
    st.integers(0, 25),
    st.sampled_from([(1.0, 0.05), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)]),
    st.sampled_from([0.0, 0.4]),
)
def test_the_ranking_is_that_of_the_sum_over_all_rows(world, k, weights, threshold):
    n, vectors, texts, query, in_play, known, message = world
    index, postings = VectorIndex.build(vectors), Bm25Index.build([texts], [1.0])
    every = np.arange(n, dtype=np.int32)
    dense = np.maximum(index.scores(query, every), 0)
    lexical = postings.scores(message, every)
    expected = np.float32(weights[0]) * dense + np.float32(weights[1]) * lexical
    expected[known] += np.float32(0.25)
    order = sorted(in_play, key=lambda row: (-expected[row], row))
    order = [row for row in order if expected[row] > 0 and expected[row] >= threshold][:k]

    rows, scores, found_dense, found_lexical = Retriever(n, index, postings).search(
        message,
        query,
        Bitset.of(n, np.array(in_play, np.int32)),
        np.array(known, np.int32),
        np.full(len(known), 0.25, np.float32),
        k,
        *weights,
        threshold,
    )
    assert rows.tolist() == order
    assert scores.tolist() == expected[order].tolist()
    if weights[0]:
        assert found_dense.tolist() == dense[order].tolist()
    if weights[1]:
        assert found_lexical.tolist() == lexical[order].tolist()


def test_a_row_that_only_one_index_names_is_scored_by_both():
    rng = np.random.default_rng(0)
    n = 500
    vectors = rng.standard_normal((n, DIM)).astype(np.float32)
    query = vectors[7] + 0.1 * rng.standard_normal(DIM).astype(np.float32)
    texts = ["common words here"] * n
    texts[400] = "a rare needle"
    index, postings = VectorIndex.build(vectors), Bm25Index.build([texts], [1.0])
    rows, _, dense, lexical = Retriever(n, index, postings).search(
        "needle", query, Bitset.full(n), NO_ROWS, NO_SCORES, 20, 1.0, 1.0
    )
    place = rows.tolist().index(400)
    assert place == 0
    wanted = np.array([400], np.int32)
    assert dense[place] == max(index.scores(query, wanted)[0], 0)
    assert lexical[place] == postings.scores("needle", wanted)[0]
    assert lexical[rows.tolist().index(7)] == 0


def test_either_index_may_be_missing():
    postings = Bm25Index.build([["rain", "mail"]], [1.0])
    found = Retriever(2, None, postings).search("rain", None, Bitset.full(2), NO_ROWS, NO_SCORES, 5, 1.0, 1.0)
    assert found[0].tolist() == [0]
    index = VectorIndex.build(np.eye(2, dtype=np.float32))
    found = Retriever(2, index, None).search(
        "rain", np.array([0, 1], np.float32), Bitset.full(2), NO_ROWS, NO_SCORES, 5, 1.0, 1.0
    )
    assert found[0].tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"in_play": Bitset.full(3)}, "rows in play: has 3 rows, must have 2"),
        ({"known_scores": np.ones(2, np.float32)}, "known scores"),
        ({"dense": -1.0}, "dense weight"),
        ({"lexical": float("nan")}, "lexical weight"),
        ({"vector": np.ones(3, np.float32)}, "3"),
        ({"vector": np.array([np.nan, 1], np.float32)}, "finite"),
    ],
)
def test_what_does_not_fit_is_refused(changes, what):
    retriever = Retriever(
        2, VectorIndex.build(np.eye(2, dtype=np.float32)), Bm25Index.build([["a", "b"]], [1.0])
    )
    arguments = {
        "text": "a",
        "vector": np.ones(2, np.float32),
        "in_play": Bitset.full(2),
        "known_rows": NO_ROWS,
        "known_scores": NO_SCORES,
        "k": 1,
        "dense": 1.0,
        "lexical": 1.0,
    }
    with pytest.raises(ValueError, match=what):
        retriever.search(**(arguments | changes))


def test_indexes_of_another_size_are_refused():
    with pytest.raises(ValueError, match="postings: has 1 rows, must have 2"):
        Retriever(2, None, Bm25Index.build([["a"]], [1.0]))
