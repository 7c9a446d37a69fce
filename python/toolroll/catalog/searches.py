"""Hundreds of searches with one set of weights, which measure damping and calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from toolroll._core import Bitset, Fusion, Retriever
from toolroll.model.arrays import Part, Rows, Scores, Vector
from toolroll.runtime.gil import batches

# A text, its vector, the trust in the vector, the text's clauses, and the rows to search.
Search: TypeAlias = tuple[str, "Vector | None", float, tuple[Part, ...], Bitset]

_AT_ONCE = 32  # searches in one call, whose conversion of arguments delays other threads


def best_found(
    retriever: Retriever, searches: Sequence[Search], k: int, fusion: Fusion
) -> tuple[Rows, Scores]:
    """int32[m, k] and float32[m, k]: the best rows of each search and their scores; -1 and 0 for no tool."""
    rows = np.full((len(searches), k), -1, np.int32)
    scores = np.zeros((len(searches), k), np.float32)
    for at, (found, best, _) in enumerate(each_found(retriever, searches, k, fusion)):
        rows[at, : len(found)], scores[at, : len(found)] = found, best
    return rows, scores


def each_found(
    retriever: Retriever, searches: Sequence[Search], k: int, fusion: Fusion
) -> Iterator[tuple[Rows, Scores, float]]:
    """Rows, scores and evidence of each search. Other threads may run between them."""
    for some in batches(searches, _AT_ONCE) if len(searches) > _AT_ONCE else (searches,):
        yield from retriever.search_each(some, k, fusion)
