"""The vector of a message from the built-in table, which classifies it whatever embedder retrieval has."""

from __future__ import annotations

from functools import lru_cache

from toolroll.embedders.static import StaticEmbedder
from toolroll.model.arrays import Vector


def built_in_vector(text: str) -> Vector:
    """The vector; zeros if the table has no word of the text."""
    return _table().embed_query(text)


@lru_cache(maxsize=1)
def _table() -> StaticEmbedder:
    return StaticEmbedder()
