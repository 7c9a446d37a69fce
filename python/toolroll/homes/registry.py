"""The home of a `Toolroll` over a registry."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from toolroll._core import Learned
from toolroll.homes.memory import MOST_CONVERSATIONS, OutcomeChoice
from toolroll.learning.effects import deltas
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import NOT_SHOWN, Entry, Report
from toolroll.learning.record_result import RecordResult, waiting_in
from toolroll.learning.reporters import user_of
from toolroll.model.context import Context
from toolroll.model.embedder import Embedder
from toolroll.model.errors import Failure, InvalidInput, StoreUnavailable, quoted
from toolroll.model.tools import Tool
from toolroll.registry.editing.vectors import StoredEmbedder
from toolroll.registry.events.event_row import SelectionOrigin
from toolroll.registry.follow.refresher import Refresher
from toolroll.registry.keeper.keeper import Keeper
from toolroll.registry.keeper.maintenance import OutcomeFilter, forget
from toolroll.registry.keeper.process import KeeperProcess
from toolroll.registry.options import Follow, Recording, Sessions
from toolroll.registry.outbox.recording import Recorder
from toolroll.registry.sessions.conversations import StoredConversations
from toolroll.registry.store.database import Database
from toolroll.runtime.threads import CallPool, Full
from toolroll.selection.engine import Engine
from toolroll.selection.exposure import not_shown
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.selection.readiness import readiness
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.telemetry import Counters
from toolroll.selection.tool_lists import ToolLists
from toolroll.selection.verdict import judge

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SHOWN = 20  # organisations whose failures `health` names
_SILENCE_S = 60.0  # silence of PostgreSQL after which a connection is given up; longer than a wait for a lock
_CALLS = 16  # calls of event loops that may wait for the store at the same time
_CALLS_PATIENCE_S = 1.0  # how long such a call waits for its thread
_END_S = 0.5  # the part of a close's time in which threads end after the last write
_OTHERS_S = 1.0  # the part of a close's time in which another keeper counts this host's shipped outcomes
_ABANDON_S = 5.0  # the time of a close by garbage collection

T = TypeVar("T")


class RegistryHome:
    """The tools of a registry, each organisation's own tools beside them, and the statistics of outcomes.

    `Toolroll.open` makes it. The child of a fork follows the registry by itself.
    """

    def __init__(
        self,
        url: str,
        builder: PipelineBuilder,
        follow: Follow,
        recording: Recording,
        sessions: Sessions,
        *,
        profile: str,
        create: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Reads the registry, builds the shared catalog and begins to follow.

        profile: the name of the builder's profile, for events. create: makes an empty registry if there is
        none. clock: see `Engine`.

        Raises NotFound if there is no such database, or StoreUnavailable if it cannot be read or is of
        another version.
        """
        self._profile, self._clock, self._find_saved = profile, clock, builder.find_saved
        self._closes, self.is_closed = itertools.count(), False
        # Readers and lookups have their own pools, which give up a store that hangs after seconds.
        self._calls = CallPool(_CALLS, "toolroll-calls", patience_s=_CALLS_PATIENCE_S)
        self._database = Database.open(
            url, create=create, migrate=False, silence_s=_SILENCE_S, listen_url=follow.listen_url
        )
        self.tool_lists = ToolLists(builder)
        try:
            self._assemble(url, builder, follow, recording, sessions)
        except BaseException:
            self._database.close()
            raise
        self._refresher.start()
        self._recording.shipper.start()
        if self._keeper is not None:
            self._keeper.start()

    def _assemble(
        self, url: str, builder: PipelineBuilder, follow: Follow, recording: Recording, sessions: Sessions
    ) -> None:
        """Reads the registry and makes the parts, without threads."""
        database, embedder = self._database, builder.embedder
        if embedder is not None and not embedder.is_instant:  # an instant one is faster than a database
            builder = replace(builder, embedder=StoredEmbedder(embedder, database))
        expired = None if follow.max_policy_age_s is None else self._expired
        engine_over = partial(self._engine_over, expired=expired)
        self._refresher = Refresher(database, builder, follow, engine_over)
        self._keeper = self._keeper_of(url, recording)
        self._recording = Recorder(
            database,
            url,
            recording,
            builder.embedder,
            exposure_of=self.engine.exposure,
            found_in=self._found_in,
            origin_of=self._origin,
            waiting_in=lambda exposure, changes: waiting_in(
                (self._learned_or_prior(exposure.org) or Learned()).fold(deltas(exposure, changes)),
                exposure,
                changes,
            ),
            on_shipped=self._wake_keeper,
            poll_s=follow.poll_s,
            organisations=follow.organisations,
        )
        beginning = self._recording.follower.beginning
        self._prior = (
            beginning if beginning.revision else None
        )  # the statistics with which an organisation begins
        self.conversations = StoredConversations(database, self._calls, MOST_CONVERSATIONS, sessions.expire_s)
        self._refresher.on_outcomes = self._recording.learn_soon
        self._refresher.on_read = self._after_read
        self._refresher.other_failures = self._recording.follower.failures
        self._recording.renew_keys()  # so that no receipt waits for them

    def _keeper_of(self, url: str, options: Recording) -> Keeper | KeeperProcess | None:
        if options.keeper == "process":
            return KeeperProcess(url, options.events_s)
        if options.keeper == "thread":
            return Keeper(
                self._database, events_s=options.events_s, on_counted=lambda: self._recording.learn_soon()
            )
        return None

    def _wake_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.hurry()

    @property
    def engine(self) -> Engine:
        return self._refresher.engine

    def recent(self, event_id: str) -> Selection | None:
        """None: events are looked up in the store."""
        return None

    def record(
        self,
        picked: Selection | Exposure | str,
        entries: tuple[Entry, ...],
        *,
        final: bool,
        reporter: str | None,
        org: str | None,
    ) -> RecordResult:
        """Writes the report to the outbox."""
        found = None
        if isinstance(picked, Selection):
            found = not_shown(picked, [entry.name for entry in entries if entry.kind in NOT_SHOWN])
        return self._recording.record(
            picked, entries, final=final, reporter=reporter, org=org, now=self.engine.now(), found=found
        )

    def record_turn(self, exposure: Exposure, report: Report) -> RecordResult:
        return self._recording.record(
            exposure,
            report.entries,
            final=report.is_final,
            reporter=None,
            org=None,
            now=self._clock(),
            found=report.found,
        )

    def receipt(self, picked: Selection) -> str:
        return self._recording.receipt(picked)

    def learned(self, org: str) -> Learned | None:
        return self._recording.learned.get(org)

    def save(self, path: str | PathLike[str]) -> NoReturn:
        """Refuses: each process that follows the registry builds its own catalog."""
        raise InvalidInput(
            "save: the catalog follows a registry and changes with it; save one that from_tools or "
            "from_folder made"
        )

    def refresh(self, tools: Iterable[Any] | None, progress: Progress | None) -> None:
        if tools is not None:
            raise InvalidInput("refresh: this catalog follows a registry, write the tools there")
        self._refresher.refresh(progress)
        self._refresher.read_settings()

    def trial(self, tools: tuple[Tool, ...], orgs: Iterable[str]) -> Snapshot:
        return self._refresher.trial(tools, orgs)

    def warm_up(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        self._refresher.prepare(orgs, progress)
        self._recording.follower.follow({"", *(self.engine.snapshot.own if orgs is None else orgs)})

    def is_preparing(self, org: str) -> bool:
        return self._refresher.is_preparing(org)

    def forget_outcomes(self, org: str, *, actor: str, reason: str, **which: Unpack[OutcomeChoice]) -> int:
        count = forget(self._database, org, OutcomeFilter(**which), actor=actor, reason=reason)
        self._recording.learn_soon()
        return count

    def flush(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        is_written = self.conversations.flush(timeout_s)
        left_s = max(deadline - time.monotonic(), 0.0)
        return self._recording.flush(left_s, self._wake_keeper) and is_written

    def health(self) -> dict[str, Any]:
        snapshot, replica = self.engine.snapshot, self._refresher.replica
        catalog = snapshot.shared.catalog
        recording, sessions = self._recording.health(), self.conversations.health()
        if isinstance(self._keeper, Keeper) and self._keeper.is_held:  # this process knows it better
            own = {"holder": self._keeper.holder, "runs": True, **self._keeper.figures}
            recording["keeper"] |= own
        failures = [*snapshot.failures(""), *snapshot.shared.lasting_failures]
        failures += [
            Failure(failure.where, StoreUnavailable(f"organisation {quoted(org)}: {failure.error}"))
            for org, found in sorted(snapshot.org_failures.items())[:_SHOWN]
            for failure in (found if org else ())
        ]
        failures += [
            Failure(where, StoreUnavailable(why))
            for where, why in (
                ("recording", recording["failing"]),
                ("outbox", recording["outbox"]),
                ("keeper", recording["unkept"]),
                ("learning", recording["learning"]["failing"]),
                ("sessions", sessions["failing"]),
            )
            if why is not None
        ]
        if (expired := self._refresher.expired()) is not None:
            failures.append(expired)
        if self._find_saved is not None:
            failures += self._find_saved.failures()
        if (unheard := self._refresher.listening_failure) is not None:
            failures.append(unheard)
        if not recording["signs_receipts"]:
            failures.append(Failure("receipts", StoreUnavailable("their keys have not been read yet")))
        return {
            **readiness(self.is_closed, failures, self.engine.failing),
            "catalog_revision": catalog.revision,
            "tools": len(catalog),
            "graph": self.engine.graph.health(),
            "sessions": sessions,
            "revision": replica.revision,
            "age_s": round(self._refresher.age_s, 3),
            "organisations": {
                "ready": len(snapshot.own.keys() - snapshot.awaited),
                "waiting": self._refresher.waiting,
                "unread": len(replica.unread),
                "failing": sorted(snapshot.org_failures.keys() - {""}),
            },
            "recording": recording,
            **({} if self._find_saved is None else {"published": self._find_saved.health()}),
        }

    def counters(self) -> Counters:
        counters, sessions = self.engine.counters(), self.conversations.health()
        return replace(
            counters,
            calls_refused={**counters.calls_refused, "store": self._calls.refused},
            session_reads=sessions["reads"],
            session_timeouts=sessions["timeouts"],
            outbox_bytes=self._recording.shipper.health()["outcomes"]["waiting_bytes"],
        )

    def close(self, timeout_s: float) -> None:
        """Refuses further selections, writes everything that waits, and stops following the registry.

        Outcomes that the store does not take in time stay in the outbox for the next process.
        """
        if next(self._closes):  # another thread closes it, or has
            return
        self.is_closed = True
        self.engine.close()
        deadline = time.monotonic() + timeout_s
        write_until = deadline - min(_END_S, timeout_s / 2)
        self.conversations.close(write_until - time.monotonic())
        self._recording.drain(write_until - time.monotonic())
        if isinstance(self._keeper, Keeper):
            if not self._keeper.is_held:  # the process that holds it may be closing, too
                left_s = min(write_until - time.monotonic(), _OTHERS_S)
                self._recording.shipper.flush(left_s, self._wake_keeper)
            self._keeper.drain(write_until - time.monotonic())
        self._refresher.request_stop()
        self._database.close()  # also ends the calls of all these threads that wait for PostgreSQL
        self._recording.close(deadline - time.monotonic())
        if self._keeper is not None:
            self._keeper.close(deadline - time.monotonic())
        self._refresher.close(deadline - time.monotonic())
        self._calls.stop(deadline - time.monotonic())
        self.engine.stop_threads()

    def abandon(self) -> None:
        """Closes this home in a thread. Does not wait, so garbage collection may call it."""
        if not self.is_closed:
            self._refresher.end_with(lambda: self.close(_ABANDON_S))

    async def arun(self, call: Callable[[], T]) -> T:
        """Runs the call in a thread, so that a store that waits blocks no event loop.

        Raises StoreUnavailable if all threads wait for a store that does not answer, or Overloaded if too
        many calls wait for a thread.
        """
        try:
            return await self._calls.arun(call)
        except Full as error:
            raise StoreUnavailable(f"{self._database.url}: {error}", retry_after_s=1.0) from error

    def fork_locks(self) -> Iterable[Lock]:
        """The locks of SQLite's calls and of changes to conversations."""
        return (*self._refresher.locks(), *self.conversations.locks)

    def after_fork(self) -> None:
        """Starts without conversations: the parent writes what waits."""
        self.conversations.begin()
        self._refresher.restart()
        self.engine.graph.health()  # begins its build

    def __repr__(self) -> str:
        return f"Toolroll.open({self._database.url!r})"

    def _engine_over(
        self,
        snapshot: Snapshot,
        embedder: Embedder | None,
        want: Callable[[str], object],
        *,
        expired: Callable[[], Failure | None] | None,
    ) -> Engine:
        return Engine(
            snapshot,
            embedder,
            learned=self._learned_or_prior,
            observe=self._note,
            want=want,
            expired=expired,
            clock=self._clock,
        )

    def _expired(self) -> Failure | None:
        return self._refresher.expired()

    def _learned_or_prior(self, org: str) -> Learned | None:
        return self._recording.learned.get(org, self._prior)

    def _after_read(self) -> None:
        self._recording.renew_keys()
        self.conversations.write_waiting()

    def _note(self, selection: Selection) -> None:
        self._recording.note(selection)

    def _found_in(self, exposure: Exposure, names: Iterable[str]) -> tuple[ShownTool, ...]:
        # A receipt has no roles and no settings: as everywhere, what is unknown shows no tool.
        catalog = self.engine.snapshot.pipeline(exposure.org).catalog
        context = Context(
            org=exposure.org,
            user=user_of(exposure.reporter),
            tier=exposure.tier,
            page=exposure.page,
            everything=True,
        )
        return tuple(
            ShownTool(name, catalog.tool_key(catalog.names[name]), 0.0)
            for name in names
            if name in catalog.names and self._may_see(name, context)
        )

    def _may_see(self, name: str, context: Context) -> bool:
        snapshot = self.engine.snapshot
        return judge(snapshot.pipeline(context.org), name, context, snapshot.settings(context.org)).visible

    def _origin(self, selection: Selection) -> SelectionOrigin:
        experiment = self.engine.snapshot.experiment(selection.turn.context.org)
        return SelectionOrigin(
            registry_revision=selection.turn.revision,
            profile=self._profile,
            experiment="" if experiment is None else experiment.name,
            variant=selection.turn.variant,
            unit="user" if experiment is None else experiment.unit,
        )
