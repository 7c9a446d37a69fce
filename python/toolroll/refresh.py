"""Keeps an engine on the newest catalog of a registry, off the path of every selection.

One thread listens for changes, another reads and builds; there is never a second build. What is new is
swapped in whole. Rules come first and cost little, since nothing is indexed again for them; then the shared
tools, then the organisations, those that are being asked for before the others. Whatever fails, the last
good catalog goes on serving and says how old it is.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from toolroll.assembly import Assembly, Progress
from toolroll.catalog import Catalog
from toolroll.embedders.deadline import Full, Overdue, Workers
from toolroll.engine import Engine
from toolroll.errors import EmbedderUnavailable, InvalidDefinition, StoreUnavailable, ToolrollError
from toolroll.governance import InForce
from toolroll.pipeline import Pipeline
from toolroll.registry.replica import Replica, catch_up, read_settings, stamp_of
from toolroll.selection import Failure
from toolroll.serving import Serving
from toolroll.store.database import Database
from toolroll.store.watching import Signals
from toolroll.tools import Tool

_log = logging.getLogger("toolroll")
T = TypeVar("T")

_QUICK_S = (
    10.0  # for a look at the revision or the settings; drivers' own limits do not hold (docs/registry.md)
)
_WHOLE_S = 600.0  # for reading what changed
_FORK_S = 1.0  # that a fork waits for a database to be done
_LATER_S = 5.0  # between tries to build what could not be built


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is looked at, and how much is kept.

    Attributes:
        poll_s: seconds between looks at the revision; a notification is only a hint, this is the promise.
        settings_s: seconds for which stored settings are believed.
        organisations: how many organisations' own catalogs are kept; beyond, the one unused longest goes.
        listens: whether the database's own notifications are used as well.
    """

    poll_s: float = 0.5
    settings_s: float = 10.0
    organisations: int = 1_000
    listens: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """What a pipeline was made of: while that is still what the registry has, the pipeline is current.

    Attributes:
        tools, toolkits: of the replica that it was made from.
        shared: the catalog below it; None for the shared one itself.
        is_whole: False where texts have no vectors for now.
    """

    tools: Mapping[str, Tool] | None
    toolkits: object
    shared: Catalog | None
    is_whole: bool

    def is_of(self, replica: Replica, org: str, shared: Catalog | None) -> bool:
        """Whether it is what would be made now."""
        is_same = self.tools is replica.tools.get(org) and self.toolkits is replica.toolkits.get(org)
        return is_same and self.shared is shared and self.is_whole


