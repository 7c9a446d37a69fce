"""Indexes with changes, against indexes that are built whole of the same rows."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll._core import (
    Bitset,
    Bm25Index,
    Fusion,
    GraphBuild,
    Intents,
    Lexicon,
    Retriever,
    RowChanges,
    Speller,
    ToolKeys,
    VectorIndex,
)
from toolroll.model.arrays import NO_ROWS, NO_SCORES

WORDS = ("rain", "mail", "deal", "light", "song", "backup", "note", "naïve", "rains", "listGitHub_repos")
WEIGHTS = (2.0, 0.5)
DIM = 5


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, np.ndarray, int]:
    """Rows before, sources, and rows added."""
    before = draw(st.integers(1, 12))
    kept = [row for row in range(before) if draw(st.booleans())]
    added = draw(st.integers(0, 4))
    sources = list(kept)
    for _ in range(added):
        sources.insert(draw(st.integers(0, len(sources))), -1)
    return before, np.array(sources, np.int32), added


def texts(draw: st.DrawFn, count: int) -> list[str]:
    return [" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=6))) for _ in range(count)]


def after(old: list, new: list, sources: np.ndarray) -> list:
    """The slow and obvious way."""
    added = iter(new)
    return [next(added) if source < 0 else old[source] for source in sources.tolist()]


@given(changes(), st.data())
def test_postings_with_changes_find_what_built_ones_do(change, data):
    before, sources, added = change
    old = [texts(data.draw, before) for _ in WEIGHTS]
    new = [texts(data.draw, added) for _ in WEIGHTS]
    found = Bm25Index.build(old, WEIGHTS).with_changes(RowChanges(before, sources), new, WEIGHTS)
    built = Bm25Index.build([after(*pair, sources) for pair in zip(old, new, strict=True)], WEIGHTS)
    assert found.size == built.size
    for text in (*WORDS, *texts(data.draw, 4)):
        one, other = found.search(text, 20), built.search(text, 20)
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
    again = found.with_changes(
        RowChanges(found.size, np.arange(found.size, dtype=np.int32)), [[], []], WEIGHTS
    )
    assert np.array_equal(again.search("rain mail", 20)[1], built.search("rain mail", 20)[1])


def vectors(data: st.DataObject, count: int) -> np.ndarray:
    numbers = data.draw(st.lists(st.integers(-3, 3), min_size=count * DIM, max_size=count * DIM))
    return np.array(numbers, np.float32).reshape(count, DIM)


@given(changes(), st.data())
def test_vectors_with_changes_find_what_built_ones_do(change, data):
    before, sources, added = change
    old, new = vectors(data, before), vectors(data, added)
    found = VectorIndex.build(old).with_changes(RowChanges(before, sources), new)
    whole = np.array(after(list(old), list(new), sources), np.float32).reshape(len(sources), DIM)
    built = VectorIndex.build(whole)
    query = vectors(data, 1)[0]
    for one, other in zip(found.search(query, 20), built.search(query, 20), strict=True):
        assert np.array_equal(one, other)
    assert not found.has_graph


def test_a_graph_is_built_over_rows_that_have_changed():
    rows = np.random.default_rng(1).normal(size=(600, 16)).astype(np.float32)
    index = VectorIndex.build(rows[:500]).with_changes(
        RowChanges(500, np.array([*range(500), *[-1] * 100], np.int32)), rows[500:]
    )
    exact = index.search(rows[3], 9)[1]
    assert not index.has_graph
    build = GraphBuild(index)
    while build.is_running:
        time.sleep(0.005)
    assert index.has_graph
    assert index.search(rows[550], 1, method="graph")[0].tolist() == [550]
    assert np.array_equal(index.search(rows[3], 9, method="exact")[1], exact)


def grouped(data: st.DataObject, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    total = sum(sizes)
    weights = data.draw(st.lists(st.sampled_from((0.25, 0.5, 1.0)), min_size=total, max_size=total))
    begins = np.concatenate(([0], np.cumsum(np.array(sizes, np.int64)))).astype(np.int64)
    return begins, vectors(data, total), np.array(weights, np.float32)


@given(changes(), st.data())
def test_intents_with_changes_are_as_near_as_built_ones(change, data):
    before, sources, added = change
    old, new = grouped(data, before), grouped(data, added)
    found = Intents.build(*old).with_changes(RowChanges(before, sources), *new)
    groups = [
        after(
            [part[old[0][row] : old[0][row + 1]] for row in range(before)],
            [other[new[0][row] : new[0][row + 1]] for row in range(added)],
            sources,
        )
        for part, other in zip(old[1:], new[1:], strict=True)
    ]
    begins = np.concatenate(([0], np.cumsum([len(some) for some in groups[1]]))).astype(np.int64)
    whole = np.concatenate((np.empty((0, DIM), np.float32), *groups[0]))
    built = Intents.build(begins, whole, np.concatenate((NO_SCORES, *groups[1])))
    assert (found.size, found.count) == (built.size, built.count)
    every = np.arange(found.size, dtype=np.int32)
    query = vectors(data, 1)[0]
    assert np.array_equal(found.nearest(query, every), built.nearest(query, every))


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.lists(st.sampled_from(WORDS), max_size=5), st.data())
def test_a_speller_with_changes_corrects_as_a_built_one(texts, added, data):
    gone = [text for text in texts if data.draw(st.booleans())]
    left = list(texts)
    for text in gone:
        left.remove(text)

    def weights(some: list[str]) -> np.ndarray:
        return np.array([4.0 if text in WORDS[:4] else 1.0 for text in some], np.float32)

    general = Lexicon.of_words(["backed"], np.ones(1, np.float32))
    found = Speller(Lexicon.of_texts(texts, weights(texts)), general).with_changes(
        gone, weights(gone), added, weights(added)
    )
    whole = [*left, *added]
    built = Speller(Lexicon.of_texts(whole, weights(whole)), general)
    for text in ("the lihgt rians on the bakcup", "sogn of notse", "githb repso and naeve maile deall"):
        assert found.corrections(text) == built.corrections(text)


@given(changes(), st.data())
def test_keys_with_changes_are_those_of_their_rows(change, data):
    before, sources, added = change

    def keys(count: int) -> list[np.ndarray]:
        some = st.lists(st.integers(1, 9), min_size=count, max_size=count)
        return [np.array(data.draw(some), np.uint64) for _ in range(3)]

    old, new = keys(before), keys(added)
    found = ToolKeys(*old).with_changes(RowChanges(before, sources), *new)
    assert found.arms(np.arange(len(sources), dtype=np.int32)).tolist() == after(
        old[0].tolist(), new[0].tolist(), sources
    )


@each_row(("before", "sources"), [(3, [0, 0]), (3, [1, 0]), (3, [3]), (0, [0]), (3, [-2])])
def test_rows_out_of_order_or_range_are_refused(before, sources):
    with pytest.raises(ValueError, match="out of order or not in"):
        RowChanges(before, np.array(sources, np.int32))


def test_changes_of_another_size_are_refused():
    three = RowChanges(3, np.array([0, -1], np.int32))
    with pytest.raises(ValueError, match="are of 3 rows, the index has 2"):
        Bm25Index.build([["a", "b"]], (1.0,)).with_changes(three, [["c"]], (1.0,))
    with pytest.raises(ValueError, match="added: are 2, must be 1"):
        VectorIndex.build(np.ones((3, 2), np.float32)).with_changes(three, np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match="not finite"):
        VectorIndex.build(np.ones((3, 2), np.float32)).with_changes(
            three, np.full((1, 2), np.nan, np.float32)
        )
    behind = Bm25Index.build([["a"]], (1.0,), background=Bm25Index.build([["b"]], (1.0,)))
    with pytest.raises(ValueError, match="has a background"):
        behind.with_changes(RowChanges(1, np.array([0], np.int32)), [[]], (1.0,))


def test_many_searches_in_one_call_find_what_each_does():
    names = ["rain mail", "deal light", "song backup", "note rain"]
    rows = np.eye(4, DIM, dtype=np.float32)
    retriever = Retriever(4, VectorIndex.build(rows), Bm25Index.build([names], (1.0,)))
    fusion = Fusion(
        dense=1.0,
        dense_floor=0.0,
        lexical=0.5,
        lexical_saturation=2.0,
        intents=0.0,
        intent_floor=0.0,
        clauses=0.3,
        threshold=0.0,
    )
    clause = (("song", rows[2], 1.0, 1.0),)
    searches = [
        (text, vector, 1.0, clauses, Bitset.of(4, np.array(some, np.int32)))
        for text in ("rain", "deal", "")
        for vector in (None, rows[1])
        for clauses in ((), clause)
        for some in ([0, 1, 2, 3], [2])
    ]
    for (text, vector, trust, clauses, some), found in zip(
        searches, retriever.search_each(searches, 3, fusion), strict=True
    ):
        one = retriever.search(text, vector, trust, clauses, (), some, NO_ROWS, NO_SCORES, 3, fusion)
        assert np.array_equal(one[0], found[0]) and np.array_equal(one[1], found[1]) and one[3] == found[2]
