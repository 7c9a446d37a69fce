"""Vectors in the store: one replica embeds, the others read."""

from __future__ import annotations

import threading

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa

from toolroll import Tool, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.embedder import SAMPLES
from toolroll.model.errors import EmbedderUnavailable
from toolroll.registry.editing.status import status_of
from toolroll.registry.editing.vectors import (
    StoredEmbedder,
    embed_missing,
    embedding_state,
    prune_vectors,
    texts_of,
)
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

TOOLS = [
    Tool(f"tool_{at}", f"does the thing of number {at}", examples=(f"do {at} please now",))
    for at in range(20)
]


class Counting(HashingEmbedder):
    """Takes time, as a model does, and counts the texts."""

    is_instant = False

    def __init__(self, dim: int = 32) -> None:
        super().__init__(dim)
        self.texts: list[str] = []
        self.fails = False

    def embed(self, texts):
        if self.fails:
            raise EmbedderUnavailable("out to lunch")
        self.texts += texts
        return super().embed(texts)


def test_what_one_process_has_embedded_another_reads(database_url):
    with Registry.open(database_url) as registry:
        for tool in TOOLS:
            registry.create(tool)
    first, second = Counting(), Counting()
    with Toolroll.open(database_url, embedder=first) as roll:
        expected = roll.select("number 7", k=3).names
    tools = [text for text in first.texts if text not in SAMPLES]
    assert len(set(tools)) == len(texts_of(TOOLS)) == len(tools)
    with Toolroll.open(database_url, embedder=second) as roll:
        assert roll.select("number 7", k=3).names == expected
        assert second.texts == []
        with Registry.open(database_url) as registry:
            registry.update("tool_3", {"description": "says something else"}, version=1)
        roll.refresh()
        assert len(second.texts) == 1 and "says something else" in second.texts[0]


def test_vectors_come_back_bit_for_bit(database):
    inner = Counting()
    stored = StoredEmbedder(inner, database)
    texts = [f"text {at}" for at in range(600)] + ["text 3", ""]
    assert np.array_equal(stored.embed(texts), inner.embed(texts))
    inner.texts.clear()
    assert np.array_equal(stored.embed(texts), HashingEmbedder(32).embed(texts))
    assert inner.texts == []
    assert stored.embed([]).shape == (0, 32)


@pytest.mark.db
def test_without_pgvector_vectors_are_arrays_which_may_become_its_later(postgresql):
    name = postgresql.create()
    guest, texts = f"{name}_guest", [f"text {at}" for at in range(70)]
    postgresql.run(f"CREATE ROLE \"{guest}\" LOGIN PASSWORD 'hunter2'")  # may not add an extension
    postgresql.run(f'ALTER DATABASE "{name}" OWNER TO "{guest}"')
    url = sa.make_url(postgresql.url_of(name)).set(username=guest, password="hunter2")
    try:
        database = Database.open(url.render_as_string(hide_password=False), create=True, migrate=True)
        assert status_of(database)["database"].endswith("without pgvector")
        stored = StoredEmbedder(Counting(), database)
        made = stored.embed(texts)
        with psycopg.connect(postgresql.url_of(name), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("ALTER TABLE embeddings ALTER COLUMN vector TYPE vector")
        again = StoredEmbedder(Counting(), database)
        assert np.array_equal(again.embed([*texts, "new"])[:-1], made)
        assert again._inner.texts == ["new"]
        assert "pgvector 0." in status_of(database)["database"]
        database.close()
    finally:
        postgresql.drop(name)
        postgresql.run(f'DROP ROLE "{guest}"')


def test_vectors_of_two_embedders_are_never_mixed(database):
    one, other = StoredEmbedder(Counting(32), database), StoredEmbedder(Counting(64), database)
    one.embed(["text"])
    assert other.embed(["text"]).shape == (1, 64)


def test_a_damaged_vector_is_embedded_again(database):
    inner = Counting()
    stored = StoredEmbedder(inner, database)
    good = stored.embed(["text"])
    with database.recording() as connection:
        connection.execute(sa.update(tables.embeddings).values(vector=np.full(32, 7, np.float32)))
    assert np.array_equal(stored.embed(["text"]), good)


def test_an_interrupted_embedding_goes_on_where_it_was(database):
    inner, texts = Counting(), {str(at): f"text {at}" for at in range(1000)}

    def stop(done: int, of: int) -> None:
        if done >= 512:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_missing(database, inner, texts, stop)
    assert embedding_state(database, inner.identity, texts).current == 512
    assert embed_missing(database, inner, texts) == 488
    assert len(inner.texts) == 1000
    assert embed_missing(database, inner, texts) == 0


def test_an_embedder_that_fails_keeps_what_was_done(database):
    inner, texts = Counting(), {str(at): f"text {at}" for at in range(600)}

    def fail(done: int, of: int) -> None:
        inner.fails = True

    with pytest.raises(EmbedderUnavailable):
        embed_missing(database, inner, texts, fail)
    state = embedding_state(database, inner.identity, texts)
    assert (state.texts, state.current, state.stale) == (600, 256, 344)


def test_vectors_that_no_tool_has_any_more_are_pruned(database):
    inner, texts = Counting(), {str(at): f"text {at}" for at in range(10)}
    embed_missing(database, inner, texts)
    kept = {key: texts[key] for key in ("1", "2")}
    assert embedding_state(database, inner.identity, kept).orphans == 8
    assert prune_vectors(database, inner.identity, kept) == 8
    assert embedding_state(database, inner.identity, kept).current == 2


def test_two_that_embed_the_same_at_once_both_finish(database):
    texts = {str(at): f"text {at}" for at in range(800)}
    errors = []

    def work() -> None:
        try:
            embed_missing(database, Counting(), texts)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert embedding_state(database, Counting().identity, texts).stale == 0


def test_tools_that_cannot_be_embedded_at_start_are_found_by_words_and_mended_later(database_url):
    with Registry.open(database_url) as registry:
        for tool in TOOLS:
            registry.create(tool)
    embedder = Counting()
    embedder.fails = True
    with Toolroll.open(database_url, embedder=embedder) as roll:
        picked = roll.select("number 7", k=3)
        assert "tool_7" in picked.names and "embedder" in picked.degraded
        embedder.fails = False
        roll.refresh()
        assert roll.select("number 7", k=3).degraded == ()
        assert roll.catalog.dim == 32
