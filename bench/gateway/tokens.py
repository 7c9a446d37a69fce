"""Tokens that a client pays for ten tasks over 500 tools: alone, with this gateway, with FastMCP's search.

``python -m bench.gateway.tokens FOLDER``. The folder is that of ``bench.quality.servers``: answers of public
servers to tools/list. The tasks are the first ten messages of that bench. Needs the package fastmcp. Counts
are estimated tokens (`toolroll.catalog.tokens`), of the list and of what the searches answer. A task is found
if its tool is in the answer to a search with the task's own words.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import click
from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform, RegexSearchTransform
from fastmcp.tools.base import Tool as FastTool
from fastmcp.tools.base import ToolResult

from bench.quality.servers import MESSAGES
from toolroll import Context, Toolroll
from toolroll.catalog.tokens import estimate_tokens
from toolroll.formats.meta_tools import CALL_TOOL, SEARCH_TOOLS
from toolroll.formats.schemas import sent_tools
from toolroll.gateway.results import READ_RESULT_TOOL
from toolroll.gateway.search_markdown import markdown

_TOOLS, _TASKS = 500, 10
_LARGEST_LAST = "ms365"  # a server with more tools than all places that are left

Json = dict[str, Any]
Search = Callable[[str], Awaitable[str]]


@dataclass(frozen=True)
class Task:
    """A message and the names of the tools that serve it."""

    message: str
    names: frozenset[str]


def read(folder: Path) -> tuple[list[Json], list[Task]]:
    """The tools under the names of a gateway, and the tasks."""
    files = sorted(folder.glob("*.json"), key=lambda path: (path.stem == _LARGEST_LAST, path.stem))
    tools = []
    for path in files:
        for tool in _tools(json.loads(path.read_text("utf-8"))):
            tools.append({**tool, "name": f"{path.stem}_{tool['name']}"})
    lines = [line.split("\t") for line in MESSAGES.read_text("utf-8").splitlines()]
    tasks = [
        Task(message, frozenset(f"{server}_{name}" for name in names.split("|")))
        for server, names, message in lines
    ]
    return tools[:_TOOLS], tasks[:_TASKS]


def _tools(answer: Any) -> list[Json]:
    if isinstance(answer, list):
        return answer
    found: list[Json] = answer.get("tools") or answer["result"]["tools"]
    return found


def _as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(tools: list[Json]) -> list[Json]:
    """What a client sends of tools to its model."""
    return [{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools]


async def report(name: str, listed: list[Json], search: Search | None, tasks: list[Task]) -> None:
    """Prints a line of the table."""
    size = estimate_tokens(_as_text(_shown(listed)))
    answers, found = 0, 0
    for task in tasks:
        if search is None:
            found += any(tool["name"] in task.names for tool in listed)
        else:
            answer = await search(task.message)
            answers += estimate_tokens(answer)
            found += any(f"{name}\n" in answer or f'"{name}"' in answer for name in task.names)
    print(f"{name:<34}{size:>10,}{answers:>12,}{size + answers:>12,}{found:>6} of {len(tasks)}")


def _own(tools: list[Json]) -> Iterator[tuple[str, Search]]:
    roll = Toolroll.from_tools(tools)
    for form in ("Markdown", "JSON"):
        for limit in (5, 3):

            async def search(message: str, form: str = form, limit: int = limit) -> str:
                session = roll.session(f"{form}/{limit}/{message}", Context(provider="mcp"))
                given = {"queries": [message], "limit": limit}
                answer = await session.aanswer(SEARCH_TOOLS.name, given)
                return markdown(answer.text) if form == "Markdown" and answer.tools else answer.text

            yield f"toolroll, {limit} results, {form}", search


class _Listed(FastTool):
    """A tool of a list, which is never run."""

    async def run(self, arguments: Mapping[str, Any]) -> ToolResult:
        raise NotImplementedError


async def measure(folder: Path) -> None:
    """Prints the table."""
    tools, tasks = read(folder)
    print(f"{len(tools)} tools, {len(tasks)} tasks")
    print(f"{'':<34}{'list':>10}{'searches':>12}{'both':>12}{'found':>12}")
    await report("no gateway", tools, None, tasks)
    shown = sent_tools((SEARCH_TOOLS, CALL_TOOL, READ_RESULT_TOOL), "mcp").schemas()
    for name, search in _own(tools):
        await report(name, shown, search, tasks)
    for name, transform in (("BM25", BM25SearchTransform()), ("pattern", RegexSearchTransform())):
        server = FastMCP("all", transforms=[transform])
        for tool in tools:
            listed = {"name": tool["name"], "description": tool.get("description") or ""}
            server.add_tool(_Listed(**listed, parameters=tool["inputSchema"]))
        async with Client(server) as client:

            async def search(message: str, client: Client[Any] = client, name: str = name) -> str:
                # A pattern is a regular expression: any word of the message.
                asked = "|".join(word for word in message.split() if len(word) > 3)
                given = {"query": message} if name == "BM25" else {"pattern": asked}
                result = await client.call_tool("search_tools", given)
                return "\n".join(part.text for part in result.content)

            shown = [tool.model_dump(by_alias=True, mode="json") for tool in await client.list_tools()]
            await report(f"FastMCP's search, {name}", shown, search, tasks)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Measures tokens. FOLDER has the servers' answers."""
    anyio.run(measure, folder)


if __name__ == "__main__":
    main()
