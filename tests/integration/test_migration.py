"""From earlier schemas to the one that is: what was written stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.logged import arm, event, outcome, write
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.errors import StoreUnavailable
from toolroll.registry.registry import Registry
from toolroll.registry.store import schema, tables
from toolroll.registry.store.database import Database
from toolroll.registry.vectors import embed_missing, stored_vectors, text_hash
from toolroll.tools import Tool, Toolkit

# What each schema was the first to have: tables, and columns of tables that were there.
NEW_TABLES = {
    "0002": (
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
    ),
    "0003": ("sessions",),
}
NEW_COLUMNS = {"0002": {("tools", "interchangeable")}, "0003": {("toolkits", "members")}}
COUNTED = {("changes", "seq")}  # by the database itself


def later(schema_of: str, new: dict) -> list:
    return [one for step, found in new.items() if step > schema_of for one in found]


def filled(url: str) -> dict[sa.Table, list[dict]]:
    """The rows of a registry of today in which something was written and learnt."""
    with Registry.open(url, create=True, actor="ada") as registry:
        registry.toolkits.put(Toolkit("net", "The network"), keywords=["host"])
        registry.create(Tool("ping", "asks whether a host is there", toolkit="net"))
        registry.update("ping", {"description": "asks a host"}, version=1)
        registry.set_tiers(["free", "team"])
    database = Database.open(url, create=False, migrate=False)
    embed_missing(database, HashingEmbedder(16), {text_hash("ping"): "ping"})
    write(database, tables.selection_events, event(selected=["ping"]))
    write(database, tables.outcomes, outcome(1, 0, True, "ping"))
    write(database, tables.arm_statistics, arm("ping", 3, 1))
    with database.reading() as connection:
        rows = {
            table: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in tables.metadata.sorted_tables
        }
    database.close()
    return rows


@pytest.fixture(params=["0001", "0002"])
def old(
    request: pytest.FixtureRequest, empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """An earlier schema, and the URL of a registry that has it and something in it."""
    from alembic import command

    revision: str = request.param
    rows = filled(f"sqlite:///{tmp_path}/filled.db")
    new, columns = later(revision, NEW_TABLES), {*later(revision, NEW_COLUMNS), *COUNTED}
    with monkeypatch.context() as patched:
        upgrade = command.upgrade
        patched.setattr(command, "upgrade", lambda config, _: upgrade(config, revision))
        patched.setattr(schema, "REVISIONS", tuple(one for one in schema.REVISIONS if one <= revision))
        database = Database.open(empty_url, create=True, migrate=True)
        with database.recording() as connection:
            connection.execute(sa.delete(tables.registry_state))
            for table, found in rows.items():
                if found and table.name not in new:
                    known = [
                        {name: row[name] for name in row if (table.name, name) not in columns}
                        for row in found
                    ]
                    connection.execute(sa.insert(table), known)
        database.close()
    yield revision, empty_url


def test_an_upgraded_registry_keeps_what_was_in_it(old: tuple[str, str]) -> None:
    revision, url = old
    with pytest.raises(StoreUnavailable, match=f"has schema {revision}, this toolroll wants 0003"):
        Database.open(url, create=False, migrate=False)
    database = Database.open(url, create=False, migrate=True)
    new = later(revision, NEW_TABLES)
    with database.reading() as connection:
        assert schema.found(connection, database._address) == schema.REVISIONS[-1]
        counts = {
            name: connection.scalar(sa.select(sa.func.count()).select_from(table))
            for name, table in tables.metadata.tables.items()
        }
        assert connection.scalars(sa.select(tables.toolkits.c.members)).all() == [[]]
    assert [counts[name] for name in new] == [0] * len(new)
    learnt = ("selection_events", "outcomes", "arm_statistics")
    assert [counts[name] for name in learnt if name not in new] == [1] * len(set(learnt) - set(new))
    vectors = stored_vectors(database, HashingEmbedder(16).identity, 16, [text_hash("ping")])
    assert np.array_equal(vectors[text_hash("ping")], HashingEmbedder(16).embed(["ping"])[0])
    database.close()
    with Registry.open(url, actor="ada") as registry:
        assert registry.tool("ping").tool.description == "asks a host"
        assert [version.version for version in registry.history("ping")] == [2, 1]
        registry.update("ping", {"description": "asks again"}, version=2)
        assert registry.toolkits.get("net").route is not None
        registry.toolkits.put(Toolkit("net", "Hosts and lines"))


def test_an_upgrade_that_fails_changes_nothing(old: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    revision, url = old
    made = op.create_table

    def create_table(name: str, *columns: object, **options: object) -> object:
        if name == "sessions":  # of the last step; those before it are undone too
            raise sa.exc.OperationalError("CREATE TABLE", None, Exception("disk is full"))
        return made(name, *columns, **options)

    with monkeypatch.context() as patched:
        patched.setattr(op, "create_table", create_table)
        with pytest.raises(StoreUnavailable):
            Database.open(url, create=False, migrate=True)
    with pytest.raises(StoreUnavailable, match=f"has schema {revision}"):
        Database.open(url, create=False, migrate=False)
    Database.open(url, create=False, migrate=True).close()
