"""Nearest vectors: the exact scan, the same under a filter, and the graph at equal recall.

From 10,000 rows on, the scan is measured on vectors of real texts and on random directions. These are the
worst case, because a query is nearly equally far from all of them.

Peers' graphs are built once and kept in the temporary folder: 100,000 rows take each about a minute. For the
comparison at equal recall each contestant gets the smallest ef of a fine sweep that reaches the recall.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import peers
from bench.harness import Case, sizes
from bench.text_vectors import ENCODERS, text_vectors
from bench.workloads import clustered_vectors, queries_near
from toolroll._core import Bitset, VectorIndex

Vectors = NDArray[np.float32]
Search = Callable[[Vectors], Any]  # query → rows, best first

K, DIM = 10, 384
M, EF_CONSTRUCTION = 16, 200
_BARS = {158: 2.0, 1_000: 2.2}
_STAGES_FROM = 10_000
_TEXT_BARS = {10_000: 5.0, 100_000: 8.0, 1_000_000: 6.0}  # × faiss, as the next ones
_RANDOM_BARS = {10_000: 4.0, 100_000: 4.0, 1_000_000: 4.5}
_FILTER_BARS = {0.001: 10.0, 0.01: 6.0, 0.1: 4.0, 0.5: 3.0}
_KEPT = Path(tempfile.gettempdir()) / "toolroll-bench"


def cases(quick: bool) -> Iterator[Case]:
    for n in sizes(158, 1_000) if quick else sizes(158, 1_000, 10_000, 100_000, 1_000_000):
        if n < _STAGES_FROM:
            yield _clustered(n)
            continue
        for encoder in ENCODERS:
            known = text_vectors(encoder, n)
            if known is not None:
                yield _exact(f"texts in {encoder}", *known, bar_of_faiss=_TEXT_BARS.get(n))
                del known  # a million rows take 1 to 1.5 GB
        directions = _directions(n + 200)
        yield _exact("random directions", directions[:n], directions[n:], bar_of_faiss=_RANDOM_BARS.get(n))
        del directions
    n = 2_000 if quick else 100_000
    vectors = clustered_vectors(n, DIM)
    index = _kept(f"ours-{n}", VectorIndex.load, lambda path: _built(vectors).save(path))
    yield from _filtered(vectors, index)
    yield from _graphs(vectors, index, quick)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _built(vectors: Vectors) -> VectorIndex:
    return VectorIndex.build(vectors, hnsw=True, m=M, ef_construction=EF_CONSTRUCTION)


def _kept(name: str, load: Callable[[str], Any], build: Callable[[str], object]) -> Any:
    """What `build` writes to a path, from the last run if it is still there."""
    _KEPT.mkdir(exist_ok=True)
    path = _KEPT / f"{name}-m{M}-ef{EF_CONSTRUCTION}"
    try:
        return load(str(path))
    except (RuntimeError, ValueError, OSError):
        build(str(path))
        return load(str(path))


def _numpy_rows(vectors: Vectors, rows: NDArray[np.int32] | None = None) -> Search:
    def search(query: Vectors) -> Any:
        scores = vectors @ query if rows is None else vectors[rows] @ query
        k = min(K, len(scores))
        best = np.argpartition(-scores, k - 1)[:k]
        best = best[np.argsort(-scores[best])]
        return best if rows is None else rows[best]

    return search


def _recall(
    search: Search, vectors: Vectors, queries: Vectors, masks: list[NDArray[np.bool_]] | None = None
) -> float:
    """Share of the K best that `search` finds; rows that score as well as the K-th best count as such."""
    found = wanted = 0
    for i, query in enumerate(queries):
        scores = vectors @ query
        if masks is not None:
            scores = np.where(masks[i % len(masks)], scores, -np.inf)
        worst = np.partition(scores, -K)[-K] - 1e-6
        found += int(np.count_nonzero(scores[np.asarray(search(query))[:K]] >= worst))
        wanted += K
    return found / wanted


def _turning(search: Search, queries: Vectors) -> Callable[[int], object]:
    listed = list(queries)
    return lambda i: search(listed[i % len(listed)])


def _directions(n: int) -> Vectors:
    """float32[n, DIM] unit rows in random directions."""
    generator = np.random.default_rng([3, n])
    rows = np.empty((n, DIM), dtype=np.float32)
    for start in range(0, n, 50_000):
        block = generator.standard_normal((min(50_000, n - start), DIM), dtype=np.float32)
        rows[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def _clustered(n: int) -> Case:
    """The exact scan of few rows, also beside peers in processes of their own, which make the same rows."""
    vectors = clustered_vectors(n, DIM)
    names = ("simsimd", "numkong")  # their symbols clash with the others'
    beside = {name: peers.start(name, {"vectors": n, "k": K}) for name in names}
    return _exact("clustered", vectors, queries_near(vectors, 200), bar=_BARS.get(n), beside=beside)


def _exact(
    kind: str,
    vectors: Vectors,
    queries: Vectors,
    bar: float | None = None,
    bar_of_faiss: float | None = None,
    beside: Mapping[str, Any] | None = None,
) -> Case:
    n, dim = vectors.shape
    index = VectorIndex.build(vectors)
    found: dict[str, Any] = {
        "faiss flat": None,
        "numpy": _turning(_numpy_rows(vectors), queries),
        "usearch exact": None,
    }
    faiss = _library("faiss")
    if faiss is not None:
        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatIP(dim)
        flat.add(vectors)
        found["faiss flat"] = _turning(lambda q: flat.search(q[None, :], K), queries)
    usearch = _library("usearch.index")
    if usearch is not None:
        metric = usearch.MetricKind.IP
        found["usearch exact"] = _turning(
            lambda q: usearch.search(vectors, q, K, metric, exact=True, threads=1), queries
        )

    def check() -> str:
        few = queries[: 200 if n <= 10_000 else 20]
        recall = _recall(lambda q: index.search(q, K)[0], vectors, few)
        assert recall == 1.0, f"recall@10 {recall}"
        return "recall@10 1.000"

    in_stages = n >= _STAGES_FROM
    note = "4-bit, 8-bit, float32; at least half a byte a dimension" if in_stages else "8-bit, then float32"
    return Case(
        operation=f"exact top-10, {kind}",
        size=f"{n:,} x {dim}",
        ours=_turning(lambda q: index.search(q, K), queries),
        peers={**found, **(beside or {})},
        check=check,
        bar=bar,
        bars={} if bar_of_faiss is None else {"faiss flat": bar_of_faiss},
        note=note,
        reads=n * dim // 2 if in_stages else n * dim,
        beside=tuple(beside or ()),
    )


def _masks(vectors: Vectors, queries: Vectors, share: float, unrelated: bool) -> list[NDArray[np.bool_]]:
    """One random set of rows; or, for each query, one from the half that is least like it."""
    n = len(vectors)
    rng = np.random.default_rng(7)
    if not unrelated:
        return [rng.random(n) < share]
    masks = []
    for query in queries:
        mask = np.zeros(n, bool)
        mask[rng.choice(np.argsort(vectors @ query)[: n // 2], int(share * n), replace=False)] = True
        masks.append(mask)
    return masks


def _filtered(vectors: Vectors, index: VectorIndex) -> Iterator[Case]:
    n = len(vectors)
    faiss = _library("faiss")
    flat = None
    if faiss is not None:
        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatIP(DIM)
        flat.add(vectors)
    for share, bar in _FILTER_BARS.items():
        if share * n < K:
            continue
        for unrelated in (False, True):
            queries = queries_near(vectors, 40 if unrelated else 200)
            masks = _masks(vectors, queries, share, unrelated)
            allowed = [Bitset.of(n, np.flatnonzero(mask).astype(np.int32)) for mask in masks]
            listed = list(queries)

            def ours(
                i: int,
                method: str = "auto",
                listed: list[Vectors] = listed,
                allowed: list[Bitset] = allowed,
            ) -> Any:
                return index.search(listed[i % len(listed)], K, allowed[i % len(allowed)], method)

            found: dict[str, Any] = {"faiss, bitmap": None, "faiss, batch": None}
            if flat is not None:
                kept = [np.packbits(mask, bitorder="little") for mask in masks]
                batches = [np.flatnonzero(mask) for mask in masks]
                for name, selectors in (
                    ("faiss, bitmap", [faiss.IDSelectorBitmap(bits) for bits in kept]),
                    ("faiss, batch", [faiss.IDSelectorBatch(rows) for rows in batches]),
                ):
                    chosen = [faiss.SearchParameters(sel=selector) for selector in selectors]
                    found[name] = lambda i, chosen=chosen, listed=listed: flat.search(
                        listed[i % len(listed)][None, :], K, params=chosen[i % len(chosen)]
                    )
            searches = [_numpy_rows(vectors, np.flatnonzero(mask).astype(np.int32)) for mask in masks]

            def on_the_rows(
                i: int, searches: list[Search] = searches, listed: list[Vectors] = listed
            ) -> object:
                return searches[i % len(searches)](listed[i % len(listed)])

            found["numpy on the rows"] = on_the_rows
            found["own exact scan"] = lambda i, ours=ours: ours(i, "exact")

            def check(
                ours: Callable[..., Any] = ours,
                queries: Vectors = queries,
                masks: list[NDArray[np.bool_]] = masks,
            ) -> str:
                counter = iter(range(len(queries)))
                recall = _recall(lambda _: ours(next(counter))[0], vectors, queries, masks)
                assert recall >= 0.99, f"recall@10 {recall}"
                counter = iter(range(len(queries)))
                exact = _recall(lambda _: ours(next(counter), "exact")[0], vectors, queries, masks)
                assert exact == 1.0, f"exact recall@10 {exact}"
                return f"recall@10 {recall:.4f}"

            kind = "unrelated to the query" if unrelated else "random"
            yield Case(
                operation=f"top-10 under a filter, {kind}",
                size=f"{share:.1%} of {n:,} x {DIM}",
                ours=ours,
                peers=found,
                check=check,
                bar=bar if n == 100_000 and not unrelated else None,
                bars={"own exact scan": 0.5},
                note="auto; the bar on our own exact scan: never slower than twice that",
                beside=("numpy on the rows", "own exact scan"),
                repeats=500,
            )


def _smallest_ef(
    search: Callable[[Vectors, int], Any], vectors: Vectors, queries: Vectors, recall: float
) -> int | None:
    """The first ef of a sweep in steps of a tenth that reaches the recall."""
    scores_of_kth = [np.partition(vectors @ query, -K)[-K] - 1e-6 for query in queries]
    ef = K
    while ef <= 4096:
        found = sum(
            int(np.count_nonzero(vectors[np.asarray(search(query, ef))[:K]] @ query >= worst))
            for query, worst in zip(queries, scores_of_kth, strict=True)
        )
        if found >= recall * K * len(queries):
            return ef
        ef += max(1, ef // 10)
    return None


def _graphs(vectors: Vectors, index: VectorIndex, quick: bool) -> Iterator[Case]:
    n = len(vectors)
    queries = queries_near(vectors, 200 if quick else 500)
    searches: dict[str, Callable[[Vectors, int], Any] | None] = {
        "ours": lambda q, ef: index.search(q, K, None, "graph", ef)[0],
        "hnswlib": _hnswlib(vectors),
        "faiss HNSW": _faiss_hnsw(vectors),
    }
    for recall in (0.99, 0.999):
        efs: dict[str, int] = {}
        timed: dict[str, Any] = {}
        for name, search in searches.items():
            ef = None if search is None else _smallest_ef(search, vectors, queries, recall)
            if search is None or ef is None:
                timed[name] = None if search is None else f"does not reach a recall of {recall}"
                continue
            efs[name] = ef
            timed[name] = _turning(lambda q, search=search, ef=ef: search(q, ef), queries)

        def check(efs: dict[str, int] = efs, recall: float = recall) -> str:
            assert "ours" in efs, f"does not reach a recall of {recall}"
            auto = _recall(lambda q: index.search(q, K)[0], vectors, queries)
            assert auto >= 0.99, f"auto has recall@10 {auto}"
            return f"all at recall@10 {recall}"

        yield Case(
            operation=f"graph top-10 at recall {recall}",
            size=f"{n:,} x {DIM}",
            ours=timed.pop("ours"),
            peers=timed,
            check=check,
            bar=1.4 if n == 100_000 else None,
            note=", ".join(f"{name} ef {ef}" for name, ef in efs.items())
            + f"; M {M}, ef_construction {EF_CONSTRUCTION}",
        )


def _hnswlib(vectors: Vectors) -> Callable[[Vectors, int], Any] | None:
    hnswlib = _library("hnswlib")
    if hnswlib is None:
        return None

    def build(path: str) -> None:
        made = hnswlib.Index("ip", DIM)
        made.init_index(len(vectors), EF_CONSTRUCTION, M)
        made.add_items(vectors)
        made.save_index(path)

    def load(path: str) -> Any:
        made = hnswlib.Index("ip", DIM)
        made.load_index(path, max_elements=len(vectors))
        return made

    graph = _kept(f"hnswlib-{len(vectors)}", load, build)

    last_ef = 0

    def search(query: Vectors, ef: int) -> Any:
        nonlocal last_ef
        if ef != last_ef:
            graph.set_ef(ef)
            last_ef = ef
        return graph.knn_query(query, k=K, num_threads=1)[0][0]

    return search


def _faiss_hnsw(vectors: Vectors) -> Callable[[Vectors, int], Any] | None:
    faiss = _library("faiss")
    if faiss is None:
        return None
    faiss.omp_set_num_threads(1)

    def build(path: str) -> None:
        made = faiss.IndexHNSWFlat(DIM, M, faiss.METRIC_INNER_PRODUCT)
        made.hnsw.efConstruction = EF_CONSTRUCTION
        made.add(vectors)
        faiss.write_index(made, path)

    graph = _kept(f"faiss-{len(vectors)}", faiss.read_index, build)
    last_ef = 0

    def search(query: Vectors, ef: int) -> Any:
        nonlocal last_ef
        if ef != last_ef:
            graph.hnsw.efSearch = ef
            last_ef = ef
        return graph.search(query[None, :], K)[1][0]

    return search
