"""The store: what is written is there whole or not at all, on both databases."""

from __future__ import annotations

import pytest

from toolroll.store import tables
from toolroll.store.database import Database


def test_a_new_registry_begins_at_revision_0(empty_url: str) -> None:
    database = Database.open(empty_url, create=True, migrate=True)
    assert database.revision() == 0
    database.close()


def test_every_write_takes_the_next_revision(database: Database) -> None:
    for revision in (1, 2, 3):
        with database.writing("ann") as write:
            assert write.revision == revision
            write.log("test", "nothing")
    assert database.revision() == 3


def test_a_failed_write_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(RuntimeError), database.writing("ann") as write:
        write.connection.execute(
            tables.settings.insert().values(
                org="", key="k", is_set=True, updated_at=write.at, updated_by="ann", revision=write.revision
            )
        )
        raise RuntimeError
    assert database.revision() == 0
    with database.reading() as connection:
        assert connection.execute(tables.settings.select()).all() == []
