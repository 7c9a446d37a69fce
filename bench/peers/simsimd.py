"""simsimd: its inner-product kernel of one query against all rows, then numpy's partial sort.

Never in a process with faiss or usearch: their symbols clash and it then refuses good arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def load(vectors: NDArray[np.float32], k: int) -> Callable[[NDArray[np.float32]], Any]:
    import simsimd

    def search(query: NDArray[np.float32]) -> Any:
        scores = np.asarray(simsimd.inner(query, vectors))
        rows = np.argpartition(-scores, k)[:k]
        return rows[np.argsort(-scores[rows])]

    return search
