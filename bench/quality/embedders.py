"""Recall@5 by embedder: of the tools' texts, and with example messages, each alone and with BM25.

``python -m bench.quality.embedders [--test] [--embedders static,minilm,multilingual] FOLDER…``. Folders as
for ``toolroll eval``. A tool's vector is that of its text, or half that and half its examples' mean.
Usually the *train* split is asked, its odd messages with its even ones as examples and the other way round.
``--test`` asks the test split with all of train as examples: for the last word, not for development.

`ms` is what the median message takes to embed, of each the fastest of three calls. Cosines are divided by
their spread over all pairs of a message and a tool, so that one weight of BM25 (`LEXICAL`) serves every
embedder.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolroll._core import Bm25Index
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import FIELD_WEIGHTS, columns, texts_of
from toolroll.lab.evaluation.dataset import Query, read_dataset
from toolroll.lab.evaluation.metrics import recall
from toolroll.model.embedder import Embedder
from toolroll.model.tools import Tool

K = 5
ASKED = 400  # train messages a folder
MOST_TOOLS = 1_500  # as many of a larger catalog, those that are asked for among them
TIMED = 60
LEXICAL = 0.2  # standard deviations of cosine for a point of BM25


def _static() -> Embedder:
    from toolroll.embedders.static import StaticEmbedder

    return StaticEmbedder()


def _minilm() -> Embedder:
    from toolroll.embedders.minilm import MiniLMEmbedder

    return MiniLMEmbedder(threads=2)


def _multilingual() -> Embedder:
    from toolroll.embedders.multilingual import MultilingualEmbedder

    return MultilingualEmbedder(threads=2)


EMBEDDERS: dict[str, Callable[[], Embedder]] = {
    "static": _static,
    "minilm": _minilm,
    "multilingual": _multilingual,
}
COLUMNS = ("BM25", "texts", "+ BM25", "examples", "BM25 too", "+ BM25")


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)


def _recall(scores: NDArray[np.float32], asked: Sequence[Query], tools: Sequence[Tool]) -> float:
    best = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    found = [[tools[row].name for row in rows] for rows in best]
    return float(np.mean([recall(query, names) for query, names in zip(asked, found, strict=True)]))


def _lexical(tools: Sequence[Tool], asked: Sequence[Query]) -> NDArray[np.float32]:
    index = Bm25Index.build(columns(texts_of(tools)), FIELD_WEIGHTS)
    rows = np.arange(len(tools), dtype=np.int32)
    return np.stack([index.scores(query.text, rows) for query in asked])


def _figures(
    tools: Sequence[Tool],
    texts: NDArray[np.float32],
    known: Sequence[tuple[Query, NDArray[np.float32]]],
    asked: Sequence[tuple[Query, NDArray[np.float32]]],
    spread: float,
) -> NDArray[np.float64]:
    """`known` and `asked`: pairs of a message and its vector."""
    examples, vectors = defaultdict(list), defaultdict(list)
    for query, vector in known:
        for name in query.gold:
            examples[name].append(query.text)
            vectors[name].append(vector)
    warm = texts.copy()
    for row, tool in enumerate(tools):
        if tool.name in vectors:
            warm[row] = _unit(0.5 * texts[row] + 0.5 * _unit(np.mean(vectors[tool.name], axis=0)))
    taught = [replace(tool, examples=tuple(examples[tool.name])) for tool in tools]
    messages = [query for query, _ in asked]
    queries = np.stack([vector for _, vector in asked])
    words, taught_words = _lexical(tools, messages), _lexical(taught, messages)
    cold_scores, warm_scores = queries @ texts.T / spread, queries @ warm.T / spread
    columns = (
        words, cold_scores, cold_scores + LEXICAL * words,
        warm_scores, taught_words, warm_scores + LEXICAL * taught_words,
    )  # fmt: skip
    return np.array([_recall(scores, messages, tools) for scores in columns])


def _median_ms(embedder: Embedder, messages: list[str]) -> float:
    fastest = []
    for message in messages:
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            embedder.embed_query(message)
            taken.append(time.perf_counter() - start)
        fastest.append(min(taken))
    return 1e3 * float(np.median(fastest))


def _folder(folder: Path, test: bool) -> tuple[list[Tool], list[Query], list[Query]]:
    """Tools without examples, messages of the train split, and those of the test split if it is asked."""
    dataset = read_dataset(folder)
    train = [query for query in dataset.queries if query.gold and query.split == "train"]
    asked = [query for query in dataset.queries if query.gold and query.split == "test"] if test else []
    if not test:
        train = train[:: max(1, len(train) // ASKED)][:ASKED]
    every = dataset.definitions.tools
    gold = {name for query in (*train, *asked) for name in query.gold}
    step = 1 if test else max(1, len(every) // MOST_TOOLS)
    kept = [tool for i, tool in enumerate(every) if i % step == 0 or tool.name in gold]
    return [replace(tool, examples=()) for tool in kept], train, asked


def measure(folder: Path, embedder: Embedder, test: bool) -> list[float]:
    """Messages asked, milliseconds, mean and spread of the cosines, and recall@5 by COLUMNS."""
    tools, train, asked = _folder(folder, test)
    texts = ToolVectors.of(texts_of(tools), embedder).vectors()
    known = list(zip(train, embedder.embed([query.text for query in train]), strict=True))
    cosines = np.stack([vector for _, vector in known]) @ texts.T
    spread = float(cosines.std())
    if test:
        pairs = list(zip(asked, embedder.embed([query.text for query in asked]), strict=True))
        recalls = _figures(tools, texts, known, pairs, spread)
    else:
        even, odd = known[0::2], known[1::2]
        one, other = _figures(tools, texts, odd, even, spread), _figures(tools, texts, even, odd, spread)
        recalls = (len(even) * one + len(odd) * other) / len(known)
    ms = _median_ms(embedder, [query.text for query in (asked or train)[:TIMED]])
    return [len(asked or train), ms, float(cosines.mean()), spread, *recalls.tolist()]


def main() -> int:
    """Prints a line for each folder and embedder."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.embedders")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--embedders", default=",".join(EMBEDDERS))
    parser.add_argument("--test", action="store_true")
    args = parser.parse_args()
    head = ("asked", "ms", "cosine", "spread", *COLUMNS)
    print(f"{'folder':<18}{'embedder':<14}" + "".join(f"{title:>10}" for title in head))
    for folder in args.folders:
        for name in args.embedders.split(","):
            asked, *figures = measure(folder, EMBEDDERS[name](), args.test)
            print(
                f"{folder.name:<18}{name:<14}{asked:>10,}" + "".join(f"{f:>10.3f}" for f in figures),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
