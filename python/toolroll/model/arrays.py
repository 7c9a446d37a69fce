"""Type aliases of the arrays that the rooms exchange."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.int32]  # positions in one catalog
Scores: TypeAlias = npt.NDArray[np.float32]
Vector: TypeAlias = npt.NDArray[np.float32]  # [dim], of unit length, or zeros if nothing is known

# A text, its vector, the trust in the vector, and the weight of the text beside others.
Part: TypeAlias = tuple[str, "Vector | None", float, float]

NO_ROWS: Rows = np.empty(0, np.int32)
NO_SCORES: Scores = np.empty(0, np.float32)
NO_ROWS.flags.writeable = False
NO_SCORES.flags.writeable = False
