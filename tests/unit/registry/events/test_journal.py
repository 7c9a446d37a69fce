"""The journal: what was written comes back, whatever happened to the file or to who wrote it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.errors import InvalidInput, StoreUnavailable
from toolroll.registry.events import journal as module
from toolroll.registry.events.journal import Damage, Journal, frame, records_in


def records(journal: Journal, most: int = 10**9) -> list[bytes]:
    return [one.record for one in journal.peek(most)]


def left(journal: Journal) -> list[list[bytes]]:
    return [list(orphan.records()) for orphan in journal.orphans()]


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_what_is_framed_is_found_in_its_order(written: list[bytes]) -> None:
    damage = Damage()
    assert [record for record, _ in records_in(b"".join(map(frame, written)), damage)] == written
    assert damage == Damage()


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=8), st.data())
def test_damage_costs_the_records_that_it_hits_and_is_counted(
    written: list[bytes], data: st.DataObject
) -> None:
    frames = [frame(record) for record in written]
    whole = bytearray(b"".join(frames))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    hit, end = 0, 0
    for place, framed in enumerate(frames):
        end += len(framed)
        if at < end:
            hit = place
            break
    damage = Damage()
    found = [record for record, _ in records_in(bytes(whole), damage)]
    assert found == written[:hit] + written[hit + 1 :]
    assert (damage.stretches, damage.bytes) == (1, len(frames[hit]))


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5), st.data())
def test_a_torn_end_costs_the_last_record_alone(written: list[bytes], data: st.DataObject) -> None:
    last = frame(written[-1])
    torn = b"".join(map(frame, written[:-1])) + last[: data.draw(st.integers(0, len(last) - 1))]
    assert [record for record, _ in records_in(torn, Damage())] == written[:-1]


@given(st.binary(max_size=400))
def test_noise_is_no_record_and_no_crash(noise: bytes) -> None:
    damage = Damage()
    assert list(records_in(noise, damage)) == []
    assert damage.bytes == len(noise)


def test_records_wait_until_they_are_drained(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.is_empty and records(journal) == []
    for at in range(5):
        journal.append(b"%d" % at)
    assert records(journal, 2) == [b"0", b"1"] and not journal.is_empty
    journal.acknowledge(journal.peek(2)[-1].end)
    assert records(journal) == [b"2", b"3", b"4"]
    journal.acknowledge(journal.peek(9)[-1].end)
    assert journal.is_empty and records(journal) == []
    journal.append(b"5")
    assert records(journal) == [b"5"]
    journal.close()


def test_segments_go_when_they_are_drained_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    journal = Journal(tmp_path)
    written = [b"%030d" % at for at in range(20)]
    for record in written:
        journal.append(record)
    count = len(list(tmp_path.glob("*.log")))
    assert count > 5 and records(journal) == written
    some = journal.peek(10)
    journal.acknowledge(some[-1].end)
    assert 1 < len(list(tmp_path.glob("*.log"))) < count
    assert records(journal) == written[10:]
    journal.acknowledge(journal.peek(99)[-1].end)
    assert len(list(tmp_path.glob("*.log"))) == 1
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_that_is_drained_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPENT_BYTES", 100)
    journal = Journal(tmp_path)
    for turn in range(50):
        for at in range(5):
            journal.append(b"%020d" % (5 * turn + at))
        assert records(journal) == [b"%020d" % (5 * turn + at) for at in range(5)]
        journal.acknowledge(journal.peek(9)[-1].end)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.log")) < 400
    journal.close()


def test_damage_on_the_disk_is_passed_over_and_does_not_stand_in_the_way(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for at in range(3):
        journal.append(b"record %d" % at)
    (path,) = tmp_path.glob("*.log")
    with path.open("r+b") as file:
        file.seek(len(frame(b"record 0")) + 14)
        file.write(b"X")
    assert records(journal) == [b"record 0", b"record 2"]
    assert journal.damage.stretches == 1
    journal.acknowledge(journal.peek(9)[-1].end)
    assert journal.is_empty
    journal.append(b"record 3")
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"X")
    assert records(journal) == [] and journal.is_empty
    journal.close()


def test_threads_write_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 4_000)
    journal = Journal(tmp_path)
    drained: list[bytes] = []

    def write(thread: int) -> None:
        for at in range(300):
            journal.append(b"%d %d " % (thread, at) + b"x" * (at % 50))

    threads = [threading.Thread(target=write, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or not journal.is_empty:
        found = journal.peek(64)
        drained += [one.record for one in found]
        if found:
            journal.acknowledge(found[-1].end)
    assert len(drained) == 2_400 and len(set(drained)) == 2_400
    for thread in range(8):
        own = [int(record.split()[1]) for record in drained if record.startswith(b"%d " % thread)]
        assert own == list(range(300))
    assert journal.damage == Damage()
    journal.close()


def test_a_full_journal_refuses_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1_000)
    journal = Journal(tmp_path, most_bytes=5_000)
    taken = 0
    with pytest.raises(StoreUnavailable, match="is full .*nothing was recorded"):
        while True:
            journal.append(b"%0200d" % taken)
            taken += 1
    assert 15 < taken < 25
    assert len(records(journal)) == taken
    journal.acknowledge(journal.peek(99)[-1].end)
    journal.append(b"again")
    assert records(journal) == [b"again"]
    journal.close()


def test_what_others_left_counts_toward_the_limit(tmp_path: Path) -> None:
    (tmp_path / "1-abc.000001.log").write_bytes(b"\0" * 6_000)
    journal = Journal(tmp_path, most_bytes=5_000)
    with pytest.raises(StoreUnavailable, match="is full"):
        journal.append(b"one")
    journal.close()


@pytest.mark.skipif(sys.platform != "linux", reason="a disk that is always full is a file here")
def test_a_full_disk_is_an_error_and_half_a_record_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.append(b"first")
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[: len(data) // 2]))
    with pytest.raises(StoreUnavailable, match="disk is full; nothing was recorded"):
        journal.append(b"second")
    monkeypatch.undo()
    journal.append(b"third")
    assert records(journal) == [b"first", b"third"]
    assert journal.damage == Damage()
    journal.close()


def test_a_folder_that_cannot_be_made_says_which(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal")
    with pytest.raises(StoreUnavailable, match=r"file.journal: cannot be written: .*nothing was recorded"):
        journal.append(b"one")
    assert list(journal.orphans()) == []


def test_a_record_has_a_limit(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(InvalidInput, match="must be at most"):
        journal.append(b"x" * (module.LARGEST + 1))
    journal.close()


def test_a_journal_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    journal.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        journal.append(b"two")


def test_on_disk_means_synced_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file))[1])
    relaxed, strict = Journal(tmp_path / "a"), Journal(tmp_path / "b", durable="disk")
    relaxed.append(b"one")
    assert synced == []
    relaxed.sync()
    assert len(synced) == 1
    relaxed.sync()
    assert len(synced) == 1  # nothing new
    strict.append(b"one")
    before = len(synced)
    strict.append(b"two")
    assert len(synced) == before + 1
    relaxed.close()
    strict.close()


WRITES = """
import sys
from pathlib import Path
from toolroll.registry.events.journal import Journal

