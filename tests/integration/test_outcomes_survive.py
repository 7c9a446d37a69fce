"""Many threads and processes report at once, some twice, some late, and are killed: counts are exact.

TOOLROLL_OUTCOMES and TOOLROLL_KILLS say how many; tools/long_tier.sh has a hundred times as many.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.outcome_worker import TOOLS, event
from tests.integration.outcomes import Oracle, eventually, raw_counts, rows_of
from toolroll._core import LearningRates
from toolroll.learning.effects import EFFECTS
from toolroll.registry.events import writer as module
from toolroll.registry.events.journal import Journal
from toolroll.registry.events.learned_rows import arm_statistics
from toolroll.registry.events.maintenance import rebuild
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.events.writer import EventWriter
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here"),
]

OUTCOMES = int(os.environ.get("TOOLROLL_OUTCOMES", "1000"))
PROCESSES = 4
KILLS = int(os.environ.get("TOOLROLL_KILLS", "0")) or max(8, OUTCOMES // 250)
ROOT = Path(__file__).parents[2]
RATES = LearningRates()


class Worker:
    """One process and the reports that it still has to have acknowledged; killed, it is begun again."""

    def __init__(
        self, url: str, folder: Path, begun: float, numbers: list[int], written_by: str = "thread"
    ) -> None:
        self._arguments = [
            sys.executable,
            "-m",
            "tests.integration.outcome_worker",
            url,
            str(folder),
            repr(begun),
            written_by,
        ]
        self.left = list(numbers)
        self.begin()

    def begin(self) -> None:
        self.process = subprocess.Popen(
            self._arguments,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, self.left)) + "\n")
        self.process.stdin.close()
        self.acknowledged: list[int] = []
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,))
        self._reader.start()

    def _read(self, answers) -> None:
        for line in answers:
            if line.endswith("\n") and line != "ready\n":
                self.acknowledged.append(int(line))
        for number in self.acknowledged:
            self.left.remove(number)
        answers.close()

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        status = self.process.wait()
        self._reader.join()
        return status


def weighted(numbers: range, begun: float, table: Database) -> None:
    """Decayed sums are those of the outcomes that were in time, whatever the order they came in."""
    exact: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for number in numbers:
        shown, report = event(number, begun)
        kinds = {entry.name: entry.kind for entry in report.entries}
        weight = 0.0 if shown.at < begun - LIFETIME_S else 1.0
        for tool in shown.shown:
            effect = EFFECTS[kinds.get(tool.name)]
            exact.setdefault((shown.org, tool.name), []).append(
                (shown.at, weight * effect.successes, weight * effect.calls)
            )
    with table.reading() as connection:
        rows = connection.execute(sa.select(arm_statistics)).all()
    plain: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.level == "seed":
            plain[row.org, row.tool] += row.successes
        elif row.level == "everywhere":
            said = exact[row.org, row.tool]
            calls = sum(
                value * 2 ** (-(row.wanted_at - at) / RATES.lift_half_s)
                for at, _, value in said
                if row.wanted_at is not None
            )
            assert row.calls == pytest.approx(calls, rel=1e-9, abs=1e-9)
    for key, said in exact.items():
        assert plain[key] == sum(value for _, value, _ in said)


@pytest.mark.timeout(1_200 + OUTCOMES // 10 + 10 * KILLS)
def test_counts_are_exact_whatever_is_doubled_late_or_killed(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws, begun, oracle = random.Random(OUTCOMES), time.time(), Oracle()
    folder = tmp_path / "journal"
    parts: list[list[int]] = [[] for _ in range(PROCESSES)]
    late: list[tuple[int, int]] = []
    for number in range(OUTCOMES):
        oracle.take(ReceivedReport(*event(number, begun), begun))
        owner = number % PROCESSES
        if number % 10 == 1:
            late.append((owner, number))
            continue
        parts[owner].append(number)
        if number % 10 == 0:  # twice, the second time elsewhere
            parts[(owner + 1) % PROCESSES].append(number)
    for owner, number in late:
        parts[owner].append(number)

    workers = [
        Worker(database_url, folder, begun, part, written_by)
        for part, written_by in zip(parts, ("thread", "process") * (PROCESSES // 2), strict=True)
    ]
    kills = in_the_middle = 0
    while kills < KILLS:
        alive = [worker for worker in workers if worker.process.poll() is None]
        if not alive:
            break
        worker = draws.choice(alive)
        # At most half of what it had to do, and little where many kills are left: then it is in the middle.
        enough = 1 + draws.random() * len(worker.left) * min(0.5, 2 * PROCESSES / (KILLS - kills))
        while len(worker.acknowledged) < enough and worker.process.poll() is None:
            time.sleep(0.002)
        before = len(worker.left)
        worker.kill()
        kills += 1
        in_the_middle += 0 < len(worker.left) < before
        if worker.left:
            worker.begin()
    for worker in workers:
        assert worker.wait() in (0, -9)
        while worker.left:
            worker.begin()
            assert worker.wait() == 0
    assert in_the_middle >= KILLS / 2  # or this proves nothing
    print(f"{kills} kills, {in_the_middle} of them in the middle")

    monkeypatch.setattr(module, "_ADOPT_EVERY_S", 0.1)
    last = EventWriter(database, Journal(folder), lambda selection: 1 / 0, messages=None)  # type: ignore
    last.take_over()
    eventually(lambda: not list(folder.iterdir()), 60 + OUTCOMES / 50)
    assert last.health()["outcomes"]["refused"] == 0
    last.close()

    assert raw_counts(database) == oracle.counts()
    rows = rows_of(database, tables.outcomes, tables.outcomes.c.org, tables.outcomes.c.seq)
    assert len(rows) == OUTCOMES == len({row.event_id for row in rows})
    for org in ("acme", "umbrella", ""):
        seqs = [row.seq for row in rows if row.org == org]
        assert seqs == list(range(1, len(seqs) + 1))
    weighted(range(OUTCOMES), begun, database)
    assert rebuild(database) == {"": 0, "acme": 0, "umbrella": 0}
    assert len(raw_counts(database)) == 3 * TOOLS
