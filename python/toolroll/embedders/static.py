"""The built-in embedder: tables of token vectors inside the wheel, without a download, in microseconds.

How the tables were made, and their quality: `docs/model-card.md`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll._core import MultilingualTable, TokenTable
from toolroll.model.embedder import Embedder, Scale

ENGLISH, OTHERS = "static_minilm", "static_multilingual"


class StaticEmbedder(Embedder):
    """Embeds a text as the sum of its tokens' vectors, at unit length; about 3 microseconds a message.

    A first table reads English. A second one reads fifteen other languages, and places a text where the first
    one places its English original (`MultilingualTable` in the core). A text without a known token (emoji,
    another script) has a zero vector. All instances of a process share the tables, which the first one reads
    (16 MB, some ten milliseconds).

    Attributes:
        identity: `static-minilm@` and the start of a SHA-256 of both tables.
        table: both tables, for readers of messages in the core.
    """

    is_instant = True
    scale = Scale()

    def __init__(self) -> None:
        self.table, self.identity = _load()
        self.dim: int = self.table.dim

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], each row of unit length or zero."""
        return self.table.embed_batch(list(texts))

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim] of unit length, or zeros."""
        return self.table.embed(text)

    def embed_queries(self, texts: Sequence[str]) -> Sequence[npt.NDArray[np.float32]]:
        """float32[dim] for each text, of unit length, or zeros."""
        return [*map(self.table.embed, texts)]


def checksum(table: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], *others: bytes) -> str:
    """SHA-256 over the table's numbers, in any file format: the revision in `table.json`."""
    return hashlib.sha256(b"".join((table.tobytes(), scale.astype("<f4").tobytes(), *others))).hexdigest()


def english_table() -> TokenTable:
    """The table of English alone."""
    models = resources.files("toolroll.embedders.data")
    vocabulary = models.joinpath("vocab.txt").read_bytes()
    return TokenTable(vocabulary, _array(ENGLISH, "table"), _array(ENGLISH, "scale"))


@cache  # two threads may both load it; the second table takes the place of the first
def _load() -> tuple[MultilingualTable, str]:
    models = resources.files("toolroll.embedders.data")
    about = [
        json.loads(models.joinpath(folder, "table.json").read_text("utf-8")) for folder in (ENGLISH, OTHERS)
    ]
    table = MultilingualTable(
        english_table(),
        models.joinpath(OTHERS, "pieces.txt").read_bytes(),
        _array(OTHERS, "scores").astype(np.float32),
        _array(OTHERS, "table"),
        _array(OTHERS, "scale"),
        _array(OTHERS, "gate").astype(np.float32),
    )
    revision = hashlib.sha256("".join(one["sha256"] for one in about).encode()).hexdigest()
    return table, f"{about[0]['name']}@{revision[:12]}"


def _array(folder: str, name: str) -> npt.NDArray[Any]:
    with resources.as_file(
        resources.files("toolroll.embedders.data").joinpath(folder, f"{name}.npy")
    ) as path:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r")  # the core copies it
    return array
