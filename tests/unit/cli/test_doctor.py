"""`toolroll doctor`: each part that does not work is named, and makes the exit status 1."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import types
from contextlib import closing
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from toolroll import Registry
from toolroll.cli import main
from toolroll.registry.store.schema import VERSION_TABLE

FOR_DEVELOPERS = {"test", "test-all", "lint"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    return url


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, bool | None], str]:
    """The exit status, the verdicts by name of the check, and all that was printed."""
    capsys.readouterr()
    status = main(["doctor", *words, "--json"])
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert found["is_right"] is (status == 0)
    return status, {each["what"]: each["is_right"] for each in found["checks"]}, printed


def test_a_sound_installation_is_right(capsys, url):
    status, verdicts, _ = doctor(capsys, "--catalog", url)
    assert status == 0
    assert [what for what, verdict in verdicts.items() if verdict is False] == []
    assert {"selection", "registry", "embedder", "outbox"} <= {
        what for what, verdict in verdicts.items() if verdict
    }
    assert main(["doctor", "--catalog", url]) == 0
    assert "works" in capsys.readouterr().out


def test_all_extras_are_told_there_or_missing(capsys):
    tomllib = pytest.importorskip("tomllib")  # since Python 3.11
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    *_, printed = doctor(capsys)
    (told,) = [each["text"] for each in json.loads(printed)["checks"] if each["what"] == "extras"]
    there, _, missing = told.partition("without ")
    named = [*re.findall(r"([\w-]+) \(", there), *filter(None, missing.split(", "))]
    assert sorted(named) == sorted({*project["optional-dependencies"]} - FOR_DEVELOPERS)


def test_without_a_registry_the_installation_alone_is_checked(capsys):
    status, verdicts, _ = doctor(capsys)
    assert (status, verdicts["registry"], "outbox" in verdicts) == (0, None, False)


@pytest.mark.parametrize("missing", [True, False])
def test_a_server_without_its_fast_loop_and_parser_is_told_apart(capsys, monkeypatch, missing):
    pytest.importorskip("fastapi")
    for name in ("uvloop", "httptools"):
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, None if missing else module)
    status, verdicts, printed = doctor(capsys)
    assert (status, verdicts["http"]) == (0, None if missing else True)
    assert ("pip install 'toolroll[server]'" in printed) == missing


def test_a_registry_that_is_not_there_is_wrong(capsys, tmp_path):
    status, verdicts, _ = doctor(capsys, "--catalog", f"sqlite:///{tmp_path}/none.db")
    assert (status, verdicts["registry"]) == (1, False)
    assert not [*tmp_path.iterdir()]


def test_a_registry_of_a_newer_schema_is_wrong(capsys, url):
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    status, verdicts, printed = doctor(capsys, "--catalog", url)
    assert (status, verdicts["registry"]) == (1, False)
    assert "9999" in printed


def test_wrong_settings_and_a_password_in_them(capsys, tmp_path, url):
    pytest.importorskip("fastapi")
    file = tmp_path / "server.toml"
    file.write_text('catalog = "postgresql://ada:hunter2@127.0.0.1:1/none"\nprot = 80\n')
    status, verdicts, printed = doctor(capsys, "--config", str(file))
    assert (status, verdicts["settings"]) == (1, False)
    assert "prot" in printed and "hunter2" not in printed


def test_an_unknown_embedder_and_an_outbox_in_a_file_are_wrong(capsys, tmp_path, url, monkeypatch):
    pytest.importorskip("fastapi")
    (tmp_path / "file").write_text("")
    file = tmp_path / "server.toml"
    file.write_text(f'catalog = "{url}"\nembedder = "minilmm"\noutbox = "{tmp_path}/file/outbox"\n')
    status, verdicts, _ = doctor(capsys, "--config", str(file))
    assert status == 1
    assert {what for what, verdict in verdicts.items() if verdict is False} == {"embedder", "outbox"}


def test_the_settings_of_the_environment_are_checked(capsys, url, monkeypatch):
    pytest.importorskip("fastapi")
    monkeypatch.setenv("TOOLROLL_SERVER_CATALOG", url)
    assert doctor(capsys)[1]["registry"] is True


def test_a_drop_in_without_a_registry_is_right(capsys, tmp_path):
    pytest.importorskip("fastapi")
    file = tmp_path / "server.toml"
    file.write_text('upstream = "https://api.openai.com/v1"\nauthentication = "none"\n')
    status, verdicts, printed = doctor(capsys, "--config", str(file))
    assert (status, verdicts["settings"], verdicts["registry"], verdicts["embedder"]) == (0, True, None, True)
    assert "the settings name none" in printed


def test_a_registry_in_wrong_settings_is_not_asked_for(capsys, tmp_path, url):
    pytest.importorskip("fastapi")
    file = tmp_path / "server.toml"
    file.write_text(f'catalog = "{url}"\nprot = 80\n')
    _, verdicts, printed = doctor(capsys, "--config", str(file))
    assert verdicts["registry"] is None
    assert "the settings that name it are wrong" in printed and "--catalog names one" not in printed
