"""Parameters from the environment."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.table import each_row
from toolroll import Definitions, Profile, Toolroll
from toolroll.cli import main
from toolroll.cli.environment import from_environment
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.selection import environment_names
from toolroll.selection.profiles import PROFILES

# Variables of earlier systems, such as Annabelle, and their equivalents here.
TWINS = {
    "TOOL_SELECTOR_THRESHOLD": "TOOLROLL_THRESHOLD",
    "TOOL_SELECTOR_TOP_K": "TOOLROLL_K",
    "TOOL_SELECTOR_MIN_TOOLS": "TOOLROLL_MINIMUM",
    "TOOL_SELECTOR_MAX_TOOLS": "TOOLROLL_MAX_TOOLS",
    "THINKER_STICKY_TOOLS_LOOKBACK": "TOOLROLL_STICKY_TURNS",
    "THINKER_STICKY_TOOLS_MAX": "TOOLROLL_STICKY_TOOLS",
}


def test_each_variable_of_the_seeds_has_its_twin():
    environ = dict(zip(TWINS.values(), ("0.25", "20", "3", "40", "5", "6"), strict=True))
    assert from_environment("merged", environ) == PROFILES["merged"].with_(
        threshold=0.25, k=20, minimum=3, max_tools=40, sticky_turns=5, sticky_tools=6
    )


@each_row("field", [field.name for field in fields(Profile)])
def test_every_parameter_has_a_variable(field):
    value = getattr(Profile(), field)
    written = "none" if value is None else str(value).replace("True", "on").replace("False", "off")
    assert from_environment("default", {f"TOOLROLL_{field.upper()}": written}) == Profile()


def test_the_environment_names_the_profile_unless_the_caller_does():
    environ = {"TOOLROLL_PROFILE": "layers", "TOOLROLL_TOOLKIT_THRESHOLD": "0.6"}
    assert from_environment(None, environ) == PROFILES["layers"].with_(toolkit_threshold=0.6)
    assert from_environment("domains", environ) == PROFILES["domains"].with_(toolkit_threshold=0.6)
    assert from_environment(PROFILES["static"], {}) == PROFILES["static"]
    assert from_environment(None, {}) == Profile()


def test_a_list_is_written_as_json():
    environ = {"TOOLROLL_NO_HIT": '["search", "memory"]'}
    assert from_environment("default", environ).no_hit == ("search", "memory")


def test_an_empty_variable_and_those_of_others_are_passed_over():
    environ = {"TOOLROLL_K": " ", "TOOLROLL_PROFILE": "", "TOOLROLL_CATALOG": "x", "K": "3"}
    assert from_environment(None, environ) == Profile()


def test_a_wrong_value_is_refused_with_the_name_of_its_variable():
    for variable, value in (
        ("TOOLROLL_MAX_TOOLS", "many"),
        ("TOOLROLL_DENSE", "NaN"),
        ("TOOLROLL_K", "[" * 9_999),
    ):
        with pytest.raises(InvalidInput, match=f"environment variable {variable}: parameter"):
            from_environment("default", {variable: value})
    with pytest.raises(NotFound, match="profile 'nothing'"):
        from_environment(None, {"TOOLROLL_PROFILE": "nothing"})


def test_the_command_line_reads_it(monkeypatch, capsys):
    monkeypatch.setenv("TOOLROLL_K", "1")
    monkeypatch.setenv("TOOLROLL_EMBEDDER", "none")
    assert main(["select", "will it rain"]) == 0
    few = capsys.readouterr().out.split()
    monkeypatch.setenv("TOOLROLL_K", "2")
    assert main(["select", "will it rain"]) == 0
    assert len(capsys.readouterr().out.split()) == len(few) + 1
    monkeypatch.setenv("TOOLROLL_K", "few")
    assert main(["select", "will it rain"]) != 0
    assert "environment variable TOOLROLL_K" in capsys.readouterr().err


def test_a_variable_that_nothing_reads_is_told_once_with_the_nearest_name(monkeypatch, caplog):
    monkeypatch.setattr(environment_names, "warned", set())
    monkeypatch.setenv("TOOLROLL_MAX_TOLS", "1")
    monkeypatch.setenv("TOOLROLL_QUUX", "1")
    monkeypatch.setenv("TOOLROLL_K", "1")
    told = {
        "environment variable TOOLROLL_MAX_TOLS: is not read by toolroll; did you mean TOOLROLL_MAX_TOOLS?",
        "environment variable TOOLROLL_QUUX: is not read by toolroll; docs/parameters.md has the names of all "
        "of them",
    }
    assert main(["select", "will it rain"]) == 0
    assert set(caplog.messages) == told and len(caplog.messages) == 2
    Toolroll.from_definitions(Definitions(), embedder="none")
    assert len(caplog.messages) == 2


def test_a_variable_that_nothing_reads_is_told_by_the_library(monkeypatch, caplog):
    monkeypatch.setattr(environment_names, "warned", set())
    monkeypatch.setenv("toolroll_cash", "x")
    Toolroll.from_definitions(Definitions(), embedder="none")
    assert caplog.messages == [
        "environment variable toolroll_cash: is not read by toolroll; did you mean TOOLROLL_CACHE?"
    ]


def test_every_variable_of_the_code_has_its_name_in_the_list():
    root = Path(environment_names.__file__).parents[1]
    named = {
        name
        for file in (*root.rglob("*.py"), root.parents[1] / "cpp/src/cpu.cpp")
        if file.is_file()
        for name in re.findall(r'"_?(TOOLROLL_[A-Z_]+)"', file.read_text())
    }
    assert {"TOOLROLL_CATALOG", "TOOLROLL_CACHE"} < named <= environment_names.NAMES


def test_a_library_call_does_not(monkeypatch, demo):
    monkeypatch.setenv("TOOLROLL_K", "1")
    assert len(demo.select("will it rain")) > 2
