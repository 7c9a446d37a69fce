"""A gateway's memory while conversations come and go. TOOLROLL_GATEWAY_S says for how long; a day has 86,400."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("mcp")

import anyio

from tests.integration.gateways import free_port, http_client, run, scripted, tool, write_configuration

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("TOOLROLL_GATEWAY_S", "15"))
CLIENTS = 4  # at the same time
MOST_MB = 48  # that memory may grow by after the first third


def megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_while_conversations_come_and_go(tmp_path):
    tools = [tool("fail"), tool("hang"), tool("long"), tool("echo", "Says a text again")]
    tools += [tool(f"paint{number}", f"Paints wall number {number}") for number in range(60)]
    servers = {"a": scripted(tools=tools), "dead": scripted(dies=True)}
    path = write_configuration(tmp_path, servers, mode="search", result_limit=2_000)
    port = free_port()
    command = [sys.executable, "-m", "toolroll", "mcp", "--config", str(path), "--http", f"127.0.0.1:{port}"]
    url, ends, rounds = f"http://127.0.0.1:{port}/mcp", time.monotonic() + SECONDS, 0
    sizes: list[tuple[float, float]] = []

    async def conversation(number: int) -> None:
        async with http_client(url) as client:
            await client.names()
            words = {"queries": [f"paints wall number {number % 60}", f"round {number}"]}
            assert not (await client.call("search_tools", words))[1]
            assert not (await client.call(f"a_paint{number % 60}", {"text": "x" * 1_000}))[1]
            assert (await client.call("a_fail"))[1]
            assert (await client.call(f"no_such_tool_{number}"))[1]
            assert "page 1 of" in (await client.call("a_long", {"tens": 1_000}))[0]
            with anyio.move_on_after(0.05):
                await client.call("a_hang")

    async def converse() -> None:
        nonlocal rounds
        while time.monotonic() < ends:
            rounds += 1
            await conversation(rounds)

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
                        tasks.start_soon(converse)
                    while time.monotonic() < ends:
                        await anyio.sleep(SECONDS / 30)
                        sizes.append((time.monotonic(), megabytes(gateway.pid)))
            finally:
                gateway.terminate()

    run(go)
    third = sizes[len(sizes) // 3 :]
    print(f"{rounds:,} conversations in {SECONDS:g} s; memory {[round(size) for _, size in sizes[::3]]} MB")
    assert rounds > CLIENTS and len(sizes) > 10
    assert max(size for _, size in third) - third[0][1] < MOST_MB
