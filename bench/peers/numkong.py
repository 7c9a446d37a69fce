"""numkong: one query against all rows, float32 or, with ``kind="i8"``, 8-bit numbers (which lose recall).

Never in a process with faiss or usearch: their symbols clash and it then runs five times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def load(vectors: NDArray[np.float32], k: int, kind: str = "f32") -> Callable[[NDArray[np.float32]], Any]:
    import numkong

    largest = float(np.abs(vectors).max())

    def quantised(values: NDArray[np.float32]) -> Any:
        if kind == "f32":
            return values
        return np.clip(np.round(values * (127 / largest)), -127, 127).astype(np.int8)

    packed = numkong.dots_pack(quantised(vectors))

    def search(query: NDArray[np.float32]) -> Any:
        scores: Any = np.from_dlpack(numkong.dots_packed(quantised(query[None, :]), packed)).reshape(-1)
        rows = np.argpartition(-scores, k)[:k]
        return rows[np.argsort(-scores[rows])]

    return search
