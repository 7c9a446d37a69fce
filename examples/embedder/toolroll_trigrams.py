"""Compares texts by trigrams, three letters in a row: finds misspelt and inflected words of any language."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt


class Trigrams:
    """Embeds a text as the counts of its trigrams, hashed into `dim` columns."""

    is_instant = True  # embedding takes microseconds: no cache, and event loops call it directly

    def __init__(self, dim: int = 512) -> None:
        self.dim = dim
        self.identity = f"trigrams-{dim}@1"  # another revision means other vectors

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim]: a row of unit length for each text, zero for an empty one."""
        rows = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            letters = f" {' '.join(text.lower().split())} "
            for start in range(len(letters) - 2):
                gram = letters[start : start + 3].encode("utf-8", "replace")
                row[crc32(gram) % self.dim] += 1.0
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=rows, where=lengths > 0)


def make(dim: str = "512") -> Trigrams:
    """The embedder of `trigrams`, or of `trigrams:DIM`."""
    return Trigrams(int(dim))
