from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from tests.table import each_row
from toolroll.cli import main
from toolroll.front.configuration_errors import InvalidConfiguration
from toolroll.gateway.configuration import (
    Configuration,
    read_configuration,
    with_servers,
)
from toolroll.gateway.document import Document, without_comments
from toolroll.gateway.manifests import read_manifests
from toolroll.gateway.options import GatewayOptions
from toolroll.model.errors import EmbedderUnavailable, InvalidDefinition, NotFound


def read(folder: Path, text: str, environ: dict[str, str] | None = None) -> Configuration:
    path = folder / "mcp.json"
    path.write_text(text)
    return read_configuration(path, environ or {})


def test_the_file_of_claude_desktop_is_read(tmp_path):
    text = '{"globalShortcut": "", "mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "b", "N": 1}}}}'
    (git,) = read(tmp_path, text).servers.values()
    assert (git.transport, git.command, git.args, git.env) == (
        "stdio",
        "uvx",
        ("mcp-server-git",),
        {"A": "b", "N": "1"},
    )
    assert git.place.endswith("mcp.json:1")


def test_the_file_of_vs_code_is_read_with_its_comments(tmp_path):
    text = """{
      // what the team uses
      "servers": {
        "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"x": "a // b"}}, /* the old one: */
        "old": {"type": "sse", "url": "https://example.org/sse"},
      },
    }"""
    web, old = read(tmp_path, text).servers.values()
    assert (web.transport, web.url, web.headers) == ("http", "https://example.org/mcp", {"x": "a // b"})
    assert old.transport == "sse" and old.place.endswith(":5")


def test_a_url_without_a_type_is_streamable_http(tmp_path):
    (one,) = read(tmp_path, '{"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp"}}}').servers.values()
    assert one.transport == "http" and one.is_shared


@each_row(
    ("entry", "problem"),
    [
        ('{"command": "x", "arg": []}', "2: mcpServers.a.arg: is no known key; did you mean 'args'?"),
        ('{"command": "x", "args": "y"}', "2: mcpServers.a.args: is a text, must be a list"),
        ('{"command": "x", "env": []}', "2: mcpServers.a.env: is a list, must be an object"),
        ('{"command": "x", "url": "https://x"}', "2: mcpServers.a: server 'a' has a command and a url"),
        ('{"openapi": "api.json"}', "2: mcpServers.a: server 'a' is of type openapi, so it needs a url"),
        (
            '{"type": "http", "openapi": "a", "url": "http://x"}',
            "2: mcpServers.a: server 'a' is of type openapi if",
        ),
        ('{"url": "ftp://x"}', "2: mcpServers.a.url: is 'ftp://x', must begin with http:// or https://"),
        ('{"args": []}', "2: mcpServers.a: server 'a' needs a command"),
        (
            '{"type": "grpc", "url": "x"}',
            "2: mcpServers.a.type: is 'grpc', must be stdio, http, sse or openapi",
        ),
        ('{"type": "http"}', "2: mcpServers.a: server 'a' is of type http, so it needs a url"),
        ("7", "2: mcpServers.a: is a number, must be an object"),
    ],
)
def test_a_wrong_entry_is_told_with_file_line_and_key(tmp_path, entry, problem):
    with pytest.raises(InvalidDefinition) as caught:
        read(tmp_path, f'{{"mcpServers": {{\n"a": {entry}}}}}')
    assert f"mcp.json:{problem}" in str(caught.value)


@each_row(
    ("text", "problem"),
    [
        ('{"mcpservers": {}}', "did you mean 'mcpServers'?"),
        ('{"mcpServers": {}}', "has no servers"),
        (
            '{"mcpServers": {"a": {"command": "x"}}, "toolroll": {"mode": "some"}}',
            "toolroll.mode: is \"some\", must be 'auto', 'search', 'dynamic' or 'all'",
        ),
        (
            '{"mcpServers": {"a": {"command": "x"}}, "toolroll": {"modus": "all"}}',
            "toolroll.modus: is no known key; did you mean 'mode'?",
        ),
        (
            '{"mcpServers": {"a": {"command": "x"}}, "toolroll": {"servers": {"b": {}}}}',
            "toolroll.servers.b: no server is named 'b'",
        ),
        (
            '{"mcpServers": {"a b": {"command": "x"}, "a.b": {"command": "y"}}}',
            "has the same prefix as 'a b'",
        ),
        ('{"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "x"}}}', "is there twice"),
        ('{"mcpServers": {"": {"command": "x"}}}', "has 0 characters, must have 1 to 100"),
        (
            f'{{"mcpServers": {{"{"a" * 101}": {{"command": "x"}}}}}}',
            "has 101 characters, must have 1 to 100",
        ),
        ("[]", "must be an object"),
        ('{"mcpServers": {', "is not JSON"),
    ],
)
def test_a_wrong_file_is_told_with_what_to_write(tmp_path, text, problem):
    with pytest.raises(InvalidDefinition) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value) and "mcp.json" in str(caught.value)


