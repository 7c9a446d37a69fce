"""Killed at any moment: what was acknowledged is there, what was not is there whole or not at all."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import sqlalchemy as sa

from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.tools import Definitions, Tool
from toolroll.registry.editing.vectors import embed_missing, stored_vectors, text_hash
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here"),
]

TOOLS = 30
# Of each kind, on each database. Without the variable: fewer where a server holds the files.
KILLS = int(os.environ.get("TOOLROLL_KILLS", "0"))
SHARES = {"sync": 24, "rollback": 20, "embed": 16}


def of_generation(generation: int) -> Definitions:
    """What the plugin says then: two thirds of the tools change, one in five comes and goes."""
    return Definitions(
        tuple(
            Tool(f"tool_{at}", f"does {at}" + (f" in its form {generation}" if at % 3 else ""))
            for at in range(TOOLS)
            if at % 5 or generation % 2
        )
    )


def killed(url: str, work: Callable[[Database | str, Callable[[int], None]], None], after_s: float) -> int:
    """Runs the work in a child and kills it; the last number that it acknowledged, or -1."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.close(reading)
        try:
            work(url, lambda number: os.write(writing, b"%d\n" % number))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        first = b"".join(answers.readline() for _ in range(2))  # it has begun, and done something
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        rest = answers.read()
    numbers = [line for line in (first + rest).split(b"\n")[:-1] if line]
    return int(numbers[-1]) if numbers else -1


def sound(url: str) -> None:
    """The file opens, and every tool is what its last version says."""
    database = Database.open(url, create=False, migrate=False)
    try:
        with database.reading() as connection:
            if database.dialect == "sqlite":
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
            revision = connection.execute(sa.select(tables.registry_state.c.revision)).scalar_one()
            versions: dict[str, list[sa.Row]] = {}
            for row in connection.execute(
                sa.select(tables.tool_versions).order_by(tables.tool_versions.c.version)
            ):
                versions.setdefault(row.tool_id, []).append(row)
            for tool in connection.execute(sa.select(tables.tools)):
                own = versions[tool.tool_id]
                assert [row.version for row in own] == list(range(1, tool.version + 1))
                assert own[-1].content_hash == tool.content_hash
                assert tool.revision <= revision
            last = connection.execute(sa.select(sa.func.max(tables.changes.c.revision))).scalar_one()
            assert last == revision  # no change without its line in the log, no line without its change
    finally:
        database.close()


@pytest.fixture
def url(database_url: str) -> Iterator[str]:
    with Registry.open(database_url, actor="ada") as registry:
        registry.sync(of_generation(0), plugin="crm")
    yield database_url


def kills(url: str, kind: str) -> Iterator[float]:
    """Moments to kill at, in seconds."""
    draws = random.Random(kind)
    share = SHARES[kind] if url.startswith("sqlite") else SHARES[kind] // 2
    for _ in range(KILLS or share):
        yield draws.random() ** 2 * 0.05


def test_a_killed_sync_is_there_whole_or_not_at_all(url):
    generation = 0

    def work(url: str, acknowledge: Callable[[int], None]) -> None:
        acknowledge(generation)
        with Registry.open(url, actor="child") as registry:
            for number in range(generation + 1, generation + 1000):
                registry.sync(of_generation(number), plugin="crm")
                acknowledge(number)

    for moment in kills(url, "sync"):
        acknowledged = killed(url, work, moment)
        sound(url)
        with Registry.open(url) as registry:
            there = {record.tool.name: record.tool.description for record in all_tools(registry)}
        may_be = [
            number
            for number in (acknowledged, acknowledged + 1)
            if there == {tool.name: tool.description for tool in of_generation(number).tools}
        ]
        assert may_be, f"acknowledged {acknowledged}, and something else is there"
        assert may_be[-1] > generation  # killed after a change, or this proves nothing
        generation = may_be[-1]


def test_a_killed_rollback_is_there_whole_or_not_at_all(url):
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("own", "first"))
        registry.update("own", {"description": "second"}, version=1)

    def work(url: str, acknowledge: Callable[[int], None]) -> None:
        with Registry.open(url, actor="child") as registry:
            version = registry.tool("own").version
            acknowledge(version)
            while True:
                version = registry.rollback("own", 1 if version % 2 == 0 else 2).version
                acknowledge(version)

    for moment in kills(url, "rollback"):
        acknowledged = killed(url, work, moment)
        sound(url)
        with Registry.open(url) as registry:
            record = registry.tool("own")
        assert record.version in (acknowledged, acknowledged + 1)
        assert record.tool.description == ("first" if record.version % 2 else "second")


def test_a_killed_embedding_keeps_what_it_had_and_goes_on_there(url):
    embedder = HashingEmbedder(16)
    texts = {text_hash(text): text for text in (f"text of number {at}" for at in range(20_000))}

    def work(url: str, acknowledge: Callable[[int], None]) -> None:
        database = Database.open(url, create=False, migrate=False)
        acknowledge(0)
        if not embed_missing(database, embedder, texts, lambda done, of: acknowledge(done)):
            acknowledge(0)

    there = 0
    for moment in kills(url, "embed"):
        acknowledged = killed(url, work, moment)
        sound(url)
        database = Database.open(url, create=False, migrate=False)
        with database.reading() as connection:
            now = connection.execute(sa.select(sa.func.count()).select_from(tables.embeddings)).scalar_one()
        database.close()
        assert now >= there + acknowledged
        assert now == len(texts) or now % 256 == 0
        there = now
    assert there
    database = Database.open(url, create=False, migrate=False)
    assert embed_missing(database, embedder, texts) == len(texts) - there
    some = list(texts)[::97]
    vectors = stored_vectors(database, embedder.identity, embedder.dim, some)
    assert np.array_equal(
        np.stack([vectors[key] for key in some]), embedder.embed([texts[key] for key in some])
    )
    database.close()


def all_tools(registry: Registry) -> list:
    found, after = [], ""
    while True:
        page = registry.tools(after=after, limit=100)
        found += page.records
        if not page.next:
            return found
        after = page.next
