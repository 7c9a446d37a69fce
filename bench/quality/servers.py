"""Selects from the raw answers of public MCP servers to tools/list, without an edited line.

``python -m bench.quality.servers FOLDER [--only NAME]…`` installs each server of the table in a temporary
folder (npm, or a virtual environment), starts it with made-up keys, asks it over stdio and writes its answer
as FOLDER/<name>.json. Needs node 20, npm and the two registries. Exit status 1 if a server failed.

``python -m bench.quality.servers FOLDER --ask [--embedder NAME]…`` asks the folder one message a server, from
``servers_messages.tsv``: server, right tool (several with | between), message.

The answers are other people's texts, so they are not kept in this repository.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.quality.mcp_client import ServerFailed, answer, last_line

from toolroll import Toolroll
from toolroll.formats.sources.folder import read_folder
from toolroll.model.tools import Definitions

MESSAGES = Path(__file__).with_name("servers_messages.tsv")
INSTALL_SECONDS, ANSWER_SECONDS = 400, 60
NO_CLUSTER = json.dumps(
    {
        "clusters": [{"name": "none", "cluster": {"server": "http://localhost:9"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "current-context": "none",
    }
)


@dataclass(frozen=True)
class Server:
    """A published server. {folder} in an argument is a folder of its own, which has the file config."""

    package: str
    version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_python: bool = False
    config: str = ""


def _npm(package: str, version: str, *arguments: str, **environment: str) -> Server:
    return Server(package, version, arguments, environment)


def _python(package: str, version: str, *arguments: str, **environment: str) -> Server:
    return Server(package, version, arguments, environment, is_python=True)


SERVERS = {
    "filesystem": _npm("@modelcontextprotocol/server-filesystem", "2026.8.31", "{folder}"),
    "memory": _npm("@modelcontextprotocol/server-memory", "2026.8.31"),
    "everything": _npm("@modelcontextprotocol/server-everything", "2026.8.31"),
    "thinking": _npm("@modelcontextprotocol/server-sequential-thinking", "2026.8.31"),
    "google-maps": _npm("@modelcontextprotocol/server-google-maps", "0.6.2", GOOGLE_MAPS_API_KEY="none"),
    "github": _npm("@modelcontextprotocol/server-github", "2025.4.8", GITHUB_PERSONAL_ACCESS_TOKEN="none"),
    "gitlab": _npm("@modelcontextprotocol/server-gitlab", "2025.4.25", GITLAB_PERSONAL_ACCESS_TOKEN="none"),
    "slack": _npm(
        "@modelcontextprotocol/server-slack", "2025.4.25", SLACK_BOT_TOKEN="xoxb-none", SLACK_TEAM_ID="T0"
    ),
    "playwright": _npm("@playwright/mcp", "0.0.83"),
    "context7": _npm("@upstash/context7-mcp", "4.1.1"),
    "notion": _npm("@notionhq/notion-mcp-server", "2.5.2", NOTION_TOKEN="none"),
    "brave": _npm("@brave/brave-search-mcp-server", "2.1.4", BRAVE_API_KEY="none"),
    "airtable": _npm("airtable-mcp-server", "1.14.0", AIRTABLE_API_KEY="none"),
    "chart": _npm("@antv/mcp-server-chart", "0.9.10"),
    "firecrawl": _npm("firecrawl-mcp", "3.26.0", FIRECRAWL_API_KEY="none"),
    "tavily": _npm("tavily-mcp", "0.2.22", TAVILY_API_KEY="none"),
    "exa": _npm("exa-mcp-server", "3.4.1", EXA_API_KEY="none"),
    "sentry": _npm("@sentry/mcp-server", "0.39.0", "--access-token=none"),
    "figma": _npm("figma-developer-mcp", "0.13.2", "--stdio", "--figma-api-key=none"),
    "hubspot": _npm("@hubspot/mcp-server", "0.4.0", PRIVATE_APP_ACCESS_TOKEN="none"),
    "mongodb": _npm("mongodb-mcp-server", "3.0.4"),
    "elasticsearch": _npm(
        "@elastic/mcp-server-elasticsearch", "0.3.1", ES_URL="http://localhost:9", ES_API_KEY="none"
    ),
    "kubernetes": Server(
        "kubernetes-mcp-server", "0.0.67", ("--kubeconfig={folder}/config",), config=NO_CLUSTER
    ),
    "ms365": _npm("@softeria/ms-365-mcp-server", "0.155.0", "--org-mode"),
    "time": _python("mcp-server-time", "2026.10.19"),
    "git": _python("mcp-server-git", "2026.10.19"),
    "fetch": _python("mcp-server-fetch", "2026.10.24"),
    "arxiv": _python("arxiv-mcp-server", "0.8.2"),
    "atlassian": _python(
        "mcp-atlassian",
        "0.23.1",
        JIRA_URL="https://none.atlassian.net",
        JIRA_USERNAME="none",
        JIRA_API_TOKEN="none",
        CONFLUENCE_URL="https://none.atlassian.net/wiki",
        CONFLUENCE_USERNAME="none",
        CONFLUENCE_API_TOKEN="none",
    ),
}


def install(server: Server, folder: Path) -> list[str]:
    """The command that starts the server."""
    wanted = server.package + ("==" if server.is_python else "@") + server.version
    if server.is_python:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run(
            [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted]
        )
        return [str(folder / "bin" / server.package)]
    _run(["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", wanted])
    package = folder / "node_modules" / server.package
    programs = json.loads((package / "package.json").read_text("utf-8"))["bin"]
    return ["node", str(package / (programs if isinstance(programs, str) else next(iter(programs.values()))))]


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise ServerFailed(f"{command[0]} took more than {INSTALL_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        raise ServerFailed(f"not installed: {last_line(error.stderr)}") from None


def fetch(name: str, folder: Path) -> str:
    """Writes the server's answer. Returns what to print of it. Raises ServerFailed."""
    server = SERVERS[name]
    work = Path(tempfile.mkdtemp(prefix=f"mcp-{name}-"))
    try:
        (work / "home").mkdir()
        (work / "home/config").write_text(server.config, "utf-8")
        command = install(server, work / "program")
        arguments = [argument.format(folder=work / "home") for argument in server.arguments]
        raw = asyncio.run(answer([*command, *arguments], server.environment, work / "home", ANSWER_SECONDS))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    (folder / f"{name}.json").write_bytes(raw)
    return _size(read_folder(folder / f"{name}.json"))


