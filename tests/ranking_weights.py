"""Weights of retrieval and of ranking for tests of the core, which has no defaults of its own."""

from __future__ import annotations

from typing import Any

from toolroll._core import Fusion, Weights

_FUSION: dict[str, Any] = {
    "dense": 1.0,
    "dense_floor": 0.0,
    "lexical": 0.0,
    "lexical_saturation": 200.0,
    "intents": 0.0,
    "intent_floor": 0.3,
    "clauses": 0.0,
    "threshold": 0.0,
}
_WEIGHTS: dict[str, Any] = {
    "reliability": 1.5,
    "lift": 1.0,
    "exploration_scale": 0.25,
    "sd_max": 2.0,
    "most_up": 4.0,
    "most_down": 8.0,
    "protected_leaders": 1,
    "reliability_in_order": 3.0,
    "explore": 0.0,
}


def fusion_with(**changed: Any) -> Fusion:
    """Cosines as they are, and nothing else, but for what is changed."""
    return Fusion(**(_FUSION | changed))


def weights_with(**changed: Any) -> Weights:
    """Draws of a quarter of the deviation, one guarded tool, but for what is changed."""
    return Weights(**(_WEIGHTS | changed))