def test_a_file_that_is_not_there_is_told_with_what_makes_one(tmp_path):
    with pytest.raises(NotFound, match="toolroll mcp import CLIENT"):
        read_configuration(tmp_path / "none.json", {})


def test_options_of_a_server_are_set_beside_its_entry(tmp_path):
    text = json.dumps(
        {
            "mcpServers": {"a": {"command": "x", "timeout": 5_000}, "b": {"command": "y"}},
            "toolroll": {
                "servers": {
                    "a": {"command_prefix": ["bwrap"], "instance": "shared"},
                    "b": {"role": "guardian"},
                }
            },
        }
    )
    configuration = read(tmp_path, text)
    assert list(configuration.servers) == ["b", "a"]  # guardians first
    a = configuration.servers["a"]
    assert (a.command_prefix, a.instance, a.timeout_s, a.is_shared) == (("bwrap",), "shared", 5.0, True)


def test_servers_are_switched_off_by_file_option_and_variable(tmp_path):
    text = json.dumps(
        {
            "mcpServers": {name: {"command": "x", "disabled": name == "a"} for name in "abc"},
            "toolroll": {"servers": {"b": {"enabled": False}}},
        }
    )
    configuration = read(tmp_path, text, {"C_MCP_ENABLED": "false"})
    assert not configuration.servers
    assert list(configuration.disabled) == ["a", "b", "c"] and "C_MCP_ENABLED" in configuration.disabled["c"]


@each_row(
    ("entry", "own", "included", "excluded"),
    [
        ({}, {}, None, ()),
        ({"disabledTools": ["a"]}, {}, None, ("a",)),
        ({"excludeTools": ["a"], "disabledTools": ["b"]}, {"exclude_tools": ["c"]}, None, ("a", "b", "c")),
        ({"includeTools": ["a", "b"]}, {}, ("a", "b"), ()),
        ({"tools": ["*"]}, {}, None, ()),
        ({"tools": ["*"], "enabledTools": ["a"]}, {}, ("a",), ()),
        ({"includeTools": ["a", "b"], "enabledTools": ["b", "c"]}, {}, ("b",), ()),
        ({"includeTools": []}, {}, (), ()),
        ({"includeTools": ["a", "b"]}, {"include_tools": ["b", "c"]}, ("b",), ()),
        ({"tools": ["*"]}, {"include_tools": ["b"]}, ("b",), ()),
    ],
)
def test_tools_are_switched_off_by_the_keys_of_each_client_and_by_option(
    tmp_path, entry, own, included, excluded
):
    document = {"mcpServers": {"s": {"command": "x", **entry}}, "toolroll": {"servers": {"s": own}}}
    spec = read(tmp_path, json.dumps(document)).servers["s"]
    assert (spec.include_tools, spec.exclude_tools) == (included, excluded)


@pytest.mark.parametrize(
    ("key", "meant"), [("disabledTools", "exclude_tools"), ("includeTools", "include_tools")]
)
def test_a_clients_key_in_our_section_is_told_with_the_one_that_means_the_same(tmp_path, key, meant):
    document = {"mcpServers": {"s": {"command": "x"}}, "toolroll": {"servers": {"s": {key: ["a"]}}}}
    with pytest.raises(
        InvalidDefinition, match=f"'{key}' is a key of the server's own entry, here it is '{meant}'"
    ):
        read(tmp_path, json.dumps(document))


def test_comments_are_blanked_and_lines_stay():
    text = '{"a": "// no /* comment */ , ]", /* x\ny */ "b": [1, 2,],\n}'
    blanked = without_comments(text)
    assert json.loads(blanked) == {"a": "// no /* comment */ , ]", "b": [1, 2]}
    assert blanked.count("\n") == text.count("\n") and len(blanked) == len(text)


def manifest(folder: Path, name: str, content: dict, file: str = "manifest.json") -> None:
    (folder / name).mkdir()
    (folder / name / file).write_text(json.dumps(content))


