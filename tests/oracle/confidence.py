"""How sure a score makes it that some tool serves a message: `Calibration` in selector.hpp, in plain Python."""

from __future__ import annotations

import math
from bisect import bisect_right

from toolroll.catalog.calibration import Calibration

# Best scores of served messages where tools have no examples, as logistic curves by centre and scale; and how
# many held-out messages a curve weighs.
_WITH_VECTORS, _BY_WORDS, _COUNTS = (0.70, 0.153), (0.30, 0.08), 4.0


def confidence(calibration: Calibration, score: float, whole: bool, trust: float | None) -> float:
    """The share of served messages that score no higher, in [0, 1].

    A score of 0 is no evidence, so its share is 0, however many served messages have none either.

    whole: whether the turn could see (nearly) the whole catalog. trust: how much its vector counts; None
        where it has none.
    """
    if score <= 0:
        return 0.0
    centre, scale = _WITH_VECTORS if trust is not None and trust >= 0.5 else _BY_WORDS
    at_large = 1 / (1 + math.exp(-(score - centre) / scale))
    if calibration.has_vectors and trust is None:  # the embedder has failed
        return at_large
    known = calibration.best if whole else calibration.own
    below = bisect_right(known.tolist(), score)
    return (_COUNTS * at_large + below) / (_COUNTS + len(known))
