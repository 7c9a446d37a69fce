"""Embeds batches of texts in other processes, with the same vectors as in one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from toolroll.embedders import named
from toolroll.lab.offline.work import On, Task, stream
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.errors import InvalidInput


def embed_batches(
    name: str, batches: Sequence[Sequence[str]], *, on: On, jobs: int
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Each batch's number and vectors, in the order of completion. name: of the embedder.

    Raises EmbedderUnavailable, and the errors of `work.run`.
    """
    tasks = [Task("", _embed, (name, tuple(batch))) for batch in batches]
    for at, result in stream(tasks, on=on, jobs=jobs):
        yield at, np.load(io.BytesIO(result), allow_pickle=False)


def _embed(name: str, texts: Sequence[str]) -> bytes:
    out = io.BytesIO()
    np.save(out, vectors_of(_embedder(name), texts), allow_pickle=False)
    return out.getvalue()


@lru_cache(maxsize=2)
def _embedder(name: str) -> Embedder:
    """The embedder with this name, made once in each process."""
    made = named.embedder(name)
    if made is None:
        raise InvalidInput(f"embedder {name!r}: embeds nothing")
    return made
