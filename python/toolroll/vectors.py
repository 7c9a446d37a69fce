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
    vectors = embedder.embed(texts)
    shape = getattr(vectors, "shape", None)
    if shape != (len(texts), embedder.dim) or not np.isfinite(vectors).all():
        raise EmbedderUnavailable(
            f"embedder {embedder.identity}: answered {len(texts)} texts with shape {shape}, must be "
            f"({len(texts)}, {embedder.dim}) and finite"
        )
    return vectors
