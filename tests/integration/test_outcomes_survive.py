"""Hosts report at once, some twice, some late; they, shippers and keepers are killed: counts are exact.

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
from collections.abc import Iterable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.outcome_worker import ORGS, TOOLS, event, no_selection
from tests.integration.outcomes import Oracle, dump, eventually, raw_counts, rows_of
from tests.integration.recorder import Recorder
from toolroll._core import LearningRates
from toolroll.learning.effects import EFFECTS
from toolroll.registry.events.learned_rows import arm_statistics
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.maintenance import rebuild
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


class Process:
    """One process; a host has reports that it still has to have acknowledged. Killed, it is begun again."""

    def __init__(self, role: str, url: str, outbox: Path, begun: float, numbers: Iterable[int] = ()) -> None:
        self._arguments = [
            *(sys.executable, "-m", "tests.integration.outcome_worker"),
            *(role, url, str(outbox), repr(begun)),
        ]
        self.role, self.left = role, list(numbers)
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
        if self.role.endswith("host"):
            self.process.stdin.write(" ".join(map(str, self.left)) + "\n")
            self.process.stdin.close()
        self.acknowledged: list[int] = []
        self.is_ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,))
        self._reader.start()

    def _read(self, answers) -> None:
        for line in answers:
            if line == "ready\n":
                self.is_ready.set()
            elif line.endswith("\n"):
                self.acknowledged.append(int(line))
        for number in self.acknowledged:
            self.left.remove(number)
        answers.close()

    def kill(self) -> None:
        self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
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
        if row.level == "plain":
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
    database: Database, database_url: str, tmp_path: Path
) -> None:
    draws, begun, oracle = random.Random(OUTCOMES), time.time(), Oracle()
    outbox = tmp_path / "outbox"
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

    roles = ("host", "keeping host", "host", "keeping host")
    hosts = [
        Process(role, database_url, outbox, begun, part) for role, part in zip(roles, parts, strict=True)
    ]
    others = [Process(role, database_url, outbox, begun) for role in ("shipper", "keeper", "keeper")]
    kills, in_the_middle = Counter[str](), 0
    while kills["host"] < KILLS:
        for other in others:  # a shipper and a keeper for each host, as far as they have begun
            if other.is_ready.is_set() and kills[other.role] <= kills["host"]:
                time.sleep(0.1 * draws.random())
                other.kill()
                kills[other.role] += 1
                other.begin()
        alive = [host for host in hosts if host.process.poll() is None]
        if not alive:
            break
        host = draws.choice(alive)
        # At most half of what it had to do, and little where many kills are left: then it is in the middle.
        enough = 1 + draws.random() * len(host.left) * min(0.5, 2 * PROCESSES / (KILLS - kills["host"]))
        while len(host.acknowledged) < enough and host.process.poll() is None:
            time.sleep(0.002)
        before = len(host.left)
        host.kill()
        kills["host"] += 1
        in_the_middle += 0 < len(host.left) < before
        if host.left:
            host.begin()
    for host in hosts:
        assert host.wait() in (0, -9)
        while host.left:
            host.begin()
            assert host.wait() == 0
    for other in others:
        other.kill()
    assert in_the_middle >= KILLS / 2 and kills["keeper"] and kills["shipper"]  # or this proves nothing
    print(f"{dict(kills)} kills, {in_the_middle} of hosts in the middle")

    last = Recorder(database, outbox, no_selection, messages=None)
    last.shipper.start()
    eventually(lambda: last.outbox.waiting() == (0, 0.0), 60 + OUTCOMES / 50)
    eventually(lambda: not rows_of(database, tables.inbox), 60 + OUTCOMES / 50)
    assert last.figures["refused"] == 0
    last.close()

    assert raw_counts(database) == oracle.counts()
    rows = rows_of(database, tables.outcomes, tables.outcomes.c.org, tables.outcomes.c.seq)
    assert len(rows) == OUTCOMES == len({row.event_id for row in rows})
    for org in ORGS:
        seqs = [row.seq for row in rows if row.org == org]
        assert seqs == list(range(1, len(seqs) + 1))
    weighted(range(OUTCOMES), begun, database)
    assert rebuild(database) == {"": 0, "acme": 0, "umbrella": 0}
    learned = {org: dump(database, org) for org in ORGS}
    with database.recording() as connection:
        connection.execute(sa.delete(tables.learned))
    assert all(rebuild(database).values())  # from nothing
    assert {org: dump(database, org) for org in ORGS} == learned and all(learned.values())
    assert len(raw_counts(database)) == 3 * TOOLS
