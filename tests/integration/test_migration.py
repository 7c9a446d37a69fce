"""From the schema that only knew the registry to the one that learns: what was written stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from toolroll.embedders.hashing import HashingEmbedder
from toolroll.errors import StoreUnavailable
from toolroll.registry.registry import Registry
from toolroll.registry.vectors import embed_missing, stored_vectors, text_hash
from toolroll.store import schema, tables
from toolroll.store.database import Database
from toolroll.tools import Tool

NEW = (
    "selection_events",
    "outcomes",
    "open_events",
    "learning_state",
    "learned_checkpoints",
    "arm_statistics",
    "reporter_counts",
    "shared_priors",
    "experiments",
    "receipt_keys",
)

LEFT_OUT = {"interchangeable", "seq"}  # what the first schema has not, and what the database counts itself


@pytest.fixture
def old_url(empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry with the first schema and something in it."""
    from alembic import command

    filled = f"sqlite:///{tmp_path}/filled.db"
    with Registry.open(filled, create=True, actor="ada") as registry:
        registry.create(Tool("ping", "asks whether a host is there"))
        registry.update("ping", {"description": "asks a host"}, version=1)
        registry.set_tiers(["free", "team"])
    database = Database.open(filled, create=False, migrate=False)
    embed_missing(database, HashingEmbedder(16), {text_hash("ping"): "ping"})
    with database.reading() as connection:
        rows = {
            table: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in tables.metadata.sorted_tables
        }
    database.close()
    with monkeypatch.context() as patched:
        upgrade = command.upgrade
        patched.setattr(command, "upgrade", lambda config, revision: upgrade(config, "0001"))
        patched.setattr(schema, "REVISIONS", ("0001",))
        database = Database.open(empty_url, create=True, migrate=True)
        with database.recording() as connection:
            connection.execute(sa.delete(tables.registry_state))
            for table, found in rows.items():
                if found:
                    known = [{name: row[name] for name in row if name not in LEFT_OUT} for row in found]
                    connection.execute(sa.insert(table), known)
        database.close()
    yield empty_url


def test_an_upgraded_registry_keeps_what_was_in_it(old_url: str) -> None:
    with pytest.raises(StoreUnavailable, match="has schema 0001, this toolroll wants 0002"):
        Database.open(old_url, create=False, migrate=False)
    database = Database.open(old_url, create=False, migrate=True)
    with database.reading() as connection:
        assert schema.found(connection, database._address) == "0002"
        assert [
            connection.scalar(sa.select(sa.func.count()).select_from(tables.metadata.tables[name]))
            for name in NEW
        ] == [0] * len(NEW)
    vectors = stored_vectors(database, HashingEmbedder(16).identity, 16, [text_hash("ping")])
    assert np.array_equal(vectors[text_hash("ping")], HashingEmbedder(16).embed(["ping"])[0])
    database.close()
    with Registry.open(old_url, actor="ada") as registry:
        assert registry.tool("ping").tool.description == "asks a host"
        assert [version.version for version in registry.history("ping")] == [2, 1]
        registry.update("ping", {"description": "asks again"}, version=2)


def test_an_upgrade_that_fails_changes_nothing(old_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    made = op.create_table

    def create_table(name: str, *columns: object, **options: object) -> object:
        if name == "reporter_counts":
            raise sa.exc.OperationalError("CREATE TABLE", None, Exception("disk is full"))
        return made(name, *columns, **options)

    with monkeypatch.context() as patched:
        patched.setattr(op, "create_table", create_table)
        with pytest.raises(StoreUnavailable):
            Database.open(old_url, create=False, migrate=True)
    with pytest.raises(StoreUnavailable, match="has schema 0001"):
        Database.open(old_url, create=False, migrate=False)
    Database.open(old_url, create=False, migrate=True).close()
