"""Events exported continuously: each once, in its partition, whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta

import pytest

pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fsspec")

from tests.integration.logged import at, called, event, write_events  # noqa: E402
from toolroll.cli import main  # noqa: E402
from toolroll.model.errors import Conflict, InvalidInput, Unavailable  # noqa: E402
from toolroll.registry.analytics.parquet_stream import StreamOptions, export_stream  # noqa: E402
from toolroll.runtime.locations import Location  # noqa: E402

KILLS = int(os.environ.get("TOOLROLL_KILLS", "12"))
HASHED = StreamOptions(buckets=4)


def _ids(folder) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in folder.rglob("*.parquet"):
        found.update(pq.ParquetFile(path).read(columns=["event_id"]).column("event_id").to_pylist())
    return found


def _once(rows) -> Counter[str]:
    return Counter(row["event_id"] for row in rows)


def test_settled_slices_are_written_once_and_the_rest_later(database, tmp_path):
    rows = [event(n / 24, org=f"org{n % 5}") for n in range(60)]
    write_events(database, *rows)
    place = Location(str(tmp_path / "lake"))
    first = export_stream(database, place, HASHED, now=at(1), settle_s=3_600)
    assert first.events == len(_ids(tmp_path / "lake")) == 23 and first.until == at(1) - timedelta(hours=1)
    assert export_stream(database, place, HASHED, now=at(1)).events == 0
    assert export_stream(database, place, HASHED, now=at(9)).events == 37
    assert _ids(tmp_path / "lake") == _once(rows)


def test_a_database_that_lags_is_exported_up_to_what_it_has(database, tmp_path):
    rows = [event(n / 24) for n in range(48)]
    write_events(database, *rows)
    place, database.behind_s = Location(str(tmp_path / "lake")), 3 * 3_600.0  # as that of a read replica
    told = export_stream(database, place, HASHED, now=at(1), settle_s=3_600)
    assert told.until == at(1) - timedelta(hours=4) and told.events == 20


def test_organisations_and_months_have_folders(database, tmp_path):
    write_events(database, event(0, org="a/b"), event(31, org=""), event(0, org="a/b", message="secret"))
    export_stream(database, Location(str(tmp_path / "l")), StreamOptions(by="org"), now=at(99))
    files = sorted(
        str(path.relative_to(tmp_path / "l").parent) for path in (tmp_path / "l").rglob("*.parquet")
    )
    assert files == ["org_id=__none__/month=2026-04", "org_id=a%2Fb/month=2026-03"]
    assert all(b"secret" not in path.read_bytes() for path in (tmp_path / "l").rglob("*.parquet"))


def test_events_that_arrive_late_follow_once(database, tmp_path):
    rows = [event(0.01 * n) for n in range(10)]
    write_events(database, *rows)
    place, now = Location(str(tmp_path / "lake")), at(0.5)
    export_stream(database, place, HASHED, now=now)
    late = [event(0.005), called(0.015)]
    write_events(database, *late)
    told = export_stream(database, place, HASHED, now=now)
    assert (told.events, told.late) == (2, 2)
    assert export_stream(database, place, HASHED, now=now).events == 0
    assert _ids(tmp_path / "lake") == _once([*rows, *late])
    empty = event(0.4)  # in a slice without any
    write_events(database, empty)
    assert export_stream(database, place, HASHED, now=now).late == 1
    write_events(database, event(0.02))
    assert export_stream(database, place, HASHED, now=at(9), late_s=60).late == 0  # too late
    assert export_stream(database, place, HASHED, now=at(9), late_s=864_000).events == 0  # for good
    assert _ids(tmp_path / "lake") == _once([*rows, *late, empty])


def test_a_location_keeps_the_options_it_was_begun_with(database, tmp_path):
    write_events(database, event())
    place = Location(str(tmp_path / "lake"))
    export_stream(database, place, HASHED, now=at(1))
    with pytest.raises(InvalidInput, match="buckets was 4"):
        export_stream(database, place, StreamOptions(buckets=8), now=at(1))
    cursor = tmp_path / "lake" / "_toolroll" / "cursor.json"
    cursor.write_text(cursor.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(InvalidInput, match="format 2"):
        export_stream(database, place, HASHED, now=at(1))
    cursor.write_text("{")
    with pytest.raises(InvalidInput, match="cannot be read"):
        export_stream(database, place, HASHED, now=at(1))


def test_a_second_export_is_refused_while_the_first_runs(database, tmp_path):
    write_events(database, event(), event(1))
    place = Location(str(tmp_path / "lake"))

    def again(_):
        with pytest.raises(Conflict, match="exports there"):
            export_stream(database, place, HASHED, now=at(3))

    assert export_stream(database, place, HASHED, now=at(3), progress=again).events == 2


@pytest.mark.parametrize("fails_at", range(12))
def test_a_write_that_fails_anywhere_leaves_nothing_twice(database, tmp_path, monkeypatch, fails_at):
    rows = [event(n / 48, org=f"org{n % 3}") for n in range(8)]
    write_events(database, *rows)
    place, calls = Location(str(tmp_path / "lake")), [0]

    def counted(real):
        def call(self, *arguments):
            calls[0] += 1
            if calls[0] == fails_at + 2:
                raise Unavailable("cut")
            return real(self, *arguments)

        return call

    with monkeypatch.context() as patched:
        for name in ("write", "upload", "delete"):
            patched.setattr(Location, name, counted(getattr(Location, name)))
        with pytest.raises(Unavailable):
            export_stream(database, place, HASHED, now=at(1))
    write_events(database, late := event(0.011, org="org1"))
    lease = tmp_path / "lake" / "_toolroll" / "lease.json"
    lease.unlink(missing_ok=True)
    export_stream(database, place, HASHED, now=at(1))
    assert _ids(tmp_path / "lake") == _once([*rows, late])


@pytest.mark.slow
def test_an_export_that_is_killed_at_any_point_writes_each_event_once(database_url, database, tmp_path):
    rows = [event(n / 96, org=f"org{n % 7}") for n in range(400)]
    write_events(database, *rows)
    command = [sys.executable, "-m", "toolroll", "events", "export", str(tmp_path / "lake"), "--partitioned"]
    command += ["--catalog", database_url, "--buckets", "4", "--settle", "1h", "--late", "52w"]
    random_ = random.Random(7)
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(0.5 + 1.5 * random_.random())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert max(_ids(tmp_path / "lake").values(), default=1) == 1
        rows.append(late := event(random_.random() * 4, org="org3"))
        write_events(database, late)
    assert main(command[3:]) == 0
    assert _ids(tmp_path / "lake") == _once(rows)