class Refresher:
    """Reads a registry, builds from it, and puts the result into an engine. Used by `Toolroll.open`.

    What is to be done is read off the difference between the replica and what serves, never off an event: a
    build that failed, was overtaken or given up is still to be done in the next round.
    """

    def __init__(self, database: Database, assembly: Assembly, pace: Pace, progress: Progress | None) -> None:
        """Reads and builds the shared catalog.

        Raises:
            StoreUnavailable: the registry cannot be read.
            InvalidDefinition: what is in it makes no catalog.
        """
        self._database, self._assembly, self._pace = database, assembly, pace
        self._building = threading.Lock()  # held for one round of reading and building
        self._swapping = threading.Lock()  # held to change what serves
        self._reaching = threading.Lock()  # held while a database is at work
        self._reaching_since: float | None = None
        self._held: list[threading.Lock] = []  # by who forks
        self._workers = Workers(4, "toolroll-store")
        self._stop, self._wake = threading.Event(), threading.Event()
        self._wanted: deque[str] = deque(maxlen=1_000)
        self._threads: list[threading.Thread] = []
        self._signals: Signals | None = None
        self._made: dict[str, _Made] = {}  # organisation → of what; "" of the shared catalog
        self._withdrawn: dict[str, frozenset[str]] = {}  # organisation → names taken out since
        self._not_before: dict[str, float] = {}  # organisation → when to try again what could not be built
        self._errors: dict[str, Failure] = {}  # organisation → why not
        self._settings_at = time.monotonic()
        self._replica = catch_up(database, Replica())
        self._written = self._replica.governance
        self._in_force = InForce.of(self._written, assembly.parameters.on_policy_error, None)
        serving = Serving(self._made_shared(progress), {}, self._replica.orgs, self._replica.settings)
        self.engine = Engine(serving, assembly.embedder, self._want)
        self._change(lasting=self._lasting())

    def start(self) -> None:
        """Begins to follow the registry; a child of a fork follows it by itself."""
        if hasattr(os, "register_at_fork") and not self._threads:
            this = weakref.ref(self)
            os.register_at_fork(
                before=lambda: _hold(this()),
                after_in_parent=lambda: _let_go(this()),
                after_in_child=lambda: _begin_anew(this()),
            )
        self._signals = Signals(self._database, deaf=not self._pace.listens)
        self._threads = []
        for work, name in ((self._listen, "toolroll-listen"), (self._follow, "toolroll-refresh")):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stops following; what serves goes on serving, and says that nobody keeps it current."""
        self._stop.set()
        self._wake.set()
        if self._signals is not None:
            self._signals.close()
        for thread in self._threads:
            thread.join(timeout=_QUICK_S)  # one that builds is let go: it ends with its round
        self._stand(StoreUnavailable("this Toolroll is closed and follows its registry no more"))
        self._database.close()

    def refresh(self, progress: Progress | None = None) -> None:
        """Reads and builds what is new and waits for it; catalogs of organisations follow by themselves.

        Raises:
            StoreUnavailable: the registry cannot be read; the last good catalog goes on serving.
            InvalidDefinition: what is in it makes no catalog; likewise.
        """
        if self._stop.is_set():
            raise StoreUnavailable("this Toolroll is closed; open the registry again")
        with self._building:
            self._not_before.clear()
            self._catch_up(progress)

    def prepare(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        """Builds the catalogs of these organisations, or of all. progress: (organisations done, in all).

        Raises:
            StoreUnavailable: the registry cannot be read.
            ToolrollError: an organisation's tools make no catalog; the others are built.
        """
        self.refresh()
        awaited = self.engine.serving.awaited
        wanted = sorted(awaited if orgs is None else orgs & awaited)
        failed: list[Exception] = []
        for done, org in enumerate(wanted, 1):
            with self._building:
                if not self._build_own(org):
                    failed.append(self._errors[org].error)
            if progress is not None:
                progress(done, len(wanted))
        for error in failed:
            raise error

    def invalidate_settings(self) -> None:
        """Reads the stored settings now.

        Raises:
            StoreUnavailable: the registry cannot be read.
        """
        with self._building:
            self._read_settings()

    @property
    def replica(self) -> Replica:
        """The registry as it was last read."""
        return self._replica

    @property
    def age_s(self) -> float:
        """For how long nobody has known whether this is current."""
        return time.monotonic() - self._replica.read_at

    # The path of a selection ends here: it waits for nothing.

    def _want(self, org: str) -> None:
        if self._may_build(org):
            self._wanted.append(org)
            self._wake.set()

    # The threads.

    def _listen(self) -> None:
        signals = self._signals
        assert signals is not None
        while not self._stop.is_set():
            if signals.wait(self._pace.poll_s):
                self._wake.set()
            since = self._reaching_since
            if since is not None and time.monotonic() - since > _QUICK_S and not self._stop.is_set():
                self._stand(StoreUnavailable("registry: has not answered yet"))

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(0 if self._wanted or self._unasked() is not None else self._pace.poll_s)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                with self._building:
                    self._round()
            except ToolrollError as error:
                self._stand(error)
            except Exception as error:  # a thread that dies would leave the catalog to age unseen
                _log.exception("registry: refreshing failed")
                self._stand(error)

    def _round(self) -> None:
        """What is new, then one organisation, so that news never wait for a thousand of those."""
        self._catch_up(None)
        if time.monotonic() - self._settings_at >= self._pace.settings_s:
            self._read_settings()
        org = self._next()
        if org is not None:
            self._build_own(org)

    # Reading.

    def _catch_up(self, progress: Progress | None) -> None:
        stamp = self._in_time(lambda: stamp_of(self._database), _QUICK_S)
        seen = self._replica
        if stamp == (seen.revision, seen.at):
            self._replica = replace(seen, read_at=time.monotonic())
        else:
            self._replica = self._in_time(lambda: catch_up(self._database, seen), _WHOLE_S)
        self._reconcile(progress)
        if self.engine.serving.standing:
            _log.warning("registry: in reach again, catalog is current")
            self._change(standing=())

    def _read_settings(self) -> None:
        def read() -> Mapping[str, frozenset[str]]:
            with self._database.reading() as connection:
                return read_settings(connection)

        settings = self._in_time(read, _QUICK_S)
        self._settings_at = time.monotonic()
        self._replica = replace(self._replica, settings=settings)
        self._change(stored=settings)

    def _in_time(self, call: Callable[[], T], timeout_s: float) -> T:
        with self._reaching:
            self._reaching_since = time.monotonic()
            try:
                return self._workers.run(call, timeout_s)
            except (Overdue, Full) as error:
                raise StoreUnavailable(f"registry: {error}") from error
            finally:
                self._reaching_since = None

    # What serves.

    def _change(self, **fields: Any) -> None:
        """Changes some of what serves, and nothing else of it: two threads do so."""
        with self._swapping:
            self.engine.swap(replace(self.engine.serving, **fields))

    def _stand(self, error: Exception) -> None:
        """Says in every selection that the catalog may be old, and why."""
        failure = Failure(
            "registry", StoreUnavailable(f"{error}; what serves was current {self.age_s:.0f} s ago")
        )
        if not self.engine.serving.standing:
            _log.warning("%s", failure)
        self._change(standing=(failure,))

    def _lasting(self) -> dict[str, tuple[Failure, ...]]:
        """Organisation → what its selections lack until somebody mends it."""
        lasting = dict(self._in_force.failures)
        for org, rows in self._replica.damaged.items():
            shown = "; ".join(sorted(rows.values())[:3])
            problem = InvalidDefinition(f"{len(rows)} rows cannot be read and are in no catalog: {shown}")
            lasting[org] = (*lasting.get(org, ()), Failure("registry", problem))
        for org, failure in self._errors.items():
            lasting[org] = (*lasting.get(org, ()), failure)
        return lasting

    def _reconcile(self, progress: Progress | None) -> None:
        """Brings what serves to the replica: first what needs no index, then the shared catalog."""
        replica = self._replica
        if self.engine.serving.stored is not replica.settings:
            self._settings_at = time.monotonic()
            self._change(stored=replica.settings)
        self._withdraw()
        if replica.governance != self._written:
            self._govern()
        try:
            if not self._made[""].is_of(replica, "", None) and self._may_build(""):
                self._not_before[""] = time.monotonic() + _LATER_S  # unless it succeeds
                self._change(shared=self._made_shared(progress))
        finally:
            self._sort_out()

    def _sort_out(self) -> None:
        """Drops the pipelines of organisations that have nothing of their own, and says who waits for one."""
        serving, replica = self.engine.serving, self._replica
        own = {org: pipeline for org, pipeline in serving.own.items() if org in replica.orgs}
        current = {org for org in own if self._made[org].is_of(replica, org, serving.shared.catalog)}
        for org in self._made.keys() - own.keys() - {""}:
            del self._made[org]
        for org in self._errors.keys() - replica.orgs - {""}:
            del self._errors[org]
        self._change(own=own, awaited=replica.orgs - current, lasting=self._lasting())

    def _withdraw(self) -> None:
        """Takes deleted tools, and those that wait for review, out of what serves."""
        serving = self.engine.serving
        gone = {org: self._gone(org) for org in ("", *serving.own)}
        if all(self._withdrawn.get(org, frozenset()) == names for org, names in gone.items()):
            return
        self._withdrawn = gone
        shared = gone[""]
        self._change(
            shared=serving.shared.without(shared),
            own={org: pipeline.without(shared | gone[org]) for org, pipeline in serving.own.items()},
        )

    def _gone(self, org: str) -> frozenset[str]:
        """Names of tools that are indexed for the organisation, and may not be selected any more."""
        before, now = self._made[org].tools or {}, self._replica.tools.get(org, {})
        if before is now:
            return frozenset()
        active = {tool.name for tool in now.values() if tool.status == "active"}
        return frozenset(tool.name for tool in before.values() if tool.name not in active)

    def _govern(self) -> None:
        """Puts the rules and page mappings of the replica over all that serves."""
        serving, assembly, before = self.engine.serving, self._assembly, self._in_force
        written = self._replica.governance
        now = InForce.of(written, assembly.parameters.on_policy_error, before)
        shared = assembly.governed(serving.shared, now)
        own = {
            org: assembly.governed(pipeline, now.concerning(org), shared)
            if now.concerning(org) != before.concerning(org)
            else pipeline
            for org, pipeline in serving.own.items()
        }
        self._written, self._in_force = written, now
        self._change(shared=shared, own=own, lasting=self._lasting())

    # Building.

    def _may_build(self, org: str) -> bool:
        return time.monotonic() >= self._not_before.get(org, 0.0)

    def _made_shared(self, progress: Progress | None) -> Pipeline:
        definitions, assembly = self._replica.definitions(""), self._assembly
        lost = self._lost
        try:
            pipeline = assembly.pipeline(definitions, self._in_force, progress)
            is_whole = self._lost == lost
        except EmbedderUnavailable as error:
            _log.warning("catalog: built without vectors until the embedder answers: %s", error)
            pipeline, is_whole = assembly.by_words(definitions, self._in_force, error), False
        except InvalidDefinition as error:
            self._errors[""] = Failure("registry", error)
            raise
        self._errors.pop("", None)
        if not is_whole and pipeline.catalog.dim:
            lacking = EmbedderUnavailable(f"{self._lost - lost} texts of tools have no vector yet")
            pipeline = replace(pipeline, standing=(Failure("embedder", lacking),))
        if is_whole:
            self._not_before.pop("", None)
        else:
            self._not_before[""] = time.monotonic() + _LATER_S
        self._made[""] = self._making("", None, is_whole)
        self._withdrawn.pop("", None)
        return pipeline

    def _next(self) -> str | None:
        """Whose catalog to build: of those who ask, then of those with an old one, then of the others."""
        serving = self.engine.serving
        while self._wanted:
            org = self._wanted.popleft()
            if org in serving.awaited and self._may_build(org):
                return org
        return self._unasked()

    def _unasked(self) -> str | None:
        serving = self.engine.serving
        waiting = [org for org in serving.awaited if self._may_build(org)]
        old = [org for org in waiting if org in serving.own]
        if old or len(serving.own) < self._pace.organisations:
            return min(old or waiting, default=None)
        return None

    def _build_own(self, org: str) -> bool:
        """Builds the organisation's catalog; False where its tools make none."""
        shared, lost = self.engine.serving.shared, self._lost
        try:
            pipeline = self._assembly.stacked(
                shared, self._replica.definitions(org), self._in_force.concerning(org)
            )
        except ToolrollError as error:
            _log.warning("organisation %r: its own tools make no catalog: %s", org, error)
            self._errors[org] = Failure("organisation", error)
            self._not_before[org] = time.monotonic() + _LATER_S
            self._change(lasting=self._lasting())
            return False
        is_whole = self._lost == lost
        self._errors.pop(org, None)
        self._not_before.pop(org, None)
        if not is_whole:
            self._not_before[org] = time.monotonic() + _LATER_S
        self._made[org] = self._making(org, shared.catalog, is_whole)
        self._withdrawn.pop(org, None)
        own = {**self.engine.serving.own, org: pipeline.without(self._withdrawn.get("", ()))}
        while len(own) > self._pace.organisations:
            used = self.engine.used
            del own[min(own.keys() - {org}, key=lambda name: used.get(name, 0))]
        self._change(own=own)
        self._sort_out()
        return True

    def _making(self, org: str, shared: Catalog | None, is_whole: bool) -> _Made:
        replica = self._replica
        return _Made(replica.tools.get(org), replica.toolkits.get(org), shared, is_whole)

    @property
    def _lost(self) -> int:
        """Texts that could not be embedded so far."""
        return int(getattr(self._assembly.embedder, "lost", 0))


# A fork while a database is at work in another thread would leave that library's locks shut in the child.


def _hold(refresher: Refresher | None) -> None:
    if refresher is not None and not refresher._stop.is_set() and refresher._signals is not None:
        locks = (refresher._reaching, refresher._signals.looking)
        refresher._held = [lock for lock in locks if lock.acquire(timeout=_FORK_S)]


def _let_go(refresher: Refresher | None) -> None:
    while refresher is not None and refresher._held:
        refresher._held.pop().release()


def _begin_anew(refresher: Refresher | None) -> None:
    """Threads and locks of the parent mean nothing here. The database sees to itself."""
    if refresher is not None and not refresher._stop.is_set():
        refresher._building, refresher._swapping = threading.Lock(), threading.Lock()
        refresher._reaching, refresher._reaching_since, refresher._held = threading.Lock(), None, []
        refresher._workers = Workers(4, "toolroll-store")
        refresher._stop, refresher._wake = threading.Event(), threading.Event()
        refresher.start()
