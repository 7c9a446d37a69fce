"""Opening: whose database it is, and that migrations make what the tables say."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from tests.table import each_row
from toolroll.model.errors import InvalidInput, NotFound, StoreUnavailable
from toolroll.registry.store import schema, tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.url import Address


def run(database: Database, *statements: str) -> None:
    with database.recording() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.mark.filterwarnings("ignore:Did not recognize type 'vector'")
def test_the_migrations_make_what_the_tables_say(database: Database) -> None:
    with database.reading() as connection:
        mine = {*tables.metadata.tables, schema.VERSION_TABLE}  # not their partitions
        opts = {
            "version_table": schema.VERSION_TABLE,
            "include_name": lambda name, kind, _: kind != "table" or name in mine,
        }
        context = MigrationContext.configure(connection, opts=opts)
        different = compare_metadata(context, tables.metadata)
        found = {
            name: {column["name"]: column for column in sa.inspect(connection).get_columns(name)}
            for name in tables.metadata.tables
        }
    assert different == []
    for name, table in tables.metadata.tables.items():
        for column in table.c:
            assert found[name][column.name]["nullable"] == column.nullable, (name, column.name)
            collation = getattr(found[name][column.name]["type"], "collation", None)
            if database.dialect == "postgresql" and isinstance(column.type, (sa.Text, sa.String)):
                assert collation == "C", (name, column.name)


def test_the_steps_that_are_listed_are_those_that_are_there() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    steps = list(ScriptDirectory.from_config(config).walk_revisions())
    assert tuple(step.revision for step in reversed(steps)) == schema.REVISIONS


def test_where_nothing_is_nothing_is_made_unless_asked_for(empty_url: str) -> None:
    with pytest.raises(NotFound, match="toolroll import FOLDER --to "):
        Database.open(empty_url, create=False, migrate=True)
    if empty_url.startswith("sqlite"):
        assert not Path(empty_url.removeprefix("sqlite:///")).exists()
    Database.open(empty_url, create=True, migrate=False).close()


def test_an_older_schema_says_how_to_upgrade_it(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "9999"))
    with pytest.raises(StoreUnavailable, match="toolroll registry upgrade --catalog "):
        Database.open(database_url, create=True, migrate=False)


def test_a_newer_schema_is_left_alone(database: Database, database_url: str) -> None:
    run(database, f"UPDATE {schema.VERSION_TABLE} SET version_num = '2042'")
    with pytest.raises(StoreUnavailable, match="made by a newer toolroll"):
        Database.open(database_url, create=True, migrate=True)
    with database.reading() as connection:
        assert connection.scalar(sa.text(f"SELECT version_num FROM {schema.VERSION_TABLE}")) == "2042"


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM {}", "INSERT INTO {} VALUES ('2042')", "UPDATE {} SET version_num = '0000'"],
)
def test_a_version_that_says_nothing_is_damage_and_not_a_newer_toolroll(
    database: Database, database_url: str, change: str
) -> None:
    run(database, change.format(schema.VERSION_TABLE))
    with pytest.raises(StoreUnavailable, match="is damaged: its table toolroll_version") as raised:
        Database.open(database_url, create=True, migrate=True)
    assert "newer" not in str(raised.value)


def test_a_database_of_something_else_is_left_alone(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        engine = sa.create_engine(empty_url)
    else:
        engine = sa.create_engine(empty_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customers (id int)")
    path = Path(empty_url.removeprefix("sqlite:///"))
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(StoreUnavailable, match=r"holds no registry but .*customers.*left alone"):
        Database.open(empty_url, create=True, migrate=True)
    assert (path.read_bytes() if path.exists() else b"") == before
    with engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["customers"]
    engine.dispose()


OPENS = """
import sys
from toolroll.registry.store.database import Database

print("ready", flush=True)
sys.stdin.readline()
Database.open(sys.argv[1], create=True, migrate=True).close()
"""


@pytest.mark.slow
def test_processes_that_make_the_same_registry_at_once_make_one(empty_url: str) -> None:
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENS, empty_url], stdin=pipe, stdout=pipe, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0]
    database = Database.open(empty_url, create=False, migrate=False)
    assert database.revision() == 0
    database.close()


@each_row(
    "url",
    [
        "",
        "tools.db",
        "sqlite://tools.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=ro",
        "mysql://u:hunter2@h/d",
        "postgresql+asyncpg://u:hunter2@h/d",
        "://hunter2",
        "postgresql://u:hunter2@h:port/d",
        "sqlite:///a\0b",
    ],
)
def test_a_url_of_no_known_kind_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(InvalidInput, match="registry URL") as raised:
        Database.open(url, create=True, migrate=True)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None


@each_row(
    "url",
    [
        "postgresql://u:hun@ter2@host/x",
        "postgresql://u:hun@ter2@host:5432/x",
        "postgresql://u:hun@ter2:w@host:5432/x",
        "postgresql://u:hun@ter2/w@host/x",
        "postgresql://u:hun@/ter2@host/x",
        "postgresql://u:hun/@ter2@host/x",
        "postgresql://u:hun@?ter2@host/x",
        "postgres://u:hun?@ter2@host/x?sslmode=require",
        "postgresql://u:@@ter2@host/x",
    ],
)
def test_a_password_with_a_sign_that_urls_use_is_refused_and_no_part_of_it_said(url: str) -> None:
    with pytest.raises(InvalidInput, match="percent-encode") as raised:
        Address.of(url)
    assert not any(part in str(raised.value) for part in ("hun", "ter2"))
    assert raised.value.__cause__ is None


@each_row(
    "url",
    [
        "postgresql://ann%40corp:p%40ss%2Fw@host/x",
        "postgresql://host/x?user=ann@corp&password=p@ss/w",
        "postgresql:///x?host=@socket",
        "postgresql://ann:p%40ss@[::1]:5432/x?application_name=a@b",
    ],
)
def test_signs_that_are_encoded_or_in_options_are_read(url: str) -> None:
    assert "ss" not in Address.of(url).text


def test_a_database_says_where_it_is_without_its_password(tmp_path: Path) -> None:
    address = Address.of("postgres://ann:hunter2@db.example:5433/tools?password=hunter3&sslmode=require")
    assert address.text == "postgresql://ann@db.example:5433/tools"
    assert "hunter" not in repr(address)


def test_a_relative_file_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = Database.open("sqlite:///odd name #1.db", create=True, migrate=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with database.reading() as held:  # so that the other reader needs a connection of its own
        assert held.scalar(sa.text("SELECT 1")) == 1
        assert database.revision() == 0
    assert (tmp_path / "odd name #1.db").is_file()
    database.close()


def test_old_readers_of_the_file_find_a_sound_sqlite_database(new_database_url: Callable[[str], str]) -> None:
    path = new_database_url("sqlite").removeprefix("sqlite:///")
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
