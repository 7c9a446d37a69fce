"""Measures calls and lists through the gateway, and its start with servers that are dead or hang. Linux only.

Calls and lists are timed by the clock and by the processor time of the process in the middle, which depends
less on what else the machine does. The sides take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import click
from mcp import MCPError

from toolroll.gateway.client import Client, open_stdio
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.protocol import METHOD_NOT_FOUND, Json
from toolroll.gateway.serving import open_gateway

_SERVER = Path(__file__).with_name("echo_server.py")
_ROUND = 20  # requests to one side before it is the next one's turn
_ALL_S = 60.0  # until all servers that work must be listed
_HANG_S = 3_600.0


def entry(tools: int, wait_s: float = 0.0) -> Json:
    """A server of a configuration."""
    return {"command": sys.executable, "args": ["-S", "-E", str(_SERVER), str(tools), str(wait_s)]}


async def _refuse(method: str, params: Json) -> Json:
    raise MCPError(METHOD_NOT_FOUND, method)


async def _ignore(method: str, params: Json) -> None:
    """No notification matters here."""


@dataclass(eq=False)
class Side:
    """One way to a server, through a process of its own."""

    name: str
    client: Client
    pid: int
    clock_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    async def take_turn(self, method: str, params: Json) -> None:
        """Sends a round of requests."""
        before = _cpu_s(self.pid)
        for _ in range(_ROUND):
            began = time.perf_counter()
            result = await self.client.request(method, params)
            self.clock_s.append(time.perf_counter() - began)
            assert not result.get("isError"), result
        self.cpu_s += _cpu_s(self.pid) - before

    def report(self) -> str:
        """The median and the processor time of a request."""
        median_ms, cpu_ms = 1e3 * statistics.median(self.clock_s), 1e3 * self.cpu_s / len(self.clock_s)
        return f"  {self.name:<18}p50 {median_ms:7.2f} ms   CPU {cpu_ms:6.3f} ms"


@asynccontextmanager
async def side(name: str, arguments: list[str], folder: Path) -> AsyncIterator[Side]:
    """A client of a new process of this interpreter."""
    env = {"XDG_STATE_HOME": str(folder), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    before = _children()
    opened = open_stdio(sys.executable, arguments, env, None, sys.stderr)
    async with opened as streams, Client(streams, _refuse, _ignore) as client:
        await client.initialize()
        (pid,) = _children() - before
        yield Side(name, client, pid)


def _children() -> set[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}


def _cpu_s(pid: int) -> float:
    """The processor time of a process, also of threads that have ended; that of its children is not in it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _write(folder: Path, servers: Json) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, "toolroll": {"mode": "all"}}))
    return path


async def calls(folder: Path, requests: int) -> None:
    """A call: direct, through a bare pass-through, and through the gateway."""
    server, config = entry(1), str(_write(folder, {"a": entry(1)}))
    command = [server["command"], *server["args"]]
    bare = ["-m", "bench.gateway.pass_through", *command]
    async with (
        side("direct", server["args"], folder) as direct,
        side("bare pass-through", bare, folder) as passing,
        side("gateway", ["-m", "toolroll", "mcp", "--config", config], folder) as gateway,
    ):
        sides = {direct: "tool_0", passing: "tool_0", gateway: "a_tool_0"}
        for warm in (True, False):
            for _ in range(1 if warm else -(-requests // _ROUND)):
                for each, name in sides.items():
                    await each.take_turn("tools/call", {"name": name, "arguments": {"text": "x"}})
            if warm:
                for each in sides:
                    each.clock_s, each.cpu_s = [], 0.0
        print("tools/call")
        for each in sides:
            print(each.report())
        by_clock = statistics.median(gateway.clock_s) / statistics.median(passing.clock_s)
        to_direct = statistics.median(gateway.clock_s) / statistics.median(direct.clock_s)
        print(
            f"  gateway: {by_clock:.2f} × the pass-through by the clock, "
            f"{gateway.cpu_s / passing.cpu_s:.2f} × by processor time (bar 1.15); {to_direct:.1f} × direct"
        )


async def lists(folder: Path, requests: int) -> None:
    """A list of 20 servers with 25 tools each, beside the same list from a bare pass-through."""
    config = str(_write(folder, {f"s{number}": entry(25) for number in range(20)}))
    whole = entry(500)
    bare = ["-m", "bench.gateway.pass_through", whole["command"], *whole["args"]]
    async with (
        side("bare pass-through", bare, folder) as passing,
        side("gateway", ["-m", "toolroll", "mcp", "--config", config], folder) as gateway,
    ):
        with anyio.fail_after(_ALL_S):
            while len((await gateway.client.request("tools/list", {}))["tools"]) < 500:
                await anyio.sleep(0.5)
        for _ in range(-(-requests // _ROUND)):
            await passing.take_turn("tools/list", {})
            await gateway.take_turn("tools/list", {})
        print("tools/list, 20 servers × 25 tools (bar 5 ms)")
        print(f"{passing.report()}\n{gateway.report()}")


async def start(folder: Path) -> None:
    """The first list with 50 servers, of which 5 are dead and 5 hang."""
    servers = {f"good{number}": entry(10) for number in range(40)}
    servers |= {f"dead{number}": {"command": sys.executable, "args": ["-c", ""]} for number in range(5)}
    servers |= {f"hanging{number}": entry(1, _HANG_S) for number in range(5)}
    configuration = read_configuration(_write(folder, servers), {})
    for state in ("the first start", "the second start"):
        began = time.monotonic()
        async with open_gateway(configuration, folder / "state") as (gateway, _):
            await gateway.known()
            first_s, first = time.monotonic() - began, len(gateway.catalog.routes)
            with anyio.move_on_after(_ALL_S):
                while len(gateway.catalog.routes) < 400:
                    await anyio.sleep(0.05)
            all_s, found = time.monotonic() - began, len(gateway.catalog.routes)
        print(f"{state}, 50 servers, 5 dead and 5 hanging (bar: first list within 2 s)")
        print(f"  first list after {first_s:.1f} s with {first} tools; {found} of 400 after {all_s:.1f} s")


@click.command()
@click.option("--requests", default=400, show_default=True, help="Requests of each side.")
@click.option("--only", type=click.Choice(["calls", "lists", "start"]), help="One of the measurements.")
def main(requests: int, only: str | None) -> None:
    """Measures the gateway."""
    for name, measure in {"calls": calls, "lists": lists}.items():
        if only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                anyio.run(measure, Path(folder), requests)
    if only in (None, "start"):
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(start, Path(folder))


if __name__ == "__main__":
    main()
