"""One replica: a process that selects and reports all the time, and what tells it what to do."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import threading
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.integration.next_schema import REVISIONS

import toolroll.homes.registry
import toolroll.registry.store.interruptible
import toolroll.roll  # noqa: F401  each of these once for all processes
from toolroll import Context, PublishedCatalogs, Recording, Toolroll
from toolroll.model.errors import ToolrollError
from toolroll.registry.store import schema

# The processes are forks of one that has imported everything: a start costs what a replica costs.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])

MESSAGE = "does the thing of number 7"
_BY_RECEIPT = 4  # one report of so many is made by another replica
_LOOK_EVERY_S = 0.02
WAITED_S = 1.0  # a selection that was off the processor for so long has waited for something


@dataclass(frozen=True, slots=True)
class Role:
    """What a replica is started with.

    Attributes:
        number: among the replicas.
        url: of the registry.
        folder: of all replicas.
        count: how many replicas there are.
        rate: selections a second.
        skew_s: what its clock is ahead.
        migrations: of the next version of toolroll, which this process is of; None for today's.
    """

    number: int
    url: str
    folder: Path
    count: int
    rate: float
    skew_s: float = 0.0
    migrations: Path | None = None


@dataclass(slots=True)
class Tally:
    """What a replica has seen in its life.

    Attributes:
        selections, denied, failed: how many; how many showed the denied tool; how many calls raised an error.
        said: the first of these errors.
        warned: selections that said that the registry could not be read.
        waited: selections that were off the processor for a second, though it was free.
        slowest_s: the longest selection, and how long it waited.
        is_written: whether all it had recorded was in the registry at its end.
    """

    selections: int = 0
    denied: int = 0
    failed: int = 0
    said: str = ""
    warned: int = 0
    waited: int = 0
    slowest_s: tuple[float, float] = (0.0, 0.0)
    is_written: bool = False


def mailbox(role: Role) -> Path:
    """The folder of the receipts that this replica reports for others."""
    folder = role.folder / f"{role.number}" / "mail"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Replica:
    """A replica's process, as its parent sees it."""

    def __init__(self, role: Role) -> None:
        """Starts the process; `wait_until_open` waits for it."""
        self.role = role
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_run, args=(self.role, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_open(self) -> float:
        """The seconds that opening took."""
        return float(self.answer())

    def tell(self, command: str, *arguments: Any) -> None:
        """Gives a command, which is carried out after those before it."""
        self._pipe.send((command, arguments))

    def answer(self, timeout_s: float = 120.0) -> Any:
        """The answer to the oldest command that has none yet.

        Raises:
            RuntimeError: the process has failed or does not answer.
        """
        if not self._pipe.poll(timeout_s):
            raise RuntimeError(f"replica {self.role.number} does not answer")
        found = self._pipe.recv()
        if isinstance(found, Exception):
            raise RuntimeError(f"replica {self.role.number}: {found}") from found
        return found

    def ended(self) -> Tally:
        """Waits for the end of one that was told to end: what it has recorded is written before."""
        tally: Tally = self.answer(180)
        self._process.join(30)
        return tally

    def tally(self) -> Tally:
        """What it has seen so far."""
        self.tell("tally")
        tally: Tally = self.answer()
        return tally

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.join()

    def start_again(self, **changed: Any) -> None:
        """Starts a successor with the same outbox."""
        self.role = replace(self.role, **changed)
        self._start()


def _run(role: Role, pipe: Connection) -> None:
    """The life of a replica's process."""
    try:
        replica = _Running(role)
        pipe.send(replica.open())
        while True:
            command, arguments = pipe.recv()
            pipe.send(getattr(replica, command)(*arguments))
            if command == "end":
                return
    except EOFError:
        return
    except Exception as error:
        pipe.send(error if isinstance(error, ToolrollError) else RuntimeError(repr(error)))


class _Running:
    """A replica within its process."""

    def __init__(self, role: Role) -> None:
        self._role, self._tally, self._stop = role, Tally(), threading.Event()
        self._rate, self._draws = role.rate, random.Random(role.number)
        self._mail = mailbox(role)
        self._reports = role.folder / f"{role.number}" / "reports"
        self._published: Toolroll | None = None

    def open(self) -> float:
        role, began = self._role, time.perf_counter()
        if role.migrations is not None:
            schema.MIGRATIONS, schema.REVISIONS = role.migrations, REVISIONS  # type: ignore[misc]
        if role.skew_s:
            import pytest
            from tests.integration.test_clock_jumps import jump

            jump(pytest.MonkeyPatch(), role.skew_s)
        self._roll = Toolroll.open(
            role.url,
            embedder="none",
            recording=Recording(messages="dropped", outbox=role.folder / f"{role.number}" / "outbox"),
        )
        if role.skew_s:
            self._roll._home.engine._clock = time.time  # type: ignore[attr-defined]
        self._cpu_s = _cpu_s()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return time.perf_counter() - began

    # Selecting and reporting.

    def _work(self) -> None:
        at = 0
        while not self._stop.wait(self._draws.uniform(0.5, 1.5) / self._rate if self._rate else 0.1):
            if self._rate:
                at += 1
                self._turn(at)
            self._read_mail()

    def _turn(self, at: int) -> None:
        tally = self._tally
        who = Context(org="acme", user=f"user {self._role.number} {at % 20}")
        begins = time.perf_counter(), _on_processor_s()
        picked = self._attempt(lambda: self._roll.select(MESSAGE, who, k=5))
        if picked is None:
            return
        took_s = time.perf_counter() - begins[0]
        waited_s = took_s - (_on_processor_s() - begins[1])
        tally.selections += 1
        tally.waited += waited_s >= WAITED_S
        tally.slowest_s = max(tally.slowest_s, (took_s, waited_s))
        tally.denied += "secret" in picked.names
        tally.warned += any("registry" in part for part in picked.degraded)
        other = self._draws.randrange(self._role.count)
        if self._draws.randrange(_BY_RECEIPT) or other == self._role.number:
            self._report(picked, picked.event_id, picked.names[0])
            return
        receipt = self._attempt(lambda: self._roll.receipt(picked))
        if receipt is not None:
            letter = mailbox(replace(self._role, number=other)) / picked.event_id
            draft = letter.parent.with_name(f"from {self._role.number}")
            draft.write_text(f"{picked.names[0]}\n{receipt}")
            os.replace(draft, letter)

    def _read_mail(self) -> None:
        for letter in self._mail.iterdir():
            tool, receipt = letter.read_text().split("\n")
            self._report(receipt, letter.name, tool)
            letter.unlink()

    def _report(self, picked: Any, event_id: str, tool: str) -> None:
        self._note(f"tried {event_id}")
        if self._attempt(lambda: self._roll.record(picked, {tool: True})) is not None:
            self._note(f"acknowledged {event_id}")

    def _note(self, line: str) -> None:
        with open(self._reports, "a") as file:  # at once, since the process may be killed
            file.write(f"{line}\n")

    def _attempt(self, call: Any) -> Any:
        try:
            return call()
        except Exception as error:
            self._tally.failed += 1
            self._tally.said = self._tally.said or f"{type(error).__name__}: {error}"
            return None

    # Commands.

    def pace(self, rate: float) -> None:
        """From now on so many selections a second."""
        self._rate = rate

    def until(self, name: str, limit_s: float) -> float | None:
        """When a selection that asks for the tool by its name gets it; None if not within the limit."""
        asked = Context(org="acme", required=(name,))
        # Looked for first, since each selection is an event to write.
        return self._when(
            lambda: name in self._roll.catalog.names and name in self._roll.select(name, asked).names, limit_s
        )

    def until_denied(self, name: str, limit_s: float) -> float | None:
        """When the tool is denied."""
        return self._when(lambda: not self._roll.may(name, Context(org="acme")), limit_s)

    def until_degraded(self, part: str, is_degraded: bool, limit_s: float) -> tuple[float, str] | None:
        """When `health` names the part, or no longer does; and what it says."""
        said = ""

        def holds() -> bool:
            nonlocal said
            health = (self._published or self._roll).health()
            said = "; ".join(health["why"])
            return (part in health["degraded"]) == is_degraded

        at = self._when(holds, limit_s, every_s=0.1)
        return None if at is None else (at, said)

    def _when(self, holds: Any, limit_s: float, every_s: float = _LOOK_EVERY_S) -> float | None:
        end = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > end:
                return None
            time.sleep(every_s)
        return time.monotonic()

    def health(self) -> dict[str, Any]:
        """What `Toolroll.health` says."""
        return self._roll.health()

    def take_published(self, location: Path, trust: str) -> str:
        """Begins to follow published catalogs as well; returns which one is in use."""
        catalogs = PublishedCatalogs(
            location, trust=[trust], cache=self._role.folder / "cache", poll_s=self._draws.uniform(0.5, 1.0)
        )
        self._published = Toolroll.from_published(catalogs, embedder="none")
        return self.published_tools()

    def published_tools(self) -> str:
        """The revision of the published catalog in use."""
        assert self._published is not None
        assert self._published.select(MESSAGE, k=5).names
        return str(self._published.health()["catalog_revision"])

    def take_over(self, limit_s: float) -> bool:
        """Whether nothing is left in the outbox of earlier processes, within the limit."""
        outbox = self._roll._home._recording.shipper._outbox  # type: ignore[attr-defined]
        return self._when(lambda: outbox.waiting() == (0, 0.0), limit_s, every_s=0.1) is not None

    def cost(self) -> tuple[float, int]:
        """Processor time of the process since it is open, in seconds, and its threads."""
        return _cpu_s() - self._cpu_s, threading.active_count()

    def tally(self) -> Tally:
        """So far; of one that is killed now, a successor writes what it has recorded."""
        return replace(self._tally, is_written=True)

    def end(self) -> Tally:
        """Writes everything and closes."""
        self._stop.set()
        self._thread.join()
        self._read_mail()
        self._tally.is_written = self._roll.flush(60)
        self._roll.close()
        if self._published is not None:
            self._published.close()
        return self._tally


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _on_processor_s() -> float:
    """How long this thread has run or would have run on a free processor."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            ran, ready, _ = file.read().split()
            return max(time.thread_time(), int(ran) / 1e9) + int(ready) / 1e9
    except OSError:
        return time.thread_time()
