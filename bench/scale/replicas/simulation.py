"""The simulation: what is done to the replicas, and what is measured and counted."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from tests.integration.next_schema import REVISIONS, add_step
from tests.integration.tcp_proxy import Proxy

from bench.scale.replicas.replica import Replica, Role
from bench.scale.replicas.server import Server
from toolroll import Tool, Toolroll
from toolroll.model.errors import StoreUnavailable
from toolroll.model.rules import Rule
from toolroll.model.tools import Definitions
from toolroll.registry.keeper.keeper import Keeper
from toolroll.registry.keeper.maintenance import rebuild
from toolroll.registry.outbox.outbox import Outbox
from toolroll.registry.registry import Registry
from toolroll.registry.store import schema, tables
from toolroll.registry.store.database import Database
from toolroll.snapshots.keys import SigningKey

TOOLS, CHANGES = 158, 5
MUST_BE_ZERO = (
    "outcomes lost",
    "outcomes counted twice",
    "outcomes that nobody reported",
    "sums that differ from the outcomes",
    "outboxes not written",
    "denied tools shown",
    "selections that waited",
    "calls that failed",
    "replicas that did not change",
    "replicas that did not tell",
)
_LIMIT_S = 60.0  # for a change to arrive
_OUTAGE_S = 3.0
_SKEWS_S = (0.0, 140.0, -140.0, 20.0, -20.0)  # of clocks, in turn
# What the step to the next schema does beside adding a table and a column: it writes each event again.
_SLOW_STEP = """op.execute("LOCK TABLE selection_events, outcomes, tools IN ACCESS EXCLUSIVE MODE")
    op.execute("UPDATE selection_events SET page = page")
    op.execute("SELECT pg_sleep(2)")"""


class Simulation:
    """Replicas of a registry in a server's database, behind a proxy.

    Attributes:
        found: the figures so far.
    """

    def __init__(self, server: Server, folder: Path, count: int, faults: Sequence[str], rate: float) -> None:
        """Makes the registry and starts the replicas. rate: selections a second of each replica."""
        self._server, self._folder, self._rate = server, folder, rate
        self._migrations: Path | None = None  # of the next version, once the schema is of that
        with Registry.open(server.url, create=True, actor="ann") as registry:
            numbered = (Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(TOOLS))
            registry.import_(Definitions(tuple(numbered)))
            registry.create(Tool("secret", "does the thing of number 7"))
            registry.rules.add(Rule("no secret", "deny", "composite", {"all": []}, tool="secret"))
        self._proxy = Proxy(server.url)
        skews = _SKEWS_S if "skew" in faults else (0.0,)
        self.found: dict[str, Any] = {"replicas": count, **dict.fromkeys(MUST_BE_ZERO, 0)}
        self.replicas = [
            Replica(Role(at, self._proxy.url, folder, count, rate, skews[at % len(skews)]))
            for at in range(count)
        ]
        self.found["opened after, median s"] = round(
            statistics.median(replica.wait_until_open() for replica in self.replicas), 2
        )

    # What it costs.

    def measure_idle(self, seconds: float) -> None:
        """What a replica costs that nobody asks for anything, each second."""
        self._each("pace", 0.0)
        time.sleep(seconds)  # for what follows a start
        before, cpu = self._server.counts(), self._each("cost")
        time.sleep(seconds)
        did, after = self._server.counts() - before, self._each("cost")
        count = len(self.replicas)
        self.found |= {
            "idle: statements a second of each": round(did.statements / seconds / count, 1),
            "idle: processor time of each, ms/s": round(
                sum(now[0] - then[0] for then, now in zip(cpu, after, strict=True)) / seconds / count * 1e3, 1
            ),
            "threads of each": round(statistics.mean(threads for _, threads in after)),
            "connections of each": round(self._server.connections() / count, 1),
        }

    def measure_changes(self) -> None:
        """How soon each replica selects a change, and what the database does for it."""
        did = Counter[str]()
        times: list[float] = []
        with Registry.open(self._server.url, actor="ann") as registry:
            for at in range(CHANGES):
                name, before = f"newcomer_{at}", self._server.counts()
                registry.create(Tool(name, f"{name} only"))
                times += self._when("until", name)
                did.update(asdict(self._server.counts() - before))
        count = len(self.replicas)
        self.found |= {
            "selected after, median s": round(statistics.median(times), 3),
            "selected after, p99 s": round(_p99(times), 3),
            "notifications for a change": did["notifications"] / CHANGES,
            "reads of a change by each": round(did["reads_of_changes"] / CHANGES / count, 2),
            "statements for a change by each": round(did["statements"] / CHANGES / count, 1),
        }

    def measure_load(self, seconds: float) -> None:
        """What selecting and reporting cost."""
        self._each("pace", self._rate)
        time.sleep(2.0)
        before, cpu, began = self._server.counts(), self._each("cost"), time.monotonic()
        time.sleep(seconds)
        took_s, did, after = time.monotonic() - began, self._server.counts() - before, self._each("cost")
        count = len(self.replicas)
        self.found |= {
            "selections a second": round(self._rate * count, 1),
            "busy: statements a second": round(did.statements / took_s),
            "busy: writes a second": round(did.writes / took_s, 1),
            "busy: reads a second": round(did.reads / took_s, 1),
            "busy: processor time of each, ms/s": round(
                sum(now[0] - then[0] for then, now in zip(cpu, after, strict=True)) / took_s / count * 1e3, 1
            ),
        }
        waits = [health["recording"]["outcomes"]["waiting_s"] for health in self._each("health")]
        self.found["busy: longest wait of an outcome, s"] = round(max(waits), 2)

    # Faults.

    def delay(self) -> None:
        """The network is slow, and then cuts connections at any place."""
        for fault in ("slow", "cut"):
            self._proxy.set(fault)  # type: ignore[arg-type]
            time.sleep(_OUTAGE_S)
        self._proxy.set("none")
        self._check_rule("after delays and cuts", 11)

    def failover(self) -> None:
        """The database crashes, stays away for some seconds and comes back; the proxy resets connections."""
        self._server.crash()
        self._proxy.set("reset")
        began = time.monotonic()
        told = self._when("until_degraded", "registry", True)
        time.sleep(max(0.0, began + _OUTAGE_S - time.monotonic()))
        ages = [health["age_s"] for health in self._each("health")]
        self.found |= {
            "outage: told after, worst s": round(max(told), 2),
            "outage: oldest catalog, s": round(max(ages), 2),
            "outage: lasted, s": round(time.monotonic() - began, 2),
        }
        self._server.start()
        self._proxy.set("none")
        self._check_rule("after a fail-over", 12)

    def restart(self) -> None:
        """A rolling restart of all replicas in five groups, while a tool changes; some are killed."""
        count = len(self.replicas)
        ends = list[float]()
        for group in range(min(5, count)):
            some = self.replicas[group :: min(5, count)]
            killed, told = some[::3], [replica for at, replica in enumerate(some) if at % 3]
            self._end(told)
            for replica in killed:
                self._count(replica.tally())
                replica.kill()
            for replica in some:
                replica.start_again()
            ends += [replica.wait_until_open() for replica in some]
        self.found["restarts: opened after, worst s"] = round(max(ends), 2)
        self._check_rule("after a rolling restart", 13)

    def migration(self) -> None:
        """The next version's schema: its step locks the tables for seconds; then replicas of it take over."""
        folder = add_step(self._folder / "migrations", _SLOW_STEP)
        began, self._migrations = time.monotonic(), folder
        with self._of_the_version():
            _upgrade(self._server.url)
        self.found["migration: took, s"] = round(time.monotonic() - began, 2)
        self._check_rule("after a migration", 14)
        old = Replica(Role(len(self.replicas), self._proxy.url, self._folder, 1, 0.0))
        try:  # one of the old version that starts only now is told why it cannot
            old.wait_until_open()
            self.found["replicas that did not tell"] += 1
        except RuntimeError as error:
            self.found["replicas that did not tell"] += "was made by a newer toolroll" not in str(error)
        half = self.replicas[::2]  # both versions are there at the same time
        self._end(half)
        for replica in half:
            replica.start_again(migrations=folder)
        for replica in half:
            replica.wait_until_open()
        self._check_rule("with two versions", 15)

    def catalog(self) -> None:
        """Published catalogs that are unsigned, cut off or older: each replica keeps its own and says so."""
        key = SigningKey.generate(self._folder / "key.pem")
        stranger = SigningKey.generate(self._folder / "stranger.pem")
        shelf = self._folder / "published"
        tools = Definitions(
            tuple(Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(TOOLS))
        )
        first = _publish(shelf, key, tools)
        for replica in self.replicas:
            replica.tell("take_published", shelf, key.public.text)
        in_use = {replica.answer() for replica in self.replicas}
        assert in_use == {first}, in_use
        newer = Definitions((*tools.tools, Tool("newest", "the newest of all")))
        (newest := shelf / "main" / "newest.json", good := newest.read_bytes())
        for what in ("unsigned", "cut off", "older"):
            if what == "unsigned":
                _publish(shelf, stranger, newer)
            elif what == "cut off":
                _publish(shelf, key, newer, cut=True)
            else:
                newest.write_bytes(good)
                for path in sorted((shelf / "main" / "manifests").iterdir())[1:]:
                    path.unlink()
            if what != "older":  # which is the one in use
                self._when("until_degraded", "published", True)
            kept = Counter(self._each("published_tools"))
            self.found["replicas that did not tell"] += len(self.replicas) - kept[first]
        last = _publish(shelf, key, Definitions((*newer.tools, Tool("last", "the last of all"))))
        self._when("until_degraded", "published", False)
        kept = Counter(self._each("published_tools"))
        self.found["replicas that did not change"] += len(self.replicas) - kept[last]

    # The end.

    def end(self) -> None:
        """Ends all replicas, and compares the registry with what they reported."""
        self._each("pace", 0.0)
        time.sleep(1.0)
        self._end(self.replicas)
        for replica in self.replicas:  # one that was killed may have left something
            if Outbox(self._folder / f"{replica.role.number}" / "outbox").waiting()[0]:
                replica.start_again(rate=0.0)
                replica.wait_until_open()
                replica.tell("take_over", _LIMIT_S)
                self.found["outboxes not written"] += not replica.answer()
                self._end([replica])
        self._proxy.close()
        self._audit()

    def stop(self) -> None:
        """Ends what is left of the processes."""
        for replica in self.replicas:
            replica.kill()

    def _audit(self) -> None:
        tried, acknowledged = set[str](), set[str]()
        for path in self._folder.glob("*/reports"):
            for line in path.read_text().splitlines():
                what, event_id = line.split(" ")
                (tried if what == "tried" else acknowledged).add(event_id)
        with self._of_the_version():
            database = Database.open(self._server.url, create=False, migrate=False)
        keeper = Keeper(database)  # the last replica may have left something in the inbox
        keeper.start()
        inbox, deadline = sa.select(tables.inbox.c.id).limit(1), time.monotonic() + _LIMIT_S
        while self._is_there(database, inbox) and time.monotonic() < deadline:
            time.sleep(0.1)
        keeper.drain(_LIMIT_S)
        keeper.close(_LIMIT_S)
        with database.reading() as connection:
            rows = Counter(connection.execute(sa.select(tables.outcomes.c.event_id)).scalars())
        wrong = rebuild(database)
        database.close()
        self.found |= {
            "outcomes acknowledged": len(acknowledged),
            "outcomes lost": len(acknowledged - rows.keys()),
            "outcomes counted twice": sum(count - 1 for count in rows.values()),
            "outcomes that nobody reported": len(rows.keys() - tried),
            "sums that differ from the outcomes": sum(wrong.values()),
        }

    def _is_there(self, database: Database, query: sa.Select[Any]) -> bool:
        with database.reading() as connection:
            return connection.execute(query).first() is not None

    def _end(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            replica.tell("end")
        for replica in replicas:
            self._count(replica.ended())

    def _count(self, tally: Any) -> None:
        found = self.found
        found["selections"] = found.get("selections", 0) + tally.selections
        found["selections that warned"] = found.get("selections that warned", 0) + tally.warned
        found["denied tools shown"] += tally.denied
        found["selections that waited"] += tally.waited
        found["calls that failed"] += tally.failed
        found["outboxes not written"] += not tally.is_written
        took_s, waited_s = tally.slowest_s
        if took_s * 1e3 >= found.get("slowest selection, ms", 0.0):
            found["slowest selection, ms"] = round(took_s * 1e3, 1)
            found["slowest selection waited, ms"] = round(waited_s * 1e3, 1)
        if tally.said:
            found.setdefault("said", tally.said)

    def _check_rule(self, when: str, number: int) -> None:
        """Denies a tool, and measures when the last replica does."""
        name = f"tool_{number}"
        with self._of_the_version(), Registry.open(self._server.url, actor="ann") as registry:
            registry.rules.add(Rule(f"no {name}", "deny", "composite", {"all": []}, tool=name))
        self.found[f"denied {when}, worst s"] = round(max(self._when("until_denied", name)), 2)

    def _when(self, command: str, *arguments: Any) -> list[float]:
        """How long from now each replica takes until it answers."""
        began, times = time.monotonic(), list[float]()
        for answer in self._each(command, *arguments, _LIMIT_S):
            at = answer[0] if isinstance(answer, tuple) else answer
            if at is None:
                did = "tell" if command == "until_degraded" else "change"
                self.found[f"replicas that did not {did}"] += 1
            times.append(_LIMIT_S if at is None else max(0.0, at - began))
        return times

    @contextmanager
    def _of_the_version(self) -> Iterator[None]:
        """Has this process be of the version that the schema is of."""
        today = schema.MIGRATIONS, schema.REVISIONS
        if self._migrations is not None:
            schema.MIGRATIONS, schema.REVISIONS = self._migrations, REVISIONS  # type: ignore[misc]
        try:
            yield
        finally:
            schema.MIGRATIONS, schema.REVISIONS = today  # type: ignore[misc]

    def _each(self, command: str, *arguments: Any) -> list[Any]:
        for replica in self.replicas:
            replica.tell(command, *arguments)
        return [replica.answer() for replica in self.replicas]


FAULTS: dict[str, Callable[[Simulation], None]] = {
    "delay": Simulation.delay,
    "failover": Simulation.failover,
    "restart": Simulation.restart,
    "catalog": Simulation.catalog,
    "migration": Simulation.migration,
}
EVERY_FAULT = (*FAULTS, "skew")


def run(
    server: Server, folder: Path, count: int, faults: Iterable[str] = EVERY_FAULT, rate: float = 1.0,
    *, seconds: float = 5.0, say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:  # fmt: skip
    """The whole simulation; its figures. seconds: of each measurement. say: told what is being done."""
    wanted = list(faults)
    say("start")
    simulation = Simulation(server, folder, count, wanted, rate)
    try:
        for what, measure in (
            ("idle", lambda: simulation.measure_idle(seconds)),
            ("changes", simulation.measure_changes),
            ("load", lambda: simulation.measure_load(seconds)),
        ):
            say(what)
            measure()
        for name, fault in FAULTS.items():
            if name in wanted:
                say(name)
                fault(simulation)
        say("end")
        simulation.end()
    finally:
        simulation.stop()
    return simulation.found


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)]


def _upgrade(url: str) -> None:
    """Upgrades the registry; waits for the tables as often as it takes."""
    while True:
        try:
            Database.open(url, create=False, migrate=True).close()
            return
        except StoreUnavailable as error:
            if error.retry_after_s is None:
                raise


def _publish(shelf: Path, key: SigningKey, tools: Definitions, *, cut: bool = False) -> str:
    """Publishes the catalog of these tools; returns its revision. cut: half of the file is missing."""
    from toolroll.runtime.locations import Location
    from toolroll.selection.effective_policy import PolicySource
    from toolroll.snapshots.publisher import publish
    from toolroll.snapshots.shelf import Shelf

    roll = Toolroll.from_tools(tools.tools, embedder="none")
    place = Shelf(Location.of(shelf, {}), "main", None)
    manifest, _ = publish(place, key, roll.catalog, PolicySource())
    if cut:
        path = shelf / "main" / "catalogs" / manifest.blob
        path.write_bytes(path.read_bytes()[: manifest.size // 2])
    return str(roll.catalog.revision)
