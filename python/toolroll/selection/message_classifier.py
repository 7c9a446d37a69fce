"""Which kind of request a message is ("read", "write", …), whatever embedder retrieval has."""

from __future__ import annotations

from functools import lru_cache

from toolroll.arrays import Vector
from toolroll.embedder import Embedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.learning.categories import category


class MessageClassifier:
    """Classifies messages by their vectors from the built-in table."""

    def __init__(self, embedder: Embedder | None) -> None:
        """embedder: of the turns' vectors; the built-in table's vectors are used again."""
        self._is_built_in = isinstance(embedder, StaticEmbedder)

    def category(self, text: str, vector: Vector | None) -> str:
        """The kind of request. vector: of the text, from the embedder."""
        if not self._is_built_in or vector is None:
            vector = _built_in_table().embed_query(text)
        return category(text, vector)


@lru_cache(maxsize=1)
def _built_in_table() -> StaticEmbedder:
    return StaticEmbedder()
