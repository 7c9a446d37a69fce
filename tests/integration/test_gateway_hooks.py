"""Hooks that a configuration names: an installed example in a real gateway, and what is told of wrong ones."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("mcp")

from mcp import MCPError

from tests.example_packages import ROOT, install
from tests.integration.gateways import client_of, command_client, run, scripted, tool, write_configuration
from toolroll.cli import main
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.serving import open_gateway
from toolroll.model.errors import InvalidInput


def test_an_installed_hook_redacts_what_a_servers_tool_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", install(tmp_path / "packages", "gateway-hook")["PYTHONPATH"])
    server = ROOT / "examples" / "gateway-hook" / "vault.py"
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
class OnlyAfter:
    async def after(self, call, result): return result
from toolroll.gateway.hooks import CallHook
class Misspelt(CallHook):
    async def befor(self, call): return call
"""
METHODS = "must have a method `async def before(self, call)` or `async def after(self, call, result)`"


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
        "acme_hooks:number": "'acme_hooks:number' is no hook: it " + METHODS,
    }
    made = {
        "acme_hooks:Plain": "makes no hook but a Plain: it " + METHODS,
        "acme_hooks:Sync": "makes no hook but a Sync: its method before must be `async def before(self, call)`",
        "acme_hooks:Misspelt": "makes no hook but a Misspelt: it " + METHODS,
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
    path.write_text(
        '{"mcpServers": {"a": {"command": "ls"}}, "toolroll": {"hooks": ["acme_hooks:OnlyAfter"]}}'
    )
    assert main(["mcp", "--check", "--config", str(path)]) == 0


def test_the_example_as_its_page_prints_it_has_nothing_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "gateway-hook"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    page = (ROOT / "examples" / "gateway-hook" / "README.md").read_text("utf-8")
    (path := tmp_path / "mcp.json").write_text(page.split("```json\n")[1].split("```")[0])
    assert main(["mcp", "--check", "--config", str(path)]) == 0, capsys.readouterr().err


def test_an_error_of_a_hook_names_the_hook_and_what_it_must_do(tmp_path):
    class Forgets:
        async def before(self, call):
            if call.arguments.get("text") != "fine":
                return None
            return call

    class Fails:
        async def after(self, call, result):
            if call.arguments.get("text") == "fine":
                raise ValueError("no key")
            return result

    path = write_configuration(tmp_path, {"a": scripted(tools=[tool("echo")])}, mode="all")

    async def go():
        configuration = read_configuration(path, {})
        with pytest.raises(InvalidInput, match="hooks: <class .* is no hook: it is a class"):
            async with open_gateway(configuration, tmp_path / "state", hooks=[Fails]):
                pass
        async with (
            open_gateway(configuration, tmp_path / "state", hooks=[Forgets(), Fails()]) as (gateway, server),
            client_of(server) as client,
        ):
            await gateway.known(30)
            for text, told in (
                ("x", r"Forgets: before: TypeError: returned NoneType, must return the PlannedCall"),
                ("fine", r"Fails: after: ValueError: no key"),
            ):
                with pytest.raises(MCPError, match=rf"hook tests.integration.test_gateway_hooks:.*{told}"):
                    await client.call("a_echo", {"text": text})
        endings = [json.loads(line)["ending"] for line in gateway.call_log.path.read_text().splitlines()]
        assert endings == ["failed", "failed"]

    run(go)
