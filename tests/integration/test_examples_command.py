"""`toolroll examples` as typed: a folder or a registry, and a model behind a real HTTP server."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import chat_server
from tests.chat_server import PARTS_OF_A_HOUSE, WRITTEN, ChatServer, failing, saying
from tests.integration.commands import CRM, WEATHER, Done, Typed, toolkit_file
from toolroll.cli import main
from toolroll.formats.sources.folder import read_folder
from toolroll.lab.examples import chat_endpoint

pytestmark = pytest.mark.slow

MESSAGES = sum(map(len, WRITTEN.values()))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(chat_endpoint, "BACKOFF_S", 0.01)
    with chat_server.running() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toolkit_file(tmp_path / "tools", WEATHER)
    return toolkit_file(tmp_path / "tools", CRM)


@pytest.fixture
def typed(database_url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Commands on a registry that has the tools of the folder."""
    typed = Typed(database_url, capsys)
    typed.put(folder)
    return typed


class Examples:
    """Runs the command on a folder or a registry."""

    def __init__(self, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._server, self._answers, self._capsys = server, tmp_path / "answers.jsonl", capsys

    def words(self, source: object, *words: str) -> list[str]:
        options = [
            "--llm",
            self._server.url,
            "--model",
            "m",
            "--answers",
            str(self._answers),
            "--timeout",
            "30",
        ]
        return ["examples", str(source), *options, *words]

    def __call__(self, source: object, *words: str, status: int = 0) -> Done:
        self._capsys.readouterr()
        found = main(self.words(source, *words))
        done = Done(found, *self._capsys.readouterr())
        assert found == status, done
        return done

    def json(self, source: object, *words: str, status: int = 0) -> Any:
        return json.loads(self(source, "--yes", "--json", *words, status=status).out)


@pytest.fixture
def examples(server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Examples:
    return Examples(server, tmp_path, capsys)


def examples_in(folder: Path) -> dict[str, tuple[str, ...]]:
    return {tool.name: tool.examples for tool in read_folder(folder).tools}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_messages_of_the_model_become_examples_of_the_folder(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    done = examples(folder, "--yes")
    assert examples_in(folder) == {name: tuple(texts) for name, texts in WRITTEN.items()}
    assert f"{MESSAGES} examples for 4 tools, 0 messages rejected" in done.out
    assert "1 request to" in done.err and "tokens to read" in done.err
    assert len(server.requests) == 1
    weather = json.loads((folder / "weather.json").read_text())
    assert list(weather) == list(WEATHER) and weather["keywords"] == WEATHER["keywords"]


def test_the_examples_help_to_find_the_tool(examples: Examples, folder: Path, server: ChatServer) -> None:
    server.written["crm_find"] = ["who is Jane Doe", "do we know a Mister Miller", "is Ann Smith one of ours"]
    examples(folder, "--yes")
    done = Done(main(["select", "who is Mister Doe", "--catalog", str(folder), "-k", "1", "--json"]), "", "")
    assert done.status == 0
    assert [tool["name"] for tool in json.loads(examples._capsys.readouterr().out)["tools"]] == ["crm_find"]


def test_a_second_run_asks_only_for_what_is_missing(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    examples(folder, "--yes", "--only", "get_*")
    assert sorted(server.asked) == ["get_air_quality", "get_forecast"]
    before = contents(folder)
    server.requests.clear()
    found = examples.json(folder, "--only", "get_*")
    assert server.requests == [] and found["kept"] == found["rejected"] == 0
    assert sorted(found["short"]) == ["get_air_quality", "get_forecast"]
    assert contents(folder) == before
    examples(folder, "--yes")
    assert sorted(server.asked) == ["crm_export", "crm_find"]
    server.requests.clear()
    examples(folder, "--yes", "--per-tool", "3", "--seed", "1")
    assert sorted(server.asked) == ["crm_export", "crm_find", "get_air_quality"], "get_forecast has three"


def test_a_dry_run_asks_and_writes_nothing_and_the_next_run_asks_nothing(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    before = contents(folder)
    done = examples(folder, "--yes", "--dry-run")
    assert contents(folder) == before
    assert "will it rain in Oslo on Sunday" in done.out and "nothing was written" in done.out
    assert len(server.requests) == 1
    examples(folder)  # without --yes: there is nothing to agree to
    assert len(server.requests) == 1
    assert examples_in(folder)["get_forecast"] == tuple(WRITTEN["get_forecast"])


def test_where_nobody_can_be_asked_the_cost_is_printed_and_nothing_is_spent(
    examples: Examples, folder: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    done = examples(folder, status=2)
    assert "1 request to" in done.err and "--yes" in done.err
    assert server.requests == []


@pytest.mark.parametrize(("typed", "status"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_a_person_is_asked_whether_to_spend_it(
    examples: Examples,
    folder: Path,
    server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    status: int,
) -> None:
    terminal = io.StringIO(typed)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    before = contents(folder)
    done = examples(folder, status=status)
    assert "Go on?" in done.err
    assert (len(server.requests), contents(folder) == before) == ((1, False) if status == 0 else (0, True))


def test_tools_that_have_enough_examples_are_not_asked_for(
    examples: Examples, tmp_path: Path, server: ChatServer
) -> None:
    tools = [{"name": "a", "examples": ["x", "y"]}, {"name": "b", "status": "draft"}, {"name": "c"}]
    file = tmp_path / "tools.jsonl"
    file.write_text("\n".join(map(json.dumps, tools)))
    examples(file, "--yes", "--per-tool", "2")
    assert server.asked == ["c"]
    assert server.requests[0]["body"]["messages"][1]["content"].count('"messages": 3') == 1


def test_language_and_seed_reach_the_model(examples: Examples, folder: Path, server: ChatServer) -> None:
    examples(folder, "--yes", "--language", "Korean", "--seed", "5")
    body = server.requests[0]["body"]
    assert "in Korean" in body["messages"][0]["content"] and body["seed"] == 5


def test_only_names_a_tool_or_says_that_there_is_none(examples: Examples, folder: Path) -> None:
    assert "'nothing*': is the name of no active tool" in examples(folder, "--only", "nothing*", status=1).err


def test_a_message_that_fits_another_tool_is_reported_with_that_tool(
    examples: Examples, tmp_path: Path, server: ChatServer
) -> None:
    tools = [{"name": f"open_{name}", "description": f"Opens the {name}."} for name in PARTS_OF_A_HOUSE]
    file = tmp_path / "tools.jsonl"
    file.write_text(
        "\n".join(map(json.dumps, [*tools, {"name": "send_mail", "description": "Sends an e-mail."}]))
    )
    server.written["send_mail"] = ["write an e-mail to Ann", "open the cellar door and the attic window"]
    found = examples.json(file, "--only", "send_mail")
    (tool,) = found["tools"]
    assert tool["kept"] == ["write an e-mail to Ann"]
    assert tool["rejected"][0]["fits"].startswith("open_")


def test_hostile_answers_reach_neither_file_nor_terminal(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    forecast = WEATHER["tasks"][0]["description"]
    hostile = [
        "rain \x1b[2J tomorrow",
        "will it \u202erain",
        "x" * 5_000,
        "call get_forecast now",
        f"Obey: {forecast}",
        {"not": "text"},
        "will it rain\n\ttomorrow",
    ]
    texts = [{"name": "get_forecast", "messages": hostile}, {"name": "../../etc/passwd", "messages": ["x"]}]
    server.always = saying(json.dumps({"tools": texts}))
    done = examples(folder, "--yes", "--only", "get_forecast")
    assert examples_in(folder)["get_forecast"] == ("will it rain tomorrow",)
    assert "\x1b" not in done.out + done.err and "\u202e" not in done.out + done.err
    for reason in ("control or invisible", "longer than", "names the tool", "repeats the text"):
        assert reason in done.err
    assert all(len(line) < 400 for line in done.err.splitlines())


def test_tools_without_an_answer_are_named_and_the_others_written(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    server.behave = [saying("no JSON")] * 3
    done = examples(folder, "--yes", "--batch", "2", "--concurrency", "1", status=1)
    assert "skipped: crm_export: no valid answer in 3 attempts" in done.err
    assert examples_in(folder)["crm_export"] == () and examples_in(folder)["get_forecast"] != ()


def test_a_server_that_is_down_fails_the_command_and_says_where_the_answers_are(
    examples: Examples, folder: Path, server: ChatServer, tmp_path: Path
) -> None:
    before = contents(folder)
    server.always = failing(401)
    done = examples(folder, "--yes", status=1)
    assert "answered 401" in done.err and str(tmp_path / "answers.jsonl") in done.err
    assert contents(folder) == before


def test_the_answer_of_a_server_to_tools_list_is_left_out_and_reported(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    tool = {"name": "list_files", "description": "Lists files.", "inputSchema": {"type": "object"}}
    (folder / "files.json").write_text(json.dumps({"tools": [tool]}))
    done = examples(folder, "--yes")
    assert "left out: list_files: is in a form without examples" in done.err
    assert "list_files" not in server.asked
    assert "form without examples" in examples(folder, "--yes", "--only", "list_files", status=1).err


def test_a_file_that_changed_in_the_meantime_is_not_overwritten(
    examples: Examples, folder: Path, server: ChatServer
) -> None:
    def editing(handler: chat_server.Handler) -> None:
        toolkit_file(folder, WEATHER, tasks=WEATHER["tasks"][:1])
        chat_server.good(handler)

    server.behave = [editing]
    assert "has changed since it was read" in examples(folder, "--yes", status=1).err
    assert set(examples_in(folder).values()) == {()}
    assert examples(folder, "--yes").out and len(server.requests) == 1, "the answers were kept"


def test_the_examples_of_a_registry_wait_for_approval(
    examples: Examples, typed: Typed, server: ChatServer, database_url: str
) -> None:
    done = examples(database_url, "--yes", "--reason", "from m")
    assert "wait for approval: toolroll registry review" in done.err
    waiting = typed.json("registry", "review")["waiting"]
    assert {tool["name"] for tool in waiting} == set(WRITTEN)
    assert all(tool["served_version"] == 1 for tool in waiting)
    (difference,) = [each for each in waiting[-1]["differences"] if each["field"] == "examples"]
    assert difference["after"] == WRITTEN[waiting[-1]["name"]]
    assert typed.json("registry", "history", "crm_find")["versions"][0]["reason"] == "from m"
    server.requests.clear()
    examples(database_url, "--yes", "--per-tool", "2")
    assert server.requests == [], "what waits counts"
    typed("registry", "approve", "crm_find")
    assert typed.json("registry", "show", "crm_find")["examples"] == WRITTEN["crm_find"]


def test_an_organisation_gets_examples_for_its_own_tools_alone(
    examples: Examples, typed: Typed, server: ChatServer, database_url: str
) -> None:
    typed("registry", "create", "call_taxi", "--set", "description=Calls a taxi.", "--org", "acme")
    found = examples.json(database_url, "--org", "acme")
    assert server.asked == ["call_taxi"] and found["written"] == ["call_taxi"]
    assert {tool["name"] for tool in found["closed"]} == set(WRITTEN)


def test_options_of_a_registry_are_no_options_of_a_folder(examples: Examples, folder: Path) -> None:
    assert "--org: is for registries" in examples(folder, "--yes", "--org", "acme", status=2).err


def many_tools(tmp_path: Path, count: int) -> Path:
    file = tmp_path / "tools.jsonl"
    lines = ({"name": f"tool_{i}", "description": f"Does thing number {i}."} for i in range(count))
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def started(examples: Examples, source: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "toolroll", *examples.words(source, "--yes", *words)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_interruption_loses_nothing_that_was_answered(
    examples: Examples, tmp_path: Path, server: ChatServer, sent: signal.Signals
) -> None:
    count = 40  # enough that some are left on a slow machine
    source = many_tools(tmp_path, count)
    before = source.read_bytes()
    server.always = chat_server.after(0.15)
    process = started(examples, source, "--batch", "1", "--concurrency", "2", "--per-tool", "2")
    answers = tmp_path / "answers.jsonl"
    wait_for(lambda: answers.exists() and answers.read_bytes().count(b"\n") >= 4)
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == (130 if sent == signal.SIGINT else -sent)
    if sent == signal.SIGINT:
        assert str(answers) in err and "Traceback" not in err
    assert source.read_bytes() == before
    answered = {json.loads(line)["tool"] for line in answers.read_text().splitlines()}
    assert 4 <= len(answered) < count
    server.requests.clear()
    server.always = chat_server.good
    process = started(examples, source, "--batch", "1", "--per-tool", "2")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert sorted(server.asked) == sorted({f"tool_{i}" for i in range(count)} - answered)
    assert f"{count - len(answered)} requests to" in err
    assert f"examples for {count} tools" in out
    assert all(tool.examples for tool in read_folder(source).tools)
