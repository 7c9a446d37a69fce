"""BM25 top-10, from a str to the names of tools, beside tantivy and bm25s on the same texts.

Texts are Zipf-distributed words, at most 39 a tool: tantivy keeps lengths in one byte, exact up to there, so
that scores can be compared. Ours runs its plain analysis, which cuts these texts as the peers do, and in a
second row the default one (identifiers, stems, stop words), which is what selection uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.harness import Case, sizes
from toolroll import _core

K = 10
VOCABULARY = 20_000
ASKED = 256
WORDS_ASKED = 8
CHECKED = 64
#: tools → how many times faster than each peer issue 2 wants it.
_BARS = {
    158: {"tantivy": 6.0, "bm25s": 30.0},
    10_000: {"tantivy": 5.0, "bm25s": 10.0},
    100_000: {"tantivy": 5.0, "bm25s": 5.0},
}
K1_PLUS_1 = 2.2  # what bm25s leaves out of its scores


def cases(quick: bool) -> Iterator[Case]:
    for n in sizes(158, 1_000) if quick else sizes(158, 10_000, 100_000, 1_000_000):
        texts, queries = _texts(n)
        names = [f"tool_{row}" for row in range(n)]
        plain = _core.Bm25Index.build([texts], [1.0], analysis="plain")
        tantivy = _tantivy(texts) if n <= 100_000 else "built for up to 100,000 tools"
        bm25s = _bm25s(texts) if n <= 100_000 else "built for up to 100,000 tools"
        peers = {
            "tantivy": _numbered(tantivy, queries, names),
            "bm25s": _numbered(bm25s, queries, names),
        }
        yield Case(
            operation=f"BM25 top-{K}",
            size=f"{n:,} tools",
            ours=_ours(plain, queries, names),
            peers=peers,
            check=lambda index=plain, asked=queries, t=tantivy, b=bm25s: _check(index, asked, t, b),
            bars=_BARS.get(n, {}),
            note=f"{WORDS_ASKED} words; {plain.memory_bytes / 1e6:.1f} MB",
        )
        del plain
        default = _core.Bm25Index.build([texts], [1.0])
        yield Case(
            operation=f"BM25 top-{K}, default analysis",
            size=f"{n:,} tools",
            ours=_ours(default, queries, names),
            peers=peers,
            check=lambda: "same way of searching",
            note="the peers stem nothing and split no identifiers",
        )


def _texts(n: int) -> tuple[list[str], list[str]]:
    generator = np.random.default_rng([5, n])
    p = 1 / np.arange(1, VOCABULARY + 1) ** 1.05
    p /= p.sum()
    words = np.array([f"w{i}" if i % 3 else f"tool{i}" for i in range(VOCABULARY)])
    lengths = np.minimum(generator.poisson(30, n) + 1, 39)
    drawn = words[generator.choice(VOCABULARY, int(lengths.sum()), p=p)]
    texts = [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]
    asked = (generator.choice(VOCABULARY, 4 * WORDS_ASKED, p=p) for _ in range(ASKED))
    # Distinct words: the peers count a repeated one twice, ours once.
    return texts, [" ".join(words[list(dict.fromkeys(ids.tolist()))[:WORDS_ASKED]]) for ids in asked]


def _ours(index: Any, queries: list[str], names: list[str]) -> Callable[[int], object]:
    def search(i: int) -> object:
        rows, _ = index.search(queries[i % ASKED], K)
        return [names[row] for row in rows.tolist()]

    return search


def _numbered(
    search: Callable[[str], list[tuple[float, int]]] | str | None, queries: list[str], names: list[str]
) -> Callable[[int], object] | str | None:
    if search is None or isinstance(search, str):
        return search
    return lambda i: [names[row] for _, row in search(queries[i % ASKED])]


def _tantivy(texts: list[str]) -> Callable[[str], list[tuple[float, int]]] | None:
    try:
        import tantivy
    except ImportError:
        return None
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="default")
    index = tantivy.Index(schema.build())
    writer = index.writer(128_000_000, num_threads=1)  # one segment: documents are numbered as added
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    if searcher.num_segments != 1:
        writer.wait_merging_threads()
        raise AssertionError(f"tantivy made {searcher.num_segments} segments, not one")

    def search(query: str) -> list[tuple[float, int]]:
        hits = searcher.search(index.parse_query(query, ["text"]), K, count=False).hits
        return [(score, address.doc) for score, address in hits]

    return search


def _bm25s(texts: list[str]) -> Callable[[str], list[tuple[float, int]]] | None:
    try:
        import bm25s
    except ImportError:
        return None
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)
    k = min(K, len(texts))

    def search(query: str) -> list[tuple[float, int]]:
        tokens = bm25s.tokenize(query, stopwords=None, show_progress=False)
        rows, scores = index.retrieve(tokens, k=k, show_progress=False)
        return [(score * K1_PLUS_1, row) for score, row in zip(scores[0].tolist(), rows[0].tolist(), strict=True)]

    return search


def _check(index: Any, queries: list[str], *peers: Any) -> str:
    """The same ten scores as each peer to 1e-5 of their size, and what the index gives those rows."""
    furthest, against = 0.0, 0
    for peer in peers:
        if not callable(peer):
            continue
        against += 1
        for query in queries[:CHECKED]:
            rows, scores = index.search(query, K)
            theirs = [(score, row) for score, row in peer(query) if score > 0]
            assert len(theirs) == len(rows), f"{len(rows)} rows, the peer has {len(theirs)}: {query}"
            numbers = np.array([score for score, _ in theirs])
            furthest = max(furthest, float(np.max(np.abs(scores - numbers) / numbers, initial=0)))
            again = index.scores(query, np.array([row for _, row in theirs], dtype=np.int32))
            furthest = max(furthest, float(np.max(np.abs(again - numbers) / numbers, initial=0)))
    assert furthest <= 1e-5, f"scores differ by {furthest:.1e} of their size"
    return f"scores of {against} peers to {furthest:.0e}" if against else "no peer to compare with"
