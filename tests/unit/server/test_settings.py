from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.ports import free_port
from tests.table import each_row
from toolroll import InvalidDefinition, NotFound, Registry
from toolroll.cli import main
from toolroll.server.setting_sources import read_settings


def write(folder: Path, text: str) -> Path:
    path = folder / "server.toml"
    path.write_text(text)
    return path


def test_options_precede_the_environment_and_that_precedes_the_file(tmp_path, monkeypatch):
    file = write(tmp_path, 'catalog = "sqlite:///file.db"\nport = 1001\nworkers = 2\ngrace_s = 5')
    monkeypatch.setenv("TOOLROLL_SERVER_PORT", "1002")
    monkeypatch.setenv("TOOLROLL_SERVER_WORKERS", "3")
    settings = read_settings(file, workers=4, host=None)
    assert (settings.catalog, settings.port, settings.workers) == ("sqlite:///file.db", 1002, 4)
    assert (settings.grace_s, settings.host) == (5.0, "127.0.0.1")


def test_each_wrong_value_is_named_with_its_place(tmp_path, monkeypatch):
    file = write(tmp_path, 'catalog = "sqlite:///file.db"\nprot = 1\ngrace_s = 0')
    monkeypatch.setenv("TOOLROLL_SERVER_PORT", "many")
    with pytest.raises(InvalidDefinition) as error:
        read_settings(file, workers=0)
    text = str(error.value)
    assert text.splitlines() == [
        'environment variable TOOLROLL_SERVER_PORT: is "many", must be a whole number',
        "option --workers: is 0, must be >= 1",
        f"{file}:3: grace_s: is 0, must be >= 1",
        f"{file}:2: prot: is no known key; did you mean 'port'?",
    ]


def test_a_wrong_value_below_a_table_has_its_line(tmp_path):
    file = write(
        tmp_path,
        'catalog = "sqlite:///file.db"\noidc_label = """\nport = 1\n[[oidc_grants]]\n"""\nport = 0\n\n'
        '[[oidc_grants]]\nroles = ["read"]\n\n[[oidc_grants]]\ngrop = "x"\nroles = ["raed"]\n'
        "[[oidc_grants]]\nroles = []\n",
    )
    with pytest.raises(InvalidDefinition) as error:
        read_settings(file)
    lines = str(error.value).splitlines()
    assert f"{file}:6: port: is 0, must be >= 1" in lines
    assert f"{file}:12: oidc_grants.1.grop: is no known key; did you mean 'group'?" in lines
    (wrong,) = [line for line in lines if f'{file}:13: oidc_grants.1.roles.0: is "raed", must be ' in line]
    assert wrong.endswith("; did you mean 'read'?")
    assert f"{file}:14: oidc_grants.2: roles is empty" in lines


def test_a_list_in_a_variable_that_is_no_json_is_named(monkeypatch):
    monkeypatch.setenv("TOOLROLL_SERVER_HOSTS", "tools.example.com")
    with pytest.raises(
        InvalidDefinition, match="variable TOOLROLL_SERVER_HOSTS: is not JSON, must be such as"
    ):
        read_settings(catalog="sqlite:///tools.db")


def test_no_message_has_a_secret(tmp_path, monkeypatch, capsys):
    secret = "canary-7f3a9c51"
    monkeypatch.setenv("TOOLROLL_SERVER_SESSION_SECRET", secret)  # too short
    monkeypatch.setenv("TOOLROLL_SERVER_OIDC_ISSUER", f"login://ann:{secret}{'x' * 80}@idp")
    file = write(
        tmp_path,
        f'catalog = "postgresql://ann:{secret}@127.0.0.1:1/none"\nsesion_secret = "{secret}"\n'
        f'oidc_client_secret = ["{secret}"]\ntraces_url = "ann:{secret}@collector"\n',
    )
    assert main(["serve", "--check", "--config", str(file)]) == 1
    assert main(["doctor", "--config", str(file)]) == 1
    printed = "".join(capsys.readouterr())
    assert "did you mean 'session_secret'" in printed
    for name in ("SESSION_SECRET", "OIDC_ISSUER", "oidc_client_secret", "traces_url"):
        assert name in printed
    assert "canary" not in printed


def test_a_misspelt_variable_is_refused(monkeypatch):
    monkeypatch.setenv("TOOLROLL_SERVER_GRACE", "5")
    with pytest.raises(
        InvalidDefinition, match="TOOLROLL_SERVER_GRACE: .*did you mean 'TOOLROLL_SERVER_GRACE_S'"
    ):
        read_settings(catalog="sqlite:///tools.db")


def test_without_a_catalog_the_settings_are_refused():
    with pytest.raises(InvalidDefinition, match="setting catalog: is missing") as error:
        read_settings()
    assert all(way in str(error.value) for way in ("--catalog URL", "--upstream URL", "--demo"))


