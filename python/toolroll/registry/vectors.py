"""Vectors of tools' texts, kept in the store: embedded once for all replicas, whoever comes first.

A row is keyed by the embedder's identity and the SHA-256 of the text, so a vector is never stale: a text that
changed is another text. What is missing is embedded in batches, each kept before the next is begun, so that
what is interrupted goes on where it was. A store that fails costs the sharing and nothing else.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolroll.catalog.tool_text import description_text, example_texts
from toolroll.embedder import SAMPLES, Embedder, as_embedder, vectors_of
from toolroll.errors import EmbedderUnavailable, StoreUnavailable
from toolroll.registry.records import record_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.tools import Tool

_log = logging.getLogger("toolroll")

BATCH = 256  # texts embedded between two writes: what an interruption can lose
_ASKED = 500  # hashes in one query

Vectors = npt.NDArray[np.float32]


class StoredEmbedder(Embedder):
    """Embeds tools by way of the store, and messages without: no message waits for a database.

    Attributes:
        identity, dim, is_instant, is_english, scale: the inner embedder's.
        lost: texts so far that neither the store nor the inner embedder had a vector for. They have zeros,
            which means that nothing is known of them: their tools are found by their words.
    """

    def __init__(self, inner: Embedder, database: Database) -> None:
        inner = as_embedder(inner)
        self.identity, self.dim, self.is_instant = inner.identity, inner.dim, inner.is_instant
        self.is_english, self.scale = inner.is_english, inner.scale
        self._inner, self._database = inner, database
        self.lost = 0
        self._is_quiet = False  # whether it has been said that the store fails

    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32[n, dim]: what the store has, the rest from the inner embedder and kept."""
        keys = [text_hash(text) for text in texts]
        known = self._stored(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for some in _slices(list(missing), BATCH):
            try:
                rows = vectors_of(self._inner, [missing[key] for key in some])
            except EmbedderUnavailable:
                if not known:  # nothing to go on with
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
            self._say(error)
            return {}

    def _keep(self, vectors: dict[str, Vectors]) -> None:
        try:
            keep_vectors(self._database, self.identity, vectors)
        except StoreUnavailable as error:
            self._say(error)

    def _say(self, error: StoreUnavailable) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            _log.warning("registry: vectors are neither shared nor kept: %s", error)


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """How many texts of a registry's tools have a vector of one embedder.

    Attributes:
        identity: of the embedder.
        texts: different texts of the tools that are not deleted.
        current: of those, with a vector.
        orphans: vectors of texts that no tool has any more.
    """

    identity: str
    texts: int
    current: int
    orphans: int

    @property
    def stale(self) -> int:
        """Texts without a vector."""
        return self.texts - self.current

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "identity": self.identity,
            "texts": self.texts,
            "current": self.current,
            "stale": self.stale,
            "orphans": self.orphans,
        }


def texts_of(tools: Iterable[Tool]) -> dict[str, str]:
    """Hash → text of everything of the tools that is embedded, each once."""
    return {
        text_hash(text): text for tool in tools for text in (description_text(tool), *example_texts(tool))
    }


def stored_texts(database: Database) -> dict[str, str]:
    """The same of all tools that are not deleted, whosever they are, those that wait for approval too."""
    with database.reading() as connection:
        rows = connection.execute(sa.select(tables.tools).where(tables.tools.c.deleted_at.is_(None)))
        return texts_of(record_of(row).tool for row in rows)


def embedding_state(database: Database, identity: str, texts: dict[str, str]) -> EmbeddingState:
    """What is there and what is missing. One read of the hashes."""
    there = _hashes(database, identity)
    return EmbeddingState(
        identity, len(texts), len(there & texts.keys()), len(there - texts.keys() - _MEASURING)
    )


def embed_missing(
    database: Database,
    embedder: Embedder,
    texts: dict[str, str],
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Embeds the texts that have no vector, batch by batch, each kept before the next. Returns how many.

    Raises:
        EmbedderUnavailable: the embedder fails; what was embedded before is kept.
        StoreUnavailable: the database does; likewise.
    """
    there = _hashes(database, embedder.identity)
    missing = [key for key in texts if key not in there]
    for at, some in enumerate(_slices(missing, BATCH)):
        vectors = vectors_of(embedder, [texts[key] for key in some])
        keep_vectors(database, embedder.identity, dict(zip(some, vectors, strict=True)))
        if progress is not None:
            progress(min((at + 1) * BATCH, len(missing)), len(missing))
    return len(missing)


def prune_vectors(database: Database, identity: str, texts: dict[str, str]) -> int:
    """Deletes vectors of texts that no tool has any more. Returns how many."""
    table, pruned = tables.embeddings, 0
    orphans = sorted(_hashes(database, identity) - texts.keys() - _MEASURING)
    for some in _slices(orphans, _ASKED):
        with database.recording() as connection:
            connection.execute(
                sa.delete(table).where(table.c.identity == identity, table.c.content_hash.in_(some))
            )
        pruned += len(some)
    return pruned


def stored_vectors(database: Database, identity: str, dim: int, keys: Sequence[str]) -> dict[str, Vectors]:
    """Hash → vector of those that the store has; one of another width counts as missing."""
    table, found = tables.embeddings, {}
    with database.reading() as connection:
        for some in _slices(sorted(set(keys)), _ASKED):
            for row in connection.execute(
                sa.select(table.c.content_hash, table.c.vector).where(
                    table.c.identity == identity, table.c.content_hash.in_(some)
                )
            ):
                if row.vector.shape == (dim,) and _is_unit(row.vector):
                    found[row.content_hash] = row.vector
    return found


def keep_vectors(database: Database, identity: str, vectors: dict[str, Vectors]) -> None:
    """Adds vectors; one that another replica kept meanwhile stays."""
    now = datetime.now(timezone.utc)
    rows = [
        {"identity": identity, "content_hash": key, "vector": vector, "created_at": now}
        for key, vector in vectors.items()
    ]
    insert = postgresql.insert if database.dialect == "postgresql" else sqlite.insert
    if rows:
        with database.recording() as connection:
            connection.execute(insert(tables.embeddings).on_conflict_do_nothing(), rows)


def text_hash(text: str) -> str:
    """SHA-256 of a text, as hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _hashes(database: Database, identity: str) -> set[str]:
    table = tables.embeddings
    with database.reading() as connection:
        rows = connection.execute(sa.select(table.c.content_hash).where(table.c.identity == identity))
        return {row.content_hash for row in rows}


# No tool's, but kept: what an embedder's scale is measured on.
_MEASURING = frozenset(map(text_hash, SAMPLES))


def _is_unit(vector: Vectors) -> bool:
    """Of unit length or zero: a damaged row is embedded again instead of believed."""
    square = float(np.vdot(vector, vector))
    return square == 0.0 or 0.99 < square < 1.01


def _slices(keys: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (keys[at : at + size] for at in range(0, len(keys), size))
