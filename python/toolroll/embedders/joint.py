"""Two embedders as one: the vector of a text is both of its vectors, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolroll._core import latin_share
from toolroll.model.embedder import (
    Embedder,
    EmbedsTexts,
    Scale,
    as_embedder,
    fault_of,
    query_vectors_of,
    vectors_of,
)
from toolroll.model.errors import InvalidInput


class JointEmbedder(Embedder):
    """Two texts are as similar as two embedders find them on average.

    The cosine of two vectors is (1 − share) · cosine by `first` + share · cosine by `second`. Embedders of
    different kinds make different errors, so both together rank better than each alone. If one embedder has a
    zero vector for a text, the other's vector counts alone. If only one of both is English, it counts by the
    share of Latin letters in the text.

    Attributes:
        is_instant, is_english: whether both are.
        scale: None to have it measured.
    """

    def __init__(
        self, first: EmbedsTexts, second: EmbedsTexts, *, share: float = 0.5, scale: Scale | None = None
    ) -> None:
        """`share` is the second embedder's, between 0 and 1."""
        for one in (first, second):
            if fault := fault_of(one):
                raise InvalidInput(f"joint embedder: is of {fault}, must be of two Embedder objects")
        if not isinstance(share, (int, float)) or not 0.0 < share < 1.0:
            raise InvalidInput(
                f"joint embedder: share is {share!r:.80}, must be between 0 and 1, without both"
            )
        first, second = as_embedder(first), as_embedder(second)
        self._first, self._second = first, second
        self._weights = np.sqrt(np.array([1.0 - share, share], np.float32))
        self.dim = first.dim + second.dim
        self.identity = f"{first.identity}+{share:g}*{second.identity}"
        self.is_instant = first.is_instant and second.is_instant
        self.is_english = first.is_english and second.is_english
        self.scale = scale
        # A whole that is English is weighted by its user; its parts are not.
        self._by_share = np.array([first.is_english, second.is_english]) & (not self.is_english)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], unit rows; zero where both know nothing of the text."""
        return self._joined(texts, vectors_of(self._first, texts), vectors_of(self._second, texts))

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim], unit length or zero."""
        row: npt.NDArray[np.float32] = self.embed_queries([text])[0]
        return row

    def embed_queries(self, texts: Sequence[str]) -> Sequence[npt.NDArray[np.float32]]:
        """float32[dim] for each text."""
        first, second = query_vectors_of(self._first, texts), query_vectors_of(self._second, texts)
        return [
            self._joined([text], a[None], b[None])[0] for text, a, b in zip(texts, first, second, strict=True)
        ]

    def _joined(
        self, texts: Sequence[str], first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        weights = np.tile(self._weights, (len(texts), 1))
        if self._by_share.any():
            shares = np.array([1.0 if text.isascii() else latin_share(text) for text in texts], np.float32)
            weights[:, self._by_share] *= shares[:, None]
        both = np.concatenate((first * weights[:, :1], second * weights[:, 1:]), axis=1)
        lengths = np.linalg.norm(both, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        joined: npt.NDArray[np.float32] = both / lengths
        return joined
