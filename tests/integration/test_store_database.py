"""The store: what is written is there whole or not at all, on both databases."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.outcomes import eventually
from toolroll.model.errors import Conflict, InvalidInput, StoreUnavailable
from toolroll.registry.store import database as database_module
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import insert, update
from toolroll.registry.store.database import Database, Write


def setting(write: Write, key: str, is_set: bool = True) -> dict[str, Any]:
    return {
        "org": write.org,
        "key": key,
        "is_set": is_set,
        "updated_at": write.at,
        "updated_by": write.actor,
        "revision": write.revision,
    }


def put(database: Database, key: str) -> None:
    with database.writing("ann") as write:
        write.connection.execute(sa.insert(tables.settings), setting(write, key))
        write.log("setting.set", key)


def keys(database: Database) -> list[str]:
    with database.reading() as connection:
        return list(connection.scalars(sa.select(tables.settings.c.key).order_by(tables.settings.c.key)))


def test_a_connection_that_is_in_use_when_its_database_closes_is_closed_afterwards(
    database: Database,
) -> None:
    with database.reading() as connection:
        used = connection.connection.dbapi_connection
        database.close()
        assert connection.scalar(sa.select(1)) == 1
    assert used is not None
    with pytest.raises(Exception, match="closed"):
        used.cursor()


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
        write.connection.execute(sa.insert(tables.settings), setting(write, "k"))
        write.log("setting.set", "k")
        raise RuntimeError
    assert database.revision() == 0
    assert keys(database) == []


def test_an_abandoned_write_leaves_nothing_behind_and_takes_no_revision(database: Database) -> None:
    with database.writing("ann") as write:
        write.connection.execute(sa.insert(tables.settings), setting(write, "k"))
        write.abandon()
    assert database.revision() == 0
    assert keys(database) == []


def test_a_write_is_in_the_log_with_who_when_and_why(database: Database) -> None:
    before = datetime.now(timezone.utc)
    with database.writing("ann", "acme") as write:
        write.log("tool.create", "weather", {"b": 1, "a": [2]}, reason="needed")
    with database.reading() as connection:
        (row,) = connection.execute(sa.select(tables.changes)).all()
    assert (row.revision, row.org, row.actor, row.action) == (1, "acme", "ann", "tool.create")
    assert (row.subject, row.reason) == ("weather", "needed")
    assert list(row.details.items()) == [("b", 1), ("a", [2])]
    assert before - timedelta(seconds=1) < row.at < datetime.now(timezone.utc) + timedelta(seconds=1)


def test_threads_that_write_at_once_lose_nothing(database: Database) -> None:
    def work(thread: int) -> None:
        for number in range(25):
            put(database, f"{thread}-{number}")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, thread) for thread in range(4)]:
            done.result()
    assert database.revision() == 100
    assert len(keys(database)) == 100


def test_a_reader_sees_one_state_whatever_is_written_meanwhile(database: Database) -> None:
    put(database, "a")
    count = sa.select(sa.func.count()).select_from(tables.settings)
    with database.reading() as connection:
        assert connection.scalar(count) == 1
        put(database, "b")
        assert connection.scalar(count) == 1
        assert connection.scalar(sa.select(tables.registry_state.c.revision)) == 1
    assert keys(database) == ["a", "b"]


def test_who_has_seen_a_revision_finds_all_later_rows_above_it(database: Database) -> None:
    """Writers take turns, so no smaller revision appears after a larger one was seen."""
    done = threading.Event()
    seen, gathered = 0, set[str]()

    def write(thread: int) -> None:
        for number in range(20):
            put(database, f"{thread}-{number}")

    def follow() -> None:
        nonlocal seen
        while True:
            last = done.is_set()
            with database.reading() as connection:
                revision = connection.scalar(sa.select(tables.registry_state.c.revision))
                fresh = sa.select(tables.settings.c.key).where(tables.settings.c.revision > seen)
                gathered.update(connection.scalars(fresh))
            seen = revision or 0
            if last:
                return

    with ThreadPoolExecutor(4) as pool:
        follower = pool.submit(follow)
        writers = [pool.submit(write, thread) for thread in range(3)]
        for writer in writers:
            writer.result()
        done.set()
        follower.result()
    assert gathered == {f"{thread}-{number}" for thread in range(3) for number in range(20)}


@pytest.mark.parametrize("table", ["tool_versions", "changes"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET reason = 'x'", "DELETE FROM {}"])
def test_the_tables_of_history_refuse_to_be_changed(database: Database, table: str, statement: str) -> None:
    with database.writing("ann") as write:
        write.connection.execute(sa.insert(tables.tools), tool_row(write))
        write.connection.execute(sa.insert(tables.tool_versions), version_row(write))
        write.log("tool.create", "x")
    with (
        pytest.raises((StoreUnavailable, Conflict), match="only grows"),
        database.recording() as connection,
    ):
        connection.exec_driver_sql(statement.format(table))
    with database.reading() as connection:
        assert connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) == 1
        assert connection.scalar(sa.text(f"SELECT reason FROM {table}")) == ""


def test_history_cannot_be_replaced_by_inserting_over_it(new_database_url: Callable[[str], str]) -> None:
    database = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    with database.writing("ann") as write:
        write.log("tool.create", "x")
    with pytest.raises((StoreUnavailable, Conflict), match="only grows"), database.recording() as connection:
        connection.exec_driver_sql(
            "INSERT OR REPLACE INTO changes SELECT seq, revision, org, at, 'eve', action, subject, reason, details FROM changes"
        )
    database.close()


def test_text_is_kept_and_compared_by_its_code_points(database: Database) -> None:
    names = [
        "a",
        "B",
        "é",
        "e\u0301",
        "A",
        "Z",
        "ß",
        "ss",
        "K",
        "\u212a",
        "%",
        "_",
        "'; DROP TABLE tools; --",
        "😀",
        "￿",
    ]
    with database.writing("ann") as write:
        write.connection.execute(sa.insert(tables.settings), [setting(write, name) for name in names])
        write.log("test", "names")
    assert keys(database) == sorted(names)
    with database.reading() as connection:
        for name in names:
            found = sa.select(tables.settings.c.key).where(tables.settings.c.key == name)
            assert connection.scalars(found).all() == [name]


def test_json_comes_back_with_its_keys_in_their_order(database: Database) -> None:
    schema = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"enum": [1, 1.5, None, "ü"]}}}
    with database.writing("ann") as write:
        write.connection.execute(sa.insert(tables.tools), {**tool_row(write), "parameters": schema})
        write.log("tool.create", "x")
    with database.reading() as connection:
        row = connection.execute(sa.select(tables.tools.c.parameters, tables.tools.c.returns)).one()
    assert list(row.parameters["properties"]) == ["z", "a"]
    assert row.parameters == schema
    assert row.returns is None


def test_vectors_come_back_bit_by_bit(database: Database) -> None:
    vectors = np.random.default_rng(7).standard_normal((20, 384)).astype(np.float32)
    vectors[0, :4] = 1e-38, 3e38, -0.0, 1 / 3
    now = datetime.now(timezone.utc)
    with database.recording() as connection:
        connection.execute(
            sa.insert(tables.embeddings),
            [
                {"identity": "m@1", "content_hash": f"{row:02}", "vector": vector, "created_at": now}
                for row, vector in enumerate(vectors)
            ],
        )
    assert database.revision() == 0  # no catalog is made of it
    with database.reading() as connection:
        found = connection.scalars(
            sa.select(tables.embeddings.c.vector).order_by(tables.embeddings.c.content_hash)
        )
        assert np.stack(list(found)).tobytes() == vectors.tobytes()


def test_an_update_of_many_rows_sets_what_it_names_in_the_rows_that_are_there(database: Database) -> None:
    table, first, later = tables.open_events, datetime.now(timezone.utc), timedelta(days=1, microseconds=7)
    ids = [f"{at:032}" for at in range(150)]
    rows = [{"event_id": one, "org": "acme", "closes_at": first, "record": b""} for one in ids]
    changes = [{"event_id": one, "closes_at": first + later, "record": one.encode()} for one in ids[10:]]
    with database.recording() as connection:
        insert(connection, table, rows)
        update(connection, table, [*changes, {**changes[0], "event_id": "f" * 32}])
    with database.reading() as connection:
        found = connection.execute(sa.select(table).order_by(table.c.event_id)).all()
    expected = [*rows[:10], *({"org": "acme", **change} for change in changes)]
    assert [dict(row._mapping) for row in found] == expected


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 5_000])
def test_an_actor_that_cannot_be_kept_is_refused_before_the_database_sees_it(
    database: Database, text: str
) -> None:
    with pytest.raises(InvalidInput, match="actor"), database.writing(text):
        pass
    assert database.revision() == 0


def test_text_with_nul_is_the_callers_mistake_or_just_kept(database: Database) -> None:
    """PostgreSQL refuses NUL, SQLite keeps it; neither lets a driver's error out."""
    try:
        with database.reading() as connection:
            connection.execute(sa.select(tables.settings).where(tables.settings.c.key == "a\0b")).all()
    except InvalidInput:
        assert database.dialect == "postgresql"


