"""Hooks that a configuration names: an installed example in a real gateway, and what is told of wrong ones."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("mcp")

from tests.example_packages import install
from tests.integration.gateways import command_client, run, write_configuration
from toolroll.cli import main

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("vault")

@server.tool()
def show(name: str) -> str:
    return f"{name}: postgres://app:hunter2@db/x, key AKIAIOSFODNN7EXAMPLE"

server.run()
"""


def test_an_installed_hook_redacts_what_a_servers_tool_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", install(tmp_path / "packages", "gateway-hook")["PYTHONPATH"])
    (server := tmp_path / "vault.py").write_text(SERVER)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    servers = {"vault": {"command": sys.executable, "args": [str(server)]}}
    hooks = ["redact_secrets:RedactSecrets"]
    path = write_configuration(tmp_path, servers, hooks=hooks, first_list_s=60)

    async def go():
        async with command_client(["mcp", "--config", str(path)]) as client:
            result = await client.client.request(
                "tools/call", {"name": "vault_show", "arguments": {"name": "db"}}
            )
            shown = "db: postgres://[password removed]@db/x, key [AWS access key removed]"
            assert result["content"][0]["text"] == shown
            assert result["structuredContent"] == {"result": shown}

    run(go)


HOOKS = """
class Plain: ...
class Sync:
    def before(self, call): ...
    def after(self, call, result): ...
def broken(): raise ValueError("no key")
number = 3
"""


def test_a_wrong_hook_is_told_with_file_line_and_key(tmp_path, monkeypatch, capsys):
    (tmp_path / "acme_hooks.py").write_text(HOOKS)
    (tmp_path / "acme_broken.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = {
        "acme_hooks": "is 'acme_hooks', must be package:object, such as acme_hooks:OfficeHours",
        "no_hooks.x:A": f"no module is named 'no_hooks'; install its package for {sys.executable}",
        "acme_broken:A": "module 'acme_broken' cannot be imported: ModuleNotFoundError: No module named 'no_such_package'",
        "acme_hooks:Office": "module 'acme_hooks' has no 'Office'",
        "acme_hooks:number": "'acme_hooks:number' is no hook: it must have the methods `async before(call)` and `async after(call, result)`",
    }
    made = {
        "acme_hooks:Plain": "makes no hook but a Plain: it must have the methods `async before(call)` and `async after(call, result)`",
        "acme_hooks:Sync": "makes no hook but a Sync: it must have the methods `async before(call)` and `async after(call, result)`",
        "acme_hooks:broken": "cannot be made: ValueError: no key",
    }
    path = tmp_path / "mcp.json"
    for problems, commands in ((found, ["--check", "doctor", "status", "serve"]), (made, ["--check"])):
        hooks = ",\n".join(map(json.dumps, problems))
        path.write_text(
            f'{{"mcpServers": {{"a": {{"command": "ls"}}}}, "toolroll": {{"hooks": [\n{hooks}]}}}}'
        )
        expected = [
            f"{number + 2}: toolroll.hooks.{number}: {problem}"
            for number, problem in enumerate(problems.values())
        ]
        for command in commands:
            assert main(["mcp", command, "--config", str(path)]) == 1
            told = capsys.readouterr().err.splitlines()
            assert [line.partition("mcp.json:")[2] for line in told] == expected
