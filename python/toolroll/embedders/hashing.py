"""An embedder without a model, for tests and for texts in any language: it compares spelling."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from toolroll.embedders.checks import clean
from toolroll.model.embedder import Embedder
from toolroll.model.errors import InvalidInput

_WORD = re.compile(r"\w+")
_TRIGRAM_WEIGHT = 0.5  # inflections of a word stay close, words with the same ending do not


class HashingEmbedder(Embedder):
    """Embeds a text by signed hashing of its words and their character trigrams into `dim` buckets.

    It compares spelling, not meaning. Offline, stateless, and the same on every platform.

    Source: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009.
    """

    is_instant = True

    def __init__(self, dim: int = 256) -> None:
        if dim < 1:
            raise InvalidInput(f"hashing embedder: dim is {dim}, must be at least 1")
        self.dim = dim
        self.identity = f"hashing-{dim}@1"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], each row of unit length; zero for a text without a word."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self.embed_query(text)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim] of unit length, or zeros."""
        sums = [0.0] * self.dim
        for feature, weight in _features(clean(text).casefold()):
            hashed = zlib.crc32(feature.encode())
            sums[(hashed >> 1) % self.dim] += weight if hashed & 1 else -weight
        vector = np.array(sums)
        length = np.sqrt(vector @ vector)
        return (vector / length if length else vector).astype(np.float32)


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(text):
        yield word, 1.0
        edged = f"<{word}>"
        for at in range(len(edged) - 2):
            yield edged[at : at + 3], _TRIGRAM_WEIGHT
