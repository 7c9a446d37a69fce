"""What the documents say is what the code does."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shlex
from pathlib import Path

import pytest

import toolroll.errors
from toolroll import Context, Profile, Toolroll
from toolroll.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CATALOGS = (ROOT / "docs" / "catalogs.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_python_of_the_readme_runs():
    openai = [{"type": "function", "function": {"name": "book_room", "description": "Book a meeting room"}}]
    mcp = [{"name": "play_song", "description": "Play a song", "inputSchema": {"type": "object"}}]
    world = {"my_openai_tools": openai, "my_mcp_tools": mcp}
    exec(compile(blocks(README, "python")[0], "README.md", "exec"), world)
    assert world["picked"].names[0] == "get_forecast"


def test_the_toolkit_file_of_the_readme_is_one(tmp_path):
    (tmp_path / "weather.json").write_text(blocks(README, "json")[0], "utf-8")
    roll = Toolroll.from_folder(tmp_path)
    assert roll.select("is the 날씨 fine", Context(settings=("weather_key",))).names == ("get_forecast",)


def test_the_selecting_command_of_the_readme_works(capsys):
    (command,) = [line for line in blocks(README, "sh")[0].splitlines() if "toolroll select" in line]
    arguments = shlex.split(command.split("toolroll ", 1)[1])
    assert main(arguments) == 0
    assert "get_forecast" in capsys.readouterr().out


def test_every_key_of_json_output_is_in_the_readme(demo):
    for key in json.loads(json.dumps(demo.select("rain").to_dict())):
        if key not in ("event_id", "catalog_revision", "missing_required"):
            assert f"`{key}`" in README, key


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, value in vars(toolroll.errors).items()
        if inspect.isclass(value) and issubclass(value, toolroll.errors.ToolrollError)
    ],
)
def test_every_error_is_documented(name):
    assert f"`{name}`" in CATALOGS


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Profile)])
def test_every_parameter_is_documented(field):
    assert f"`{field}`" in CATALOGS


@pytest.mark.parametrize(
    "stage", sorted(path.stem for path in (ROOT / "python/toolroll/selection/stages").glob("[a-z]*.py"))
)
def test_every_stage_is_documented(stage):
    assert f"| `{''.join(map(str.capitalize, stage.split('_')))}` |" in CATALOGS


def test_no_document_is_missing():
    for path in [
        ROOT / "README.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob(".github/*.md"),
        ROOT / "bench/README.md",
    ]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)}: {target}"
