"""Upgrades: a step that Alembic runs keeps all data, and one that fails leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.next_schema import NEXT, NOW, REVISIONS, add_step, names_of
from toolroll.model.errors import StoreUnavailable
from toolroll.model.tools import Tool, Toolkit
from toolroll.registry.registry import Registry
from toolroll.registry.store import schema, tables
from toolroll.registry.store.database import Database


def next_version(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str = "") -> None:
    """Makes this a toolroll whose schema has one more step."""
    monkeypatch.setattr(schema, "MIGRATIONS", add_step(folder, then))
    monkeypatch.setattr(schema, "REVISIONS", REVISIONS)


@pytest.fixture
def old_url(database_url: str) -> str:
    """The URL of a registry of today, with something in it."""
    with Registry.open(database_url, create=True, actor="ada") as registry:
        registry.toolkits.put(Toolkit("net", "The network"), keywords=["host"])
        registry.create(Tool("ping", "asks whether a host is there", toolkit="net"))
        registry.update("ping", {"description": "asks a host"}, version=1)
    return database_url


def test_an_upgraded_registry_keeps_what_was_in_it(
    old_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_version(tmp_path / "migrations", monkeypatch)
    with pytest.raises(StoreUnavailable, match=f"has schema {NOW}, this toolroll needs {NEXT}"):
        Database.open(old_url, create=False, migrate=False)
    database = Database.open(old_url, create=False, migrate=True)
    with database.reading() as connection:
        assert schema.revision_of(connection, database._address) == NEXT
        assert connection.scalars(sa.text("SELECT owner FROM tools")).all() == ["nobody"]
    assert "notes" in names_of(database)
    database.close()
    with Registry.open(old_url, actor="ada") as registry:
        assert registry.tool("ping").tool.description == "asks a host"
        assert [version.version for version in registry.history("ping")] == [2, 1]
        registry.update("ping", {"description": "asks again"}, version=2)


def test_an_upgrade_that_fails_changes_nothing(
    old_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_version(tmp_path / "fails", monkeypatch, then='op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(StoreUnavailable):
        Database.open(old_url, create=False, migrate=True)
    with pytest.raises(StoreUnavailable, match=f"has schema {NOW}"):
        Database.open(old_url, create=False, migrate=False)
    monkeypatch.undo()
    database = Database.open(old_url, create=False, migrate=False)
    assert names_of(database) == {*tables.metadata.tables, schema.VERSION_TABLE}
    database.close()


def test_a_registry_whose_creation_fails_is_not_there(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import command

    def stamp(*_: object) -> None:  # the last thing that is done
        raise sa.exc.OperationalError("CREATE TABLE", None, Exception("disk is full"))

    with monkeypatch.context() as patched:
        patched.setattr(command, "stamp", stamp)
        with pytest.raises(StoreUnavailable):
            Database.open(empty_url, create=True, migrate=True)
    database = Database.open(empty_url, create=True, migrate=True)  # it found an empty database
    assert names_of(database) == {*tables.metadata.tables, schema.VERSION_TABLE}
    database.close()
