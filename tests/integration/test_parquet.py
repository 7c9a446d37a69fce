"""Events as a Parquet file: types, order, what is left out, and memory."""

from __future__ import annotations

import json
import os
import tracemalloc

import numpy as np
import pytest

pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

from tests.integration.logged import at, called, event, write_events  # noqa: E402
from toolroll.model.errors import InvalidInput  # noqa: E402
from toolroll.registry.analytics import parquet  # noqa: E402
from toolroll.registry.analytics.parquet import export  # noqa: E402
from toolroll.registry.analytics.window import Window  # noqa: E402

ALL = Window()


def test_events_come_back_as_they_were_oldest_first(database, tmp_path):
    vector = np.array([0.5, -0.5], "<f2").tobytes()
    rows = [
        called(
            2,
            candidates=[["find", 0.75, -0.1, 0.2, 1.0, 0.9], ["send", 0.5, None, None, 1.0, None]],
            degraded=["embedder"],
            propensity_error=0.0,
            vector=vector,
        ),
        event(0, selected=[], session="s1", org=""),
        event(1, confidence=None),
    ]
    write_events(database, *rows)
    assert export(database, ALL, tmp_path / "events.parquet") == 3
    found = pq.read_table(tmp_path / "events.parquet").to_pylist()
    assert [row["event_id"] for row in found] == [rows[n]["event_id"] for n in (1, 2, 0)]
    last = found[2]
    assert last["at"] == at(2) and last["recorded_at"] == at(2)
    assert last["called"] == [("find", "succeeded")] and last["outcome"] == "succeeded"
    assert last["candidates"][0] == {
        "name": "find", "score": 0.75, "mean": -0.1, "sd": 0.2, "show": 1.0, "propensity": 0.9,
    }  # fmt: skip
    assert last["candidates"][1]["propensity"] is None
    assert last["seed"] == -(2**63) + 1 and last["degraded"] == ["embedder"]
    assert found[0]["selected"] == [] and found[0]["called"] is None
    assert found[1]["confidence"] is None


def test_what_users_wrote_goes_with_it_only_where_it_is_asked_for(database, tmp_path):
    write_events(database, event(message="my secret plan", vector=b"\0\x3c"))
    export(database, ALL, tmp_path / "without.parquet")
    assert not {"message", "vector", "context"} & set(pq.read_schema(tmp_path / "without.parquet").names)
    assert b"secret" not in (tmp_path / "without.parquet").read_bytes()
    export(database, ALL, tmp_path / "with.parquet", messages=True, vectors=True)
    (row,) = pq.read_table(tmp_path / "with.parquet").to_pylist()
    assert (row["message"], row["message_form"], row["vector"]) == ("my secret plan", "kept", b"\0\x3c")


def test_a_window_of_nothing_is_a_file_without_rows(database, tmp_path):
    write_events(database, event())
    assert export(database, Window("nobody"), tmp_path / "none.parquet") == 0
    table = pq.read_table(tmp_path / "none.parquet")
    assert table.num_rows == 0 and "propensity_error" in table.column_names
    assert export(database, Window("acme", since=at(-1), until=at(1)), tmp_path / "one.parquet") == 1


def test_events_are_written_in_groups_while_they_are_read(database, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP", 100)
    write_events(database, *(event(n / 100) for n in range(250)))
    told = []
    assert export(database, ALL, tmp_path / "e.parquet", progress=told.append) == 250
    assert told == [100, 200, 250]
    file = pq.ParquetFile(tmp_path / "e.parquet")
    assert file.num_row_groups == 3
    assert pc.min_max(file.read().column("at")).as_py() == {"min": at(0), "max": at(2.49)}


@pytest.mark.slow
def test_memory_holds_a_group_whatever_the_number_of_events(database, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP", 200)
    wide = [[f"tool-{n}", 0.5, 0.1, 0.2, 1.0, 0.3] for n in range(40)]
    peaks = []
    for more in (400, 1_600):
        write_events(database, *(event(candidates=wide) for _ in range(more)))
        tracemalloc.start()
        export(database, ALL, tmp_path / "e.parquet")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_file_appears_whole_or_not_at_all(database, tmp_path, monkeypatch):
    write_events(database, event())
    with pytest.raises(InvalidInput, match="cannot be written"):
        export(database, ALL, tmp_path / "no" / "e.parquet")
    target = tmp_path / "e.parquet"
    target.write_text("as it was")

    def fails(rows, schema):
        raise RuntimeError

    monkeypatch.setattr(parquet, "_table", fails)
    with pytest.raises(RuntimeError):
        export(database, ALL, target)
    assert target.read_text() == "as it was"
    assert [path.name for path in tmp_path.glob("*e.parquet*")] == ["e.parquet"]


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="has no devices with names")
def test_links_and_devices_stay_what_they_are(database, tmp_path):
    write_events(database, event())
    (tmp_path / "e.parquet").symlink_to(tmp_path / "real.parquet")
    export(database, ALL, tmp_path / "e.parquet")
    assert (tmp_path / "e.parquet").is_symlink() and pq.read_table(tmp_path / "real.parquet").num_rows == 1
    (tmp_path / "nowhere").symlink_to("/dev/null")
    export(database, ALL, tmp_path / "nowhere")
    assert (tmp_path / "nowhere").is_symlink() and not os.path.isfile("/dev/null")


def test_names_that_are_no_ascii_and_empty_ones_survive(database, tmp_path):
    names = ["찾기", "", 'a"b', "x" * 200]
    write_events(database, called(called=dict.fromkeys(names, "failed"), selected=names))
    export(database, ALL, tmp_path / "e.parquet")
    (row,) = pq.read_table(tmp_path / "e.parquet").to_pylist()
    assert row["selected"] == names and [name for name, _ in row["called"]] == names
    json.dumps(row["selected"])