journal = Journal(Path(sys.argv[1]))
at = 0
while True:
    journal.append(b"%d" % at)
    print(at, flush=True)
    at += 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here")
def test_what_a_killed_process_acknowledged_is_adopted_whole(tmp_path: Path) -> None:
    for moment in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            acknowledged = [process.stdout.readline() for _ in range(50 + 37 * moment)]
            watcher = Journal(tmp_path)
            assert left(watcher) == []  # it is alive
            process.send_signal(signal.SIGKILL)
            acknowledged += process.stdout.read().splitlines(keepends=True)
        last = int([line for line in acknowledged if line.endswith(b"\n")][-1])
        ((found),) = left(watcher)
        assert found[: last + 1] == [b"%d" % at for at in range(last + 1)]
        assert len(found) <= last + 2  # one that was written and not yet said
        for orphan in watcher.orphans():
            orphan.clear()
        watcher.close()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_writes_a_journal_of_its_own(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"parent")
    child = os.fork()
    if child == 0:  # pragma: no cover
        journal.reset_in_child()
        journal.append(b"child")
        os._exit(0)
    os.waitpid(child, 0)
    journal.append(b"parent again")
    assert records(journal) == [b"parent", b"parent again"]
    assert left(journal) == [[b"child"]]
    journal.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_lives_on_does_not_keep_its_parents_journal_from_being_adopted(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:  # pragma: no cover
        journal = Journal(tmp_path)
        journal.append(b"of a parent that dies")
        child = os.fork()
        if child == 0:
            journal.reset_in_child()
            os.read(reading, 1)
        os._exit(0)
    os.waitpid(parent, 0)
    journal = Journal(tmp_path)
    try:
        assert left(journal) == [[b"of a parent that dies"]]
    finally:
        os.write(writing, b".")
        journal.close()


def test_two_who_would_adopt_the_same_do_not_both(tmp_path: Path) -> None:
    lost = Journal(tmp_path)
    lost.append(b"one")
    assert lost._file is not None and lost._alive is not None
    os.close(lost._file)
    lost._alive.close()
    one, other = Journal(tmp_path), Journal(tmp_path)
    for orphan in one.orphans():
        assert list(orphan.records()) == [b"one"] and left(other) == []
        orphan.clear()
    assert left(one) == left(other) == []
    lost._file = lost._alive = None


def test_noise_of_any_kind_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    draws = random.Random(1)
    (tmp_path / "README").write_text("hello")
    (tmp_path / "9-zzz.alive").write_bytes(b"")
    (tmp_path / "9-zzz.000001.log").write_bytes(
        draws.randbytes(5_000) + frame(b"sound") + draws.randbytes(99)
    )
    journal = Journal(tmp_path)
    assert left(journal) == [[b"sound"]]
    assert journal.damage.stretches == 2
    journal.close()


def test_a_journal_that_can_no_longer_be_written_says_so_before_and_after_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.problem() is None  # the first record makes the folder
    journal.append(b"one")
    assert journal.problem() is None
    away = tmp_path / "journal"
    away.rename(tmp_path / "elsewhere")
    assert "is gone" in str(journal.problem())
    (tmp_path / "elsewhere").rename(away)
    assert journal.problem() is None
    with monkeypatch.context() as patched:
        patched.setattr(module.os, "access", lambda *_: False)  # root may write everywhere
        assert "cannot be written" in str(journal.problem())
    with monkeypatch.context() as patched:
        patched.setattr(module.os, "write", lambda *_: 1)  # the disk is full
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            journal.append(b"two")
    assert "the disk is full" in str(journal.problem())
    journal.append(b"three")
    assert journal.problem() is None and records(journal) == [b"one", b"three"]
    journal.close()