def test_a_value_that_no_database_holds_is_the_callers_mistake(database: Database) -> None:
    for column, value in ((tables.settings.c.revision, 2**80), (tables.settings.c.key, "\ud800")):
        with pytest.raises(InvalidInput, match="cannot be stored"), database.reading() as connection:
            connection.execute(sa.select(tables.settings).where(column == value)).all()
    assert database.revision() == 0


def test_a_database_does_not_travel_to_another_process(database: Database) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(database)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_writes_by_connections_of_its_own(database: Database) -> None:
    put(database, "before")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            put(database, "child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(database, "after")
    assert keys(database) == ["after", "before", "child"]


def test_two_that_hold_the_same_row_are_a_conflict(database: Database) -> None:
    put(database, "k")
    with pytest.raises(Conflict, match="nothing was changed"):
        put(database, "k")
    assert database.revision() == 1


def tool_row(write: Write) -> dict[str, Any]:
    values = {
        "Instant": write.at,
        "ListJson": [],
        "NameList": [],
        "ObjectJson": {},
        "Integer": 1,
        "BigInteger": 1,
        "Bool": False,
    }
    row = {
        column.name: values.get(type(column.type).__name__, "x")
        for column in tables.tools.c
        if not column.nullable
    }
    return {**row, "status": "active", "review": "approved"}


def version_row(write: Write) -> dict[str, Any]:
    return {
        "tool_id": "x",
        "version": 1,
        "snapshot": {},
        "changed": [],
        "reason": "",
        "actor": write.actor,
        "at": write.at,
        "content_hash": "",
        "semantic_version": "1.0.0",
        "revision": write.revision,
    }


@pytest.mark.db
def test_a_writer_that_is_gone_within_a_batch_of_statements_holds_its_locks_for_a_limited_time(
    new_database_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BATCH_S", 1.0)
    database = Database.open(new_database_url("postgresql"), create=True, migrate=True)
    lock = sa.update(tables.registry_state).values(revision=7)
    with pytest.raises(StoreUnavailable), database.recording() as connection:
        if (connection.dialect.server_version_info or ()) < (17,):
            pytest.skip("transaction_timeout is of PostgreSQL 17")
        connection.execute(lock)
        driver: Any = connection.connection.driver_connection
        driver.pgconn.enter_pipeline_mode()
        driver.pgconn.send_query_params(b"SELECT 1", [])
        driver.pgconn.send_flush_request()  # and no end of the batch
        driver.pgconn.flush()
        eventually(lambda: may_lock(database), 10)
        connection.execute(lock)
    database.close()


def may_lock(database: Database) -> bool:
    """Whether no other transaction holds the registry's row."""
    with database.reading() as connection:
        query = "SELECT count(*) FROM pg_locks WHERE relation = 'registry_state'::regclass AND mode = 'RowExclusiveLock'"
        return connection.exec_driver_sql(query).scalar() == 0