def test_a_folder_of_manifests_is_read_with_guardians_first(tmp_path):
    manifest(tmp_path, "filer", {"name": "filer", "command": "run", "timeout_s": 9, "sensitive": True})
    manifest(tmp_path, "gmail", {"name": "gmail", "transport": "http", "port": 8010})
    manifest(
        tmp_path,
        "guard",
        {"main": "dist/index.js", "toolroll": {"name": "guard", "role": "guardian"}},
        "package.json",
    )
    manifest(tmp_path, "library", {"name": "library"}, "package.json")
    found = with_servers(
        Configuration({}, GatewayOptions(), tmp_path, {}),
        read_manifests(tmp_path),
        {"FILER_MCP_ENABLED": "0"},
    )
    guard, gmail = found.servers.values()
    assert (guard.command, guard.args, guard.cwd) == ("node", ("dist/index.js",), str(tmp_path / "guard"))
    assert gmail.url == "http://127.0.0.1:8010/mcp"
    assert list(found.disabled) == ["filer"]


def test_a_wrong_manifest_is_told_with_file_and_key(tmp_path):
    manifest(tmp_path, "a", {"name": "a", "transport": "http", "prot": 1})
    with pytest.raises(
        InvalidDefinition, match=r"manifest.json:1: prot: is no known key; did you mean 'port'\?"
    ):
        list(read_manifests(tmp_path))


