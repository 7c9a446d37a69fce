"""Vectors of tools' texts in the database: one process embeds a text, and all share its vector.

A row's key is the embedder's identity and the SHA-256 of the text, so a vector is never stale: a changed text
has another key. Missing texts are embedded in batches, and each batch is stored before the next begins, so an
interrupted run loses at most one batch. If the database fails, each process embeds for itself.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll.catalog.tool_text import embedded_texts
from toolroll.model.embedder import SAMPLES, Embedder, as_embedder, vectors_of
from toolroll.model.errors import EmbedderUnavailable, StoreUnavailable
from toolroll.model.tools import Tool
from toolroll.registry.editing.records import read_records
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Database
from toolroll.runtime.gil import batches

logger = logging.getLogger("toolroll")

BATCH = 256  # texts embedded between two writes: the most that an interruption loses
_HASHES = 500  # hashes in one query

Vectors = npt.NDArray[np.float32]


class StoredEmbedder(Embedder):
    """Embeds tools through the database, and messages without it: no message waits for a database.

    Attributes:
        lost: the number of texts for which neither the database nor the inner embedder returned a vector.
            They get zero vectors, so retrieval finds their tools by words only.
    """

    def __init__(self, inner: Embedder, database: Database) -> None:
        inner = as_embedder(inner)
        self.identity, self.dim, self.is_instant = inner.identity, inner.dim, inner.is_instant
        self.is_english, self.scale = inner.is_english, inner.scale
        self._inner, self._database = inner, database
        self.lost = 0
        self._is_quiet = False  # whether a failure of the database was logged

    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32[n, dim]: from the database, else from the inner embedder, whose vectors are then stored."""
        keys = [text_hash(text) for text in texts]
        known = self._stored(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for some in batches(missing, BATCH):
            try:
                rows = vectors_of(self._inner, [missing[key] for key in some])
            except EmbedderUnavailable:
                if not known:  # without any vector
                    raise
                unknown = dict.fromkeys(missing.keys() - known.keys(), np.zeros(self.dim, np.float32))
                self.lost += len(unknown)
                known.update(unknown)
                break
            fresh = dict(zip(some, rows, strict=True))
            self._keep(fresh)
            known.update(fresh)
        vectors = np.empty((len(keys), self.dim), np.float32)
        for row, key in enumerate(keys):
            vectors[row] = known[key]
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """float32[dim], from the inner embedder."""
        return self._inner.embed_query(text)

    def _stored(self, keys: Sequence[str]) -> dict[str, Vectors]:
        try:
            return stored_vectors(self._database, self.identity, self.dim, keys)
        except StoreUnavailable as error:
            self._log(error)
            return {}

    def _keep(self, vectors: dict[str, Vectors]) -> None:
        try:
            keep_vectors(self._database, self.identity, vectors)
        except StoreUnavailable as error:
            self._log(error)

    def _log(self, error: StoreUnavailable) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            logger.warning("registry: vectors are neither shared nor stored: %s", error)


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """Counts the vectors that a registry has from one embedder.

    Attributes:
        texts: the number of different texts of tools, without deleted tools.
        current: the number of these texts with a vector.
        orphans: the number of vectors whose text no tool has any more.
    """

    identity: str
    texts: int
    current: int
    orphans: int

    @property
    def stale(self) -> int:
        """The number of texts without a vector."""
        return self.texts - self.current

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "stale": self.stale}


def texts_of(tools: Iterable[Tool]) -> dict[str, str]:
    """Hash → text, for all embedded texts of the tools."""
    return {text_hash(text): text for tool in tools for text in embedded_texts(tool)}


def stored_texts(database: Database) -> dict[str, str]:
    """`texts_of` all tools that are not deleted, of all organisations."""
    with database.reading() as connection:
        records = read_records(connection, tables.tools.c.deleted_at.is_(None))
        return texts_of(record.tool for record in records)


def embedding_state(database: Database, identity: str, texts: dict[str, str]) -> EmbeddingState:
    """Compares the texts with the stored vectors. One query."""
    there = _hashes(database, identity)
    return EmbeddingState(
        identity, len(texts), len(there & texts.keys()), len(there - texts.keys() - _SAMPLE_HASHES)
    )


def embed_missing(
    database: Database,
    embedder: Embedder,
    texts: dict[str, str],
    progress: Callable[[int, int], None] | None = None,
    embed: Callable[[Sequence[Sequence[str]]], Iterable[tuple[int, Vectors]]] | None = None,
) -> int:
    """Embeds the texts without a vector, and stores each batch at once. Returns the number of texts.

    embed: returns each batch's number and vectors, for example from other processes; None embeds here.

    Raises EmbedderUnavailable or StoreUnavailable; stored batches stay.
    """
    there = _hashes(database, embedder.identity)
    missing = [key for key in texts if key not in there]
    keys = [list(some) for some in batches(missing, BATCH)]
    by_batch = [[texts[key] for key in some] for some in keys]
    here = ((at, vectors_of(embedder, some)) for at, some in enumerate(by_batch))
    done = 0
    for at, vectors in here if embed is None else embed(by_batch):
        keep_vectors(database, embedder.identity, dict(zip(keys[at], vectors, strict=True)))
        done += len(keys[at])
        if progress is not None:
            progress(done, len(missing))
    return len(missing)


def prune_vectors(database: Database, identity: str, texts: dict[str, str]) -> int:
    """Deletes vectors whose text no tool has any more. Returns their number."""
    table, pruned = tables.embeddings, 0
    orphans = sorted(_hashes(database, identity) - texts.keys() - _SAMPLE_HASHES)
    for some in batches(orphans, _HASHES):
        where = (table.c.identity == identity, table.c.content_hash.in_(some))
        with database.recording() as connection:
            connection.execute(sa.delete(table).where(*where))
        pruned += len(some)
    return pruned


def stored_vectors(database: Database, identity: str, dim: int, keys: Sequence[str]) -> dict[str, Vectors]:
    """Hash → stored vector. A damaged vector, or one with another width, counts as missing."""
    table, found = tables.embeddings, {}
    with database.reading() as connection:
        query = sa.select(table.c.content_hash, table.c.vector).where(table.c.identity == identity)
        for some in batches(sorted(set(keys)), _HASHES):
            for row in connection.execute(query.where(table.c.content_hash.in_(some))):
                if row.vector.shape == (dim,) and _is_unit(row.vector):
                    found[row.content_hash] = row.vector
    return found


def keep_vectors(database: Database, identity: str, vectors: dict[str, Vectors]) -> None:
    """Stores vectors, unless another process has stored them meanwhile."""
    now = datetime.now(timezone.utc)
    rows = [
        {"identity": identity, "content_hash": key, "vector": vector, "created_at": now}
        for key, vector in vectors.items()
    ]
    if rows:
        with database.recording() as connection:
            bulk_insert.add_missing(connection, tables.embeddings, rows)


def text_hash(text: str) -> str:
    """SHA-256 of a text, as hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _hashes(database: Database, identity: str) -> set[str]:
    table = tables.embeddings
    with database.reading() as connection:
        rows = connection.execute(sa.select(table.c.content_hash).where(table.c.identity == identity))
        return {row.content_hash for row in rows}


# Vectors of samples, which belong to no tool: an embedder's scale is measured on them.
_SAMPLE_HASHES = frozenset(map(text_hash, SAMPLES))


def _is_unit(vector: Vectors) -> bool:
    """Whether the vector has unit length or is zero."""
    square = float(np.vdot(vector, vector))
    return square == 0.0 or 0.99 < square < 1.01
