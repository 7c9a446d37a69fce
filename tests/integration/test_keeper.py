"""Keepers: one at a time, whatever happens to it; and what hosts do without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.outcome_worker import event, no_selection
from tests.integration.outcomes import Oracle, dump, eventually, raw_counts, rows_of
from tests.integration.recorder import Recorder
from toolroll import Recording, Toolroll
from toolroll.cli.registry.state import keep
from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.events import lease
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.keeper import Keeper
from toolroll.registry.keeper.process import KeeperProcess
from toolroll.registry.outbox import shipper
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

BEGUN = 1_700_000_000.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_S", 0.5)
    monkeypatch.setattr(lease, "RENEW_S", 0.1)


@pytest.fixture
def host(database: Database, tmp_path: Path) -> Iterator[Recorder]:
    """A host without a keeper."""
    recorder = Recorder(database, tmp_path / "outbox", no_selection, messages=None, keeps=False)
    yield recorder
    recorder.close(5)


def stop_outside_of_transactions(process: subprocess.Popen[str], database: Database) -> None:
    """Stops a process while it holds no lock of SQLite: nobody could write until it goes on."""
    while True:
        process.send_signal(signal.SIGSTOP)
        try:
            with database.recording():
                return
        except StoreUnavailable:
            process.send_signal(signal.SIGCONT)


def record(host: Recorder, numbers: range) -> None:
    for number in numbers:
        host.record(*event(number, BEGUN), now=BEGUN + number)


def oracle_of(numbers: range) -> Oracle:
    oracle = Oracle()
    for number in numbers:
        oracle.take(ReceivedReport(*event(number, BEGUN), BEGUN))
    return oracle


def test_a_waiting_keeper_says_nothing_of_a_database_that_is_busy_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> bool:
        raise StoreUnavailable("database is locked")

    keeper = Keeper(database)
    monkeypatch.setattr(lease, "take", busy)
    assert keeper._step() == keeper._step() == lease.RENEW_S
    with pytest.raises(StoreUnavailable):
        keeper._step()
    keeper.is_held = True
    with pytest.raises(StoreUnavailable):
        keeper._step()


def test_what_is_kept_is_what_one_batch_would_have_written(
    database: Database, host: Recorder, new_database_url: Callable[[str], str]
) -> None:
    """The same bits, in whatever batches the records come, and however often."""
    alone = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    ingest(alone, [], [ReceivedReport(*event(number, BEGUN), BEGUN + number) for number in range(300)])
    keeper = Keeper(database)
    for start in range(0, 300, 60):
        record(host, range(start, start + 60))
        assert host.shipper.ship(10)
        keeper._step()
        record(host, range(start, start + 20))  # again
    keeper.start()
    assert host.shipper.flush(10, keeper.hurry)
    keeper.drain(5)
    keeper.close(5)
    for org in ("acme", "umbrella", ""):
        assert dump(database, org) == dump(alone, org)
    assert len(rows_of(database, tables.outcomes)) == 300
    alone.close()


def test_of_two_keepers_one_works_and_the_other_takes_over(database: Database, host: Recorder) -> None:
    first, second = Keeper(database), Keeper(database)
    first._step()
    second._step()
    assert (first.is_held, second.is_held) == (True, False)
    record(host, range(20))
    assert host.shipper.ship(10)
    second._step()
    assert rows_of(database, tables.outcomes) == []
    first._step()
    assert len(rows_of(database, tables.outcomes)) == 20
    first.drain(1)
    second._renewed_at = -1.0
    second._step()
    assert second.is_held and lease.state_of(database).holder == second.holder


def test_a_keeper_that_was_stopped_past_its_lease_commits_nothing(
    database: Database, host: Recorder, short_leases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = Keeper(database), Keeper(database)
    slow._step()
    record(host, range(40))
    assert host.shipper.ship(10)
    table = tables.inbox
    with database.reading() as connection:
        read = [(row.id, row.record) for row in connection.execute(sa.select(table))]
    time.sleep(0.7)  # it is stopped here, with a batch in its hands
    monkeypatch.setattr(lease, "LEASE_S", 60.0)
    quick._step()
    assert quick.is_held and len(rows_of(database, tables.outcomes)) == 40
    record(host, range(40, 50))
    assert host.shipper.ship(10)
    before = dump(database, "acme"), rows_of(database, tables.learning_state)
    with pytest.raises(lease.LeaseLost):
        slow._count(read)
    slow._step()  # and when it notices, it waits
    assert not slow.is_held and len(rows_of(database, tables.inbox)) == 10
    assert (dump(database, "acme"), rows_of(database, tables.learning_state)) == before
    quick._step()
    assert raw_counts(database) == oracle_of(range(50)).counts()


def test_nobody_takes_the_lease_from_a_keeper_in_the_middle_of_a_batch(
    new_database_url: Callable[[str], str], short_leases: None
) -> None:
    database = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    one, other = lease.new_holder(), lease.new_holder()
    assert lease.take(database, one, {})
    with database.recording() as connection:
        lease.renew_in(connection, one, {})
        time.sleep(0.6)
        thread = threading.Thread(target=lambda: results.append(lease.take(database, other, {})))
        results: list[bool] = []
        thread.start()
        time.sleep(0.2)
        assert results == []
    thread.join(60)
    assert results in ([True], [False])  # after the commit
    database.close()


def test_a_clock_that_was_set_back_keeps_nobody_waiting(database: Database) -> None:
    assert lease.take(database, "before", {})
    with database.recording() as connection:
        connection.execute(sa.update(tables.keeper).values(until=tables.keeper.c.until + 86_400))
    assert lease.take(database, "after", {}) and not lease.take(database, "before", {})


def test_without_a_keeper_hosts_wait_within_bounds_and_refuse_nothing(
    database: Database, host: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "MOST_INBOX", 100)
    monkeypatch.setattr(shipper, "_COUNT_S", 0.0)
    monkeypatch.setattr(shipper, "_RECORDS", 50)
    monkeypatch.setattr(shipper, "_NOBODY_S", 0.0)
    for start in range(0, 500, 50):
        record(host, range(start, start + 50))
    eventually(lambda: "its inbox is full" in (host.health()["failing"] or ""), 30)
    assert 100 <= len(rows_of(database, tables.inbox)) <= 150
    health = host.health()
    assert "no keeper runs" in health["unkept"] and "toolroll registry keep" in health["unkept"]
    assert health["outcomes"]["waiting_bytes"] > 100_000 and health["outbox"] is None
    keeper = Keeper(database)
    keeper.start()
    eventually(lambda: raw_counts(database) == oracle_of(range(500)).counts(), 60)
    eventually(lambda: host.health()["unkept"] is None and host.health()["failing"] is None, 30)
    assert host.health()["keeper"]["holder"] == keeper.holder
    keeper.drain(5)
    keeper.close(5)


def test_a_host_says_who_keeps_its_registry(database_url: str, tmp_path: Path) -> None:
    with Toolroll.open(database_url, recording=Recording(outbox=tmp_path / "one")) as roll:
        eventually(lambda: (roll.health()["recording"]["keeper"] or {}).get("runs"))
        holder = roll.health()["recording"]["keeper"]["holder"]
        recording = Recording(outbox=tmp_path / "two", keeper="none")
        with Toolroll.open(database_url, recording=recording) as other:
            eventually(lambda: (other.health()["recording"]["keeper"] or {}).get("holder") == holder)
            assert other.health()["degraded"] == roll.health()["degraded"] == []
    assert f":{os.getpid()}:" in holder


def test_an_outbox_is_not_the_file_of_the_registry(new_database_url: Callable[[str], str]) -> None:
    url = new_database_url("sqlite")
    with pytest.raises(InvalidInput, match="outbox: is .* the registry's own file"):
        Toolroll.open(url, recording=Recording(outbox=url.removeprefix("sqlite:///")))


def test_a_keeper_keeps_events_as_long_as_their_receipts_are_valid(database_url: str) -> None:
    with pytest.raises(InvalidInput, match="events_s: is 5"):
        keep.main(["--catalog", database_url, "--events", "5s"], standalone_mode=False)


# Processes.


@contextmanager
def keeping(url: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "toolroll", "registry", "keep", "--catalog", url, "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # of a test that failed, or its process would be waited for


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_stopped_process_loses_the_lease_and_all_counts_once(
    database: Database, database_url: str, host: Recorder
) -> None:
    with keeping(database_url) as first, keeping(database_url) as second:
        eventually(lambda: lease.state_of(database).is_held, 30)
        holder = lease.state_of(database).holder
        held, other = (first, second) if f":{first.pid}:" in holder else (second, first)
        record(host, range(100))
        assert host.shipper.flush(60)
        stop_outside_of_transactions(held, database)
        record(host, range(100, 200))
        assert host.shipper.flush(60)  # the other one takes over
        assert f":{other.pid}:" in lease.state_of(database).holder
        held.send_signal(signal.SIGCONT)
        record(host, range(200, 300))
        assert host.shipper.flush(60)
        said = []
        for process in (other, held):
            process.send_signal(signal.SIGTERM)
            said.append(process.communicate(timeout=120))
            assert process.returncode == 0, said[-1]
    assert f"keeping {database.url}" in said[0][1] and "keeps" in said[1][1] + said[0][1]
    assert json.loads(said[0][0])["counted"] >= 200
    assert raw_counts(database) == oracle_of(range(300)).counts()


PARENT = """
import sys, time
from toolroll.registry.keeper.process import KeeperProcess

keeper = KeeperProcess(sys.argv[1])
keeper.start()
while keeper._process is None:
    time.sleep(0.01)
print(keeper._process.pid, flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_of_a_service_ends_with_it_and_is_replaced_when_it_dies(
    database: Database, database_url: str, host: Recorder
) -> None:
    keeper = KeeperProcess(database_url)
    keeper.start()
    record(host, range(20))
    assert host.shipper.flush(30)
    first = keeper._process
    assert first is not None
    first.kill()
    record(host, range(20, 40))
    assert host.shipper.flush(30) and keeper._process is not first
    keeper.close(10)
    assert not lease.state_of(database).is_held  # it has let go
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, database_url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        eventually(lambda: lease.state_of(database).is_held, 30)
        parent.kill()
    eventually(lambda: not is_alive(child), 20)
    assert raw_counts(database) == oracle_of(range(40)).counts()
