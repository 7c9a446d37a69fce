"""docs/registry.md, as it stands, on both databases."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

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
    world: dict[str, object] = {}
    exec(compile(code, "registry.md", "exec"), world)
    assert "get_forecast" in world["picked"].names  # type: ignore[attr-defined]
