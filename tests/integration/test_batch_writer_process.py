"""Events and outcomes that a process of its own writes: the same rows, and none is lost or doubled by a kill."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.integration.outcomes import eventually, exposure, rows_of
from toolroll import InvalidInput, Registry, StoreUnavailable, Tool
from toolroll.learning.outcomes import Entry, Report
from toolroll.registry.events.batch_writer import BatchWriter
from toolroll.registry.events.batch_writer_process import BatchWriterProcess
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

TOOLS = [Tool("play_music", "plays a song"), Tool("send_mail", "writes a letter"), Tool("find", "searches")]


def record(number: int) -> bytes:
    """A report as it stands in the journal."""
    shown = exposure(f"event{number:08d}", "play_music", "send_mail")
    report = Report(shown.event_id, (Entry("play_music", "succeeded"),))
    return ReceivedReport(shown, report, time.time()).to_bytes()


@pytest.fixture
def process(database: Database, database_url: str) -> Iterator[BatchWriterProcess]:
    made = BatchWriterProcess(database_url, LIFETIME_S)
    yield made
    made.close(10)


def pid_of(process: BatchWriterProcess) -> int:
    assert process._process is not None
    return process._process.pid


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_batch_is_written_as_the_calling_thread_would_write_it(
    database: Database, process: BatchWriterProcess
) -> None:
    batch = [record(number) for number in range(20)]
    done = process.write([], [*batch, batch[0], b"{}"], None)
    again = BatchWriter(database).write([], [*batch, batch[0], b"{}"], None)
    assert (done.outcomes, done.repeated, again.outcomes, again.repeated) == (20, 1, 0, 21)
    assert done.refused == again.refused == [(b"{}", "'form'")] and done.seqs == {"acme": 20}
    assert len(rows_of(database, tables.outcomes)) == 20


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_one_that_is_killed_is_replaced_and_the_batch_counts_once(
    database: Database, process: BatchWriterProcess
) -> None:
    process.write([], [record(0)], None)
    first = pid_of(process)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(StoreUnavailable, match="has ended"):
        process.write([], [record(0), record(1)], None)
    assert process.write([], [record(0), record(1)], None).outcomes == 1
    assert pid_of(process) != first and len(rows_of(database, tables.outcomes)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_one_that_is_killed_in_the_middle_of_a_batch_is_heard_of(
    database: Database, process: BatchWriterProcess
) -> None:
    process.write([], [record(0)], None)
    os.kill(pid_of(process), signal.SIGSTOP)
    timer = threading.Timer(0.3, os.kill, (pid_of(process), signal.SIGKILL))
    timer.start()
    with pytest.raises(StoreUnavailable, match="has ended"):
        process.write([], [record(at) for at in range(9)], None)
    timer.join()
    assert process.write([], [record(at) for at in range(9)], None).outcomes == 8


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_a_signal_for_the_group_does_not_end_it_but_the_end_of_its_input_does(
    process: BatchWriterProcess,
) -> None:
    process.write([], [record(0)], None)
    pid = pid_of(process)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    assert process.write([], [record(1)], None).outcomes == 1 and pid_of(process) == pid
    process.close(10)
    assert not is_alive(pid)
    with pytest.raises(StoreUnavailable, match="is closed"):
        process.write([], [record(2)], None)


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_a_close_waits_no_longer_than_it_is_told_and_then_kills(process: BatchWriterProcess) -> None:
    process.write([], [record(0)], None)
    pid = pid_of(process)
    os.kill(pid, signal.SIGSTOP)
    process.close(0.1)
    assert not is_alive(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_the_child_of_a_fork_leaves_it_to_the_parent(database: Database, process: BatchWriterProcess) -> None:
    process.write([], [record(0)], None)
    pid = pid_of(process)
    child = os.fork()
    if child == 0:
        process.abandon()
        os._exit(0 if is_alive(pid) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert process.write([], [record(1)], None).outcomes == 1 and pid_of(process) == pid


def test_a_registry_that_is_away_is_said_and_is_not_the_end_of_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process = BatchWriterProcess(f"sqlite:///{tmp_path}/none.db", LIFETIME_S)
    try:
        with pytest.raises(StoreUnavailable, match=r"none\.db"):
            process.write([], [record(0)], None)
        Registry.open(f"sqlite:///{tmp_path}/none.db", create=True).close()
        assert process.write([], [record(0)], None).outcomes == 1
    finally:
        process.close(10)


def test_what_it_has_to_say_is_in_the_log_of_the_one_that_started_it(
    database: Database, process: BatchWriterProcess, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = {
        "event_id": "e",
        "org": "acme",
        "closes_at": datetime(2026, 3, 1, tzinfo=timezone.utc),
        "exposure": {},
    }
    with database.recording() as connection:
        connection.execute(tables.open_events.insert(), damaged)
    with caplog.at_level(logging.WARNING, "toolroll"):
        process.write([], [], time.time())
    assert "an open event is damaged" in caplog.text


def test_without_an_interpreter_to_start_the_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(InvalidInput, match="writer"):
        BatchWriterProcess("sqlite:///t.db", LIFETIME_S)


def test_an_interpreter_that_cannot_be_started_is_said_and_tried_again(
    database: Database, process: BatchWriterProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(tmp_path / "none"))
        process.start()  # is no error: selections go on
        with pytest.raises(StoreUnavailable, match="cannot be started"):
            process.write([], [record(0)], None)
    assert process.write([], [record(0)], None).outcomes == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_it_ends_with_a_process_that_is_killed(database: Database, database_url: str) -> None:
    program = (
        "import sys, time; from tests.integration.test_batch_writer_process import *; "
        "process = BatchWriterProcess(sys.argv[1], LIFETIME_S); process.write([], [record(0)], None); "
        "print(pid_of(process), flush=True); time.sleep(60)"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, database_url], cwd=root, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    eventually(lambda: not is_alive(pid))
