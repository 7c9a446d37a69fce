"""What breaks, and what is said then: an error of ours that tells what to do, and nothing half-done."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.integration.conftest import Server
from toolroll.errors import StoreUnavailable
from toolroll.store import engines, tables
from toolroll.store.database import Database


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def grow(database: Database, rows: int) -> None:
    with database.writing("ann") as write:
        write.log("test", "x" * 1_000)
        for row in range(rows):
            write.log("test", str(row), {"text": "x" * 1_000})


def test_a_file_that_is_no_database_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("buy milk\n" * 200)
    with pytest.raises(StoreUnavailable, match="is not a SQLite database"):
        Database.open(f"sqlite:///{path}", create=True, migrate=True)
    assert path.read_text() == "buy milk\n" * 200


@pytest.mark.parametrize("page", [1, 2, 5, 9, 20])
def test_a_damaged_file_is_found_when_it_is_opened(new_database_url: Callable[[str], str], page: int) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    grow(database, 200)
    database.close()
    with path_of(url).open("r+b") as file:
        file.seek((page - 1) * 4096 + (100 if page == 1 else 0))
        file.write(b"\xa5" * 900)
    with pytest.raises(StoreUnavailable, match="damaged|does not answer|made by a newer|malformed"):
        Database.open(url, create=False, migrate=False)


def test_a_truncated_file_is_found_when_it_is_opened(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    grow(database, 200)
    database.close()
    path = path_of(url)
    os.truncate(path, path.stat().st_size // 8192 * 4096)
    with pytest.raises(StoreUnavailable, match="damaged"):
        Database.open(url, create=False, migrate=False)


def test_a_file_that_was_moved_away_is_not_begun_again(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    database.close()
    path_of(url).rename(path_of(url).with_suffix(".moved"))
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        database.revision()
    assert not path_of(url).exists()


@pytest.mark.parametrize("place", ["missing/tools.db", "."])
def test_a_place_where_no_file_can_be_is_said(tmp_path: Path, place: str) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        Database.open(f"sqlite:///{tmp_path / place}", create=True, migrate=True)


def test_a_writer_that_hangs_holds_up_others_for_a_known_time(database_url: str) -> None:
    patient = Database.open(database_url, create=False, migrate=False)
    hasty = Database.open(database_url, create=False, migrate=False, wait_s=0.2)
    with patient.writing("ann") as write:
        with (
            pytest.raises(StoreUnavailable, match=r"for 0 s; nothing was changed") as raised,
            hasty.writing("bob") as other,
        ):
            other.log("test", "never")
        assert raised.value.retry_after_s is not None
        assert hasty.revision() == 0  # readers do not wait
        write.log("test", "done")
    assert hasty.revision() == 1
    patient.close()
    hasty.close()


def test_a_write_that_finds_no_room_changes_nothing(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    grow(database, 10)

    @sa.event.listens_for(database._engine, "begin")
    def limit(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 60")

    with pytest.raises(StoreUnavailable, match="disk is full; nothing was changed. Free some space"):
        grow(database, 1_000)
    assert database.revision() == 1
    grow(database, 1)
    assert database.revision() == 2
    database.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit to the size of a file")
def test_a_disk_that_refuses_to_write_changes_nothing(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    script = textwrap.dedent(
        """
        import resource, signal, sys
        from toolroll.errors import StoreUnavailable
        from toolroll.store.database import Database

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        database = Database.open(sys.argv[1], create=False, migrate=False)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        try:
            with database.writing("ann") as write:
                for row in range(2_000):
                    write.log("test", str(row), {"text": "x" * 1_000})
        except StoreUnavailable as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with database.writing("ann") as write:
            write.log("test", "after")
        print(database.revision())
        """
    )
    ran = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said, revision = ran.stdout.splitlines()
    assert "check the disk" in said or "disk is full" in said
    assert revision == "1"
    Database.open(url, create=False, migrate=False).close()


def test_without_a_sqlite_of_its_own_the_standard_one_serves_and_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pysqlite3", None)
    monkeypatch.setattr(engines, "SOUND_SQLITE", (99, 0, 0))
    database = Database.open(f"sqlite:///{tmp_path / 'tools.db'}", create=True, migrate=True)
    grow(database, 3)
    assert database.revision() == 1
    database.close()
    assert engines.sqlite_module().__name__ == "sqlite3"
    assert [record.levelname for record in caplog.records if "may damage" in record.getMessage()] == [
        "WARNING"
    ]


def test_a_server_that_is_not_there_is_said_without_the_password() -> None:
    with pytest.raises(StoreUnavailable, match="check host, port") as raised:
        Database.open("postgresql://ann:hunter2@127.0.0.1:9/tools", create=True, migrate=True)
    assert "hunter2" not in str(raised.value)
    assert raised.value.retry_after_s


def test_a_database_that_the_server_lacks_is_said(postgresql: Server) -> None:
    with pytest.raises(StoreUnavailable, match="createdb"):
        Database.open(postgresql.url_of("no_such_database"), create=True, migrate=True)


def test_a_server_that_closes_the_connection_is_met_again_by_the_next_call(
    new_database_url: Callable[[str], str], postgresql: Server
) -> None:
    url = new_database_url("postgresql")
    database = Database.open(url, create=False, migrate=False)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with (
        pytest.raises(StoreUnavailable) as raised,
        database.writing("ann") as write,
        psycopg.connect(url, autocommit=True) as other,
    ):
        write.log("test", "lost")
        other.execute(end)
        write.connection.execute(sa.select(tables.settings)).all()
    assert raised.value.retry_after_s
    assert database.revision() == 0
    grow(database, 1)
    assert database.revision() == 1
    database.close()


def test_a_server_that_may_not_be_written_is_said_to_be_read_only(
    new_database_url: Callable[[str], str],
) -> None:
    database = Database.open(new_database_url("postgresql"), create=False, migrate=False)
    said = "is read-only, a standby perhaps"
    with pytest.raises(StoreUnavailable, match=said), database.writing("ann") as write:
        write.connection.exec_driver_sql("SET TRANSACTION READ ONLY")  # as on a standby
        write.log("test", "never")
    assert database.revision() == 0
    database.close()


def test_a_user_who_may_not_add_pgvector_is_told_who_may(postgresql: Server) -> None:
    name = postgresql.create()
    postgresql.run('DROP ROLE IF EXISTS "toolroll_test_guest"')
    postgresql.run("CREATE ROLE \"toolroll_test_guest\" LOGIN PASSWORD 'hunter2'")
    url = sa.make_url(postgresql.url_of(name)).set(username="toolroll_test_guest", password="hunter2")
    try:
        with pytest.raises(StoreUnavailable, match="CREATE EXTENSION vector") as raised:
            Database.open(url.render_as_string(hide_password=False), create=True, migrate=True)
        assert "hunter2" not in str(raised.value)
    finally:
        postgresql.drop(name)
        postgresql.run('DROP ROLE "toolroll_test_guest"')
