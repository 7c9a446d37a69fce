"""Attack: one MCP server fills the disk of the gateway's machine."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress

import pytest

pytest.importorskip("mcp")

import anyio

from tests.attacks import bounded
from tests.integration.gateways import gateway_over, run, scripted, tool, until
from toolroll.gateway import logs
from toolroll.gateway.logs import ServerLog

MOST_BYTES = 20_000_000  # that a server may take


def _taken(folder) -> int:
    taken = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # it was renamed meanwhile
            taken += path.stat().st_size
    return taken


@pytest.mark.slow
def test_standard_error_takes_a_bounded_part_of_the_disk_while_and_after_it_is_flooded(tmp_path):
    """Before: 0.9 GB a second, 1,829 MB after 2 s; the log was looked at once a minute."""
    flood_s = bounded(2.0, 20.0)
    servers = {
        "bad": scripted(tools=[tool("flood_errors")]),
        "good": scripted(tools=[tool("echo")]),
    }
    logs = tmp_path / "state" / "logs"

    async def go():
        async with gateway_over(tmp_path, servers, mode="all") as (gateway, client):
            bad, most = gateway.upstreams["bad"], 0
            assert await client.call("bad_flood_errors", {"s": flood_s}) == ("flooding", False)
            began, cpu_s = time.monotonic(), time.process_time()
            while bad.main.state == "up":
                most = max(most, _taken(logs))
                await anyio.sleep(0.02)
            assert time.monotonic() - began >= flood_s - 0.1
            assert time.process_time() - cpu_s < 0.5 * (time.monotonic() - began)
            assert 0 < max(most, _taken(logs)) <= MOST_BYTES
            await until(lambda: bad.main.reason == 'it ended with exit code 3 (its last line: "no licence")')
            assert "bytes left out]" in bad.log.file.text()
            assert bad.log.file.text().rstrip().endswith("no licence")
            assert await client.call("good_echo") == ("echo {}", False)

    run(go)


@pytest.mark.slow
@pytest.mark.parametrize("has_threads", [False, True])  # as on Windows
def test_all_processes_of_a_server_share_its_part_of_the_disk(tmp_path, monkeypatch, has_threads):
    """Before: each process wrote to the file by itself, as fast as it could."""
    monkeypatch.setattr(logs, "_HAS_THREADS", has_threads)
    code = "import os\nfor _ in range(10**9): os.write(2, b'e' * 99_999 + b'\\n')"
    log = ServerLog(tmp_path / "logs" / "bad.log")

    async def flood(tasks_done):
        words = log.new()
        async with words.pipe() as errors:
            process = await anyio.open_process([sys.executable, "-S", "-E", "-c", code], stderr=errors)
            errors.close()
            await tasks_done.wait()
            process.kill()
            await process.wait()
        assert words.end.startswith(b"eee")

    async def go():
        done, most = anyio.Event(), 0
        async with anyio.create_task_group() as tasks:
            for _ in range(bounded(3, 20)):
                tasks.start_soon(flood, done)
            with anyio.move_on_after(bounded(1.0, 60.0)):
                while True:
                    most = max(most, _taken(tmp_path))
                    await anyio.sleep(0.01)
            done.set()
        assert 0 < max(most, _taken(tmp_path)) <= MOST_BYTES

    run(go)


def test_the_log_of_calls_is_bounded_however_long_arguments_are(tmp_path):
    """Before: an entry was written whole, and the size of the file was looked at before it: 5 calls, 10 MB."""
    servers = {"good": scripted(tools=[tool("echo")])}

    async def go():
        async with gateway_over(tmp_path, servers, mode="all", log_arguments=True) as (gateway, client):
            for _ in range(bounded(3, 50)):
                await client.call("good_echo", {"text": "x" * 2_000_000, "\U0001f600": 1})
        lines = gateway.call_log.path.read_text("utf-8").splitlines()
        assert len(lines) == bounded(3, 50) and max(map(len, lines)) < 20_000
        assert json.loads(lines[0])["arguments"].startswith('{"text": "xxx')
        assert _taken(tmp_path / "state") < MOST_BYTES

    run(go)
