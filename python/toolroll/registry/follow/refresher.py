"""Keeps an engine on the newest catalog of a registry, off the path of every selection.

One thread listens for changes, another reads and builds; there is never a second build. What is new is
swapped in whole (see upkeep.py); organisations that are being asked for come before the others. Whatever
fails, the last good catalog goes on serving and says how old it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from toolroll._threads import Full, Overdue, Workers, survive_forks
from toolroll.errors import Failure, StoreUnavailable, ToolrollError
from toolroll.registry.follow.reconciler import Reconciler
from toolroll.registry.replica import Replica, catch_up, read_settings, stamp_of
from toolroll.registry.store.database import Database
from toolroll.registry.store.notifications import Signals
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress

_log = logging.getLogger("toolroll")
T = TypeVar("T")

_QUICK_S = 10.0  # for a look at the revision or the settings: drivers' own limits do not hold
_WHOLE_S = 600.0  # for reading what changed


@dataclass(frozen=True, slots=True)
class FollowOptions:
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
    """Reads a registry, in time, and has what serves brought to it. Used by `Toolroll.open`."""

    def __init__(
        self, database: Database, builder: PipelineBuilder, pace: FollowOptions, progress: Progress | None
    ) -> None:
        """Reads and builds the shared catalog.

        Raises:
            StoreUnavailable: the registry cannot be read.
            InvalidDefinition: what is in it makes no catalog.
        """
        self._database, self._pace = database, pace
        self._building = threading.Lock()  # held for one round of reading and building
        self._reaching = threading.Lock()  # held while a database is at work
        self._reaching_since: float | None = None
        self._workers = Workers(4, "toolroll-store")
        self._stop, self._wake = threading.Event(), threading.Event()
        self._wanted: deque[str] = deque(maxlen=1_000)
        self._threads: list[threading.Thread] = []
        self._signals: Signals | None = None
        self._settings_at = time.monotonic()
        first = catch_up(database, Replica())
        self.heard: Callable[[], None] = _nobody  # called when the database may have changed; must not wait
        self._reconciler = Reconciler(builder, first, pace.organisations, self._want, progress)
        self.engine = self._reconciler.engine

    def start(self) -> None:
        """Begins to follow the registry; a child of a fork follows it by itself."""
        if not self._threads:
            survive_forks(self, _at_work, _begin_anew)
        self._signals = Signals(self._database, listens=self._pace.listens)
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
        self._stand(StoreUnavailable("this Toolroll is closed and follows its registry no more"), log=False)
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
            self._reconciler.try_again()
            self._catch_up(progress)

    def prepare(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        """Builds the catalogs of these organisations, or of all. progress: (organisations done, in all).

        Raises:
            StoreUnavailable: the registry cannot be read.
            ToolrollError: an organisation's tools make no catalog; the others are built.
        """
        self.refresh()
        awaited = self.engine.snapshot.awaited
        wanted = sorted(awaited if orgs is None else orgs & awaited)
        failed: list[Exception] = []
        for done, org in enumerate(wanted, 1):
            with self._building:
                if not self._reconciler.build(org):
                    failed.append(self._reconciler.error(org))
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
        return self._reconciler.replica

    @property
    def age_s(self) -> float:
        """For how long nobody has known whether this is current."""
        return time.monotonic() - self.replica.read_at

    # The path of a selection ends here: it waits for nothing.

    def _want(self, org: str) -> None:
        if self._reconciler.may_build(org):
            self._wanted.append(org)
            self._wake.set()

    # The threads.

    def _listen(self) -> None:
        signals = self._signals
        assert signals is not None
        while not self._stop.is_set():
            if signals.wait(self._pace.poll_s):
                self._wake.set()
                self.heard()
            since = self._reaching_since
            if since is not None and time.monotonic() - since > _QUICK_S and not self._stop.is_set():
                self._stand(StoreUnavailable("registry: has not answered yet"))

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(0 if self._wanted or self._reconciler.due() is not None else self._pace.poll_s)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                with self._building:
                    self._round()
                continue
            except ToolrollError as error:
                self._stand(error)
            except Exception as error:  # a thread that dies would leave the catalog to age unseen
                _log.exception("registry: refreshing failed")
                self._stand(error)
            self._stop.wait(self._pace.poll_s)  # whatever waits to be built: it cannot be now

    def _round(self) -> None:
        """What is new, then one organisation, so that news never wait for a thousand of those."""
        self._catch_up(None)
        if time.monotonic() - self._settings_at >= self._pace.settings_s:
            self._read_settings()
        org = self._next()
        if org is not None:
            self._reconciler.build(org)

    # Reading.

    def _catch_up(self, progress: Progress | None) -> None:
        stamp = self._in_time(lambda: stamp_of(self._database), _QUICK_S)
        seen = self.replica
        if stamp == (seen.revision, seen.at):
            replica = replace(seen, read_at=time.monotonic())
        else:
            replica = self._in_time(lambda: catch_up(self._database, seen), _WHOLE_S)
        if replica.settings is not seen.settings:
            self._settings_at = time.monotonic()
        self._reconciler.reconcile(replica, progress)
        if self.engine.snapshot.lasting_failures:
            _log.warning("registry: in reach again, catalog is current")
            self._reconciler.change(lasting_failures=())

    def _read_settings(self) -> None:
        def read() -> Mapping[str, frozenset[str]]:
            with self._database.reading() as connection:
                return read_settings(connection)

        settings = self._in_time(read, _QUICK_S)
        self._settings_at = time.monotonic()
        self._reconciler.reconcile(replace(self.replica, settings=settings), None)

    def _in_time(self, call: Callable[[], T], timeout_s: float) -> T:
        with self._reaching:
            self._reaching_since = time.monotonic()
            try:
                return self._workers.run(call, timeout_s)
            except (Overdue, Full) as error:
                raise StoreUnavailable(f"registry: {error}") from error
            finally:
                self._reaching_since = None

    def _stand(self, error: Exception, log: bool = True) -> None:
        """Says in every selection that the catalog may be old, and why."""
        failure = Failure(
            "registry", StoreUnavailable(f"{error}; what serves was current {self.age_s:.0f} s ago")
        )
        if log and not self.engine.snapshot.lasting_failures:
            _log.warning("%s", failure)
        self._reconciler.change(lasting_failures=(failure,))

    def _next(self) -> str | None:
        """Whose catalog to build: of those who ask, then of those with an old one, then of the others."""
        snapshot = self.engine.snapshot
        while self._wanted:
            org = self._wanted.popleft()
            if org in snapshot.awaited and self._reconciler.may_build(org):
                return org
        return self._reconciler.due()


def _nobody() -> None:
    pass


def _at_work(refresher: Refresher) -> Iterable[threading.Lock]:
    """Held while a database is at work."""
    if refresher._stop.is_set() or refresher._signals is None:
        return ()
    return (refresher._reaching, refresher._signals.polling)


def _begin_anew(refresher: Refresher) -> None:
    """Threads and locks of the parent mean nothing here. The database sees to itself."""
    if not refresher._stop.is_set():
        refresher._building, refresher._reconciler._swapping = threading.Lock(), threading.Lock()
        refresher._reaching, refresher._reaching_since = threading.Lock(), None
        refresher._workers = Workers(4, "toolroll-store")
        refresher._stop, refresher._wake = threading.Event(), threading.Event()
        refresher.start()
