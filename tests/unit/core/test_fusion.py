"""The fused ranking, against the indexes asked one by one for every row."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ranking_weights import fusion_with
from tests.table import each_row
from toolroll._core import Bitset, Bm25Index, Fusion, Intents, Retriever, VectorIndex

WORDS = ("rain", "mail", "deal", "light", "song", "note")
NO_ROWS, NO_SCORES = np.empty(0, np.int32), np.empty(0, np.float32)
DIM = 8
MOST = 8  # rows: no more than each index names for any part, so every row with evidence is looked at


def vectors_of(seed: int, n: int, dim: int = DIM):
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def search(retriever: Retriever, text: str = "", vector: Any = None, k: int = 5, **more: Any):
    """Searches with everything in play, unless told otherwise, and nothing said or known before."""
    return retriever.search(
        text,
        vector,
        more.get("trust", 1.0),
        more.get("clauses", ()),
        more.get("earlier", ()),
        more.get("in_play", Bitset.full(retriever.size)),
        more.get("known_rows", NO_ROWS),
        more.get("known_scores", NO_SCORES),
        k,
        more.get("fusion", fusion_with(lexical=1.0)),
    )[:4]


@st.composite
def parts(draw: st.DrawFn):
    text = " ".join(draw(st.lists(st.sampled_from((*WORDS, "unheard")), max_size=4)))
    seed = draw(st.none() | st.integers(0, 1000))
    vector = None if seed is None else vectors_of(seed, 1)[0]
    return text, vector, draw(st.sampled_from([0.0, 0.5, 1.0])), draw(st.sampled_from([0.0, 0.3, 1.0, 2.0]))


@st.composite
def worlds(draw: st.DrawFn):
    """The indexes, damping or None, rows in play, and known rows among them."""
    n, seed = draw(st.integers(1, MOST)), draw(st.integers(0, 1000))
    vectors = vectors_of(seed, n)
    counts = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    blank = draw(st.lists(st.integers(0, n - 1), max_size=2))
    vectors[blank] = counts[blank] = 0  # intents name no rows: without a vector they are not looked at
    texts = [" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=4))) for _ in range(n)]
    begins = np.cumsum([0, *counts]).astype(np.int64)
    weights = np.random.default_rng(seed + 1).random(begins[-1], np.float32)
    intents = Intents.build(begins, vectors_of(seed + 2, int(begins[-1])), weights)
    damping = draw(st.none() | st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=n, max_size=n))
    in_play = draw(st.lists(st.integers(0, n - 1), unique=True))
    known = draw(st.lists(st.sampled_from(in_play), unique=True)) if in_play else []
    postings = Bm25Index.build([texts], [1.0])
    return VectorIndex.build(vectors), postings, intents, texts, damping, in_play, known


fusions = st.builds(
    Fusion,
    dense=st.sampled_from([0.0, 1.0]),
    dense_floor=st.sampled_from([0.0, 0.2]),
    lexical=st.sampled_from([0.0, 0.05, 1.0]),
    lexical_saturation=st.sampled_from([5.0, 200.0, float("inf")]),
    intents=st.sampled_from([0.0, 0.5]),
    intent_floor=st.sampled_from([0.0, 0.3]),
    clauses=st.sampled_from([0.0, 0.4, 1.0]),
    threshold=st.sampled_from([0.0, 0.4]),
)


def ceiling_of(text: str, texts: list[str], postings: Bm25Index) -> float:
    """What BM25 could reach for a text among these."""
    n, terms = len(texts), [set(postings.terms(row)) for row in texts]
    df = [sum(term in row for row in terms) for term in set(postings.terms(text))]
    return 2.2 * sum(math.log(1 + (n - rows + 0.5) / (rows + 0.5)) for rows in df)


def says(part, vectors: VectorIndex, postings: Bm25Index, intents: Intents, texts, fusion: Fusion):
    """What a part says for every row: dense, intents and lexical terms."""
    text, vector, trust, _ = part
    every = np.arange(vectors.size, dtype=np.int32)
    dense, nearest = np.zeros((2, vectors.size))
    if vector is not None:
        dense = trust * fusion.dense * np.maximum(vectors.scores(vector, every) - fusion.dense_floor, 0)
        nearest = np.maximum(intents.nearest(vector, every) - fusion.intent_floor, 0)
        nearest = trust * fusion.intents * nearest
    shrunk = 1 + ceiling_of(text, texts, postings) / fusion.lexical_saturation
    return np.array([dense, nearest, fusion.lexical * postings.scores(text, every) / shrunk])


def counts(part, fusion: Fusion) -> bool:
    """Whether the part has a vector that is asked."""
    return part[1] is not None and part[2] > 0 and (fusion.dense > 0 or fusion.intents > 0)


@given(worlds(), parts(), st.lists(parts(), max_size=2), st.lists(parts(), max_size=2), st.data())
def test_the_ranking_is_that_of_the_sum_over_all_rows(world, message, clauses, earlier, data):
    vectors, postings, intents, _, damping, in_play, known = world
    n = vectors.size
    k, fusion = data.draw(st.integers(1, n + 1)), data.draw(fusions)
    terms = says(message, *world[:4], fusion)
    whole = terms.sum(axis=0)
    rivals = [part for part in clauses if counts(part, fusion) or not counts(message, fusion)]
    pieces = [says(part, *world[:4], fusion).sum(axis=0) for part in rivals]
    by_clauses = fusion.clauses * (np.max(pieces or [whole], axis=0) - whole)
    before = [part[3] * says(part, *world[:4], fusion).sum(axis=0) for part in earlier]
    by_earlier = np.sum([np.zeros(n), *before], axis=0)
    damped = (whole + by_clauses + by_earlier) * (1 if damping is None else np.array(damping))
    expected = damped.copy()
    expected[known] += 0.25
    best = sorted(in_play, key=lambda row: -expected[row])
    best = [row for row in best if expected[row] > 0 and expected[row] >= fusion.threshold][:k]

    retriever = Retriever(
        n, vectors, postings, intents, None if damping is None else np.array(damping, np.float32)
    )
    rows, scores, found, evidence = search(
        retriever,
        *message[:2],
        k,
        trust=message[2],
        clauses=tuple(clauses),
        earlier=tuple(earlier),
        in_play=Bitset.of(n, np.array(in_play, np.int32)),
        known_rows=np.array(known, np.int32),
        known_scores=np.full(len(known), 0.25, np.float32),
        fusion=fusion,
    )
    assert set(rows.tolist()) <= set(in_play)
    assert np.allclose(scores, expected[rows], atol=1e-5)
    assert len(rows) == len(best) and np.allclose(scores, expected[best], atol=1e-5)
    assert np.array_equal(np.lexsort((rows, -scores)), np.arange(len(rows)))
    for column, oracle in zip(found, (*terms, by_clauses, by_earlier), strict=True):
        assert np.allclose(column, oracle[rows], atol=1e-5)
    mean = max([0.0, *damped[in_play]]) / (1 + sum(part[3] for part in earlier))
    assert evidence == pytest.approx(mean, abs=1e-5)


@given(worlds(), parts(), st.lists(parts(), max_size=2), fusions)
def test_how_many_rows_are_asked_for_changes_neither_the_first_nor_the_evidence(
    world, message, clauses, fusion
):
    *indexes, _, damping, _, _ = world
    n = indexes[0].size
    retriever = Retriever(n, *indexes, None if damping is None else np.array(damping, np.float32))
    of_all = search(retriever, *message[:2], n, clauses=tuple(clauses), fusion=fusion)
    for k in range(1, n):
        rows, scores, _, evidence = search(retriever, *message[:2], k, clauses=tuple(clauses), fusion=fusion)
        assert rows.tolist() == of_all[0][:k].tolist()
        assert scores.tolist() == of_all[1][:k].tolist()
        assert evidence == of_all[3]


def needle(n: int = 500):
    """Rows that say the same, but the 400th, and a query near row 7."""
    vectors = vectors_of(0, n)
    texts = ["common words here"] * n
    texts[400] = "a rare needle"
    query = vectors[7] + 0.1 * vectors_of(1, 1)[0]
    return VectorIndex.build(vectors), Bm25Index.build([texts], [1.0]), query


def test_a_row_that_only_one_index_names_is_scored_by_both():
    index, postings, query = needle()
    fusion = fusion_with(lexical=1.0, lexical_saturation=float("inf"))
    rows, _, (dense, _, lexical, *_), _ = search(
        Retriever(500, index, postings), "needle", query, 20, fusion=fusion
    )
    assert rows[0] == 400
    wanted = np.array([400], np.int32)
    assert dense[0] == max(index.scores(query, wanted)[0], 0)
    assert lexical[0] == postings.scores("needle", wanted)[0]
    assert lexical[rows.tolist().index(7)] == 0


@pytest.mark.parametrize("which", ["clauses", "earlier"])
def test_a_row_that_only_another_part_names_is_scored_for_the_message_too(which):
    index, postings, query = needle()
    parts = (("needle", query, 1.0, 1.0),)  # a clause without a vector would be left out
    fusion = fusion_with(lexical=1.0, clauses=0.5)
    rows, _, (dense, *_), _ = search(
        Retriever(500, index, postings), "", query, 20, fusion=fusion, **{which: parts}
    )
    assert rows[0] == 400
    assert dense[0] == max(index.scores(query, rows[:1])[0], 0)


def test_a_row_that_fits_the_whole_by_fitting_no_clause_loses_to_one_that_fits_a_clause():
    vectors = VectorIndex.build(np.array([[1, 1], [1, 0]], np.float32))
    whole = np.array([1, 0.5], np.float32)  # nearer to the first row than to the second
    clauses = tuple(("", row, 1.0, 1.0) for row in np.array([[1, 0], [0, 1]], np.float32))
    found = [
        search(Retriever(2, vectors, None), "", whole, clauses=clauses, fusion=fusion_with(clauses=weight))
        for weight in (0.0, 0.5)
    ]
    assert [rows.tolist() for rows, *_ in found] == [[0, 1], [1, 0]]
    added = found[1][2][3]
    assert added[0] > 0 > added[1]


def test_damped_rows_do_not_keep_others_from_being_named():
    n, greedy = 2_000, 64
    vectors = vectors_of(3, n, 16)
    query = vectors_of(4, 1, 16)[0]
    order = np.argsort(-VectorIndex.build(vectors).scores(query, np.arange(n, dtype=np.int32)))
    damping = np.ones(n, np.float32)
    damping[order[:greedy]] = 0
    rows, *_ = search(Retriever(n, VectorIndex.build(vectors), None, None, damping), "", query, 20)
    assert rows.tolist() == order[greedy : greedy + 20].tolist()


def test_what_was_known_before_is_neither_damped_nor_evidence():
    retriever = Retriever(2, None, Bm25Index.build([["rain", "mail"]], [1.0]), None, np.zeros(2, np.float32))
    known = {"known_rows": np.array([1], np.int32), "known_scores": np.array([0.5], np.float32)}
    rows, scores, _, evidence = search(retriever, "rain mail", **known)
    assert (rows.tolist(), scores.tolist(), evidence) == ([1], [0.5], 0)


def test_a_repeated_turn_says_no_more_than_the_message_alone():
    retriever = Retriever(2, None, Bm25Index.build([["rain", "mail"]], [1.0]))
    *_, alone = search(retriever, "rain")
    _, scores, _, evidence = search(retriever, "rain", earlier=(("rain", None, 1.0, 2.0),))
    assert evidence == pytest.approx(alone)
    assert scores[0] == pytest.approx(3 * alone)


def test_any_index_may_be_missing():
    postings, index = (
        Bm25Index.build([["rain", "mail"]], [1.0]),
        VectorIndex.build(np.eye(2, dtype=np.float32)),
    )
    second = np.array([0, 1], np.float32)
    assert search(Retriever(2, None, postings), "rain", second)[0].tolist() == [0]
    assert search(Retriever(2, index, None), "rain", second)[0].tolist() == [1]
    known = {"known_rows": np.array([1], np.int32), "known_scores": np.array([0.5], np.float32)}
    assert search(Retriever(2, None, None), "rain", second, **known)[0].tolist() == [1]


@each_row(
    ("text", "vector", "more"),
    [
        ("", None, {}),
        ("unheard of", None, {}),
        ("", np.zeros(2, np.float32), {}),
        ("", np.ones(2, np.float32), {"trust": 0.0}),
        ("rain", np.ones(2, np.float32), {"k": 0}),
        ("rain", np.ones(2, np.float32), {"in_play": Bitset.empty(2)}),
        ("rain", np.ones(2, np.float32), {"fusion": fusion_with(dense=0.0)}),
    ],
)
def test_without_evidence_nothing_is_found(text, vector, more):
    retriever = Retriever(
        2, VectorIndex.build(np.eye(2, dtype=np.float32)), Bm25Index.build([["rain", "mail"]], [1.0])
    )
    rows, scores, terms, evidence = search(retriever, text, vector, **more)
    assert [len(column) for column in (rows, scores, *terms)] == [0] * 7 and evidence == 0


def test_a_lone_surrogate_in_any_part_is_an_unknown_character():
    retriever = Retriever(2, None, Bm25Index.build([["rain", "mail"]], [1.0]))
    odd = "\ud800 rain"
    found = search(
        retriever,
        odd,
        clauses=((odd, None, 1.0, 1.0),),
        earlier=((odd, None, 1.0, 1.0),),
        fusion=fusion_with(lexical=1.0, clauses=1.0),
    )
    assert found[0].tolist() == [0]


ONE = np.ones(2, np.float32)
NAN = float("nan")


@each_row(
    ("changes", "what"),
    [
        ({"in_play": Bitset.full(3)}, "rows in play: has 3 rows, must have 2"),
        ({"known_scores": np.ones(2, np.float32)}, "known scores: has 2 rows, must have 0"),
        ({"known_rows": np.array([2], np.int32), "known_scores": ONE[:1]}, "row"),
        ({"known_rows": np.array([-1], np.int32), "known_scores": ONE[:1]}, "row"),
        ({"vector": np.ones(3, np.float32)}, "3"),
        ({"vector": np.array([NAN, 1], np.float32)}, "finite"),
        ({"trust": -0.1}, "trust: must be between 0 and 1"),
        ({"trust": 1.1}, "trust: must be between 0 and 1"),
        ({"trust": NAN}, "trust: must be between 0 and 1"),
        ({"clauses": (("a", np.ones(3, np.float32), 1.0, 1.0),)}, "3"),
        ({"clauses": (("a", ONE, 2.0, 1.0),)}, "trust"),
        ({"earlier": (("a", ONE, NAN, 1.0),)}, "trust"),
        ({"earlier": (("a", ONE, 1.0, -1.0),)}, "weight of a part: must be finite and not negative"),
        ({"earlier": (("a", ONE, 1.0, float("inf")),)}, "weight of a part"),
        ({"earlier": (("a", ONE[None], 1.0, 1.0),)}, "dimension"),
        ({"fusion": fusion_with(dense=-1.0)}, "dense weight: must be finite and not negative"),
        ({"fusion": fusion_with(dense=float("inf"))}, "dense weight"),
        ({"fusion": fusion_with(lexical=NAN)}, "lexical weight"),
        ({"fusion": fusion_with(intents=-0.1)}, "intents weight"),
        ({"fusion": fusion_with(dense_floor=1.1)}, "dense floor: must be a cosine, between -1 and 1"),
        ({"fusion": fusion_with(intent_floor=NAN)}, "intent floor"),
        ({"fusion": fusion_with(clauses=1.1)}, "clauses weight: must be between 0 and 1"),
        ({"fusion": fusion_with(lexical_saturation=0.0)}, "lexical saturation: must be above 0"),
        ({"fusion": fusion_with(lexical_saturation=NAN)}, "lexical saturation"),
    ],
)
def test_what_does_not_fit_is_refused(changes, what):
    retriever = Retriever(
        2, VectorIndex.build(np.eye(2, dtype=np.float32)), Bm25Index.build([["a", "b"]], [1.0])
    )
    usual = {"vector": ONE, "fusion": fusion_with(lexical=1.0, clauses=0.5)}
    with pytest.raises(ValueError, match=what):
        search(retriever, "a", **(usual | changes))


def test_a_vector_of_another_type_is_no_vector():
    retriever = Retriever(2, VectorIndex.build(np.eye(2, dtype=np.float32)), None)
    with pytest.raises(TypeError, match="incompatible"):
        search(retriever, "a", np.ones(2))


@each_row(
    ("given", "what"),
    [
        ((VectorIndex.build(np.eye(1, dtype=np.float32)), None), "vectors: has 1 rows, must have 2"),
        ((None, Bm25Index.build([["a"]], [1.0])), "postings: has 1 rows, must have 2"),
        (
            (None, None, Intents.build(np.zeros(2, np.int64), np.empty((0, 2), np.float32), NO_SCORES)),
            "intents: has 1 rows, must have 2",
        ),
        ((None, None, None, np.ones(3, np.float32)), "damping: has 3 rows, must have 2"),
        ((None, None, None, np.array([1, 1.5], np.float32)), "damping: must be between 0 and 1"),
        ((None, None, None, np.array([-0.5, 1], np.float32)), "damping: must be between 0 and 1"),
        ((None, None, None, np.array([1, NAN], np.float32)), "damping: must be between 0 and 1"),
    ],
)
def test_an_index_or_a_factor_that_does_not_fit_is_refused(given, what):
    with pytest.raises(ValueError, match=what):
        Retriever(2, *given)


def test_a_known_row_outside_of_the_catalog_is_refused():
    retriever = Retriever(2, None, None, None, np.array([0.5, 0.5], np.float32))
    for row in (-1, 2, 2**30):
        with pytest.raises(ValueError, match=f"known row {row}: must be in 0..1"):
            search(
                retriever,
                known_rows=np.array([row], np.int32),
                known_scores=np.ones(1, np.float32),
                fusion=fusion_with(),
            )


def test_a_clause_without_a_vector_takes_nothing_off_a_message_that_has_one():
    vectors = VectorIndex.build(vectors_of(1, 4))
    retriever = Retriever(4, vectors, Bm25Index.build([["rain", "mail", "deal", "song"]], [1.0]))
    whole = search(retriever, "rain mail", vectors_of(2, 1)[0], fusion=fusion_with(lexical=0.1, clauses=0.5))
    clauses = (("rain", None, 1.0, 1.0), ("mail", None, 1.0, 1.0))
    split = search(
        retriever,
        "rain mail",
        vectors_of(2, 1)[0],
        clauses=clauses,
        fusion=fusion_with(lexical=0.1, clauses=0.5),
    )
    assert split[1].tolist() == whole[1].tolist()


def test_a_vector_of_zeros_says_nothing_even_below_the_floor():
    retriever = Retriever(
        2, VectorIndex.build(np.eye(2, dtype=np.float32)), Bm25Index.build([["a", "b"]], [1.0])
    )
    found = search(retriever, "a", np.zeros(2, np.float32), fusion=fusion_with(dense_floor=-0.5, lexical=1.0))
    alone = search(retriever, "a", None, fusion=fusion_with(dense_floor=-0.5, lexical=1.0))
    assert found[1].tolist() == alone[1].tolist()


def test_a_part_of_another_form_is_a_type_error():
    retriever = Retriever(2, None, None)
    for part in (("a",), ("a", np.zeros(2), 1.0, 1.0), 3):
        with pytest.raises(TypeError, match="part: must be"):
            search(retriever, clauses=(part,))


def test_rows_that_another_thread_changes_during_a_search_are_those_that_were_checked() -> None:
    """Long searches release the interpreter: what is read then must not be what the caller can write to."""
    n = 20_000
    retriever = Retriever(n, VectorIndex.build(vectors_of(1, n, 64)), None)
    rows, scores = np.arange(50, dtype=np.int32), np.ones(50, np.float32)
    query, everything = vectors_of(2, 1, 64)[0], Bitset.full(n)
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            rows[:] = 2**30  # far behind every column

    writer = threading.Thread(target=write)
    writer.start()
    found = 0
    try:
        for _ in range(60):
            rows[:] = np.arange(50)
            try:
                best, with_known, *_ = retriever.search(
                    "", query, 1.0, (), (), everything, rows, scores, n, fusion_with(dense=1.0)
                )
            except ValueError as error:
                assert "known row 1073741824" in str(error)
            else:
                found += 1
                assert best.max() < n
                assert with_known[best < 50].min() >= 1  # each known row has its score
    finally:
        over.set()
        writer.join()
    assert found
