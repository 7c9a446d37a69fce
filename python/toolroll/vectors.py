"""Vectors of many texts, believed only where they can be: the one place that asks an embedder about tools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolroll.errors import EmbedderUnavailable
from toolroll.ports import Embedder


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """float32[n, dim], a row for each text.

    Raises:
        EmbedderUnavailable: the embedder fails, or answers what is no vector for each text.
    """
    try:
        vectors = np.asarray(embedder.embed(texts), np.float32)
    except EmbedderUnavailable:
        raise
    except Exception as error:
        raise EmbedderUnavailable(f"embedder {embedder.identity}: {error or type(error).__name__}") from error
    if vectors.shape != (len(texts), embedder.dim) or not np.isfinite(vectors).all():
        raise EmbedderUnavailable(
            f"embedder {embedder.identity}: answered {len(texts)} texts with shape {vectors.shape}, must be "
            f"({len(texts)}, {embedder.dim}) and finite"
        )
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    wrong = np.flatnonzero((np.abs(squares - 1) > 0.01) & (squares != 0))
    if len(wrong):
        raise EmbedderUnavailable(
            f"embedder {embedder.identity}: row {wrong[0]} has length {np.sqrt(squares[wrong[0]]):.3g}, "
            "must be 1 (or 0: nothing known)"
        )
    return vectors
