"""The sentinel sees what no test may do."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests import sentinel

OUTSIDE = sentinel.ROOT / "written by a test"


def test_a_connection_beyond_this_machine_is_refused_and_reported():
    with pytest.raises(sentinel.ReachedOut):
        socket.create_connection(("192.0.2.1", 9), timeout=1)
    with pytest.raises(sentinel.ReachedOut):
        socket.getaddrinfo("example.org", 443)
    with closing(socket.socket(type=socket.SOCK_DGRAM)) as datagrams, pytest.raises(sentinel.ReachedOut):
        datagrams.sendto(b"", ("192.0.2.1", 9))
    assert sentinel.reports() == [
        "connection to 192.0.2.1",
        "connection to example.org",
        "connection to 192.0.2.1",
    ]


def test_a_connection_within_this_machine_passes():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        socket.create_connection(server.getsockname()).close()
    assert sentinel.reports() == []


def test_a_file_outside_of_temporary_folders_is_reported_from_any_thread(tmp_path: Path):
    def write() -> None:
        OUTSIDE.write_text("")
        OUTSIDE.unlink()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    (tmp_path / "inside").write_text("")
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{OUTSIDE}?mode=rw", uri=True)
    with pytest.raises(OSError, match="written by a test"):
        os.rmdir(OUTSIDE)
    assert sentinel.reports() == [f"wrote {OUTSIDE}"] * 4


def test_a_folder_is_removed_by_names_below_it_wherever_the_process_is(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(sentinel.ROOT)
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "folder" / "inside" / "file").write_text("")
    shutil.rmtree(tmp_path / "folder")
    assert sentinel.reports() == []


def test_reading_any_file_is_no_write():
    Path(__file__).read_text()
    assert sentinel.reports() == []
