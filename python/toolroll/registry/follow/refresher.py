"""Keeps an engine on the newest catalog of a registry, in the background.

One thread listens for changes, reads and builds, so two builds never run at once. A new catalog replaces the
old one as a whole (see reconciler.py). An organisation's own tools are read and built when it first selects,
in the order of the requests; tools of organisations that never select are not read. If anything fails, the
last good catalog stays in use and selections report its age.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from toolroll.model.errors import Failure, StoreUnavailable, ToolrollError
from toolroll.model.tools import Tool
from toolroll.registry.follow.reconciler import EngineOver, Reconciler
from toolroll.registry.follow.replica import Replica, catch_up, read_settings, stamp_of
from toolroll.registry.options import Follow
from toolroll.registry.store.database import Database
from toolroll.registry.store.notifications import POLL_EVERY_S, Signal, Signals
from toolroll.runtime.threads import Worker, give_up_after
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.selection.snapshot import Snapshot

_log = logging.getLogger("toolroll")
T = TypeVar("T")

_QUICK_S = 10.0  # for reading the revision or the settings
_WHOLE_S = 600.0  # for reading changed rows
# While the registry changes all the time, reading takes this share of a core. One read covers all changes
# since the last one.
_READ_SHARE, _LONGEST_PAUSE_S = 0.1, 0.25
_TOGETHER = 4  # organisations that are read together: the first one waits for all of them
_MOST_ASKING = 10_000


class Refresher:
    """Reads a registry and brings an engine up to date with it. Used by `Toolroll.open`."""

    def __init__(
        self, database: Database, builder: PipelineBuilder, options: Follow, engine_over: EngineOver
    ) -> None:
        """Reads the registry and builds the shared catalog. engine_over: makes the engine to keep current.

        Raises StoreUnavailable if the registry cannot be read, and InvalidDefinition if its tools do not form
        a valid catalog.
        """
        self._database, self._options = database, options
        self._signals = Signals(database, listens=options.listens)
        self._reading = threading.Lock()  # held during a database call
        # Organisations that select and have no catalog of their own, in the order of their requests.
        self._asking: dict[str, None] = {}
        # Monotonic times: of the next look for changes, even if no signal came; before which only asking
        # organisations are read; before which the thread only hears, and works for them.
        self._look_at = self._read_after = self._work_at = 0.0
        self._is_following = False
        self._settings_at = time.monotonic()
        self._is_changed = False  # whether a signal has reported a change
        first = catch_up(database, Replica(followed=frozenset()))
        self.on_outcomes: Callable[[], None] = _ignore  # called when outcomes may have changed; must not wait
        self.on_read: Callable[[], None] = _ignore  # called after each read of the registry; may wait for it
        self._reconciler = Reconciler(
            builder, first, options.organisations, self._ask, options.progress, engine_over
        )
        self.engine = self._reconciler.engine
        # Returns organisation → a failure of another part for its selections. Must not wait.
        self.other_failures: Callable[[], Mapping[str, Failure]] = dict
        # A fork waits for a database call, but not for a build: the child replaces the builder's lock.
        self._worker = Worker(
            self._follow,
            "toolroll-follow",
            subject="",  # `_set_failure` logs
            retry_s=(options.poll_s, options.poll_s),
            holds_forks=False,
        )

    def start(self) -> None:
        """Starts to follow the registry. The child of a fork starts by itself."""
        self._is_following = True
        self._worker.wake()

    def request_stop(self) -> None:
        """Stops following soon. The catalog stays in use; selections report that it is no longer updated."""
        self._worker.request_stop()
        self._set_failure(StoreUnavailable("this Toolroll is closed and no longer follows its registry"))

    def close(self, timeout_s: float) -> None:
        """Stops following, and waits up to `timeout_s` for the thread. A running build may take longer."""
        deadline = time.monotonic() + timeout_s
        self.request_stop()
        self._worker.stop(timeout_s)
        self._signals.close(deadline - time.monotonic())

    def end_with(self, last: Callable[[], object]) -> None:
        """Ends the thread, which then calls `last`. Safe in garbage collection."""
        self._worker.end_with(last)

    def refresh(self, progress: Progress | None = None) -> None:
        """Reads the changes and builds the shared catalog. Organisations' catalogs follow in the background.

        The last good catalog stays in use after an error.

        Raises StoreUnavailable if the registry cannot be read, and InvalidDefinition if its tools do not form
        a valid catalog.
        """
        if self._worker.is_stopped:
            raise StoreUnavailable("this Toolroll is closed; open the registry again")
        with self._worker.lock:
            self._reconciler.try_again()
            self._catch_up(progress)
        if not self._reconciler.is_measured:
            self._work_at = 0.0
            self._worker.wake()

    def prepare(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        """Builds the catalogs of these organisations, or of all. progress: (organisations done, in all).

        Raises:
            StoreUnavailable: the registry cannot be read.
            ToolrollError: an organisation's tools do not form a valid catalog; the others are built.
        """
        self.refresh()
        with self._worker.lock:
            self._reconciler.measure()
        awaited = self.engine.snapshot.awaited
        due = sorted(awaited if orgs is None else orgs & awaited)
        if orgs is None:
            due = due[: self._options.organisations]
        failed: list[Exception] = []
        for start in range(0, len(due), _TOGETHER):
            some = due[start : start + _TOGETHER]
            with self._worker.lock:
                self._catch_up(None, some)
                for org in some:
                    if org in self.replica.orgs and not self._reconciler.build(org):
                        failed.append(self._reconciler.error(org))
            if progress is not None:
                progress(start + len(some), len(due))
        for error in failed:
            raise error

    def trial(self, tools: tuple[Tool, ...], orgs: Iterable[str]) -> Snapshot:
        """The snapshot in which these tools replace tools of the same names; see `Home.trial`."""
        return self._reconciler.trial(tools, orgs)

    def read_settings(self) -> None:
        """Reads the stored settings now. Raises StoreUnavailable."""
        with self._worker.lock:
            self._check_again()

    @property
    def replica(self) -> Replica:
        """The registry at the last read."""
        return self._reconciler.replica

    @property
    def waiting(self) -> int:
        """The number of organisations that wait for their first or a newer catalog."""
        snapshot = self.engine.snapshot
        return len(snapshot.awaited.intersection((*snapshot.own, *tuple(self._asking))))

    @property
    def age_s(self) -> float:
        """Seconds since the registry was last read."""
        return time.monotonic() - self.replica.read_at

    @property
    def listening_failure(self) -> Failure | None:
        """Why notifications from `listen_url` fail, so that only polls find changes; None if they work."""
        if self._signals.failing is None or self._options.listen_url is None:
            return None
        return Failure("notifications", StoreUnavailable(self._signals.failing))

    # Selections call these: they must not wait.

    def expired(self) -> Failure | None:
        """The failure that rules, pages and settings are too old; None if they are not."""
        limit = self._options.max_policy_age_s
        age_s = time.monotonic() - self._reconciler.policy_at
        if limit is None or age_s <= limit:
            return None
        error = StoreUnavailable(
            f"the registry was last read {age_s:.0f} s ago, above max_policy_age_s={limit:g}: only public "
            "tools are shown"
        )
        return Failure("policy", error)

    def is_preparing(self, org: str) -> bool:
        """Whether the organisation's first catalog is being made; requests it."""
        snapshot = self.engine.snapshot
        if org not in snapshot.awaited or org in snapshot.own or snapshot.lasting_failures:
            return False
        self._ask(org)
        return org in self._asking  # not if its build has failed a moment ago

    def _ask(self, org: str) -> None:
        if org in self._asking or len(self._asking) >= _MOST_ASKING:
            return
        if self._reconciler.may_build(org):
            self._asking[org] = None
            self._worker.wake()

    # The thread.

    def _follow(self) -> float:
        """Listens, reads, and builds at most one organisation's catalog, because changes must not wait."""
        self._hear()
        if not self._asking and time.monotonic() < self._work_at:
            return self._pause_s()
        self._work_at = 0.0
        try:
            org = self._next()
            unread = [] if org is None else self._unread(org)
            if unread or max(self._look_at, self._read_after) <= time.monotonic():
                self._catch_up(None, unread)
                self._look_at = self.replica.read_at + self._options.poll_s
                self.on_read()
            if time.monotonic() - self._settings_at >= self._options.settings_s:
                self._check_again()
            self._reconciler.measure()  # before organisations' catalogs, which build on the measured catalog
            due, wait_s = self._reconciler.due()
            # An asking organisation, and one with an old catalog: neither kind waits for all of the other.
            for one in dict.fromkeys((org, due if wait_s <= 0 else None)):
                if one is not None and self.replica.has_read(one) and one in self.engine.snapshot.awaited:
                    self._reconciler.build(one)
        except Exception as error:
            self._set_failure(error)
            raise
        if self._asking:
            return 0.0
        due, wait_s = self._reconciler.due()
        now = time.monotonic()
        self._work_at = max(self._look_at, self._read_after)
        if due is not None:
            self._work_at = min(self._work_at, now + wait_s)
        return self._pause_s()

    def _hear(self) -> None:
        signal = self._signals.hear()
        if Signal.REGISTRY in signal:
            self._is_changed = self._database.dialect == "postgresql"  # SQLite signals any commit
            self._look_at, self._work_at = 0.0, min(self._work_at, self._read_after)
        if Signal.OUTCOMES in signal:
            self.on_outcomes()

    def _pause_s(self) -> float:
        """Seconds until the next step."""
        left_s = max(0.0, self._work_at - time.monotonic())
        return min(left_s, POLL_EVERY_S) if self._options.listens else left_s

    # Reading.

    def _catch_up(self, progress: Progress | None, asked: Iterable[str] = ()) -> None:
        """Reads the changed rows, and the rows of the organisations that were requested."""
        seen, read_at = self.replica, time.monotonic()  # before the read: its rows may be as old
        replica, asked = seen, tuple(asked)
        is_changed, self._is_changed = self._is_changed or bool(asked), False
        stamp = (seen.revision, seen.at)
        if is_changed or self._in_time(lambda: stamp_of(self._database), _QUICK_S) != stamp:
            replica = self._in_time(lambda: catch_up(self._database, seen, asked), _WHOLE_S)
        replica = replace(replica, read_at=read_at)
        if replica.settings is not seen.settings:
            self._settings_at = time.monotonic()
        self._reconciler.reconcile(replica, progress, self.other_failures())
        if self.engine.snapshot.lasting_failures and not self._worker.is_stopped:  # a close stays one
            _log.warning("registry: answers again, the catalog is up to date")
            self._reconciler.change(lasting_failures=())
        if replica.revision != seen.revision:
            ended = time.monotonic()
            self._read_after = ended + min((ended - read_at) / _READ_SHARE, _LONGEST_PAUSE_S)

    def _check_again(self) -> None:
        """Reads all rows if settings changed without a revision, or if digests did not fit."""

        def read() -> Mapping[str, frozenset[str]]:
            with self._database.reading() as connection:
                return read_settings(connection)

        seen, read_at = self.replica, time.monotonic()
        self._settings_at = read_at
        if self._in_time(read, _QUICK_S) != seen.settings or seen.policy_source.wrong():
            found = self._in_time(lambda: catch_up(self._database, seen, reads_all=True), _WHOLE_S)
            self._reconciler.reconcile(replace(found, read_at=read_at), None, self.other_failures())

    def _in_time(self, call: Callable[[], T], timeout_s: float) -> T:
        with self._reading, give_up_after(timeout_s):
            return call()

    def _set_failure(self, error: Exception) -> None:
        """Lets every selection report why the catalog may be old."""
        failure = Failure(
            "registry", StoreUnavailable(f"{error}; the catalog was up to date {self.age_s:.0f} s ago")
        )
        if not self.engine.snapshot.lasting_failures and not self._worker.is_stopped:
            is_known = isinstance(error, ToolrollError)
            _log.warning("%s", failure, exc_info=None if is_known else error)
        self._reconciler.change(lasting_failures=(failure,))

    def _next(self) -> str | None:
        """The organisation that has waited longest for its own catalog, or None."""
        snapshot = self.engine.snapshot
        for org in tuple(self._asking):
            del self._asking[org]
            if org in snapshot.awaited and self._reconciler.may_build(org):
                return org
        return None

    def _unread(self, org: str) -> list[str]:
        """The organisation and the next requested ones that are not read; [] if the first one is read."""
        if self.replica.has_read(org):
            return []
        next_ones = tuple(self._asking)[: _TOGETHER - 1]
        return [org, *(other for other in next_ones if not self.replica.has_read(other))]

    # A fork.

    def locks(self) -> Iterable[threading.Lock]:
        """The locks to hold during a fork."""
        if self._worker.is_stopped or not self._is_following:
            return ()
        return (self._reading, self._signals.hearing)

    def restart(self) -> None:
        """Starts to follow in the child of a fork."""
        if self._is_following and not self._worker.is_stopped:
            self._reconciler.reset_lock()
            self._reading = threading.Lock()
            self.start()


def _ignore() -> None:
    pass
