"""Search over vectors: the scan equals the plain float32 scan, the graph nearly so, bad input is an error."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table import each_row
from toolroll._core import Bitset, VectorIndex

Hits = tuple[np.ndarray, np.ndarray]


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0)


def random_vectors(n: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def clustered(n: int, dim: int, seed: int) -> np.ndarray:
    """Like sentence vectors: few directions matter, rows gather around centres."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((max(4, int(n**0.5)), 32))[rng.integers(0, max(4, int(n**0.5)), n)]
    latent = latent + rng.standard_normal((n, 32))
    return (np.tanh(latent @ rng.standard_normal((32, dim)) / 8) + 0.15).astype(np.float32)


def rows_of_a_kind(kind: str, n: int, dim: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    vectors = clustered(n, dim, seed) if kind == "clustered" and n else random_vectors(n, dim, seed)
    if kind == "few values":
        vectors = rng.integers(-1, 2, (n, dim)).astype(np.float32)  # many exact ties, rows of zeros
    elif kind == "nearly equal":
        vectors = (vectors[:1] + 1e-4 * vectors).astype(np.float32)  # all inside one 8-bit step
    elif kind == "duplicates" and n:
        vectors = vectors[rng.integers(0, max(1, n // 9), n)]
    elif kind == "one large value":
        vectors[:: max(1, n // 3), 0] = 1000  # coarse steps for some rows
    elif kind == "heavy-tailed":
        vectors = (vectors**3).astype(np.float32)
    return np.ascontiguousarray(vectors)


KINDS = ["random", "clustered", "few values", "nearly equal", "duplicates", "one large value", "heavy-tailed"]


def full_scan(index: VectorIndex, query: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Hits:
    """The oracle: every float32 score, best first, ties by ascending row."""
    rows = np.arange(index.size, dtype=np.int32)
    if allowed is not None:
        rows = rows[allowed]
    rows = rows[[bool(index.vector(int(row)).any()) for row in rows]]
    scores = index.scores(query, rows)
    best = np.argsort(-scores, kind="stable")[: max(k, 0)]
    return rows[best], scores[best]


def assert_same(found: Hits, expected: Hits) -> None:
    assert found[0].dtype == np.int32
    assert found[1].dtype == np.float32
    assert found[0].tolist() == expected[0].tolist()
    assert found[1].tolist() == expected[1].tolist()


def members(n: int, mask: np.ndarray) -> Bitset:
    return Bitset.of(n, np.flatnonzero(mask).astype(np.int32))


@given(
    n=st.integers(0, 700),
    dim=st.integers(1, 200),
    k=st.integers(-1, 800),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    share=st.sampled_from([None, 0.0, 0.02, 0.3, 0.8, 1.0]),
)
@settings(max_examples=200, deadline=None)
def test_the_exact_search_is_the_float32_scan(
    n: int, dim: int, k: int, seed: int, kind: str, share: float | None
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rows_of_a_kind(kind, n, dim, seed)
    query = rng.standard_normal(dim).astype(np.float32)
    if n and seed % 2:
        query = (vectors[0] + 0.1 * query).astype(np.float32)
    index = VectorIndex.build(vectors)
    mask = None if share is None else rng.random(n) < share
    found = index.search(query, k, None if mask is None else members(n, mask), method="exact")
    assert_same(found, full_scan(index, query, k, mask))


@given(
    n=st.integers(9_990, 10_300),  # 4-bit rows from 10,000 on
    dim=st.integers(1, 160),
    k=st.one_of(st.integers(1, 20), st.integers(1, 3_000)),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    share=st.sampled_from([None, 0.02, 0.6, 0.95]),
)
@settings(deadline=None)
@pytest.mark.slow
def test_the_exact_search_in_stages_is_the_float32_scan(
    n: int, dim: int, k: int, seed: int, kind: str, share: float | None
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rows_of_a_kind(kind, n, dim, seed)
    index = VectorIndex.build(vectors)
    mask = np.ones(n, bool) if share is None else rng.random(n) < share
    allowed = None if share is None else members(n, mask)
    every = np.arange(n, dtype=np.int32)
    eligible = every[mask & vectors.any(axis=1)]
    for query in (rng.standard_normal(dim), vectors[0] + 0.1 * rng.standard_normal(dim), vectors[n // 2]):
        scores = index.scores(query.astype(np.float32), eligible)
        best = np.argsort(-scores, kind="stable")[:k]
        found = index.search(query.astype(np.float32), k, allowed, method="exact")
        expected = (eligible[best], scores[best]) if query.any() else (every[:0], scores[:0])
        assert_same(found, expected)


@given(n=st.integers(1, 60), dim=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_scores_are_cosines(n: int, dim: int, seed: int) -> None:
    vectors, query = random_vectors(n, dim, seed), random_vectors(1, dim, seed + 1)[0]
    index = VectorIndex.build(vectors)
    scores = index.scores(query, np.arange(n, dtype=np.int32))
    assert scores == pytest.approx(unit(vectors) @ unit(query), abs=2e-6)


@each_row("share", [0.001, 0.01, 0.1, 0.5, 0.9])
@each_row("unrelated", [False, True])
def test_no_filter_costs_the_exact_search_a_row(share: float, unrelated: bool) -> None:
    vectors, queries = np.split(clustered(8020, 384, 1), [8000])
    index, rng = VectorIndex.build(vectors), np.random.default_rng(2)
    for query in queries[:8]:
        order = np.argsort(unit(vectors) @ unit(query))
        eligible = order[:4000] if unrelated else order
        mask = np.zeros(len(vectors), bool)
        mask[rng.choice(eligible, min(len(eligible), int(share * len(vectors))), replace=False)] = True
        assert_same(index.search(query, 10, members(len(vectors), mask)), full_scan(index, query, 10, mask))


def test_equal_rows_come_in_ascending_order() -> None:
    index = VectorIndex.build(np.tile(random_vectors(1, 384, 0), (1000, 1)))
    rows, scores = index.search(index.vector(0), 20)
    assert rows.tolist() == list(range(20))
    assert len(set(scores.tolist())) == 1


def test_rows_of_zeros_are_never_found_and_score_zero() -> None:
    vectors = random_vectors(300, 64, 0)
    vectors[::3] = 0
    for graph in (False, True):
        index = VectorIndex.build(vectors, hnsw=graph)
        for method in ("exact", "graph") if graph else ("exact",):
            rows, _ = index.search(vectors[1], 300, method=method, ef=300)
            assert set(rows.tolist()) == {row for row in range(300) if row % 3 != 0}
        assert index.scores(vectors[1], np.array([0, 3], np.int32)).tolist() == [0, 0]


def test_a_query_of_zeros_finds_nothing() -> None:
    index = VectorIndex.build(random_vectors(5, 8, 0))
    rows, scores = index.search(np.zeros(8, np.float32), 3)
    assert len(rows) == len(scores) == 0
    assert index.scores(np.zeros(8, np.float32), np.array([1, 2], np.int32)).tolist() == [0, 0]


@each_row(("k", "found"), [(-3, 0), (0, 0), (1, 1), (7, 7), (8, 7), (10**12, 7)])
def test_k_is_cut_to_what_there_is(k: int, found: int) -> None:
    index = VectorIndex.build(random_vectors(7, 8, 0), hnsw=True)
    for method in ("auto", "exact", "graph"):
        assert len(index.search(random_vectors(1, 8, 1)[0], k, method=method)[0]) == found


@pytest.mark.parametrize("graph", [False, True])
def test_an_empty_index_finds_nothing(graph: bool) -> None:
    index = VectorIndex.build(np.empty((0, 8), np.float32), hnsw=graph)
    assert index.size == 0
    assert len(index.search(np.ones(8, np.float32), 3)[0]) == 0


def test_the_scale_of_a_vector_does_not_matter() -> None:
    vectors, query = random_vectors(200, 30, 0), random_vectors(1, 30, 1)[0]
    expected = VectorIndex.build(vectors).search(query, 10)[0].tolist()
    for factor in (1e-38, 1e30):
        scaled = VectorIndex.build((vectors * np.float32(factor)).astype(np.float32))
        assert scaled.search((query * np.float32(factor)).astype(np.float32), 10)[0].tolist() == expected


def test_a_list_any_numbers_and_a_strided_array_are_queries_too() -> None:
    index, query = VectorIndex.build(random_vectors(50, 6, 0)), random_vectors(1, 6, 1)[0]
    expected = index.search(query, 5)
    for same in (
        query.tolist(),
        tuple(query.tolist()),
        query.astype(np.float64),
        np.repeat(query, 2)[::2],
        [np.float32(x) for x in query],
    ):
        assert_same(index.search(same, 5), expected)
    assert len(index.search([1, 0, 0, 0, 0, True], 5)[0]) == 5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused(bad: float) -> None:
    vectors = random_vectors(9, 5, 0)
    vectors[6, 4] = bad
    with pytest.raises(ValueError, match="row 6"):
        VectorIndex.build(vectors)
    index = VectorIndex.build(random_vectors(9, 5, 0))
    for query in (vectors[6], vectors[6].tolist()):
        with pytest.raises(ValueError, match="finite"):
            index.search(query, 3)
        with pytest.raises(ValueError, match="finite"):
            index.scores(query, np.array([1], np.int32))


def test_misuse_is_a_value_error_that_says_what_is_wrong() -> None:
    index, query = VectorIndex.build(random_vectors(9, 5, 0)), np.ones(5, np.float32)
    with pytest.raises(ValueError, match="has 4 values, the index has 5"):
        index.search(query[:4], 3)
    with pytest.raises(ValueError, match="over 8 rows, the index has 9"):
        index.search(query, 3, Bitset.full(8))
    with pytest.raises(ValueError, match="without one"):
        index.search(query, 3, method="graph")
    with pytest.raises(ValueError, match="'fast', must be"):
        index.search(query, 3, method="fast")
    with pytest.raises(ValueError, match="ef"):
        index.search(query, 3, ef=-1)
    with pytest.raises(ValueError, match="query"):
        index.search("text", 3)
    with pytest.raises(ValueError, match="dimensions"):
        index.search(np.ones((1, 5), np.float32), 3)
    with pytest.raises((TypeError, ValueError)):
        index.search([1.0, None, 1.0, 1.0, 1.0], 3)
    for row in (-1, 9):
        with pytest.raises(ValueError, match="row"):
            index.scores(query, np.array([row], np.int32))
        with pytest.raises(ValueError, match="row"):
            index.vector(row)
    with pytest.raises(ValueError, match="0 dimensions"):
        VectorIndex.build(np.empty((3, 0), np.float32))
    with pytest.raises(ValueError, match=r"float32\[n, dim\]"):
        VectorIndex.build(np.ones(5, np.float32))
    for options in ({"m": 1}, {"m": 129}, {"m": -1}, {"ef_construction": 3}):
        with pytest.raises(ValueError, match=next(iter(options))):
            VectorIndex.build(random_vectors(9, 5, 0), hnsw=True, **options)


def test_a_query_that_changes_while_it_is_read_does_no_harm() -> None:
    index = VectorIndex.build(random_vectors(9, 5, 0))
    query: list[object] = [1.0, 1.0]

    class Clears:
        def __float__(self) -> float:
            query.clear()
            return 1.0

    query += [Clears(), 1.0, 1.0]
    with pytest.raises(ValueError, match="has 3 values"):
        index.search(query, 3)


ROWS, QUERIES = np.split(clustered(6100, 96, 3), [6000])


@pytest.fixture(scope="module")
def with_graph() -> VectorIndex:
    return VectorIndex.build(ROWS, hnsw=True, ef_construction=100)


def recall(index: VectorIndex, queries: np.ndarray, **search: object) -> float:
    hits = 0
    for query in queries:
        exact = index.search(query, 10, method="exact")[0]
        hits += len(np.intersect1d(index.search(query, 10, **search)[0], exact))
    return hits / (10 * len(queries))


def test_the_graph_finds_99_percent_with_its_own_ef(with_graph: VectorIndex) -> None:
    assert recall(with_graph, QUERIES, method="graph") >= 0.99


def test_a_query_near_to_nothing_is_found_all_the_same(with_graph: VectorIndex) -> None:
    assert recall(with_graph, random_vectors(100, 96, 4)) >= 0.99


def test_a_larger_ef_finds_more(with_graph: VectorIndex) -> None:
    few, many = (recall(with_graph, QUERIES, method="graph", ef=ef) for ef in (10, 400))
    assert many >= max(0.998, few)


def test_graph_scores_are_the_exact_ones(with_graph: VectorIndex) -> None:
    query = QUERIES[0]
    rows, scores = with_graph.search(query, 10, method="graph")
    assert scores.tolist() == with_graph.scores(query, rows).tolist()
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)


@each_row("share", [0.0, 0.0005, 0.01, 0.3, 0.9])
@each_row("unrelated", [False, True])
def test_the_filter_holds_inside_the_graph(with_graph: VectorIndex, share: float, unrelated: bool) -> None:
    rng, n = np.random.default_rng(5), with_graph.size
    every = np.arange(n, dtype=np.int32)
    for query in QUERIES[:5]:
        order = np.argsort(with_graph.scores(query, every))
        eligible = order[: n // 2] if unrelated else order
        mask = np.zeros(n, bool)
        mask[rng.choice(eligible, min(len(eligible), int(share * n)), replace=False)] = True
        rows, _ = with_graph.search(query, 10, members(n, mask), method="graph")
        exact, _ = with_graph.search(query, 10, members(n, mask), method="exact")
        assert len(rows) == len(exact)
        assert mask[rows].all()
        assert len(np.intersect1d(rows, exact)) >= 0.9 * len(exact)


def test_the_same_rows_give_the_same_graph(tmp_path: Path) -> None:
    for name in ("a", "b"):
        VectorIndex.build(clustered(1500, 64, 0), hnsw=True).save(str(tmp_path / name))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_many_threads_may_search_at_once(with_graph: VectorIndex) -> None:
    queries = QUERIES[:40]
    expected = [with_graph.search(query, 10)[0].tolist() for query in queries]
    found: list[list[list[int]]] = [[] for _ in range(4)]

    def run(which: int) -> None:
        found[which] = [with_graph.search(query, 10)[0].tolist() for query in queries]

    threads = [threading.Thread(target=run, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@each_row("graph", [False, True])
@each_row("dim", [1, 64, 70])
def test_a_saved_index_answers_as_before(tmp_path: Path, graph: bool, dim: int) -> None:
    vectors = clustered(700, dim, 0)
    vectors[5] = 0
    index = VectorIndex.build(vectors, hnsw=graph)
    index.save(str(tmp_path / "index"))
    loaded = VectorIndex.load(str(tmp_path / "index"))
    assert (loaded.size, loaded.dim, loaded.has_graph) == (700, dim, graph)
    for method in ("auto", "exact", "graph") if graph else ("auto", "exact"):
        for query in vectors[:20] + 0.01:
            assert_same(loaded.search(query, 10, method=method), index.search(query, 10, method=method))


def test_a_saved_index_keeps_its_4_bit_rows(tmp_path: Path) -> None:
    vectors, queries = np.split(clustered(10_120, 60, 8), [10_100])
    for n in (9_999, 10_100):
        index = VectorIndex.build(vectors[:n])
        index.save(str(tmp_path / "index"))
        loaded = VectorIndex.load(str(tmp_path / "index"))
        for query in queries:
            assert_same(loaded.search(query, 10), index.search(query, 10))
        loaded.save(str(tmp_path / "again"))
        assert (tmp_path / "again").read_bytes() == (tmp_path / "index").read_bytes()


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "index"
    VectorIndex.build(random_vectors(40, 10, 0), hnsw=True).save(str(path))
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            VectorIndex.load(str(path))
    for size in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError):
            VectorIndex.load(str(path))
    with pytest.raises(ValueError, match="cannot read"):
        VectorIndex.load(str(tmp_path / "absent"))


ANSWERS = """
import sys
import numpy as np
from toolroll._core import Bitset, VectorIndex, isa
if isa() != sys.argv[1]:
    sys.exit(f"this machine has no {sys.argv[1]}")
rng = np.random.default_rng(0)
index = VectorIndex.build(rng.standard_normal((3000, 200)).astype(np.float32), hnsw=True)
allowed = Bitset.of(3000, np.arange(0, 3000, 7, dtype=np.int32))
for query in rng.standard_normal((20, 200)).astype(np.float32):
    for some in (None, allowed):
        print(index.search(query, 10, some, method="exact")[0].tolist())
    print(index.search(query, 10, method="graph", ef=200)[0].tolist())
large = rng.standard_normal((12_345, 100)).astype(np.float32)
large[6000:] += 2 * large[0]
index = VectorIndex.build(large)
most = Bitset.of(12_345, np.flatnonzero(np.arange(12_345) % 9).astype(np.int32))
for query in (*rng.standard_normal((10, 100)).astype(np.float32), *large[:10]):
    for some in (None, most):
        print(index.search(query, 10, some)[0].tolist())
"""


@functools.cache
def answers_on(isa: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS, isa],
        env={**os.environ, "TOOLROLL_ISA": isa},
        capture_output=True,
        text=True,
    )
    if done.returncode and done.stderr.startswith("this machine has no"):
        pytest.skip(done.stderr.strip())
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("isa", ["avx2", "avx512", "neon"])
@pytest.mark.slow
def test_every_instruction_set_finds_the_same_rows(isa: str) -> None:
    assert answers_on(isa) == answers_on("baseline")
