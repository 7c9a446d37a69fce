"""The packages of examples/ work from outside: installed by pip, found by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.example_packages import ROOT, install

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return install(
        tmp_path_factory.mktemp("packages"), "embedder", "profile", "provider-format", "rerank-step"
    )


def run(environment: Mapping[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_line_uses_an_embedder_and_a_profile_of_other_packages(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    select = ("-m", "toolroll", "select", "--json", "Wil it raining tomorow?")
    done = run(environment, tmp_path, *select, "--embedder", "trigrams:1024", "--profile", "house-style")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "get_forecast" in str(found)


def test_a_toolroll_uses_them_by_name(environment: Mapping[str, str], tmp_path: Path) -> None:
    program = """
from toolroll import Toolroll
with Toolroll.demo(embedder="trigrams", profile="house-style") as roll:
    print(len(roll.select("Will it rain?").names), "get_forecast" in roll.select("Will it rain?").names)
"""
    done = run(environment, tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr
    count, is_found = done.stdout.split()
    assert int(count) <= 6 and is_found == "True"


def test_a_provider_of_another_package_works_wherever_a_provider_is_named(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    program = """
import json
from toolroll import Context, Toolroll, meta_tools, repair
from toolroll.server.bodies import Provider
from pydantic import TypeAdapter

definition = {
    "name": "get.forecast",
    "description": "The weather of tomorrow.",
    "parameter_definitions": {"city": {"type": "str", "description": "Where.", "required": True}},
}
with Toolroll.from_tools([definition, *({"name": f"tool_{n}", "description": "weather"} for n in range(99))]) as roll:
    (tool,) = [one for one in roll.visible().definitions if one.name == "get.forecast"]
    assert tool.parameters["required"] == ["city"], tool
    selection = roll.select("Weather of tomorrow?", Context(provider="cohere"), k=99)
    assert len(selection) == 50, len(selection)
    (sent,) = [one for one in selection.schemas("cohere") if one["name"].startswith("get_forecast__")]
    assert sent["parameter_definitions"] == definition["parameter_definitions"]
    assert selection.sent_names("cohere")[sent["name"]] == "get.forecast"
    assert json.loads(selection.schemas_json("cohere")) == selection.schemas("cohere")
    assert selection.check(sent["name"]).name == "get.forecast"
    delivery = selection.deliver("cohere", "meta-tools", meta_tools=meta_tools.META_TOOLS)
    assert delivery.check("call_tool").name == "call_tool"

call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "a", "arguments": "{}"}}]}
(change,) = repair.repair_history([call], form="cohere").changes
assert change.what == "result added"
assert TypeAdapter(Provider).validate_python("cohere") == "cohere"
"""
    done = run(environment, tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr
    done = run(environment, tmp_path, "-m", "toolroll", "select", "rain", "--schemas", "cohere")
    assert done.returncode == 0 and "parameter_definitions" in done.stdout, done.stderr


def test_the_names_of_other_packages_are_listed_with_ours(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    for option, name in ("--embedder", "trigrams"), ("--profile", "house-style"):
        done = run(environment, tmp_path, "-m", "toolroll", "select", "rain", option, "nothing-of-this-name")
        assert done.returncode != 0
        assert "nothing-of-this-name" in done.stderr and name in done.stderr


def test_a_toolroll_takes_the_steps_of_another_package(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    """The program of its README."""
    readme = (ROOT / "examples" / "rerank-step" / "README.md").read_text("utf-8")
    program = readme.split("```python\n")[1].split("```")[0]
    done = run(environment, tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "('remind', 'invoice_eu')"
