"""Damaged files: no crash, no error that is not ours, and no other answer where a checksum can tell."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration import damage_worker
from tests.integration.damage_worker import ACME, fill
from tests.table import each_row
from toolroll import Recording, Toolroll

pytestmark = pytest.mark.slow

DAMAGED = int(os.environ.get("TOOLROLL_DAMAGED", "200"))
SHARES = {
    "archive": 0.2,
    "outbox": 0.2,
    "receipt": 0.2,
    "cache": 0.1,
    "toolkit": 0.1,
    "database": 0.1,
}
HANGS_S = 120  # what a chunk of cases never takes
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "Where"}}}
CHUNK = {"database": 10}  # cases of one process; 200 of what is fast
# Kinds in which a checksum, a signature or the inner embedder tells every damage.
CHECKED = ("archive", "receipt", "cache")


def prepare(folder: Path) -> None:
    """Sound files of each kind."""
    path = folder / "registry.db"
    fill(f"sqlite:///{path}", folder)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.commit()
    with Toolroll.open(f"sqlite:///{path}", recording=Recording(outbox=folder / "outbox.db")) as roll:
        roll.warm_up()
        learned = roll._home.learned(ACME.org)
        assert learned is not None
        (folder / "learned.bin").write_bytes(learned.to_bytes())
    tools = [tool.name for tool in Toolroll.demo().catalog.tools[:20]]
    definitions = [{"name": name, "description": f"Does {name}", "parameters": PARAMETERS} for name in tools]
    (folder / "toolkit.json").write_text(json.dumps({"name": "kit", "tools": definitions}, indent=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("damage")
    prepare(place)
    return place


def results(kind: str, count: int, folder: Path) -> list[str]:
    """What came of each case; the cases of one process are few, so that a crash costs few."""
    found: list[str] = []
    chunk = CHUNK.get(kind, 200)
    for begin in range(0, count, chunk):
        end = min(begin + chunk, count)
        while begin < end:
            arguments = [kind, str(begin), str(end), str(folder)]
            done = subprocess.run(
                [sys.executable, "-X", "faulthandler", "-m", damage_worker.__name__, *arguments],
                capture_output=True,
                text=True,
                timeout=HANGS_S,
                check=False,
            )
            lines = [line for line in done.stdout.splitlines() if line.startswith("end ")]
            found += [line.split(" ", 3)[3] for line in lines]
            begin += len(lines)
            if done.returncode:
                found.append(f"crash {done.returncode}: {done.stderr[-2_000:]}")
                begin += 1
    return found


@pytest.mark.timeout(14_400)
@each_row("kind", SHARES)
def test_damage_crashes_nothing_raises_nothing_foreign_and_changes_no_answer_unsaid(kind, folder):
    found = results(kind, max(int(DAMAGED * SHARES[kind]), 1), folder)
    count = Counter(came.split(" ")[0] for came in found)
    print(f"{kind}: {len(found):,} damaged: {dict(count)}")
    bad = [came for came in found if came.startswith(("crash", "foreign"))]
    assert not bad, bad[:5]
    if kind in CHECKED:
        assert not count["wrong"]
