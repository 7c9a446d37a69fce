"""BM25 over an inverted index, compared with the formula written out."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import _core

WORDS = [f"w{i}" for i in range(12)]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
catalogs = st.lists(st.tuples(texts, texts), max_size=8)
queries = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=5).map(" ".join)


def build(rows: list[tuple[str, str]], weights: tuple[float, float] = (2.0, 0.5)) -> _core.Bm25Index:
    return _core.Bm25Index.build(
        [[r[0] for r in rows], [r[1] for r in rows]], list(weights), analysis="plain"
    )


def oracle(rows: list[tuple[str, str]], query: str, weights: tuple[float, float] = (2.0, 0.5)) -> list[float]:
    """The score of every row, from the formula in bm25.hpp."""
    k1, b, n = 1.2, 0.75, len(rows)
    tf = [
        {w: sum(x * f.split().count(w) for x, f in zip(weights, row, strict=True)) for w in WORDS}
        for row in rows
    ]
    length = [sum(t.values()) for t in tf]
    scores = [0.0] * n
    for word in set(query.split()) & set(WORDS):
        df = sum(t[word] > 0 for t in tf)
        idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
        for row, t in enumerate(tf):
            if t[word]:
                norm = k1 * (1 - b + b * length[row] / (sum(length) / n))
                scores[row] += idf * (k1 + 1) * t[word] / (t[word] + norm)
    return scores


@given(catalogs, queries)
def test_scores_are_the_formula(rows: list[tuple[str, str]], query: str) -> None:
    got = build(rows).scores(query, np.arange(len(rows), dtype=np.int32))
    np.testing.assert_allclose(got, oracle(rows, query), rtol=1e-5)


@given(catalogs, queries, st.integers(0, 9), st.none() | st.sets(st.integers(0, 7)))
def test_a_search_gives_the_best_allowed_rows_that_share_a_term(
    rows: list[tuple[str, str]], query: str, k: int, chosen: set[int] | None
) -> None:
    index, n = build(rows), len(rows)
    allowed = None if chosen is None else np.array(sorted(r for r in chosen if r < n), dtype=np.int32)
    scores = index.scores(query, np.arange(n, dtype=np.int32))
    among = range(n) if allowed is None else allowed.tolist()
    expected = sorted((r for r in among if scores[r] > 0), key=lambda r: (-scores[r], r))[:k]
    found, values = index.search(query, k, None if allowed is None else _core.Bitset.of(n, allowed))
    assert found.dtype == np.int32 and values.dtype == np.float32
    assert found.tolist() == expected
    assert values.tolist() == scores[expected].tolist()


@given(catalogs, catalogs, queries)
def test_before_a_background_scores_are_those_among_all_rows(
    behind: list[tuple[str, str]], rows: list[tuple[str, str]], query: str
) -> None:
    background = build(behind)
    before = background.scores(query, np.arange(len(behind), dtype=np.int32)).tolist()
    columns = [[r[0] for r in rows], [r[1] for r in rows]]
    index = _core.Bm25Index.build(columns, [2.0, 0.5], analysis="plain", background=background)
    got = index.scores(query, np.arange(len(rows), dtype=np.int32))
    np.testing.assert_allclose(got, oracle(behind + rows, query)[len(behind) :], rtol=1e-5)
    assert background.scores(query, np.arange(len(behind), dtype=np.int32)).tolist() == before


def zipf_index(n: int, seed: int = 0) -> tuple[_core.Bm25Index, list[str]]:
    """An index large enough for pruning, columns and the row filter's own way, and messages for it."""
    generator = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(800)])
    p = 1 / np.arange(1, 801) ** 1.05
    rows = [" ".join(generator.choice(words, generator.integers(0, 20), p=p / p.sum())) for _ in range(n)]
    asked = [" ".join(generator.choice(words, generator.integers(1, 9), p=p / p.sum())) for _ in range(150)]
    return _core.Bm25Index.build([rows], [1.0], analysis="plain"), asked


@each_row("n", [1_000, 6_000])
@each_row("share", [None, 0.001, 0.05, 0.6])
def test_every_way_of_searching_gives_the_same_bits_as_scoring_all_rows(n: int, share: float | None) -> None:
    index, asked = zipf_index(n)
    rows = np.arange(n, dtype=np.int32)
    if share is not None:
        rows = rows[np.random.default_rng(1).random(n) < share]
    allowed = None if share is None else _core.Bitset.of(n, rows)
    for query in asked:
        scores = index.scores(query, rows)
        order = np.lexsort((rows, -scores))
        order = order[scores[order] > 0]
        for k in (1, 10, 100, n):
            found, values = index.search(query, k, allowed)
            assert found.tolist() == rows[order[:k]].tolist()
            assert values.tolist() == scores[order[:k]].tolist()


