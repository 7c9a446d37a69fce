"""The gateway over real servers from package registries, driven by clients that others wrote.

`tools/long_tier.sh gateway` installs them in a folder and runs this file; TOOLROLL_MCP_SERVERS names the folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVERS = Path(os.environ["TOOLROLL_MCP_SERVERS"])
NODE = SERVERS / "node_modules" / "@modelcontextprotocol"


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    """A file with seven servers, as a user would have it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "note.txt").write_text("buy milk")
    subprocess.run(["git", "init", "-q", str(tmp_path / "files")], check=True)
    servers = {
        "time": {
            "command": str(SERVERS / "new" / "bin" / "mcp-server-time"),
            "args": ["--local-timezone", "UTC"],
        },
        "git": {"command": str(SERVERS / "new" / "bin" / "mcp-server-git")},
        "sqlite": {
            "command": str(SERVERS / "old" / "bin" / "mcp-server-sqlite"),
            "args": ["--db-path", str(tmp_path / "x.db")],
        },
        "filesystem": {
            "command": "node",
            "args": [str(NODE / "server-filesystem" / "dist" / "index.js"), str(tmp_path / "files")],
        },
        "everything": {"command": "node", "args": [str(NODE / "server-everything" / "dist" / "index.js")]},
        "memory": {
            "command": "node",
            "args": [str(NODE / "server-memory" / "dist" / "index.js")],
            "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
        },
        "fetch": {"command": str(SERVERS / "new" / "bin" / "mcp-server-fetch")},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def environment() -> dict[str, str]:
    return {
        key: os.environ[key] for key in ("PATH", "HOME", "PYTHONPATH", "XDG_STATE_HOME") if key in os.environ
    }


def arguments(configuration: Path, *more: str) -> list[str]:
    return ["-m", "toolroll", "mcp", "--config", str(configuration), *more]


CALLS = {
    "time_get_current_time": ({"timezone": "Asia/Tokyo"}, "Asia/Tokyo"),
    "git_git_status": ({"repo_path": "FILES"}, "Repository status"),
    "sqlite_list_tables": ({}, "[]"),
    "filesystem_read_text_file": ({"path": "FILES/note.txt"}, "buy milk"),
    "everything_echo": ({"message": "hello"}, "Echo: hello"),
    "memory_read_graph": ({}, "entities"),
}
# What servers refuse and models get wrong: the answer is an error that says what was wrong.
REFUSED = {
    "time_get_current_time": [({}, "timezone"), ({"timezone": "Mars/Base"}, "Mars/Base")],
    "git_git_status": [({"repo_path": "/nowhere"}, "/nowhere")],
    "filesystem_read_text_file": [({"path": "/etc/passwd"}, "denied"), ({"pth": "x"}, "path")],
    "everything_echo": [({}, "message")],
    "everything_trigger-sampling-request": [({"prompt": "x"}, "does not answer it")],
    "fetch_fetch": [({"url": "http://127.0.0.1:9/"}, "127.0.0.1")],
    "memory_create_entities": [({"entities": "x"}, "entities")],
    "time_get_curent_time": [({}, "Nearest: time_get_current_time")],
    "read_result": [({}, "result_id is missing"), ({"result_id": "x"}, "no such result")],
    "search_tools": [({}, "queries"), ({"queries": [""]}, "queries")],
    "call_tool": [({}, "name is missing"), ({"name": "nope", "arguments": {}}, "No tool is named 'nope'")],
}
SEARCHES = {
    "what time is it in Tokyo": "time_get_current_time",
    "show the state of the repository": "git_git_status",
    "which tables does the database have": "sqlite_list_tables",
    "read the text of a file": "filesystem_read_text_file",
    "echo a message back": "everything_echo",
}


def filled(given: dict[str, str], folder: Path) -> dict[str, str]:
    return {key: value.replace("FILES", str(folder / "files")) for key, value in given.items()}


def test_the_doctor_finds_every_server_usable(configuration):
    command = [sys.executable, "-m", "toolroll", "mcp", "doctor", "--config", str(configuration), "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["servers"]
    assert [server["server"] for server in found if server["ok"] and server["tools"]] == [
        "time", "git", "sqlite", "filesystem", "everything", "memory", "fetch",
    ]  # fmt: skip


def test_the_official_client_finds_and_calls_tools_of_every_server(configuration, tmp_path):
    async def main():
        server = StdioServerParameters(
            command=sys.executable, args=arguments(configuration), env=environment()
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            listed = {tool.name for tool in (await session.list_tools()).tools}
            assert {"search_tools", "call_tool"} <= listed
            with anyio.fail_after(120):
                while "still being started" in (
                    (await session.call_tool("search_tools", {"queries": ["time"]})).content[0].text
                ):
                    await anyio.sleep(1)
            for query, name in SEARCHES.items():
                found = await session.call_tool("search_tools", {"queries": [query], "limit": 5})
                assert f"## {name}\n" in found.content[0].text, query
            for name, (given, told) in CALLS.items():
                result = await session.call_tool(
                    "call_tool", {"name": name, "arguments": filled(given, tmp_path)}
                )
                assert told in result.content[0].text, name

    anyio.run(main)


@pytest.mark.parametrize("mode", ["auto", "search", "dynamic", "all"])
def test_bad_calls_are_answered_cancelled_ones_end_and_a_killed_server_comes_back(
    configuration, tmp_path, mode
):
    async def main():
        server = StdioServerParameters(
            command=sys.executable, args=arguments(configuration, "--mode", mode), env=environment()
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as session:

            async def call(name, given):
                result = await session.call_tool(name, given)
                return result.content[0].text, result.is_error

            await session.initialize()
            with anyio.fail_after(120):
                for name in [name for name in REFUSED if name.split("_")[0] in ("everything", "memory")]:
                    while "is away" in (await call(name, {}))[0] or "No tool" in (await call(name, {}))[0]:
                        await anyio.sleep(0.5)
            for name, calls in REFUSED.items():
                for given, told in calls:
                    text, is_error = await call(name, given)
                    assert is_error and told in text, (name, given, text)
            with anyio.move_on_after(1):
                long = {"duration": 60, "steps": 60}
                await call("everything_trigger-long-running-operation", long)
            with anyio.fail_after(5):  # the server goes on with the next call
                assert await call("everything_echo", {"message": "still"}) == ("Echo: still", False)
            for pid in pids_with(str(tmp_path / "memory.jsonl")):
                os.kill(pid, signal.SIGKILL)
            with anyio.fail_after(20):
                while (await call("memory_read_graph", {}))[1]:
                    await anyio.sleep(0.2)

    anyio.run(main)


def test_the_inspectors_command_line_lists_and_calls_tools(configuration, tmp_path):
    content = json.loads(configuration.read_text())  # each command is a gateway of its own, and lists once
    configuration.write_text(json.dumps({**content, "toolroll": {"first_list_s": 60}}))
    server = {
        "command": sys.executable,
        "args": arguments(configuration, "--mode", "all"),
        "env": environment(),
    }
    client = tmp_path / "client.json"
    client.write_text(json.dumps({"mcpServers": {"toolroll": server}}))
    program = [str(SERVERS / "node_modules" / ".bin" / "mcp-inspector"), "--cli"]

    def asked(*words):
        command = [*program, "--config", str(client), "--server", "toolroll", "--method", *words]
        return json.loads(
            subprocess.run(command, capture_output=True, check=True, text=True, timeout=120).stdout
        )

    assert {"read_result", "time_get_current_time"} <= {tool["name"] for tool in asked("tools/list")["tools"]}
    words = ["tools/call", "--tool-name", "time_get_current_time", "--tool-arg", "timezone=Asia/Tokyo"]
    assert "Asia/Tokyo" in asked(*words)["content"][0]["text"]


def pids_with(value: str) -> list[int]:
    """The processes of which a variable has this value."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if value.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
    return found


def test_fastmcps_client_calls_tools_by_name_and_reads_prompts_and_resources(configuration, tmp_path):
    async def main():
        transport = StdioTransport(
            sys.executable, arguments(configuration, "--mode", "all"), env=environment()
        )
        async with FastClient(transport) as client:
            names: set[str] = set()
            with anyio.fail_after(120):
                while not names >= CALLS.keys():
                    await anyio.sleep(0.5)
                    names = {tool.name for tool in await client.list_tools()}
            for name, (given, told) in CALLS.items():
                result = await client.call_tool(name, filled(given, tmp_path))
                assert told in result.content[0].text, name
            prompts = {prompt.name for prompt in await client.list_prompts()}
            assert any(name.startswith("everything_") for name in prompts)
            resources = await client.list_resources()
            content = await client.read_resource(resources[0].uri)
            assert content

    anyio.run(main)
