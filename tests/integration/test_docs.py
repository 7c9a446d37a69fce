"""The pages about the registry, as they stand: their commands and their Python."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import toolroll
from toolroll.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "registry.md").read_text("utf-8")
DEMO = Path(toolroll.__file__).parent / "demo" / "toolkits"


def commands() -> list[str]:
    """Every command of the page, in its order: of the blocks, and what stands in a line of text."""
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    return [line.split("  #")[0] for line in blocks.splitlines() if line.startswith("toolroll ")]


def test_the_commands_of_the_page_work_in_their_order(empty_url, monkeypatch, capsys):
    monkeypatch.setenv("TOOLROLL_CATALOG", empty_url)
    said = {}
    for command in commands():
        arguments = shlex.split(command)[1:]
        for option in ("--to", "--catalog"):
            if option in arguments:
                arguments[arguments.index(option) + 1] = empty_url if arguments[0] != "registry" else "1"
        if arguments[:2] == ["registry", "rollback"]:
            arguments[arguments.index("--to") + 1] = "1"
        arguments = [str(DEMO) if argument == "toolkits/" else argument for argument in arguments]
        assert main(arguments) == 0, command
        said[command.strip()] = capsys.readouterr().out
    assert len(said) > 10
    (why,) = [out for command, out in said.items() if " why " in command]
    assert "interns" in why


def test_the_commands_in_the_text_of_the_page_are_commands(capsys):
    inline = set(re.findall(r"`(toolroll [a-z]+(?: [a-z]+)?)", PAGE)) - {"toolroll registry"}
    assert inline
    for command in inline:
        assert main([*command.split()[1:], "--help"]) == 0, command
        assert "Usage" in capsys.readouterr().out


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(DEMO), "--to", "sqlite:///tools.db"]) == 0
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    world: dict[str, Any] = {}
    exec(compile(code, "registry.md", "exec"), world)
    assert "get_forecast" in world["selection"].names


def python_of(page: str) -> list[str]:
    return re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def test_the_tutorial_goes_as_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tutorial = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    world: dict[str, Any] = {}
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", tutorial, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(compile(block, "tutorial.md", "exec"), world)
            printed = capsys.readouterr().out
        elif language == "sh":
            for command in block.splitlines():
                if command.startswith("toolroll "):
                    assert main(shlex.split(command)[1:]) == 0, command
                    capsys.readouterr()
        elif "outcomes" not in block:  # what outcomes add is drawn at random
            for line in block.split(" …")[0].splitlines():
                assert line in printed


def test_the_python_of_the_learning_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(DEMO), "--to", "sqlite:///tools.db"]) == 0
    world: dict[str, Any] = {}
    for block in python_of("learning.md"):
        exec(compile(block, "learning.md", "exec"), world)


def test_the_python_of_the_server_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(DEMO), "--to", "sqlite:///tools.db"]) == 0
    lifespan, receipt = python_of("server.md")
    world: dict[str, Any] = {}
    exec(compile(lifespan, "server.md", "exec"), world)

    async def serve() -> bool:
        app = SimpleNamespace(state=SimpleNamespace())
        async with world["lifespan"](app):
            return "get_forecast" in app.state.roll.select("Will I need my coat in Oslo?")

    assert asyncio.run(serve())
    exec(compile(receipt, "server.md", "exec"), world)
