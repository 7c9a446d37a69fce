"""The built-in embedder: a table of token vectors inside the wheel, without a download, in microseconds.

How the table was made and how good it is: `docs/model-card.md`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from toolroll._core import TokenTable
from toolroll.embedder import Embedder, Scale

FOLDER = "static_minilm"


class StaticEmbedder(Embedder):
    """Embeds a text as the sum of its tokens' vectors, at unit length; about 3 microseconds a message.

    English only: a text without a known token (another script, emoji) has a zero vector. All instances of a
    process share one table, which the first one reads (8 MB, a few milliseconds).

    Attributes:
        identity: `static-minilm@` and the start of the table's SHA-256.
        dim: 256.
    """

    is_instant = True
    is_english = True
    scale = Scale()

    def __init__(self) -> None:
        self._table, self.identity = _load()
        self.dim: int = self._table.dim

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], each row of unit length or zero."""
        return self._table.embed_batch(list(texts))

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim] of unit length, or zeros."""
        return self._table.embed(text)

    def embed_queries(self, texts: Sequence[str]) -> Sequence[npt.NDArray[np.float32]]:
        """float32[dim] for each text, of unit length, or zeros."""
        return [*map(self._table.embed, texts)]


def checksum(table: npt.NDArray[np.int8], scale: npt.NDArray[np.float32]) -> str:
    """SHA-256 over the table's numbers, however a file wraps them: the revision in `table.json`."""
    return hashlib.sha256(table.tobytes() + scale.astype("<f4").tobytes()).hexdigest()


@cache  # two threads may both load it; the second table takes the place of the first
def _load() -> tuple[TokenTable, str]:
    models = resources.files("toolroll.embedders.data")
    about = json.loads(models.joinpath(FOLDER, "table.json").read_text("utf-8"))
    vocabulary = models.joinpath("vocab.txt").read_text("utf-8").splitlines()
    with resources.as_file(models.joinpath(FOLDER, "table.npy")) as path:
        table = np.load(path)
    with resources.as_file(models.joinpath(FOLDER, "scale.npy")) as path:
        scale = np.load(path)
    return TokenTable(vocabulary, table, scale), f"{about['name']}@{about['sha256'][:12]}"