def test_a_document_gives_the_line_of_a_key(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{\n"a": {\n"b": 1}}')
    assert Document.of(path).line(("a", "b")) == 3


def test_every_wrong_key_is_a_line_with_its_value_and_the_nearest_key(tmp_path):
    text = """{
      "mcpServers": {
        "git": {"command": "uvx", "args": ["a", 3], "comand": "x"},
        "web": {"type": "streamable", "url": "http://x", "timeout": 5},
        "slow": {"command": "x", "timeout": "soon", "disabled": "maybe"}
      },
      "toolroll": {
        "mode": "serach",
        "servers": {"git": {"max_inflight": 3, "timeout_s": 0, "role": "gaurdian"}},
        "identity": {"keys": {"ci": {"key": "k", "rolls": []}}, "claims": {"organisation": "x"}},
        "caller": {"Org": "x"}
      }
    }"""
    with pytest.raises(InvalidConfiguration) as caught:
        read(tmp_path, text)
    file = tmp_path / "mcp.json"
    assert str(caught.value).split("\n") == [
        f"{file}:3: mcpServers.git.args.1: is a number, must be a text",
        f"{file}:3: mcpServers.git.comand: is no known key; did you mean 'command'?",
        f"{file}:4: mcpServers.web.type: is 'streamable', must be stdio, http, sse or openapi; did you mean 'streamableHttp'?",
        f'{file}:5: mcpServers.slow.timeout: is "soon", must be a number',
        f'{file}:5: mcpServers.slow.disabled: is "maybe", must be true or false',
        f"{file}:8: toolroll.mode: is \"serach\", must be 'auto', 'search', 'dynamic' or 'all'; did you mean 'search'?",
        f"{file}:9: toolroll.servers.git.role: is \"gaurdian\", must be '', 'guardian' or 'channel'; did you mean 'guardian'?",
        f"{file}:9: toolroll.servers.git.timeout_s: is 0, must be > 0",
        f"{file}:9: toolroll.servers.git.max_inflight: is no known key; did you mean 'max_in_flight'?",
        f"{file}:10: toolroll.identity.url: is missing",
        f"{file}:10: toolroll.identity.claims.organisation: is no known key, must be one of org, user, roles, tier",
        f"{file}:10: toolroll.identity.keys.ci.rolls: is no known key; did you mean 'roles'?",
        f"{file}:11: toolroll.caller.Org: is no known key; did you mean 'org'?",
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_no_message_shows_a_value_that_may_be_secret(tmp_path):
    text = """{
      "mcpServers": {
        "a": {"command": ["SECRET"], "env": {"A": ["SECRET"]}, "headers": "SECRET", "apiKey": "SECRET"},
        "b": {"command": "x", "args": {"SECRET": 1}},
        "c": {"url": "ftp://ann:SECRET@host/mcp?key=SECRET"}
      },
      "toolroll": {
        "catalog": 7, "tokens_key": ["SECRET"],
        "identity": {"url": "http://ann:SECRET@host/?key=SECRET", "keys": {"k": {"key": ["SECRET"]}}}
      }
    }"""
    with pytest.raises(InvalidConfiguration) as caught:
        read(tmp_path, text)
    told = str(caught.value)
    assert "SECRET" not in told and len(told.split("\n")) == 10
    assert "is 'ftp://host/mcp', must begin with" in told and "is 'http://host/', must begin with" in told


def test_what_is_wrong_before_any_server_is_started_is_a_line_each(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "mcp.json"
    path.write_text(
        """{
          "mcpServers": {
            "good": {"command": "python3"},
            "absent": {"command": "no-such-program"},
            "file": {"command": "./mcp.json", "cwd": "${workspaceFolder}"},
            "secret": {"command": "python3", "env": {"A": "1", "TOKEN": "${env:NO_SUCH}"}},
            "remote": {"url": "https://x", "headers": {"Authorization": "Bearer ${env:NO_SUCH}"}}
          },
          "toolroll": {
            "tokens_key": "${env:NO_SUCH}",
            "identity": {"url": "https://x", "keys": {"ci": {"key": "${env:NO_SUCH}"}}}
          }
        }"""
    )
    assert main(["mcp", "--check", "--config", str(path)]) == 1
    out, error = capsys.readouterr()
    unset = "the environment variable NO_SUCH is not set"
    assert out == "" and error.splitlines() == [
        f"{path}:4: server 'absent': command: its program 'no-such-program' is not there: install it, or write its whole path",
        f"{path}:5: server 'file': command: its program './mcp.json' cannot be executed: it is a plain file",
        f"{path}:6: server 'secret': env.TOKEN: {unset}",
        f"{path}:7: server 'remote': headers.Authorization: {unset}",
        f"toolroll.identity.keys.ci.key: {unset}",
        f"toolroll.tokens_key: {unset}",
    ]
    path.write_text('{"mcpServers": {"good": {"command": "python3"}}}')
    assert main(["mcp", "--check", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "1 server: nothing is wrong with the configuration\n"
    path.write_text('{"mcpServers": {"a": {"command": "python3"}}, "toolroll": {"catalog": "mysql://h/d"}}')
    assert main(["mcp", "--check", "--config", str(path)]) == 1
    assert capsys.readouterr().err.startswith("toolroll.catalog: registry URL: begins with 'mysql'")
    path.write_text('{"mcpServers": {"a": {"command": "python3", "disabled": "yes"}}}')
    assert main(["mcp", "--check", "--config", str(path)]) == 1
    assert 'mcpServers.a.disabled: is "yes", must be true or false' in capsys.readouterr().err
    path.write_text('{"mcpServers": {"a": {"comand": 1}, "b": {"ulr": 2}}}')
    for command in (["--check"], ["doctor"], ["status"], []):
        assert main(["mcp", *command, "--config", str(path)]) == 1
        assert [line.partition("mcp.json:1: ")[2] for line in capsys.readouterr().err.splitlines()] == [
            "mcpServers.a.comand: is no known key; did you mean 'command'?",
            "mcpServers.b.ulr: is no known key; did you mean 'url'?",
        ]


def test_an_unknown_embedder_or_profile_is_told_with_file_line_and_key(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "mcp.json"
    servers = '{"mcpServers": {"a": {"command": "python3"}}, "toolroll": {\n'
    path.write_text(f'{servers}"embedder": "statik",\n"profile": "defualt"}}}}')
    for command in ("--check", "doctor", "status", "serve"):
        assert main(["mcp", command, "--config", str(path)]) == 1
        embedder, profile = capsys.readouterr().err.splitlines()
        assert f"{path}:2: toolroll.embedder: 'statik': unknown; known are static, minilm" in embedder
        assert f"{path}:3: toolroll.profile: 'defualt': unknown; known are default, static" in profile
    path.write_text(f'{servers}"embedder": "openai:"}}}}')
    assert main(["mcp", "--check", "--config", str(path)]) == 1
    assert "toolroll.embedder: 'openai:': names no model, must be openai:MODEL" in capsys.readouterr().err
    path.write_text(f'{servers}"embedder": "openai:m@ftp://x", "profile": "static"}}}}')
    monkeypatch.setattr("toolroll.embedders.named.maker", lambda name: _unavailable)
    assert main(["mcp", "--check", "--config", str(path)]) == 1
    assert capsys.readouterr().err == "toolroll.embedder: needs the extra x\n"


def _unavailable():
    raise EmbedderUnavailable("needs the extra x")


def test_a_file_that_is_nested_too_deeply_is_refused_with_its_place(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": ' + "[" * 100_000)
    with pytest.raises(InvalidDefinition, match="nested deeper"):
        read_configuration(path, {})
