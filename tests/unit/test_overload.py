"""More load than this process can serve: calls are refused, and those that are taken stay quick.

TOOLROLL_LOAD_S is how many seconds each load lasts; tools/long_tier.sh has a minute.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from toolroll import Overloaded, Tool, Toolroll
from toolroll.selection import engine

LOAD_S = float(os.environ.get("TOOLROLL_LOAD_S", "3"))
EMBEDDING_S = 0.4
TOOLS = [Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(50)]


class Slow:
    """An embedder that waits for each message, as one behind a network does."""

    identity, dim, is_instant, is_english, scale = "slow", 4, False, True, None

    def embed(self, texts):
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))

    def embed_query(self, text):
        time.sleep(EMBEDDING_S)
        return self.embed([text])[0]


@dataclass
class Load:
    """What came of the selections of one load, and how long they took."""

    seconds: float = 0.0
    whole: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    late_s: float = 0.0  # the longest that the event loop was behind

    @property
    def rate(self) -> float:
        """Whole selections in a second."""
        return len(self.whole) / self.seconds


async def select(roll: Toolroll, load: Load) -> None:
    began = time.perf_counter()
    selection = await roll.aselect("the thing of number 7", k=3)
    took_s = time.perf_counter() - began
    assert "tool_7" in selection.names  # by its words, in any case
    if selection.degraded:
        assert [type(failure.error) for failure in selection.failures] == [Overloaded]
        load.refused.append(took_s)
    else:
        assert took_s >= EMBEDDING_S
        load.whole.append(took_s)


async def closed(roll: Toolroll, callers: int, seconds: float) -> Load:
    """So many callers, each of whom waits for its answer before it asks again."""
    load, began = Load(), time.perf_counter()

    async def ask() -> None:
        while time.perf_counter() - began < seconds:
            await select(roll, load)

    await asyncio.gather(*(ask() for _ in range(callers)))
    load.seconds = time.perf_counter() - began
    return load


async def opened(roll: Toolroll, rate: float, seconds: float) -> Load:
    """Requests that come at this rate, whatever becomes of those before."""
    load, began, asked = Load(), time.perf_counter(), list[asyncio.Task[None]]()
    while (now_s := time.perf_counter() - began) < seconds:
        while len(asked) < now_s * rate:
            load.late_s = max(load.late_s, now_s - len(asked) / rate)
            asked.append(asyncio.create_task(select(roll, load)))
        await asyncio.sleep(0.005)
    await asyncio.gather(*asked)
    load.seconds = time.perf_counter() - began
    return load


def p99(numbers: list[float]) -> float:
    return statistics.quantiles(numbers, n=100)[98] if len(numbers) > 1 else numbers[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_under_four_times_the_load_it_can_serve_as_many_selections_are_whole_and_the_rest_is_refused_at_once(
    caplog,
):
    roll = Toolroll.from_tools(TOOLS, embedder=Slow())

    async def main() -> None:
        unloaded = p99((await closed(roll, 1, 10 * EMBEDDING_S)).whole)
        capacity = (await closed(roll, 2 * engine._EMBEDDINGS, min(LOAD_S, 5.0))).rate
        loads = {times: await opened(roll, times * capacity, LOAD_S) for times in (1, 2, 4)}
        after = await closed(roll, 1, 5 * EMBEDDING_S)
        for times, load in loads.items():
            print(
                f"{times}x of {capacity:.0f}/s: {load.rate:.0f}/s whole, p99 {p99(load.whole) / unloaded:.2f} of "
                f"unloaded ({unloaded * 1e3:.0f} ms); {len(load.refused)} refused, "
                f"p50 {statistics.median(load.refused or [0.0]) * 1e3:.1f} ms, "
                f"p99 {p99(load.refused or [0.0]) * 1e3:.1f} ms; event loop late by {load.late_s * 1e3:.0f} ms"
            )
            assert p99(load.whole) <= 3 * unloaded + 2 * load.late_s  # a busy machine is late by itself
        assert statistics.median(loads[4].refused) < EMBEDDING_S  # at once: no wait, and no embedding
        assert after.whole and not after.refused
        refused = sum(len(load.refused) for load in loads.values())
        assert roll.counters().calls_refused == {"embedder": refused}
        assert roll.counters().degraded == {"embedder": refused}
        assert roll.health()["degraded"] == ["embedder"]  # for five seconds
        assert [record.message[:18] for record in caplog.records] == ["selection degraded"]  # once, not each
        threads = [thread.name for thread in threading.enumerate()]
        assert threads.count("toolroll-embedding") <= engine._EMBEDDINGS

    asyncio.run(main())