def _size(read: Definitions) -> str:
    return f"{len(read.tools)} tools, {len(read.repaired)} repaired, {len(read.skipped)} skipped"


def fetch_all(names: Sequence[str], folder: Path) -> int:
    """The number of servers that failed."""
    failed = 0
    with ThreadPoolExecutor(2) as threads:
        for name, task in [(name, threads.submit(fetch, name, folder)) for name in names]:
            try:
                said = task.result()
            except ServerFailed as error:
                failed += 1
                said = f"failed: {error}"
            print(f"{name:<16}{SERVERS[name].version:<12}{said}", flush=True)
    return failed


def ask(folder: Path, embedders: Sequence[str]) -> None:
    """Prints at which place each message's right tool is, and how many are among the first five and ten.

    Messages for servers that are not in the folder are left out.
    """
    lines = [line.split("\t") for line in MESSAGES.read_text("utf-8").splitlines()]
    lines = [line for line in lines if (folder / f"{line[0]}.json").exists()]
    definitions = read_folder(folder)
    found = {}
    for embedder in embedders:
        with Toolroll.from_definitions(definitions, embedder=embedder) as roll:
            found[embedder] = list(_places(roll, lines))
    print(*embedders, f"{_size(definitions)}, {len(lines)} messages", sep="\t")
    for i, (server, names, message) in enumerate(lines):
        print(*(each[i] or "–" for each in found.values()), f"{server}/{names}", message, sep="\t")
    for k in (5, 10):
        print(*(sum(0 < place <= k for place in each) for each in found.values()), f"among {k}", sep="\t")


def _places(roll: Toolroll, lines: Sequence[Sequence[str]]) -> Iterator[int]:
    """The place of each message's first right tool, from 1; 0 if none is among the first ten."""
    for server, names, message in lines:
        right = {shown for name in names.split("|") for shown in (name, f"{server}_{name}")}
        own = {tool.name for tool in roll.catalog.tools if tool.toolkit == server and tool.name in right}
        if not own:
            raise SystemExit(f"{server} has no tool {names}")
        selected = roll.select(message, k=10, max_tools=10).names
        yield next((place for place, name in enumerate(selected, 1) if name in own), 0)


def main() -> int:
    """Fetches the answers, or asks those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", choices=SERVERS, metavar="NAME", help="fetch this server")
    parser.add_argument("--ask", action="store_true", help="fetch nothing; ask the messages")
    parser.add_argument("--embedder", action="append", help="for --ask; default: static and minilm")
    options = parser.parse_args()
    if options.ask:
        ask(options.folder, options.embedder or ("static", "minilm"))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    names = options.only or list(SERVERS)
    failed = fetch_all(names, options.folder)
    print(f"{len(names) - failed} of {len(names)} servers answered")
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
