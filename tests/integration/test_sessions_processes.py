"""Two processes at one session: what either notes is in the store in the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.session_worker import union
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.sessions.writer import SessionWriter
from toolroll.registry.store.database import Database

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOTES = 500


def begun(url: str, who: str, notes: int, *, read_every: int, flush_every: int = 1_000) -> subprocess.Popen:
    arguments = [url, who, str(notes), str(read_every), str(flush_every)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.session_worker", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "read_every", [(10, 10), (0, 25), (0, 0)], ids=["both read", "one reads", "neither reads"]
)
def test_two_processes_that_take_turns_at_a_session_lose_nothing(
    database: Database, database_url: str, read_every: tuple[int, int]
) -> None:
    processes = [
        begun(database_url, who, NOTES, read_every=often) for who, often in zip("ab", read_every, strict=True)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    found = SessionStore(database).read("acme", "conversation-42")
    assert found is not None
    assert found.record == {
        "turn": NOTES - 1,
        "seen": sorted(f"{who}{number}" for who in "ab" for number in range(NOTES)),
    }
    merged = sum(int(answer.split()[-2]) for answer in answers)
    assert merged >= 1  # or this proves nothing
    print(f"{merged} writes met what the other had written")


@pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here")
def test_a_process_that_is_killed_loses_its_last_moments_at_most(
    database: Database, database_url: str
) -> None:
    process = begun(database_url, "a", 100_000, read_every=0, flush_every=20)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    acknowledged = [int(process.stdout.readline()) for _ in range(6)]
    process.kill()
    acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with_next = SessionWriter(SessionStore(database), union)
    found = with_next.read("acme", "conversation-42")
    assert found is not None
    assert {f"a{number}" for number in range(acknowledged[-1] + 1)} <= set(found.record["seen"])
    with_next.note("acme", "conversation-42", union(found.record, {"turn": 0, "seen": ["b"]}))
    assert with_next.flush(20) and with_next.counts.merged == 0
    with_next.close()
