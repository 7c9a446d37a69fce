"""What holds for every command: its help, its examples, its defaults, and what help costs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points

import click
import pytest

from tests.table import each_row
from toolroll.cli import main, root
from toolroll.cli.commands import Command


def walk(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    context = click.Context(
        command, parent, command.name, **(root.context_settings if parent is None else {})
    )
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, context)


COMMANDS = {context.command_path: context for context in walk(root)}
each_command = each_row("path", COMMANDS)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolroll", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_help_shows_a_newcomer_six_commands_first(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    first = out.partition("Commands:")[2].partition("More:")[0]
    assert [line.split()[0] for line in first.strip().splitlines()] == [
        "select", "eval", "import", "registry", "embed", "mcp",
    ]  # fmt: skip
    for name in ("select", "eval", "import", "registry", "embed", "mcp"):
        assert f"  toolroll {name} " in out.partition("Examples:")[2]
    assert {"lab", "events"} <= set(out.partition("More:")[2].split())


@pytest.mark.parametrize("name", ["simulate", "bench"])
def test_a_command_of_the_lab_keeps_its_place_at_the_top(capsys, name):
    assert main([name, "--help"]) == 0
    short = capsys.readouterr().out
    assert main(["lab", name, "--help"]) == 0
    assert capsys.readouterr().out == short.replace(f"toolroll {name} [", f"toolroll lab {name} [")


@each_command
def test_every_command_has_a_help_and_an_example_that_is_one(path, monkeypatch):
    context = COMMANDS[path]
    parsed: list[click.Context] = []
    monkeypatch.setattr(click.Command, "invoke", lambda command, context: parsed.append(context))
    monkeypatch.setenv("TOOLROLL_CATALOG", "sqlite:///tools.db")
    assert isinstance(context.command, Command) and context.command.help and context.command.example
    for line in context.command.example.splitlines():
        words = shlex.split(line.partition(" < ")[0])
        assert words[0] == "toolroll" and main(words[1:]) == 0
        ran = parsed.pop()
        above = [ran.command]
        while ran.parent is not None:
            ran = ran.parent
            above.append(ran.command)
        assert context.command in above


@each_command
def test_every_option_says_what_it_does_and_what_holds_without_it(path):
    context = COMMANDS[path]
    for option in context.command.params:
        if not isinstance(option, click.Option):
            continue
        record = option.get_help_record(context)
        assert option.help and option.help[0].isupper() and option.help.endswith((".", "…")), option.opts
        is_plain_flag = option.is_flag and not option.secondary_opts
        assert record and (is_plain_flag or "default:" in record[1] or "required" in record[1]), option.opts


@each_command
def test_no_line_of_a_list_of_commands_is_cut(path):
    context = COMMANDS[path]
    below = [
        line for line in context.get_help().partition("ommands:")[2].splitlines() if line.endswith("...")
    ]
    assert not below


@each_command
def test_every_help_is_printed_on_standard_output_and_nothing_else(path, capsys):
    assert main([*path.split()[1:], "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: {path}") and err == ""


def test_the_version_is_printed(capsys):
    import toolroll

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"toolroll {toolroll.__version__}\n"


def test_the_module_and_the_console_script_are_the_same_command():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "") and re.fullmatch(r"toolroll [\d.]+\n", done.stdout)
    assert run("select").returncode == 2
    for script in entry_points(group="console_scripts", name="toolroll"):
        assert script.load() is main


def test_the_library_does_not_import_click():
    program = "import sys, toolroll; toolroll.Toolroll; sys.exit('click' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@each_row("words", [("--help",), ("select", "rain"), ("select",), ("registry", "list")])
def test_no_output_has_colours_or_moves_the_cursor(words):
    for environment in ({"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}):
        done = run(*words, TOOLROLL_CATALOG="", **environment)
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no sh")
@pytest.mark.parametrize("words", ["--help", "select rain --explain", "select rain --json"])
def test_a_closed_pipe_is_no_traceback(words):
    command = f'"{sys.executable}" -m toolroll {words} | true'
    environment = {**os.environ, "TOOLROLL_CATALOG": ""}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env=environment)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there")
@pytest.mark.parametrize("words", [[b"\xff"], [b"select", b"x", b"-k", b"\xff"], [b"select", b"--\xff"]])
def test_wrong_use_with_bytes_that_are_no_utf8_is_said_in_text(words):
    done = subprocess.run([sys.executable, "-m", "toolroll", *words], capture_output=True)
    assert done.returncode == 2 and b"Traceback" not in done.stderr
    done.stderr.decode("utf-8")


def test_wrong_use_escapes_what_a_terminal_would_act_on(capsys):
    assert main(["registry", "list", "--limit", "\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_misspelt_command_or_option_is_named(capsys):
    for words, meant in (
        (["selct", "rain"], "select"),
        (["catalogs", "biuld"], "build"),
        (["registry", "rules", "lst"], "list"),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert words[-1 - (words[-1] == "rain")] in said and f"Did you mean {meant}?" in said
    assert main(["xyzzy"]) == 2
    assert "No such command 'xyzzy'" in (said := capsys.readouterr().err) and "mean" not in said
    assert main(["select", "rain", "--explian"]) == 2
    assert "--explain" in capsys.readouterr().err


def test_a_shell_is_told_completions():
    done = run(_TOOLROLL_COMPLETE="bash_complete", COMP_WORDS="toolroll re", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,registry"]
    assert "complete" in run(_TOOLROLL_COMPLETE="zsh_source").stdout
