from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from toolroll.cli import main
from toolroll.gateway.client_files import ClientFile, client_files, connect, import_servers, questions
from toolroll.gateway.configuration import read_configuration
from toolroll.model.errors import Conflict, InvalidDefinition, NotFound

OWN = {"git": {"command": sys.executable, "args": ["git.py"]}, "web": {"command": sys.executable}}


def client(tmp_path, content, key="mcpServers"):
    path = tmp_path / "client.json"
    path.write_text(json.dumps(content))
    return ClientFile(path, key)


def test_the_files_of_clients_are_where_each_system_has_them():
    files = client_files("darwin", {"HOME": "/h"})
    assert (
        str(files["claude-desktop"].path)
        == "/h/Library/Application Support/Claude/claude_desktop_config.json"
    )
    files = client_files("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/c"})
    assert str(files["vscode"].path) == "/c/Code/User/mcp.json" and files["vscode"].key == "servers"


def test_servers_of_a_client_are_added_and_known_ones_stay(tmp_path):
    target = tmp_path / "below" / "mcp.json"
    assert import_servers(client(tmp_path, {"mcpServers": OWN}), target) == (["git", "web"], [], [])
    assert target.stat().st_mode & 0o077 == 0
    more = {
        "mcpServers": {
            "git": {"command": "other"},
            "new": {"command": "y"},
            "roll": {"command": "/bin/toolroll", "args": ["mcp"]},
        }
    }
    assert import_servers(client(tmp_path, more), target) == (["new"], ["git"], [])
    assert json.loads(target.read_text())["mcpServers"] == {**OWN, "new": {"command": "y"}}


def test_the_gateway_takes_the_place_of_the_servers_that_it_runs(tmp_path):
    target = tmp_path / "mcp.json"
    one = client(tmp_path, {"theme": "dark", "mcpServers": {**OWN, "other": {"command": "z"}}})
    target.write_text(json.dumps({"mcpServers": OWN}))
    copy, out, _ = connect(one, target, keep=False, environ=os.environ)
    content = json.loads(one.path.read_text())
    assert (
        out == ["git", "web"]
        and set(content["mcpServers"]) == {"other", "toolroll"}
        and content["theme"] == "dark"
    )
    assert content["mcpServers"]["toolroll"]["args"][-3:] == ["mcp", "--config", str(target)]
    assert json.loads(copy.read_text())["mcpServers"].keys() == {"git", "web", "other"}
    assert connect(one, target, keep=False, environ=os.environ)[1] == []  # again


def test_a_client_without_a_file_gets_one(tmp_path):
    target = tmp_path / "mcp.json"
    target.write_text(json.dumps({"mcpServers": OWN}))
    one = ClientFile(tmp_path / "new" / "mcp.json", "servers")
    assert connect(one, target, keep=False, environ=os.environ) == (None, [], {})
    assert json.loads(one.path.read_text())["servers"]["toolroll"]["type"] == "stdio"


def test_the_servers_of_a_claude_code_project_are_taken_over_with_those_of_all_projects(tmp_path):
    own = {
        "projects": {
            "/here": {"mcpServers": {"web": {"command": sys.executable, "args": ["y"]}}, "x": 1},
            "/there": {"mcpServers": OWN},
        }
    }
    one = client(tmp_path, {"mcpServers": {"git": OWN["git"]}, **own})
    here, other = replace(one, project=Path("/here")), replace(one, project=Path("/elsewhere"))
    assert import_servers(other, tmp_path / "other.json") == (["git"], [], [])
    target = tmp_path / "mcp.json"
    assert import_servers(here, target) == (["git", "web"], [], [])
    assert connect(here, target, keep=False, environ=os.environ)[1] == ["git", "web"]
    content = json.loads(one.path.read_text())
    assert list(content["mcpServers"]) == ["toolroll"]
    assert content["projects"] == {"/here": {"mcpServers": {}, "x": 1}, "/there": {"mcpServers": OWN}}


def test_another_program_of_the_gateways_name_is_not_replaced(tmp_path):
    target = tmp_path / "mcp.json"
    target.write_text(json.dumps({"mcpServers": OWN}))
    with pytest.raises(Conflict, match="is another program"):
        connect(
            client(tmp_path, {"mcpServers": {"toolroll": {"command": "x"}}}),
            target,
            keep=False,
            environ=os.environ,
        )


