"""Damping by everyday messages, for a catalog with many tools and hardly any example.

Descriptions are no messages. A text that is stuffed with common phrases, such as examples of everything, is
found for few descriptions but for many messages. So a thousand everyday messages about everything are
searched for, too. A useful tool is found for many messages about its subject, which resemble each other. A
greedy tool is found for messages that have nothing in common. So the share of the messages that a tool may be
found for grows with their coherence, the mean cosine of two of them.

The messages are written for this project; no data set has them.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, Fusion, Retriever, latin_share
from toolroll.catalog.searches import Search, best_found
from toolroll.model.arrays import Rows, Scores
from toolroll.model.embedder import Embedder, vectors_of

LEAST_TOOLS = 500  # in a smaller catalog, a tool that fits nothing in particular is found for few messages
_FOUND = 16  # best tools of each message that are read: the first five and those that nearly are
_LEAST_WINS = 8  # messages below which coherence says nothing

# Shares of the messages that are allowed, as multiples of the even share k / n: for the coherence of a greedy
# tool, and for that of a useful one. Coherence is measured by the median of the catalog's tools.
_INCOHERENT, _COHERENT = 0.35, 0.85
_LEAST_SHARES, _MOST_SHARES = 0.5, 6.0
_LEAST_BOUND = 0.012  # share of all messages, for any size of catalog

_SEVERITY = 2  # a tool at c times its bound is damped to 1 / c² of the bound
_NEAR = 0.05  # logarithm of the factor that makes half a win of a miss, or of a win
_LEAST = 0.4  # factor: its own messages still find the tool
_ROUNDS = 10  # halvings of a factor's range
_TINY = 1e-6  # a divisor in place of 0


@cache
def everyday_messages() -> tuple[str, ...]:
    """The messages, each once."""
    text = resources.files("toolroll.catalog").joinpath("everyday_messages.txt").read_text("utf-8")
    return tuple(text.splitlines())


def everyday_vectors(embedder: Embedder) -> npt.NDArray[np.float16] | None:
    """float16[m, dim], the messages' vectors; None if their embedding would delay a catalog.

    Raises EmbedderUnavailable if the embedder fails, or its answer is no vector.
    """
    if not embedder.is_instant:
        return None
    return vectors_of(embedder, everyday_messages()).astype(np.float16)


def everyday_damping(
    vectors: npt.NDArray[np.float16], is_english: bool, retriever: Retriever, fusion: Fusion, k: int = 5
) -> Scores:
    """The factor for each tool's score: float32[n], 1 for all but the greedy ones, at least 0.4.

    vectors: of `everyday_messages`. is_english: whether the embedder has learnt English alone.
    """
    everything = Bitset.full(retriever.size)
    searches: list[Search] = [
        (text, vector.astype(np.float32), latin_share(text) if is_english else 1.0, (), everything)
        for text, vector in zip(everyday_messages(), vectors, strict=True)
    ]
    rows, scores = best_found(retriever, searches, _FOUND, fusion)
    return damping_of_found(rows, scores, vectors.astype(np.float32), retriever.size, k)


def damping_of_found(rows: Rows, scores: Scores, vectors: Scores, n: int, k: int = 5) -> Scores:
    """`everyday_damping` of search results: int32[m, s] and float32[m, s], best first, s above k."""
    factors = np.ones(n, np.float32)
    others = np.where(np.arange(scores.shape[1]) < k, scores[:, k, None], scores[:, k - 1, None])
    leads = np.log(np.maximum(scores, _TINY) / np.maximum(others, _TINY))
    message, place = np.nonzero((scores > 0) & (leads > -_NEAR))  # the first k, and those that nearly are
    if not len(message):
        return factors
    tool, lead = rows[message, place], leads[message, place]
    won = np.minimum(0.5 + lead / (2 * _NEAR), 1)
    counts = np.bincount(tool, won, minlength=n).astype(np.float64)
    allowed = _allowed(tool, won, message, vectors - vectors.mean(axis=0), counts)
    bounds = np.maximum(allowed * k / n, _LEAST_BOUND) * len(rows)
    for row in np.flatnonzero((counts > bounds) & (counts >= _LEAST_WINS)):
        wanted = bounds[row] * (bounds[row] / counts[row]) ** _SEVERITY
        own = lead[tool == row]
        low, high = _LEAST, 1.0
        for _ in range(_ROUNDS):
            middle = np.sqrt(low * high)
            is_more = np.clip(0.5 + (own + np.log(middle)) / (2 * _NEAR), 0, 1).sum() > wanted
            low, high = (low, middle) if is_more else (middle, high)
        factors[row] = low
    return factors


def _allowed(
    tool: npt.NDArray[np.int32],
    won: npt.NDArray[np.float64],
    message: npt.NDArray[np.intp],
    vectors: Scores,
    counts: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """float64[n]: for each tool, the share of messages that may find it, as a multiple of an even share.

    tool, won, message: of each win. vectors: of the messages, less their mean. counts: wins of each tool.
    """
    allowed = np.full(len(counts), _MOST_SHARES)
    is_known = (counts >= _LEAST_WINS)[tool]
    order = np.argsort(tool[is_known], kind="stable")
    tool, won, message = tool[is_known][order], won[is_known][order], message[is_known][order]
    if not len(tool):
        return allowed
    begins = np.flatnonzero(np.diff(tool, prepend=-1))
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
    sums = np.add.reduceat(won.astype(np.float32)[:, None] * vectors[message], begins, axis=0)
    squares = np.add.reduceat(won**2, begins)
    coherence = ((sums**2).sum(axis=1) - squares) / (counts[tool[begins]] ** 2 - squares)
    usual = max(float(np.median(coherence)), _TINY)
    how_coherent = np.clip((coherence / usual - _INCOHERENT) / (_COHERENT - _INCOHERENT), 0, 1)
    allowed[tool[begins]] = _LEAST_SHARES + (_MOST_SHARES - _LEAST_SHARES) * how_coherent
    return allowed
