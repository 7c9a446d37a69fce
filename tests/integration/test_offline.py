"""Events in Parquet: the same figures as the registry's, and one result wherever they are judged."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")
pytest.importorskip("duckdb")

from tests.integration.logged import at, called, event, write_events
from toolroll.cli import main
from toolroll.lab.offline import judging, work
from toolroll.lab.offline.judging import Target, judge
from toolroll.lab.offline.lake import event_files
from toolroll.lab.offline.task import Task
from toolroll.lab.offline.work import run
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.registry.analytics import off_policy
from toolroll.registry.analytics.off_policy_log import evaluate_off_policy
from toolroll.registry.analytics.parquet import export
from toolroll.registry.analytics.parquet_stream import StreamOptions, export_stream
from toolroll.registry.analytics.window import Window
from toolroll.runtime.locations import Location

KINDS = ("succeeded", "failed", "called", "corrected", "meant", "wanted")


def _rows(n: int = 300) -> list[dict]:
    """Events of some organisations with candidates, draws and outcomes of every kind."""
    draw = random.Random(3)
    rows = []
    for number in range(n):
        names = draw.sample([f"tool{k}" for k in range(12)], draw.randint(0, 8))
        scores = sorted((draw.random() for _ in names), reverse=True)
        selected = [name for name in names if draw.random() < 0.6] + (
            ["pinned"] if draw.random() < 0.3 else []
        )
        candidates = [
            [
                name,
                score,
                score + draw.random() / 4,
                0.1,
                1.0,
                None if draw.random() < 0.1 else draw.uniform(0.05, 1),
            ]
            for name, score in zip(names, scores, strict=True)
        ]
        said = {
            name: draw.choice(KINDS[:2] if draw.random() < 0.8 else KINDS)
            for name in selected
            if draw.random() < 0.4
        }
        changes = {
            "org": f"org{draw.randint(0, 5)}",
            "session": draw.choice(["", "s1", "s2", "s3"]),
            "page": draw.choice(["home", "mail"]),
            "profile": draw.choice(["default", "learned"]),
            "selected": selected,
            "candidates": candidates,
            "propensity_error": None if draw.random() < 0.05 else 0.01,
            "latency_us": draw.uniform(50, 500),
            "degraded": ["embedder"] if draw.random() < 0.1 else [],
            "share": draw.choice([1.0, 0.5]),
        }
        make = called if said or draw.random() < 0.5 else event
        if make is called:
            first = next(iter(said.values()), "unused")
            changes |= {"called": said, "outcome": "corrected" if first == "meant" else first}
        rows.append(make(number / 24, **changes))
    return rows


@pytest.fixture
def lake(database, tmp_path: Path) -> Path:
    """Exported events of `database`, in partitions."""
    write_events(database, *_rows())
    options = StreamOptions(buckets=4, slice_s=86_400)
    export_stream(database, Location(str(tmp_path / "lake")), options, now=at(99))
    return tmp_path / "lake"


@pytest.mark.parametrize("rule", judging.RULES)
def test_a_rule_is_judged_as_the_registry_judges_it(database, lake, rule, monkeypatch):
    def decide(row):
        if rule == "logged":
            return row.selected
        names = {name for name, *_ in row.candidates}
        at_score = {
            name: score if rule == "score" or mean is None else mean
            for name, score, mean, *_ in row.candidates
        }
        places = len(names & set(row.selected))
        top = sorted(names, key=lambda name: (at_score[name], name), reverse=True)[:places]
        return [*top, *(name for name in row.selected if name not in names)]

    monkeypatch.setattr(judging, "_ROWS", 97)  # so that events lie across batches
    expected = evaluate_off_policy(database, Window(), decide)
    found = judge(event_files(lake), Target(rule))
    assert (found.events, found.skipped) == (expected.events, expected.skipped)
    ours, theirs = found.judgement.to_dict(), expected.judgement.to_dict()
    for name in ours.keys() - {"doubly_robust"}:
        assert ours[name] == pytest.approx(theirs[name]), name
    assert ours["doubly_robust"]["value"] == pytest.approx(theirs["doubly_robust"]["value"], abs=0.05)


def test_one_file_is_judged_as_its_partitions(database, lake, tmp_path):
    export(database, Window(), tmp_path / "one.parquet")
    one, many = judge(event_files(tmp_path / "one.parquet"), Target()), judge(event_files(lake), Target())
    assert one.judgement.ips.value == pytest.approx(many.judgement.ips.value)
    assert one.events == many.events and len(event_files(lake)) == 4


def test_processes_change_no_bit_of_the_result(lake):
    parts = event_files(lake)
    assert judge(parts, Target(), jobs=2).to_dict() == judge(parts, Target()).to_dict()


@pytest.mark.slow
def test_a_ray_cluster_changes_no_bit_of_the_result(lake, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    parts = event_files(lake)
    assert judge(parts, Target(), on="ray", jobs=2).to_dict() == judge(parts, Target()).to_dict()


def _slow(number: int, folder: str) -> bytes:
    path = Path(folder, str(number))
    if not path.exists():  # the first time
        path.write_text(str(os.getpid()))
        time.sleep(3)
    return str(number).encode()


@pytest.mark.slow
def test_the_task_of_a_lost_worker_is_done_again(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    )
    killed = []

    def kill() -> None:
        while not (tmp_path / "0").exists() or not (tmp_path / "0").read_text():
            time.sleep(0.05)
        killed.append(int((tmp_path / "0").read_text()))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    tasks = [Task(str(number), _slow, (number, str(tmp_path))) for number in range(4)]
    told: list[int] = []
    assert run(tasks, on="ray", jobs=2, progress=lambda done, of: told.append(done)) == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]
    thread.join()
    assert killed and killed[0] != os.getpid() and told == [0, 1, 2, 3, 4]


def _counted(path: str, number: int) -> bytes:
    with open(path, "a") as file:
        file.write(f"{number} ")
    if number == 3 and not os.path.exists(f"{path}.again"):
        raise RuntimeError("cut")
    return bytes([number])


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    log, kept = str(tmp_path / "log"), tmp_path / "kept"
    tasks = [Task(str(number), _counted, (log, number)) for number in range(5)]
    with pytest.raises(RuntimeError, match="cut"):
        run(tasks, kept=kept)
    Path(f"{log}.again").touch()
    damaged = min(kept.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert run(tasks, kept=kept) == [bytes([number]) for number in range(5)]
    assert len(Path(log).read_text().split()) == 4 + 3  # one was damaged, 3 and 4 were not done


def test_what_is_wrong_is_said(tmp_path, capsys):
    with pytest.raises(NotFound, match="no Parquet file"):
        event_files(tmp_path)
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(InvalidInput, match="Parquet"):
        judge(event_files(tmp_path), Target())
    with pytest.raises(InvalidInput, match="rule"):
        Target("best")
    with pytest.raises(InvalidInput, match="on: is"):
        work.run([], on="moon")
    assert main(["events", "parquet", "judge", str(tmp_path / "none")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_the_command_line_prints_it(lake, capsys):
    assert main(["events", "parquet", "judge", str(lake)]) == 0
    assert capsys.readouterr().out
    assert main(["events", "parquet", "judge", str(lake), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_sums_of_parts_are_the_sums_of_the_whole():
    draw = np.random.default_rng(5)
    event = np.repeat(np.arange(60), 3)
    shown = draw.random(180) < 0.7
    log = off_policy.Log(
        event,
        draw.uniform(0.1, 1, 180),
        shown,
        np.where(shown, draw.random(180) / 3, 0),
        draw.integers(0, 2, 180).astype(float),
        draw.integers(0, 20, 60),
        -draw.random(180),
    )

    def some(first: int, last: int) -> off_policy.Log:
        rows = (event >= first) & (event < last)
        columns = [getattr(log, name)[rows] for name in ("propensity", "shown", "reward", "target")]
        return off_policy.Log(event[rows] - first, *columns, log.session[first:last], log.fit[rows])

    seen, brought = off_policy.OutcomeModel.nothing(), off_policy.OutcomeModel.nothing()
    off_policy.OutcomeModel.count(log, 10.0, seen, brought)
    model = off_policy.OutcomeModel.of(seen, brought)

    def sums(part: off_policy.Log) -> off_policy.SessionSums:
        return off_policy.SessionSums.of(part, 10.0, model.expected(part))

    whole, joined = sums(log), off_policy.SessionSums.joined([sums(some(0, 25)), sums(some(25, 60))])
    for name, column in whole.arrays().items():
        assert joined.arrays()[name] == pytest.approx(column), name
    found = off_policy.estimates(joined)
    assert found.to_dict()["ips"] == pytest.approx(off_policy.judge(log).to_dict()["ips"])


def _without_times(simulation) -> str:
    """What was played, as text: NaN is NaN there."""
    return repr(
        [
            [replace(world, values={name: v for name, v in world.values.items() if not name.endswith("_us")})]
            for policies in simulation.played.values()
            for worlds in policies.values()
            for world in worlds
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("on", ["here", "ray"])
def test_worlds_and_queries_come_to_the_same_elsewhere(tmp_path, monkeypatch, on):
    if on == "ray":
        pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    from toolroll.lab.evaluation import asking
    from toolroll.lab.evaluation.quality import evaluate
    from toolroll.lab.simulation.simulation import Plan, simulate

    plan = Plan(worlds=2, messages=100, policies=("static", "default"))
    here, there = simulate(plan), simulate(plan, 2, on=on, kept=str(tmp_path / "worlds"))
    assert _without_times(here) == _without_times(there)
    assert _without_times(simulate(plan, kept=str(tmp_path / "worlds"))) == _without_times(there)
    monkeypatch.setattr(asking, "_SOME", 7)
    folder = tmp_path / "data"
    folder.mkdir()
    names = [f"{verb}_{thing}" for verb in ("send", "find", "delete") for thing in ("mail", "file", "order")]
    (folder / "tools.jsonl").write_text(
        "".join(json.dumps({"name": name, "description": name.replace("_", " a ")}) + "\n" for name in names)
    )
    queries = [
        {
            "id": name,
            "text": f"please {name.replace('_', ' the ')}",
            "gold": [name],
            "split": "test",
            "context": {},
        }
        for name in names
    ]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    one = evaluate(str(folder))
    two = evaluate(str(folder), on=on, jobs=2, kept=str(tmp_path / "answers"))
    assert one.answers == two.answers and one.figures == two.figures


@pytest.mark.slow
@pytest.mark.parametrize("on", ["here", "ray"])
def test_a_catalog_is_embedded_elsewhere_with_the_same_vectors(tmp_path, monkeypatch, on):
    if on == "ray":
        pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    from toolroll.embedders import named
    from toolroll.lab.offline.embedding import embed_batches
    from toolroll.model.embedder import vectors_of

    batches = [[f"text {n} of batch {k}" for n in range(9)] for k in range(5)]
    found = dict(embed_batches("static", batches, on=on, jobs=2))
    embedder = named.embedder("static")
    assert all(np.array_equal(found[at], vectors_of(embedder, some)) for at, some in enumerate(batches))
