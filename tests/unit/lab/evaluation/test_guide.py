"""docs/evaluation.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolroll.cli.evaluate import command
from toolroll.lab.evaluation.quality import Evaluation, evaluate

GUIDE = (Path(__file__).parents[4] / "docs" / "evaluation.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def judged(tmp_path, monkeypatch) -> Evaluation:
    tools, queries, _ = blocks("json")
    (tmp_path / "my-tools").mkdir()
    (tmp_path / "my-tools" / "tools.jsonl").write_text(tools, "utf-8")
    (tmp_path / "my-tools" / "queries.jsonl").write_text(queries, "utf-8")
    monkeypatch.chdir(tmp_path)
    return evaluate("my-tools", by="source")


def test_every_key_of_json_output_is_in_the_guide(judged):
    values = judged.to_dict()
    for key in {*values, *values["abstention"], *values["latency_us"], "results", "mean", "means"}:
        assert f"`{key}`" in GUIDE, key


def test_the_python_of_the_guide_runs(judged, capsys):
    world: dict[str, object] = {}
    exec(compile(blocks("python")[0], "evaluation.md", "exec"), world)
    assert "will it rain tomorrow? → ('forecast'" in capsys.readouterr().out


def test_every_option_is_in_the_guide():
    for option in command.params:
        if option.param_type_name == "option":
            assert re.search(rf"{option.opts[-1]}\b", GUIDE), option.opts