def templated_rows(n: int, seed: int) -> tuple[list[str], list[str]]:
    """Texts in the order of their names, as catalogs have them, and words for messages about them."""
    generator = np.random.default_rng(seed)
    apps, verbs, nouns = (generator.integers(2, most) for most in (30, 30, 60))
    drawn = zip(*(generator.integers(0, most, n).tolist() for most in (apps, verbs, nouns)), strict=True)
    fillers = [" ".join(generator.permutation(["team", "list", "owner", "limit"])[:i]) for i in range(5)]
    rows = [f"app{a} verb{v} noun{w} {fillers[i % 5]}" for i, (a, v, w) in enumerate(sorted(drawn))]
    words = ["team", "owner", "unknown", *(f"app{i}" for i in range(3)), *(f"verb{i}" for i in range(3))]
    return rows, [*words, *(f"noun{i}" for i in range(3))]


def check_search(index: _core.Bm25Index, query: str, k: int, share: float | None, seed: int) -> None:
    """The search returns what scoring each allowed row and sorting returns, bit for bit."""
    rows = np.arange(index.size, dtype=np.int32)
    allowed = None
    if share is not None:
        rows = rows[np.random.default_rng(seed).random(index.size) < share]
        allowed = _core.Bitset.of(index.size, rows)
    scores = index.scores(query, rows)
    order = np.lexsort((rows, -scores))
    order = order[scores[order] > 0][:k]
    found, values = index.search(query, k, allowed)
    assert found.tolist() == rows[order].tolist()
    assert values.tolist() == scores[order].tolist()


@given(st.data())
def test_pruning_loses_no_row_and_no_bit(data: st.DataObject) -> None:
    n, seed = data.draw(st.integers(2_049, 4_000)), data.draw(st.integers(0, 9))
    rows, words = templated_rows(n, seed)
    background = None
    if data.draw(st.booleans()):
        background = _core.Bm25Index.build([rows[::3]], [1.0], analysis="plain")
    index = _core.Bm25Index.build([rows], [1.0], analysis="plain", background=background)
    share = data.draw(st.sampled_from([None, 0.002, 0.1, 0.7]))
    for query in data.draw(st.lists(st.lists(st.sampled_from(words), min_size=1, max_size=6), max_size=8)):
        check_search(index, " ".join(query), data.draw(st.sampled_from([1, 8, 25, 300, n])), share, seed)


