"""Two embedders as one: the vector of a text is both of its vectors, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolroll.embedder import Embedder, Scale, as_embedder
from toolroll.errors import InvalidInput


class JointEmbedder(Embedder):
    """Two texts are as similar as two embedders find them on average.

    The cosine of two vectors is (1 − share) · cosine by `first` + share · cosine by `second`. Embedders of
    different kinds make different errors, so both together rank better than each alone. A text that one of
    them knows nothing of, with a zero vector, has the vector of the other.

    Attributes:
        identity, dim: of both.
        is_instant: whether both are.
        is_english: whether both are.
        scale: as given; None to have it measured.
    """

    def __init__(
        self, first: Embedder, second: Embedder, *, share: float = 0.5, scale: Scale | None = None
    ) -> None:
        """`share` is the second embedder's, between 0 and 1."""
        if not 0.0 < share < 1.0:
            raise InvalidInput(f"joint embedder: share is {share}, must be between 0 and 1, without both")
        first, second = as_embedder(first), as_embedder(second)
        self._first, self._second = first, second
        self._widths = (np.float32(np.sqrt(1.0 - share)), np.float32(np.sqrt(share)))
        self.dim = first.dim + second.dim
        self.identity = f"{first.identity}+{share:g}*{second.identity}"
        self.is_instant = first.is_instant and second.is_instant
        self.is_english = first.is_english and second.is_english
        self.scale = scale

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], unit rows; zero where both know nothing of the text."""
        return self._joined(self._first.embed(texts), self._second.embed(texts))

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim], unit length or zero."""
        row: npt.NDArray[np.float32] = self._joined(
            self._first.embed_query(text)[None], self._second.embed_query(text)[None]
        )[0]
        return row

    def embed_queries(self, texts: Sequence[str]) -> Sequence[npt.NDArray[np.float32]]:
        """float32[dim] for each text."""
        first, second = self._first.embed_queries(texts), self._second.embed_queries(texts)
        return [self._joined(a[None], b[None])[0] for a, b in zip(first, second, strict=True)]

    def _joined(
        self, first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        both = np.concatenate((first * self._widths[0], second * self._widths[1]), axis=1)
        lengths = np.linalg.norm(both, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        joined: npt.NDArray[np.float32] = both / lengths
        return joined