def test_wrong_texts_are_told_in_words_and_not_by_their_patterns(tmp_path):
    file = write(
        tmp_path,
        'catalog = "sqlite:///file.db"\nsession_secret = "short"\npublic_url = "https://a.example/path"\n'
        'traces_url = "collector"',
    )
    with pytest.raises(InvalidDefinition) as error:
        read_settings(file)
    assert str(error.value).splitlines() == [
        f"{file}:2: session_secret: is a text, must be at least 32 characters long",
        f'{file}:3: public_url: is "https://a.example/path", must be a URL without a path, such as '
        "https://tools.example.com",
        f'{file}:4: traces_url: is "collector", must be a URL with http:// or https://, without ? and #',
    ]
    right = {"session_secret": "s" * 32, "public_url": "https://a.example", "traces_url": "http://b:1/v1"}
    assert read_settings(catalog="sqlite:///file.db", **right).public_url == "https://a.example"


def test_a_file_that_is_absent_or_no_toml_is_refused(tmp_path):
    with pytest.raises(NotFound, match="no such file"):
        read_settings(tmp_path / "absent.toml")
    with pytest.raises(InvalidDefinition, match="server.toml:2:8: cannot be read: Invalid value$"):
        read_settings(write(tmp_path, "port = 1\nhost = =\n"))


def test_a_worker_process_reads_the_same_settings_from_its_environment(monkeypatch):
    settings = read_settings(
        catalog="sqlite:///tools.db", port=1003, grace_s=2.5, messages="none", hosts=("a.example", "b")
    )
    for name, value in settings.variables().items():
        monkeypatch.setenv(name, value)
    assert read_settings() == settings


def check(*words: str) -> int:
    return main(["serve", "--check", *words])


def test_check_accepts_settings_with_which_the_service_starts(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    port = free_port()
    assert check("--catalog", url, "--port", str(port)) == 0
    assert f"127.0.0.1:{port}" in capsys.readouterr().out


def test_check_names_all_that_is_wrong_and_makes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TOOLROLL_SERVER_PROFILE", "defualt")
    monkeypatch.setenv("TOOLROLL_SERVER_EMBEDDER", "statik")
    monkeypatch.setenv("TOOLROLL_SERVER_KEY_RATE", "often")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert check("--catalog", f"sqlite:///{tmp_path}/absent.db", "--port", str(port)) == 1
    printed = capsys.readouterr().err
    lines = printed.splitlines()
    for begin, part in [
        ("option --catalog: ", "absent.db"),
        ("environment variable TOOLROLL_SERVER_EMBEDDER: ", "statik"),
        ("environment variable TOOLROLL_SERVER_PROFILE: ", "defualt"),
        ("environment variable TOOLROLL_SERVER_KEY_RATE: is 'often', must be such as", "500/second"),
        ("option --port: ", f"127.0.0.1:{port}: cannot be listened on"),
    ]:
        (line,) = [line for line in lines if line.startswith(begin)]
        assert part in line
    assert len(lines) == 5
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize("words", [["--check"], []])
def test_an_outbox_that_cannot_be_written_stops_the_start(tmp_path, capsys, words):
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    (tmp_path / "taken").write_text("")
    file = write(tmp_path, f'catalog = "{url}"\noutbox = "{tmp_path}/taken/outbox"\nport = {free_port()}')
    assert main(["serve", "--config", str(file), *words]) == 1
    printed = capsys.readouterr().err
    assert f"{tmp_path}/taken/outbox: {tmp_path}/taken: outcomes cannot be written there" in printed
    assert "set `outbox` to a file" in printed
    assert (f"{file}:2: outbox" in printed) == bool(words)


def test_a_wrong_url_of_the_registry_is_told_once(capsys):
    assert check("--catalog", "nowhere", "--port", str(free_port())) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("option --catalog: registry URL")


OTHERS = ["0.0.0.0", "::", "10.0.0.7", "example.org", ""]


@each_row("host", OTHERS)
def test_without_keys_an_address_that_other_machines_reach_is_refused(tmp_path, capsys, monkeypatch, host):
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    monkeypatch.setenv("TOOLROLL_SERVER_HOSTS", '["*"]')
    assert main(["serve", "--catalog", url, "--host", host, "--authentication", "none"]) == 1
    assert "must be an address of this machine alone" in capsys.readouterr().err


@each_row("host", OTHERS)
def test_for_other_machines_the_names_of_the_service_must_be_listed(tmp_path, capsys, host):
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    assert main(["serve", "--catalog", url, "--host", host]) == 1
    assert "hosts is empty, must list the names" in capsys.readouterr().err


def test_without_the_extra_the_command_says_what_to_install(monkeypatch, capsys):
    for name in list(sys.modules):
        if name.startswith("toolroll.server"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve"]) == 1
    assert "pip install 'toolroll[server]'" in capsys.readouterr().err