def test_a_client_without_servers_is_told(tmp_path):
    with pytest.raises(NotFound, match="no servers"):
        import_servers(client(tmp_path, {}), tmp_path / "mcp.json")
    with pytest.raises(NotFound, match="--file"):
        import_servers(ClientFile(tmp_path / "none", "servers"), tmp_path / "mcp.json")


def test_each_copy_of_a_clients_file_stays(tmp_path):
    target = tmp_path / "mcp.json"
    one = client(tmp_path, {"mcpServers": OWN})
    target.write_text(json.dumps({"mcpServers": {"git": OWN["git"]}}))
    first, _, _ = connect(one, target, keep=False, environ=os.environ)
    assert connect(one, target, keep=False, environ=os.environ) == (None, [], {})  # nothing changes: no copy
    target.write_text(json.dumps({"mcpServers": OWN}))
    second, out, _ = connect(one, target, keep=False, environ=os.environ)  # within the same second
    assert out == ["web"] and json.loads(first.read_text()) == {"mcpServers": OWN}
    assert json.loads(second.read_text())["mcpServers"].keys() == {"toolroll", "web"}


def test_a_server_that_vs_code_asks_a_value_for_is_imported_with_advice(tmp_path):
    asking = {"gh": {"command": "x", "env": {"TOKEN": "${input:token}"}}, **OWN}
    target = tmp_path / "mcp.json"
    new, _, _ = import_servers(client(tmp_path, {"servers": asking}, "servers"), target)
    advice = questions(target, new)
    assert list(advice) == ["gh"] and "${input:token} is asked for by VS Code alone" in advice["gh"]


def test_entries_that_the_gateway_cannot_read_are_left_out_and_told(tmp_path):
    entries = {
        "bad": 5,
        "both": {"command": "x", "url": "https://x"},
        "Git": {"command": "x"},
        "cursor": {"command": "x", "disabledTools": ["a"]},
        "code": {"url": "https://x", "headersHelper": "x.sh"},
        **OWN,
    }
    target = tmp_path / "mcp.json"
    new, _, refused = import_servers(client(tmp_path, {"mcpServers": entries}), target)
    assert new == ["Git", "cursor", "code", "web"]
    assert [problem.partition("client.json:1: ")[2] for problem in refused] == [
        "mcpServers.bad: is a number, must be an object",
        "mcpServers.both: server 'both' has a command and a url, must have one of them or a type",
        "mcpServers.git: server 'git' has the same prefix as 'Git'; rename one",
    ]
    assert set(read_configuration(target, {}).servers) == set(new)


def test_a_client_keeps_the_servers_that_the_gateway_cannot_start(tmp_path):
    entries = {**OWN, "asks": {"command": sys.executable, "env": {"TOKEN": "${input:token}"}}}
    one, target = client(tmp_path, {"mcpServers": entries}), tmp_path / "mcp.json"
    target.write_text(json.dumps({"mcpServers": {**entries, "bad": 5}}))
    before = one.path.read_text()
    with pytest.raises(InvalidDefinition, match="mcpServers.bad"):
        connect(one, target, keep=False, environ=os.environ)
    assert one.path.read_text() == before
    target.write_text(json.dumps({"mcpServers": entries}))
    _, out, left = connect(one, target, keep=False, environ=os.environ)
    assert out == ["git", "web"] and "${input:token}" in left["asks"]
    assert json.loads(one.path.read_text())["mcpServers"].keys() == {"asks", "toolroll"}


def test_a_client_that_is_connected_has_nothing_to_import(tmp_path, capsys):
    one, target = client(tmp_path, {"mcpServers": OWN}), tmp_path / "mcp.json"
    words = ["claude-desktop", "--file", str(one.path), "--config", str(target)]
    assert main(["mcp", "import", *words]) == 0 and main(["mcp", "connect", *words]) == 0
    capsys.readouterr()
    assert main(["mcp", "import", *words]) == 0
    assert "the only server of claude-desktop is the gateway" in capsys.readouterr().out
