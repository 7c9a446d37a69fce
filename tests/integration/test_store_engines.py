"""Results that nobody read to their end must not show in the next ones."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
import sqlalchemy as sa

from toolroll import Tool
from toolroll.registry.registry import Registry
from toolroll.registry.store import engines, tables
from toolroll.registry.store.database import Database

KEYS = ["a", "b", "c"]


def test_a_result_that_was_given_up_does_not_set_back_the_next(database: Database) -> None:
    with database.writing("ann") as write:
        for key in KEYS:
            row = {"org": "", "key": key, "is_set": True, "updated_at": write.at, "updated_by": "ann"}
            write.connection.execute(sa.insert(tables.settings), {**row, "revision": write.revision})
        write.log("test", "settings")
    query = sa.select(tables.settings.c.key).where(tables.settings.c.org == "").order_by("key")
    given_up = []
    for how in (database.reading, database.recording):
        with pytest.raises(ZeroDivisionError), how() as connection:
            given_up.append(connection.execute(query))
            assert given_up[-1].fetchone() == ("a",)
            raise ZeroDivisionError
    with database.reading() as connection:
        result = connection.execute(query)
        keys = [row.key for row in result.fetchmany(1)]
        given_up.clear()  # collected while the next is being read
        gc.collect()
        keys += result.scalars().all()
    assert keys == KEYS


@pytest.mark.skipif(sqlite3.sqlite_version_info < engines.OLDEST_SQLITE, reason="it has no strict tables")
def test_an_older_sqlite_finds_the_rows_as_sound_as_the_newest(
    new_database_url: Callable[[str], str],
) -> None:
    url = new_database_url("sqlite")
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("play_music", "plays a song"))  # most of its JSON columns are NULL
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
