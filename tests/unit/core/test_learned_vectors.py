"""Learned vectors change the cosines of their rows, and name rows that words do not lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ranking_weights import fusion_with
from tests.slow_learned import DAY, T0, deltas
from toolroll._core import (
    Bitset,
    Bm25Index,
    Learned,
    LearningRates,
    Retriever,
    ToolKeys,
    VectorIndex,
)

RATES = LearningRates(least_reporters=0, vector_most=0.6, vector_strength=3.0)
DIM = 32
NO_ROWS, NO_SCORES = np.zeros(0, np.int32), np.zeros(0, np.float32)
COSINES = fusion_with(dense=1.0, dense_floor=0.0)
CLOSE = 0.01  # learned vectors are compared in 8 bits
SEEDS = st.integers(0, 2**32 - 1)


def vectors_of(seed: int, n: int) -> Any:
    found = np.random.default_rng(seed).standard_normal((n, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def keys_of(n: int, first: int = 0, group: Any = None) -> ToolKeys:
    rows = np.arange(first, first + n, dtype=np.uint64)
    return ToolKeys(100 + rows, 1000 + rows, np.zeros(n, np.uint64) if group is None else group)


def taught(vectors: Any, rows: Any, weight: float = 5.0) -> Learned:
    """Each row has learnt its vector, as if by so many messages."""
    pulls = [{"intent": 1000 + int(row), "vector": at, "pull": weight} for at, row in enumerate(rows)]
    return Learned(DIM, RATES).fold(deltas(*pulls), vectors)


def search(retriever: Any, query: Any, k: int = 5, *more: Any, **asked: Any) -> Any:
    return retriever.search(
        asked.get("text", ""),
        query,
        1.0,
        asked.get("clauses", ()),
        asked.get("earlier", ()),
        asked.get("in_play", Bitset.full(retriever.size)),
        NO_ROWS,
        NO_SCORES,
        k,
        asked.get("fusion", COSINES),
        *more,
    )


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 60), st.floats(0.1, 50))
def test_a_row_with_a_learned_vector_is_compared_by_both(seed: int, n: int, weight: float) -> None:
    own, query = vectors_of(seed, n), vectors_of(seed + 1, 1)[0]
    learnt = np.arange(0, n, 3)
    lessons = vectors_of(seed + 2, len(learnt))
    learned = taught(lessons, learnt, weight)
    share = 0.6 * weight / (weight + 3)
    cosines = own @ query
    cosines[learnt] = (1 - share) * cosines[learnt] + share * (lessons @ query)
    rows, scores, terms, _, raw = search(
        Retriever(n, VectorIndex.build(own), None), query, n, learned, keys_of(n), T0
    )
    assert set(rows) >= {row for row in range(n) if cosines[row] > CLOSE}
    assert (np.diff(scores) <= 0).all() and scores.tolist() == terms[0].tolist()
    np.testing.assert_allclose(scores, cosines[rows], atol=CLOSE)
    plain = (own @ query)[np.sort(rows)]
    np.testing.assert_allclose((own @ query)[raw], np.sort(plain)[::-1][:3], atol=1e-5)


def test_a_tool_far_from_the_message_is_found_by_the_messages_that_it_solved() -> None:
    n = 3000
    own, query = vectors_of(1, n), vectors_of(2, 1)[0]
    far = int(np.argsort(own @ query)[n // 2])
    learned = taught(query[None], [far], 1e4)
    retriever = Retriever(n, VectorIndex.build(own), None)
    assert far not in search(retriever, query, 40)[0]
    assert far in search(retriever, query, 40, learned, keys_of(n))[0][:10]
    without = Bitset.of(n, np.array([row for row in range(n) if row != far], np.int32))
    assert far not in search(retriever, query, 40, learned, keys_of(n), in_play=without)[0]


def test_what_retrieval_alone_puts_first_is_found_whatever_was_learnt() -> None:
    n = 200
    own, query = vectors_of(3, n), vectors_of(4, 1)[0]
    others = np.argsort(-(own @ query))[1:60]
    learned = taught(np.repeat(query[None], 59, axis=0), others, 1e4)
    retriever = Retriever(n, VectorIndex.build(own), None)
    best = search(retriever, query, 1)[0][0]
    rows, scores, _, _, raw = search(retriever, query, 10, learned, keys_of(n))
    assert raw[0] == best and best in rows
    assert (np.diff(scores) <= 0).all()


def test_nothing_learnt_changes_nothing() -> None:
    n = 50
    retriever = Retriever(
        n,
        VectorIndex.build(vectors_of(5, n)),
        Bm25Index.build([[f"word{i % 7} tool{i}" for i in range(n)]], [1.0]),
    )
    fusion = fusion_with(lexical=0.1)
    query = vectors_of(6, 1)[0]
    usual = search(retriever, query, 7, text="word3", fusion=fusion)
    for learned in (Learned(DIM), Learned(0).fold(deltas({"arm": 100, "successes": 1, "everywhere": 1}))):
        found = search(retriever, query, 7, learned, keys_of(n), text="word3", fusion=fusion)
        assert found[0].tolist() == usual[0].tolist() and found[1].tolist() == usual[1].tolist()
        assert found[4].tolist() == usual[4].tolist() == usual[0][:3].tolist()


def test_a_vector_fades_with_time() -> None:
    own, query = vectors_of(7, 4), vectors_of(8, 1)[0]
    learned = taught(query[None], [2], 5.0)
    retriever = Retriever(4, VectorIndex.build(own), None)
    scores = []
    for days in (0, 30, 3000):
        rows, found, *_ = search(retriever, query, 4, learned, keys_of(4), T0 + days * DAY)
        scores.append(float(found[rows.tolist().index(2)]) if 2 in rows else 0.0)
    assert scores[0] > scores[1] > scores[2]
    share = 0.6 * 2.5 / 5.5
    assert scores[1] == pytest.approx((1 - share) * float(own[2] @ query) + share, abs=CLOSE)


def test_members_of_a_group_share_their_vector() -> None:
    own, query = vectors_of(9, 4), vectors_of(10, 1)[0]
    group = np.array([0, 77, 0, 77], np.uint64)
    pull = {"intent": 1001, "group": 77, "vector": 0, "pull": 5.0}
    learned = Learned(DIM, RATES).fold(deltas(pull), query[None])
    retriever = Retriever(4, VectorIndex.build(own), None)
    rows, scores, *_ = search(retriever, query, 4, learned, keys_of(4, 0, group))
    share = 0.6 * 5 / 8
    for row in (1, 3):
        at = rows.tolist().index(row)
        assert scores[at] == pytest.approx((1 - share) * float(own[row] @ query) + share, abs=CLOSE)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(1, 30), st.integers(1, 30))
def test_a_stack_is_searched_as_one_catalog(seed: int, shared: int, own: int) -> None:
    n = shared + own
    vectors, query = vectors_of(seed, n), vectors_of(seed + 1, 1)[0]
    learned = taught(vectors_of(seed + 2, (n + 1) // 2), range(0, n, 2), 4.0)
    whole = Retriever(n, VectorIndex.build(vectors), None)
    stacked = Retriever.stacked(
        *(
            Retriever(len(part), VectorIndex.build(part), None)
            for part in (vectors[:shared], vectors[shared:])
        )
    )
    keys = ToolKeys.stacked(keys_of(shared), keys_of(own, shared))
    one, other = (
        search(retriever, query, 8, learned, of) for retriever, of in ((whole, keys_of(n)), (stacked, keys))
    )
    np.testing.assert_allclose(one[1], other[1], atol=1e-6)
    np.testing.assert_allclose(vectors[one[4]] @ query, vectors[other[4]] @ query, atol=1e-6)


def test_clauses_and_earlier_turns_hear_of_learned_vectors_too() -> None:
    own, query, other = vectors_of(11, 5), vectors_of(12, 1)[0], vectors_of(13, 1)[0]
    learned = taught(other[None], [2], 1e6)
    retriever = Retriever(5, VectorIndex.build(own), None)
    earlier = (("", other, 1.0, 1.0),)
    usual = search(retriever, query, 5, learned, keys_of(5))
    found = search(retriever, query, 5, learned, keys_of(5), earlier=earlier)
    gain = {int(row): float(score) for row, score in zip(*found[:2], strict=True)}
    before = {int(row): float(score) for row, score in zip(*usual[:2], strict=True)}
    expected = 0.4 * float(own[2] @ other) + 0.6
    assert gain[2] - before.get(2, 0.0) == pytest.approx(expected, abs=CLOSE)


def test_what_does_not_fit_is_refused() -> None:
    retriever = Retriever(4, VectorIndex.build(vectors_of(1, 4)), None)
    query = vectors_of(2, 1)[0]
    with pytest.raises(ValueError, match="keys: has 3 rows, must have 4"):
        search(retriever, query, 2, Learned(DIM), keys_of(3))
    with pytest.raises(ValueError, match="must come with the keys"):
        search(retriever, query, 2, Learned(DIM))
    other = Learned(8, RATES).fold(
        deltas({"intent": 1000, "vector": 0, "pull": 1}), np.ones((1, 8), np.float32)
    )
    with pytest.raises(ValueError, match="has vectors of 8 numbers, must have 32"):
        search(retriever, query, 2, other, keys_of(4))


# The last few messages, each by itself.

NEAREST = fusion_with(dense=0.0, dense_floor=0.1, intents=0.5, intent_floor=0.1)  # as if all were alike


def above(learned: Learned, query: Any, now: float = T0) -> Any:
    """What the messages of the only tool add to its score."""
    own = -query[None]  # far from whatever is asked
    rows, _, terms, *_ = search(
        Retriever(1, VectorIndex.build(own), None), query, 1, learned, keys_of(1), now, fusion=NEAREST
    )
    return float(terms[1][0]) if len(rows) else 0.0


def messages(vectors: Any, reporters: Any = None, ats: Any = None, pull: float = 1.0) -> Any:
    count = len(vectors)
    reporters = reporters if reporters is not None else [1 + at for at in range(count)]
    ats = ats if ats is not None else [T0 + at for at in range(count)]
    return deltas(
        *(
            {"intent": 1000, "vector": at, "pull": pull, "reporter": reporters[at], "at": ats[at]}
            for at in range(count)
        )
    )


def test_the_nearest_of_a_tools_last_messages_counts() -> None:
    vectors, query = vectors_of(11, 5), vectors_of(12, 1)[0]
    learned = Learned(DIM, RATES).fold(messages(vectors), vectors)
    nearest = float((vectors @ query).max())
    assert above(learned, query) == pytest.approx(0.5 * max(nearest - 0.1, 0), abs=CLOSE)
    for vector in vectors:
        assert above(learned, vector) == pytest.approx(0.45, abs=CLOSE)


def test_eight_are_kept_and_the_oldest_make_way() -> None:
    vectors = vectors_of(13, 12)
    learned = Learned(DIM, RATES).fold(messages(vectors), vectors)
    kept = [above(learned, vector) == pytest.approx(0.45, abs=CLOSE) for vector in vectors]
    assert kept == [False] * 4 + [True] * 8


def test_of_one_reporter_two_are_kept() -> None:
    vectors = vectors_of(14, 6)
    learned = Learned(DIM, RATES).fold(messages(vectors, [7, 7, 7, 7, 8, 9]), vectors)
    kept = [above(learned, vector) == pytest.approx(0.45, abs=CLOSE) for vector in vectors]
    assert kept == [False, False, True, True, True, True]


def test_the_application_itself_may_fill_all() -> None:
    vectors = vectors_of(15, 6)
    learned = Learned(DIM, RATES).fold(messages(vectors, [0] * 6), vectors)
    assert all(above(learned, vector) == pytest.approx(0.45, abs=CLOSE) for vector in vectors)


def test_a_message_that_is_taken_back_is_gone() -> None:
    vectors = vectors_of(16, 3)
    learned = Learned(DIM, RATES).fold(messages(vectors), vectors)
    back = learned.fold(messages(vectors[1:2], [2], [T0 + 1], -1.0), vectors[1:2])
    assert above(back, vectors[1]) < 0.3
    assert above(back, vectors[0]) == pytest.approx(0.45, abs=CLOSE)


def test_messages_fade() -> None:
    rates = LearningRates(least_reporters=0, vector_half_s=10 * DAY)
    vectors = vectors_of(17, 1)
    learned = Learned(DIM, rates).fold(messages(vectors), vectors)
    assert above(learned, vectors[0], T0 + 10 * DAY) == pytest.approx(0.225, abs=CLOSE)


def test_messages_survive_as_bytes() -> None:
    vectors = vectors_of(18, 9)
    learned = Learned(DIM, RATES).fold(messages(vectors), vectors)
    again = Learned.from_bytes(learned.to_bytes())
    assert again.to_bytes() == learned.to_bytes()
    assert [above(again, vector) for vector in vectors] == [above(learned, vector) for vector in vectors]


def test_the_same_message_again_takes_no_second_place() -> None:
    vectors = vectors_of(19, 8)
    learned = Learned(DIM, RATES).fold(messages(vectors), vectors)
    again = learned.fold(messages(vectors[:1], [99], [T0 + 99]), vectors[:1])
    assert all(above(again, vector) == pytest.approx(0.45, abs=CLOSE) for vector in vectors)


def test_a_tool_said_to_solve_messages_of_all_kinds_counts_less_for_each() -> None:
    fusion = fusion_with(dense=0.0, dense_floor=0.0, intents=0.5, intent_floor=0.3)
    kin = vectors_of(20, 1)[0] + 0.1 * vectors_of(21, 8)
    told = []
    for vectors in (kin / np.linalg.norm(kin, axis=1, keepdims=True), vectors_of(22, 8)):
        learned = Learned(DIM, RATES).fold(messages(vectors), vectors)
        retriever = Retriever(1, VectorIndex.build(-vectors[:1]), None)
        _, _, terms, *_ = search(retriever, vectors[0], 1, learned, keys_of(1), T0, fusion=fusion)
        told.append(float(terms[1][0]))
    assert told[0] == pytest.approx(0.35, abs=1e-2)
    assert told[1] < 0.6 * told[0]
