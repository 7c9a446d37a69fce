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
from typing import TypeVar

from toolroll.assembly import Assembly, Progress
from toolroll.embedders.deadline import Full, Overdue, Workers
from toolroll.engine import Engine
from toolroll.errors import EmbedderUnavailable, StoreUnavailable, ToolrollError
from toolroll.governance import Governance
from toolroll.pipeline import Pipeline
from toolroll.registry.replica import News, Replica, catch_up, read_settings, stamp_of
from toolroll.selection import Failure
from toolroll.serving import Serving
from toolroll.store.database import Database
from toolroll.store.watching import Signals

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


class Refresher:
    """Reads a registry, builds from it, and puts the result into an engine. Used by `Toolroll.open`."""

    def __init__(self, database: Database, assembly: Assembly, pace: Pace, progress: Progress | None) -> None:
        """Reads and builds the shared catalog.

        Raises:
            StoreUnavailable: the registry cannot be read.
            InvalidDefinition: what is in it makes no catalog.
        """
        self._database, self._assembly, self._pace = database, assembly, pace
        self._building = threading.Lock()  # held for one round of reading and building
        self._reaching = threading.Lock()  # held while a database is at work
        self._held: list[threading.Lock] = []  # by who forks
        self._workers = Workers(4, "toolroll-store")
        self._stop, self._wake = threading.Event(), threading.Event()
        self._wanted: deque[str] = deque(maxlen=1_000)
        self._threads: list[threading.Thread] = []
        self._signals: Signals | None = None
        self._later = 0.0  # not before then is tried again what could not be built
        self._failed = -1  # the revision that makes no catalog
        self._settings_at = time.monotonic()
        self._replica, _ = catch_up(database, Replica())
        self._known: Governance | None = None  # the last that could be read and compiled
        shared = self._shared(self._replica, progress)
        self._remember(self._replica.governance, shared)
        serving = Serving(shared, {}, self._replica.orgs, self._replica.settings)
        self.engine = Engine(serving, assembly.embedder, self._want)

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
        """Stops following; what serves goes on serving."""
        self._stop.set()
        self._wake.set()
        if self._signals is not None:
            self._signals.close()
        for thread in self._threads:
            thread.join(timeout=_QUICK_S)  # one that builds is let go: it ends with its round
        self._database.close()

    def refresh(self, progress: Progress | None = None) -> None:
        """Reads and builds what is new and waits for it; catalogs of organisations follow by themselves.

        Raises:
            StoreUnavailable: the registry cannot be read; the last good catalog goes on serving.
            InvalidDefinition: what is in it makes no catalog; likewise.
        """
        with self._building:
            self._later = 0.0
            self._catch_up(progress)

    def prepare(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        """Builds the catalogs of these organisations, or of all. progress: (organisations done, in all)."""
        wanted = sorted(self.engine.serving.awaited if orgs is None else orgs & self.engine.serving.awaited)
        for done, org in enumerate(wanted, 1):
            with self._building:
                self._build_own(org)
            if progress is not None:
                progress(done, len(wanted))

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

    # The path of a selection ends here: both of these wait for nothing.

    def _want(self, org: str) -> None:
        self._wanted.append(org)
        self._wake.set()

    # The threads.

    def _listen(self) -> None:
        signals = self._signals
        assert signals is not None
        while not self._stop.is_set():
            if signals.wait(self._pace.poll_s):
                self._wake.set()

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(0 if self._has_work else self._pace.poll_s)
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

    @property
    def _has_work(self) -> bool:
        serving = self.engine.serving
        return bool(serving.awaited) and len(serving.own) < self._pace.organisations and not self._is_later

    @property
    def _is_later(self) -> bool:
        return time.monotonic() < self._later

    def _round(self) -> None:
        """What is new, then one organisation, so that news never wait for a thousand of those."""
        self._catch_up(None)
        if time.monotonic() - self._settings_at >= self._pace.settings_s:
            self._read_settings()
        self._build_next()

    # Reading.

    def _catch_up(self, progress: Progress | None) -> None:
        stamp = self._in_time(lambda: stamp_of(self._database), _QUICK_S)
        if stamp[0] == self._failed and self._is_later:
            return
        if stamp == (self._replica.revision, self._replica.at):
            self._replica = replace(self._replica, read_at=time.monotonic())
            self._mend(progress)
        else:
            seen = self._replica
            replica, news = self._in_time(lambda: catch_up(self._database, seen), _WHOLE_S)
            self._failed, self._later = replica.revision, time.monotonic() + _LATER_S
            self._apply(replica, news, progress)
            self._failed, self._later = -1, 0.0
            self._replica = replica
        if self.engine.serving.standing:
            _log.warning("registry: in reach again, catalog is current")
            self.engine.swap(replace(self.engine.serving, standing=()))

    def _mend(self, progress: Progress | None) -> None:
        """Builds the shared catalog again where the embedder failed the last time."""
        shared = self.engine.serving.shared
        if not self._is_later and any(failure.where == "embedder" for failure in shared.standing):
            shared = self._shared(self._replica, progress)
            if shared.catalog.dim:
                awaited = self._replica.orgs
                self.engine.swap(replace(self.engine.serving, shared=shared, awaited=awaited))

    def _read_settings(self) -> None:
        def read() -> Mapping[str, frozenset[str]]:
            with self._database.reading() as connection:
                return read_settings(connection)

        settings = self._in_time(read, _QUICK_S)
        self._settings_at = time.monotonic()
        self._replica = replace(self._replica, settings=settings)
        self.engine.swap(replace(self.engine.serving, stored=settings))

    def _in_time(self, call: Callable[[], T], timeout_s: float) -> T:
        with self._reaching:
            try:
                return self._workers.run(call, timeout_s)
            except (Overdue, Full) as error:
                raise StoreUnavailable(f"registry: {error}") from error

    def _stand(self, error: Exception) -> None:
        """Says in every selection that the catalog may be old, and why."""
        serving = self.engine.serving
        age = f"the catalog that serves was current {self.age_s:.0f} s ago"
        failure = Failure("registry", StoreUnavailable(f"{error}; {age}"))
        if not serving.standing:
            _log.warning("%s", failure)
        self.engine.swap(replace(serving, standing=(failure,)))

    # Building. What a round reads is remembered only once it serves, so that what fails is tried again.

    def _apply(self, replica: Replica, news: News, progress: Progress | None) -> None:
        serving = self.engine.serving
        if news.settings:
            serving = replace(serving, stored=replica.settings)
            self._settings_at = time.monotonic()
        if news.governance:
            serving = self._governed(serving, replica)
        serving = self._withdrawn(serving, replica, news)
        self.engine.swap(serving)  # what is denied or deleted waits for no index
        if "" in news.orgs:
            shared = self._shared(replica, progress)
            # Over the old shared catalog, an organisation's own is out of date, but never without its rules.
            serving = replace(serving, shared=shared, awaited=replica.orgs)
        else:
            gone = serving.own.keys() - replica.orgs
            own = {org: pipeline for org, pipeline in serving.own.items() if org not in gone}
            kept = own.keys() - news.orgs
            serving = replace(serving, own=own, awaited=replica.orgs - kept)
        self.engine.swap(serving)

    def _withdrawn(self, serving: Serving, replica: Replica, news: News) -> Serving:
        """Takes deleted tools, and those that wait for review, out of what serves."""
        shared, own = serving.shared, dict(serving.own)
        gone = _gone(self._replica, replica, "") if "" in news.orgs else ()
        if gone:
            shared = shared.without(gone)
            own = {org: pipeline.without(gone) for org, pipeline in own.items()}
        for org in news.orgs & own.keys():
            own[org] = own[org].without(_gone(self._replica, replica, org))
        return replace(serving, shared=shared, own=own)

    def _governed(self, serving: Serving, replica: Replica) -> Serving:
        before, now, assembly = self._replica.governance, replica.governance, self._assembly
        shared = assembly.governed(serving.shared, now, self._known)
        own = {
            org: assembly.governed(pipeline, now.of(org), self._known_of(org), shared)
            if now.error is not None or now.of(org) != before.of(org)
            else pipeline
            for org, pipeline in serving.own.items()
        }
        self._remember(now, shared)
        return replace(serving, shared=shared, own=own)

    def _remember(self, governance: Governance, shared: Pipeline) -> None:
        if not any(failure.where == "policy" for failure in shared.standing):
            self._known = governance

    def _known_of(self, org: str) -> Governance | None:
        return None if self._known is None else self._known.of(org)

    def _shared(self, replica: Replica, progress: Progress | None) -> Pipeline:
        definitions, governance, known = replica.definitions(""), replica.governance, self._known
        try:
            return self._assembly.pipeline(definitions, governance, known, progress)
        except EmbedderUnavailable as error:
            _log.warning("catalog: built without vectors until the embedder answers: %s", error)
            self._later = time.monotonic() + _LATER_S
            return self._assembly.by_words(definitions, governance, error, known)

    def _build_next(self) -> None:
        serving = self.engine.serving
        while self._wanted:
            org = self._wanted.popleft()
            if org in serving.awaited:
                self._build_own(org)
                return
        if self._has_work:
            self._build_own(min(serving.awaited))

    def _build_own(self, org: str) -> None:
        serving, replica = self.engine.serving, self._replica
        governance = replica.governance.of(org)
        try:
            pipeline = self._assembly.stacked(
                serving.shared, replica.definitions(org), governance, self._known_of(org)
            )
        except ToolrollError as error:
            _log.warning("organisation %r: its own tools make no catalog: %s", org, error)
            self._later = time.monotonic() + _LATER_S
            return
        own = {**serving.own, org: pipeline}
        awaited = serving.awaited - {org}
        while len(own) > self._pace.organisations:
            used = self.engine.used
            idle = min(own.keys() - {org}, key=lambda name: used.get(name, 0))
            del own[idle]
            awaited |= {idle}
        self.engine.swap(replace(serving, own=own, awaited=awaited))


def _gone(before: Replica, after: Replica, org: str) -> tuple[str, ...]:
    """Names of the organisation's tools that are in its catalog no more, or not active any more."""
    now = {tool.name for tool in after.tools.get(org, {}).values() if tool.status == "active"}
    return tuple(tool.name for tool in before.tools.get(org, {}).values() if tool.name not in now)


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
        refresher._building, refresher._reaching, refresher._held = threading.Lock(), threading.Lock(), []
        refresher._workers = Workers(4, "toolroll-store")
        refresher._stop, refresher._wake = threading.Event(), threading.Event()
        refresher.start()
