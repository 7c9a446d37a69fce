"""What the documents say is what the code does."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toolroll
import toolroll.model.errors
from tests.table import each_row
from toolroll import Context, Profile, Toolroll
from toolroll.cli import main
from toolroll.selection.profiles import PROFILES
from toolroll.sessions.session import Session

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CATALOGS, PARAMETERS, API = (
    (ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("catalogs", "parameters", "api")
)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


class Model:
    """Stands in for OpenAI's client: calls the first tool of every request."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)

    def create(self, *, model: str, messages: list[object], tools: list[dict[str, Any]]) -> SimpleNamespace:
        function = SimpleNamespace(name=tools[0]["function"]["name"], arguments='{"city": "Oslo"}')
        message = SimpleNamespace(tool_calls=[SimpleNamespace(function=function)])
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def test_the_python_of_the_readme_runs():
    world: dict[str, Any] = {"client": Model(), "messages": []}
    (block,) = blocks(README, "python")
    exec(compile(block, "README.md", "exec"), world)
    assert world["outcomes"] == {"get_forecast": True}
    assert world["result"] == "Oslo: rain for 3 days"


def test_the_readme_is_read_in_a_few_minutes():
    prose = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= 700


@pytest.mark.parametrize("page", ["index", "selections"])
def test_the_python_of_a_page_runs(page):
    for block in blocks((ROOT / "docs" / f"{page}.md").read_text("utf-8"), "python"):
        exec(compile(block, f"docs/{page}.md", "exec"), {})


def test_the_python_of_the_observability_page_runs(caplog, capsys):
    caplog.set_level(logging.DEBUG, "toolroll.selection")  # as the page sets it; restored afterwards
    page = (ROOT / "docs" / "observability.md").read_text("utf-8")
    world: dict[str, Any] = {}
    for block in blocks(page, "python"):
        if "toolroll.adapters" not in block:  # those run in tests/unit/adapters, where the packages are
            exec(compile(block, "docs/observability.md", "exec"), world)
    assert capsys.readouterr().out.startswith("1 {'succeeded': 1} {}\n")
    _, record, _ = caplog.records
    assert f"# {record.getMessage().split(' in ')[0]} in " in page
    for field in vars(record).keys() - vars(logging.makeLogRecord({})).keys() - {"message", "asctime"}:
        assert f"`{field}`" in page, field
    offered, reported = world["audit"].lines
    assert offered.endswith("acme offered 1") and reported.endswith("acme {'get_forecast': 'succeeded'}")


def test_the_session_of_the_page_goes_as_it_says():
    first, across, second = blocks((ROOT / "docs" / "sessions.md").read_text("utf-8"), "python")
    world: dict[str, Any] = {}
    exec(compile(first, "docs/sessions.md", "exec"), world)
    assert "list_events" in world["selection"]
    exec(compile(across, "docs/sessions.md", "exec"), world | {"session": None})
    exec(compile(second, "docs/sessions.md", "exec"), world)
    assert world["answer"].unknown == ("web_serch",)
    assert "get_forecast" in world["session"].selection


def test_the_toolkit_file_of_the_page_is_one(tmp_path):
    (tmp_path / "weather.json").write_text(blocks(CATALOGS, "json")[0], "utf-8")
    roll = Toolroll.from_folder(tmp_path)
    assert roll.select("is the 날씨 fine", Context(settings=("weather_key",))).names == ("get_forecast",)


def test_the_selecting_command_of_the_readme_works(capsys):
    (command,) = [line for line in blocks(README, "sh")[0].splitlines() if "toolroll select" in line]
    arguments = shlex.split(command.split("toolroll ", 1)[1])
    assert main(arguments) == 0
    assert "get_forecast" in capsys.readouterr().out


def test_every_key_of_json_output_is_documented(demo):
    page = (ROOT / "docs" / "selections.md").read_text("utf-8")
    for key in json.loads(json.dumps(demo.select("rain").to_dict())):
        assert f"`{key}`" in page, key


def test_every_public_name_is_on_the_api_page():
    listed = set(re.findall(r"^::: toolroll\.(\w+)$", API, re.MULTILINE))
    assert listed == {*toolroll.__all__, *toolroll._OF_EXTRAS} - {"__version__"}


def test_the_names_that_pages_and_examples_import_for_parts_of_ones_own_are_on_the_api_page():
    texts = [
        path.read_text("utf-8") for path in (*(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*/*.py"))
    ]
    rooms = r"from toolroll\.(?:embedders|formats\.providers|gateway\.hooks)[\w.]* import (.+)"
    names = {name for text in texts for found in re.findall(rooms, text) for name in found.split(", ")}
    assert len(names) > 5 and [name for name in sorted(names) if name not in API] == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "zensical.toml").read_text("utf-8")
    for page in (ROOT / "docs").glob("**/*.md"):
        assert f'"{page.relative_to(ROOT / "docs").as_posix()}"' in navigation, page


def test_the_page_about_earlier_systems_names_what_exists():
    page = (ROOT / "docs" / "prior-systems.md").read_text("utf-8")
    for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)", page):
        assert hasattr(Session if owner == "Session" else getattr(toolroll, owner), name), (owner, name)
    for profile in ("domains", "on_demand", "layers", "learned", "merged"):
        assert f"| `{profile}` |" in page and profile in PROFILES, profile


def test_each_promise_of_the_reliability_page_has_tests_that_are_there():
    promises = " ".join((ROOT / "docs" / "reliability.md").read_text("utf-8").split())
    page = (ROOT / "tests" / "promises.md").read_text("utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if re.match(r"\| P\d", line)]
    assert [row[0] for row in rows] == [f"| P{number}" for number in range(1, 31)]
    for number, promise, tests, *_ in rows:
        assert f"**{number[2:]}.** {promise}:" in promises and "`t" in tests, number
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", promises + page):
        assert f"def {name}" in (ROOT / path).read_text("utf-8"), (path, name)
    modes = (ROOT / "tools" / "long_tier.sh").read_text("utf-8")
    for mode in {mode for row in rows for mode in re.findall(r"`(\w+)`", row[3])}:
        assert f"\n  {mode} " in modes, mode


@each_row(
    "name",
    [
        name
        for name, value in vars(toolroll.model.errors).items()
        if inspect.isclass(value) and issubclass(value, toolroll.model.errors.ToolrollError)
    ],
)
def test_every_error_is_documented(name):
    assert f"::: toolroll.{name}\n" in API


@each_row("field", [field.name for field in dataclasses.fields(Profile)])
def test_every_parameter_is_documented(field):
    assert f"`{field}`" in PARAMETERS


@each_row(
    "stage", sorted(path.stem for path in (ROOT / "python/toolroll/selection/stages").glob("[a-z]*.py"))
)
def test_every_stage_is_documented(stage):
    assert f"| `{''.join(map(str.capitalize, stage.split('_')))}` |" in PARAMETERS


def test_no_document_is_missing():
    for path in [
        ROOT / "README.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob(".github/*.md"),
        ROOT / "bench/README.md",
        ROOT / "tests/promises.md",
        ROOT / "tools/train/README.md",
    ]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)}: {target}"
            leaves = (ROOT / "docs" in path.parents) and not (path.parent / target).resolve().is_relative_to(
                ROOT / "docs"
            )
            assert not leaves, f"{path.relative_to(ROOT)}: {target}: the site has the pages of docs/ alone"