@pytest.mark.slow
def test_pruning_loses_no_row_among_three_hundred_thousand() -> None:
    rows, words = templated_rows(300_000, 1)
    index = _core.Bm25Index.build([rows], [1.0], analysis="plain")
    generator = random.Random(2)
    for at in range(60):
        query = " ".join(generator.sample(words, generator.randint(1, 6)))
        check_search(index, query, (1, 25, 400)[at % 3], (None, 0.001, 0.3)[at // 3 % 3], at)


def test_scores_of_a_large_index_are_the_formula() -> None:
    generator = random.Random(3)
    weights = [40 / (i + 1) ** 2 for i in range(len(WORDS))]
    rows = [(" ".join(generator.choices(WORDS, weights, k=5)), generator.choice(WORDS)) for _ in range(2_500)]
    for query in ("w0 w11", "w1 w2 w9 w10", "w0"):
        got = build(rows).scores(query, np.arange(len(rows), dtype=np.int32))
        np.testing.assert_allclose(got, oracle(rows, query), rtol=1e-5)


@pytest.mark.parametrize("k1", [0.0, 1e300])
def test_scores_are_finite_and_above_zero_whatever_the_options(k1: float) -> None:
    index = _core.Bm25Index.build([[f"w{i % 7}" for i in range(3_000)]], [1.0], k1=k1, analysis="plain")
    scores = index.search("w1 w2 w3", 3_000)[1]
    assert len(scores) == 1_287
    assert np.isfinite(scores).all() and (scores > 0).all()


def test_the_order_in_which_scores_asks_for_rows_does_not_matter() -> None:
    index, asked = zipf_index(500)
    rows = np.random.default_rng(2).integers(0, 500, 700).astype(np.int32)
    everything = index.scores(asked[0], np.arange(500, dtype=np.int32))
    assert np.array_equal(index.scores(asked[0], rows), everything[rows])


def test_repeating_a_word_in_the_message_changes_nothing() -> None:
    index, _ = zipf_index(300)
    assert index.search("w3 w3 w9 w3", 5)[1].tolist() == index.search("w3 w9", 5)[1].tolist()


def test_a_field_of_weight_zero_is_not_read() -> None:
    index = build([("w1", "w2"), ("w3", "w1")], (1.0, 0.0))
    assert index.search("w2", 5)[0].tolist() == []
    assert index.search("w1", 5)[0].tolist() == [0]


def test_stop_words_and_unknown_words_find_nothing() -> None:
    index = _core.Bm25Index.build([["get the weather"]], [1.0])
    assert index.search("what could the", 5)[0].tolist() == []
    assert index.search("zebra", 5)[0].tolist() == []
    assert index.search("", 5)[0].tolist() == []


def test_a_korean_message_finds_the_tool_in_spite_of_its_particles() -> None:
    index = _core.Bm25Index.build([["날씨 조회", "회의실 예약", "주문 취소"]], [1.0])
    assert index.search("내일 회의실에서 만나자", 1)[0].tolist() == [1]


def test_a_megabyte_of_words_is_scored_by_the_rarest_of_them() -> None:
    vocabulary = [f"word{i}" for i in range(2_000)]
    rows = [" ".join(random.Random(i).sample(vocabulary, 6)) for i in range(500)] + ["word1"] * 500
    index = _core.Bm25Index.build([rows], [1.0], analysis="plain")
    message = " ".join(vocabulary) + " unknown" * 120_000
    found, _ = index.search(message, 1_000)
    assert 0 < len(found) <= 500  # word1 is the most frequent, so not among the rarest


def test_an_empty_index_and_a_senseless_k_give_nothing() -> None:
    for rows in ([], ["", ""]):
        index = _core.Bm25Index.build([rows], [1.0])
        assert index.size == len(rows)
        assert index.search("weather", 10)[0].tolist() == []
    index = _core.Bm25Index.build([["weather"]], [1.0])
    assert index.search("weather", 0)[0].tolist() == index.search("weather", -3)[0].tolist() == []
    assert index.search("weather", 10**12)[0].tolist() == [0]


def test_misuse_is_an_error_that_names_the_argument() -> None:
    build_index = _core.Bm25Index.build
    for call, message in [
        (lambda: build_index([], []), "fields: are none"),
        (lambda: build_index([["a"]], [1.0, 2.0]), "weights: are 2, must be 1"),
        (lambda: build_index([["a"], ["b", "c"]], [1.0, 1.0]), r"fields\[1\]: has 2 texts, must have 1"),
        (lambda: build_index([["a"]], [-1.0]), r"weights\[0\]"),
        (lambda: build_index([["a"]], [math.nan]), r"weights\[0\]"),
        (lambda: build_index([["a"]], [1.0], k1=-1), "k1"),
        (lambda: build_index([["a"]], [1.0], b=1.5), "b: "),
        (lambda: build_index([["a"]], [1.0]).scores("a", np.array([1], dtype=np.int32)), "rows: has 1"),
        (lambda: build_index([["a"]], [1.0]).search("a", 1, _core.Bitset.empty(2)), "allowed: has 2 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="allowed"):
        build_index([["a"]], [1.0]).search("a", 1, [True])
    with pytest.raises(TypeError, match="texts"):
        build_index([[1]], [1.0])


def test_a_saved_index_answers_the_same(tmp_path: Path) -> None:
    index, asked = zipf_index(3_000)
    path = str(tmp_path / "tools.bm25")
    index.save(path)
    loaded = _core.Bm25Index.load(path)
    assert loaded.size == index.size
    for query in asked[:30]:
        for ours, theirs in zip(index.search(query, 20), loaded.search(query, 20), strict=True):
            assert np.array_equal(ours, theirs)


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("bm25") / "tools.bm25"
    build([("w1 w2", "w3"), ("w2", "")]).save(str(path))
    sound = path.read_bytes()
    at = data.draw(st.integers(0, len(sound) - 1))
    damaged = bytearray(sound)
    damaged[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(data.draw(st.sampled_from([bytes(damaged), sound[:at]])))
    with pytest.raises(ValueError):
        _core.Bm25Index.load(str(path))
