"""A gateway's memory while conversations come and go. TOOLROLL_GATEWAY_CONVERSATIONS says how many do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("mcp")

import anyio

from tests.integration.gateways import (
    http_client,
    http_server,
    run,
    scripted,
    tool,
    until,
    write_configuration,
)
from tests.ports import free_port
from toolroll.gateway import server_side
from toolroll.gateway.caller import Caller
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.serving import open_gateway

pytestmark = pytest.mark.slow

CONVERSATIONS = int(os.environ.get("TOOLROLL_GATEWAY_CONVERSATIONS", "30"))
CALLS = 20  # of each conversation
CLIENTS = 4  # at the same time
MOST_MB = 48  # that memory may grow by after the first fifth


def megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def callers() -> int:
    gc.collect()
    return sum(isinstance(found, Caller) for found in gc.get_objects())


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_nothing_is_kept_of_a_session_that_has_ended(tmp_path, monkeypatch, says_goodbye):
    if not says_goodbye:
        monkeypatch.setattr(server_side, "IDLE_S", 0.3)
    servers = {"a": scripted(tools=[tool("echo", "Says a text again"), tool("long")])}
    path = write_configuration(tmp_path, servers, mode="search", result_limit=2_000)

    async def go() -> None:
        configuration = read_configuration(path, {})
        async with (
            open_gateway(configuration, tmp_path / "state") as (gateway, server),
            http_server(server) as url,
        ):
            await gateway.known(30)
            before, roll = callers(), gateway.catalog.roll
            if says_goodbye:
                async with http_client(url) as client:
                    await converse(client)
                    assert callers() > before
            else:
                await post_and_vanish(url)
                assert callers() > before
            await until(lambda: callers() == before)
            await until(lambda: roll.health()["sessions"]["held"] == 0)
            assert not len(gateway.clients) and gateway.clients.kept == 0

    async def converse(client) -> None:
        await client.names()
        assert "a_echo" in (await client.call("search_tools", {"queries": ["says a text again"]}))[0]
        assert "page 1 of" in (await client.call("a_long", {"tens": 1_000}))[0]

    async def post_and_vanish(url: str) -> None:
        headers = {"Accept": "application/json, text/event-stream"}
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "vanishes", "version": "1"},
        }
        async with httpx_client(headers=headers) as client:

            async def post(method: str, params: dict, **more) -> None:
                message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
                response = await client.post(url, json=message)
                assert response.status_code in (200, 202), response.text
                client.headers.update(
                    {name: value for name, value in response.headers.items() if name == "mcp-session-id"}
                )

            await post("initialize", hello, id=1)
            await post("notifications/initialized", {})
            await post("tools/list", {}, id=2)
            await post("tools/call", {"name": "a_long", "arguments": {"tens": 1_000}}, id=3)

    run(go)


@pytest.mark.timeout(CONVERSATIONS * 2 + 300)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_while_conversations_come_and_go(tmp_path):
    tools = [tool("fail"), tool("hang"), tool("long"), tool("echo", "Says a text again")]
    tools += [tool(f"paint{number}", f"Paints wall number {number}") for number in range(60)]
    servers = {"a": scripted(tools=tools), "dead": scripted(dies=True)}
    path = write_configuration(tmp_path, servers, mode="search", result_limit=2_000)
    port = free_port()
    command = [sys.executable, "-m", "toolroll", "mcp", "--config", str(path), "--http", f"127.0.0.1:{port}"]
    url, calls, began = f"http://127.0.0.1:{port}/mcp", 0, 0
    sizes: list[float] = []  # when each thirtieth of the conversations has begun

    async def conversation(number: int) -> None:
        nonlocal calls
        async with http_client(url) as client:

            async def call(name: str, arguments: dict) -> tuple[str, bool]:
                nonlocal calls
                calls += 1
                return await client.call(name, arguments)

            await client.names()
            words = {"queries": [f"paints wall number {number % 60}", f"round {number}"]}
            assert not (await call("search_tools", words))[1]
            for wall in range(number, number + CALLS - 5):
                assert not (await call(f"a_paint{wall % 60}", {"text": "x" * 1_000}))[1]
            assert (await call("a_fail", {}))[1]
            assert (await call(f"no_such_tool_{number}", {}))[1]
            assert "page 1 of" in (await call("a_long", {"tens": 1_000}))[0]
            with anyio.move_on_after(0.05):
                await call("a_hang", {})

    async def converse(pid: int) -> None:
        nonlocal began
        while began < CONVERSATIONS:
            began += 1
            if began * 30 // CONVERSATIONS > len(sizes):
                sizes.append(megabytes(pid))
            await conversation(began)

    async def go() -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        with (
            open(tmp_path / "errors.log", "w") as errors,
            subprocess.Popen(command, env=environment, stderr=errors) as gateway,
        ):
            try:
                with anyio.fail_after(60):
                    while True:
                        try:
                            async with http_client(url) as client:
                                if "Paints" in (await client.call("search_tools", {"queries": ["wall"]}))[0]:
                                    break
                        except Exception:
                            assert gateway.poll() is None, (tmp_path / "errors.log").read_text()
                        await anyio.sleep(0.2)
                async with anyio.create_task_group() as tasks:
                    for _ in range(CLIENTS):
                        tasks.start_soon(converse, gateway.pid)
                sizes.append(megabytes(gateway.pid))
            finally:
                gateway.terminate()

    start = time.monotonic()
    run(go)
    took = time.monotonic() - start
    print(f"{began:,} conversations, {calls:,} calls in {took:.0f} s; {[round(size) for size in sizes]} MB")
    assert began >= CONVERSATIONS and calls >= CONVERSATIONS * (CALLS - 1) and len(sizes) > 20
    warm = sizes[len(sizes) // 5 :]
    assert max(warm) - warm[0] < MOST_MB
