"""No work of ours runs in the default executor of an event loop, and what hangs takes only its own threads."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import toolroll
from toolroll import Context, Tool, Toolroll
from toolroll.selection import engine

SOURCES = Path(toolroll.__file__).parent
TOOLS = [Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(20)]
HUNG = 10

# Of a call's own: threads of one call of an embedder, and the processes of offline work. The gateway and
# the service are applications, and their threads are their own.
ALLOWED = {
    ("embedders/onnx_graph.py", "ThreadPoolExecutor"),
    ("gateway/connection.py", "run_sync"),
    ("gateway/gateway.py", "run_sync"),
    ("gateway/identity.py", "run_sync"),
    ("gateway/openapi/server.py", "run_sync"),
    ("gateway/serving.py", "run_sync"),
    ("gateway/logs.py", "run_sync"),
    ("gateway/sign_in_pages.py", "run_sync"),
    ("gateway/sign_in_client.py", "run_sync"),
    ("gateway/server_side.py", "run_sync"),
    ("gateway/status.py", "run_sync"),
    ("gateway/tool_calls.py", "run_sync"),
    ("gateway/tool_catalog.py", "run_sync"),
    ("lab/offline/work.py", "ProcessPoolExecutor"),
    ("server/drop_in/proxy.py", "run_sync"),
    ("server/key_reader.py", "run_in_threadpool"),
    ("server/large_requests.py", "run_sync"),
    ("server/traces.py", "run_sync"),
}
CALL = re.compile(
    r"\b(to_thread|run_in_executor|set_default_executor|ThreadPoolExecutor|ProcessPoolExecutor"
    r"|run_in_threadpool|run_sync)\("
)


def test_no_source_file_uses_an_executor_of_the_host():
    found = {
        (path.relative_to(SOURCES).as_posix(), name)
        for path in SOURCES.rglob("*.py")
        for name in CALL.findall(path.read_text("utf-8"))
    }
    assert found == ALLOWED


class Hanging:
    """An embedder that answers while tools are embedded, and then hangs."""

    dim, is_instant, is_english, scale = 4, False, True, None

    def __init__(self, number: int, let_go: threading.Event) -> None:
        self.identity, self._let_go = f"hanging {number}", let_go

    def embed(self, texts):
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))

    def embed_query(self, text):
        self._let_go.wait()
        return self.embed([text])[0]


@pytest.fixture
def let_go():
    event = threading.Event()
    yield event
    event.set()
    deadline = time.monotonic() + 60
    while ours():  # they end when they have been idle for a second
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ours() -> int:
    """How many threads embed messages of event loops."""
    return sum(thread.name.startswith("toolroll-embedding") for thread in threading.enumerate())


def test_ten_embedders_that_hang_hold_up_neither_the_host_nor_other_rolls(let_go):
    rolls = [Toolroll.from_tools(TOOLS, embedder=Hanging(number, let_go)) for number in range(HUNG)]
    well = Toolroll.from_tools(TOOLS)

    async def others() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, lambda: "the host's") == "the host's"
        assert await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)  # by the default executor
        picked = await well.aselect("number 7", Context(user="ann"), k=3)
        assert "tool_7" in picked.names and not picked.degraded
        assert (await well.arecord(picked, ["tool_7"])).counted == 1
        assert (await (await well.asession("talk")).aselect("number 5", k=3)).names
        for roll in rolls:  # what needs no embedding is served by them, too
            assert roll.may("tool_1") and roll.health()["ready"]

    async def main() -> None:
        hung = [asyncio.ensure_future(roll.aselect("number 3", k=3)) for roll in rolls]
        await asyncio.sleep(0.1)
        assert ours() == HUNG
        await asyncio.wait_for(others(), 10)
        assert not any(one.done() for one in hung)
        let_go.set()
        assert all(["tool_3" in one.names for one in await asyncio.gather(*hung)])

    asyncio.run(main())


@pytest.mark.slow
def test_ten_thousand_turns_with_an_embedder_that_hangs_take_as_many_threads_as_are_allowed(let_go):
    roll = Toolroll.from_tools(TOOLS, embedder=Hanging(0, let_go))

    async def main() -> None:
        most, turns = 0, [asyncio.ensure_future(roll.aselect("number 3", k=3)) for _ in range(10_000)]
        while sum(turn.done() for turn in turns) < 10_000 - engine._EMBEDDINGS:
            most = max(most, ours())
            await asyncio.sleep(0.01)
        assert most == engine._EMBEDDINGS
        assert all(turn.result().degraded == ("embedder",) for turn in turns if turn.done())
        let_go.set()
        assert sum(bool(one.degraded) for one in await asyncio.gather(*turns)) == 10_000 - engine._EMBEDDINGS
        assert roll.counters().calls_refused == {"embedder": 10_000 - engine._EMBEDDINGS}

    asyncio.run(main())
