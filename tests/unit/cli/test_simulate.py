"""What `toolroll simulate` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.lab.worlds import query, write
from toolroll.cli import main

pytestmark = pytest.mark.slow

WORDS = ("rain", "mail", "song", "bank", "train", "soup", "code", "door", "tree", "ball")
SMALL = ("--worlds", "2", "--messages", "100", "-k", "2", "--half", "all")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tools = [{"name": f"{word}_tool", "description": f"Everything about {word}"} for word in WORDS]
    queries = [
        query(f"{word}{at}", f"{ask} {word}", [f"{word}_tool"])
        for word in WORDS
        for at, ask in enumerate(("more", "less", "the"))
    ]
    return write(tmp_path / "small", tools, queries)


def test_a_folder_is_played_and_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(folder), *SMALL]) == 0
    said = capsys.readouterr().out
    assert said.startswith("small: 10 tools, 30 messages (half: all)")
    assert "regret / static" in said and "\ndefault " in said and "to reach" not in said


def test_json_is_one_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["simulate", str(folder), *SMALL, "--scenario", "null", "--policies", "default", "--json"]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["worlds"] == 2 and list(said["scenarios"]) == ["null"]
    assert set(said["scenarios"]["null"]) == {"static", "default"}
    assert len(said["scenarios"]["null"]["default"]["curves"]["regret"]) == 60


def test_a_parameter_of_ours_may_be_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_both = ("--policies", "default,thompson", "--json", "--set", "learning=thompson")
    assert main(["simulate", str(folder), *SMALL, *of_both]) == 0
    said = json.loads(capsys.readouterr().out)["scenarios"]["main"]
    assert said["default"]["success"] == said["thompson"]["success"]


def test_learning_may_be_switched_off(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without = ("--policies", "static,default", "--json", "--set", "learning=none")
    assert main(["simulate", str(folder), *SMALL, *without]) == 0
    said = json.loads(capsys.readouterr().out)["scenarios"]["main"]
    assert said["default"]["success"] == said["static"]["success"]


def test_an_unknown_parameter_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(folder), *SMALL, "--set", "luck=1"]) == 1
    assert "parameter 'luck': unknown" in capsys.readouterr().err


def test_curves_are_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "curves.png"
    assert main(["simulate", str(folder), *SMALL, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_told_before_the_work(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(folder), "--plot", str(tmp_path / "no" / "curves.png")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_the_table_of_convergence_has_95_percent_under_its_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "--table"]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith("1,000"))
    assert row.split()[-2:] == ["0.0495", "0.0416"]
    assert "recall@3" in out and "bound" in out and "within 5% of the best tool's: 2 tools: " in out
    assert main(["simulate", "--table", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rows"][1]["width_95"] == pytest.approx(0.4575, abs=1e-4)
    assert len(said["projections"]) == 4 * 5 and said["calls_to_converge"]["20"] > 200


def test_an_unknown_scenario_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(folder), "--scenario", "sunny"]) == 1
    assert "scenario 'sunny': unknown; known are main, null, channel" in capsys.readouterr().err
