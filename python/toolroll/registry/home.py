"""A `Toolroll` that follows a registry. `Toolroll.open` makes it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll._core import Learned, LearningRates
from toolroll.catalog.catalog import Catalog
from toolroll.context import Context
from toolroll.embedder import Embedder
from toolroll.errors import InvalidInput
from toolroll.learning.exposure import Exposure, Shown
from toolroll.learning.memory import Recorded
from toolroll.learning.outcomes import NOT_SHOWN, Called, read_called
from toolroll.registry.events.event_row import SelectionOrigin
from toolroll.registry.events.fold import rates_key
from toolroll.registry.events.follower import LearnedFactory
from toolroll.registry.events.journal import Durable
from toolroll.registry.events.maintenance import OutcomeFilter, forget
from toolroll.registry.events.priors import shared_priors
from toolroll.registry.events.recording import LoggedMessages, Recording, RecordingOptions
from toolroll.registry.follow.refresher import FollowOptions, Refresher
from toolroll.registry.sessions.conversations import StoredConversations
from toolroll.registry.store.database import Database
from toolroll.registry.vectors import StoredEmbedder
from toolroll.roll import MOST_CONVERSATIONS, Toolroll, checked_reporter, of_session, own_name
from toolroll.selection.exposure import not_shown
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.selection.selection import Selection
from toolroll.sessions.session import Session


class RegistryRoll(Toolroll):
    """A catalog that follows a registry: shared tools, and each organisation's own beside them.

    Close it, or use it in a `with`. Safe to share between threads; a child of a fork follows by itself.
    """

    def __init__(
        self,
        url: str,
        builder: PipelineBuilder,
        pace: FollowOptions,
        progress: Progress | None,
        keeping: RecordingOptions,
        profile: str,
        sessions_s: float | None,
    ) -> None:
        """Reads the registry, builds the shared catalog and begins to follow.

        profile: its name. sessions_s: for how long a conversation is kept that nobody goes on with.
        """
        self._database = database = Database.open(url, create=False, migrate=False)
        embedder = builder.embedder
        if embedder is not None and not embedder.is_instant:  # one that is instant is faster than a database
            builder = replace(builder, embedder=StoredEmbedder(embedder, database))
        try:
            self._refresher = Refresher(database, builder, pace, progress)
        except BaseException:
            database.close()
            raise
        self._engine, self._profile = self._refresher.engine, profile
        priors = self._priors()
        making = making_of(builder.embedder, priors=priors)
        self._recording = Recording(
            database,
            url,
            keeping,
            making,
            exposure_of=self._engine.exposure,
            found_in=self._found_in,
            origin_of=self._origin,
            poll_s=pace.poll_s,
            organisations=pace.organisations,
        )
        self._conversations = StoredConversations(database, MOST_CONVERSATIONS, sessions_s)
        self._engine.learned = self._recording.learned
        self._engine.prior = making.empty() if len(priors) else None
        self._engine.observe = self._recording.note
        self._refresher.on_change = self._recording.follower.wake
        self._refresher.start()
        self._recording.writer.take_over()

    def refresh(self, tools: Iterable[Any] | None = None, *, progress: Progress | None = None) -> Catalog:
        """Reads and builds what is new in the registry now, instead of within a second.

        Raises:
            StoreUnavailable: the registry cannot be read; the last good catalog goes on serving.
            InvalidDefinition: what is in it makes no catalog; likewise.
            InvalidInput: tools are given: those of a registry are written there.
        """
        if tools is not None:
            raise InvalidInput("refresh: this catalog follows a registry, write the tools there")
        self._refresher.refresh(progress)
        return self.catalog

    def prepare(self, orgs: Iterable[str] | None = None, *, progress: Progress | None = None) -> None:
        """Builds the catalogs of these organisations, or of all, reads their outcomes, and waits for it.

        Without it they are built one after another in the background, those that ask first; until an
        organisation's is there, the shared tools serve it and `degraded` names "organisation".
        progress: called with (organisations built, in all).
        """
        wanted = None if orgs is None else frozenset(orgs)
        self._refresher.prepare(wanted, progress)
        self._recording.follower.follow({"", *(wanted or ())})

    def record(
        self,
        picked: Selection | str,
        called: Called = (),
        *,
        wanted: Called = (),
        corrected: Mapping[str, str | None] | Iterable[str] = (),
        final: bool = True,
        reporter: str | None = None,
        org: str | None = None,
    ) -> Recorded:
        """Says what the model did with a selection; the next ones are better for it, in every process.

        When this returns, the report is on disk and survives the end of the process; it counts exactly once
        sooner or later, whatever is retried, and also if the database is away now. Other processes have
        learnt it within a second.

        Args:
            picked: the selection that the model was sent, its receipt, or its event id.
            called: see `Toolroll.record`, as for the next four.
            wanted: what was not shown, and called all the same.
            corrected: what was the wrong one.
            final: whether that is all. A turn that has partial reports alone is taken for closed ten minutes
                after the first of them.
            reporter: who this comes from.
            org: who reports, where that is known: what belongs to another organisation is refused.

        Raises:
            InvalidInput: a tool was not shown, an argument is of the wrong type. Nothing was recorded.
            NotFound: no event of that id is known, or the selection is another Toolroll's.
            Denied: a receipt was not signed here, its time is over, or it is another organisation's.
            StoreUnavailable: the journal is full or cannot be written; or it takes a look into the store to
                know an event or the key of a receipt, and it does not answer.
        """
        entries = read_called(called, wanted, corrected)
        found = None
        if isinstance(picked, Selection):
            selection = self._own(picked)
            entries = tuple(replace(entry, name=own_name(selection, entry.name)) for entry in entries)
            found = not_shown(selection, [entry.name for entry in entries if entry.kind in NOT_SHOWN])
        said_by = None if reporter is None else checked_reporter(reporter)
        return self._recording.record(
            picked, entries, final=final, reporter=said_by, org=org, now=self._engine.clock(), found=found
        )

    def session(self, session: str, context: Context | None = None, *, learns: bool = True) -> Session:
        """The conversation of this name, as far as it has come in any process over this registry.

        Reads it from the store, where it is written within a moment of every change (`flush` waits for that);
        while the store is away it goes on with what is known here.

        The arguments and errors are those of `Toolroll.session`.
        """
        context = of_session(session, context)
        live = self._conversations.live(context, self._retention(context.org))
        report = self._report if learns else None
        return Session(self._engine, context, live, report, self._conversations.note)

    def forget_session(self, session: str, org: str = "") -> bool:
        """Deletes what a conversation holds; whether there was any.

        Raises:
            StoreUnavailable: it may still be there.
        """
        return self._conversations.forget(org, session)

    def receipt(self, picked: Selection) -> str:
        """What to hand to whoever reports from elsewhere: signed text that says what was selected.

        `record` takes it, for a day, in every process over the same registry. It hides nothing: names of
        tools and the context can be read from it.

        Raises:
            StoreUnavailable: the key to sign with has not been read yet, and the store does not answer.
        """
        return self._recording.receipt(self._own(picked))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Whether all events, outcomes and sessions so far are in the store; waits for it so long."""
        deadline = time.monotonic() + timeout_s
        is_written = self._conversations.flush(timeout_s)
        return self._recording.flush(max(deadline - time.monotonic(), 0.0)) and is_written

    def forget_outcomes(
        self,
        org: str = "",
        *,
        actor: str,
        event: str | None = None,
        reporter: str | None = None,
        tool: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        reason: str = "",
    ) -> int:
        """Takes an organisation's outcomes back, whole events at a time; what they taught is unlearnt.

        They are kept and count no more, and saying them again does not bring them back. It stands in the
        log of changes.

        Args:
            org: whose.
            actor: who does this.
            event: of this event. What is left out, here and below, does not matter.
            reporter: from this reporter.
            tool: of events in which something was said of this tool.
            since: of events that were shown from then on.
            until: of events that were shown up to then.
            reason: why.

        Returns:
            Of how many events.

        Raises:
            InvalidInput: nothing says which.
            StoreUnavailable: nothing was changed.
        """
        count = forget(
            self._database,
            org,
            OutcomeFilter(event, reporter, tool, since, until),
            actor=actor,
            reason=reason,
        )
        self._recording.follower.wake()
        return count

    def invalidate_settings(self) -> None:
        """Reads the stored settings now: for a change that was not made through the registry.

        Raises:
            StoreUnavailable: the registry cannot be read.
        """
        self._refresher.invalidate_settings()

    def health(self) -> dict[str, Any]:
        """What a readiness probe asks: revision, age in seconds, organisations, and what has failed."""
        snapshot, replica = self._engine.snapshot, self._refresher.replica
        failures = (*snapshot.failures(""), *snapshot.shared.lasting_failures)
        return {
            "revision": replica.revision,
            "catalog_revision": snapshot.shared.catalog.revision,
            "tools": len(snapshot.shared.catalog),
            "age_s": round(self._refresher.age_s, 3),
            "organisations": {
                "ready": len(snapshot.own.keys() - snapshot.awaited),
                "waiting": len(snapshot.awaited),
                "failing": sorted(snapshot.org_failures.keys() - {""}),
            },
            "degraded": [str(failure) for failure in failures],
            "recording": self._recording.health(),
            "sessions": self._conversations.health(),
        }

    def close(self) -> None:
        """Stops following the registry and lets go of it; what serves goes on serving.

        Outcomes that the store does not take now stay in the journal for the next process.
        """
        self._conversations.close()
        self._recording.close()
        self._refresher.close()

    def __enter__(self) -> RegistryRoll:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _priors(self) -> npt.NDArray[np.void]:
        platform = self._refresher.replica.tools.get("", {})
        return shared_priors(self._database, {tool.name: tool for tool in platform.values()})

    # What the recording asks for.

    def _found_in(self, exposure: Exposure, names: Iterable[str]) -> tuple[Shown, ...]:
        # Roles and whatever else rules read is not in a receipt: what is not known shows nothing here, too.
        catalog = self._engine.snapshot.pipeline(exposure.org).catalog
        context = Context(
            org=exposure.org,
            user=exposure.reporter,
            tier=exposure.tier,
            page=exposure.page,
            everything=True,
        )
        return tuple(
            Shown(name, catalog.tool_key(catalog.names[name]), 0.0)
            for name in names
            if name in catalog.names and self.why(name, context).visible
        )

    def _origin(self, selection: Selection) -> SelectionOrigin:
        experiment = self._engine.snapshot.experiment(selection.turn.context.org)
        return SelectionOrigin(
            registry_revision=selection.turn.revision,
            profile=self._profile,
            experiment="" if experiment is None else experiment.name,
            variant=selection.turn.variant,
        )


def making_of(
    embedder: Embedder | None, rates: LearningRates | None = None, priors: npt.NDArray[np.void] | None = None
) -> LearnedFactory[Learned]:
    """How a process begins to learn, with messages of this embedder.

    priors: DELTA[n], what organisations share; every one begins with it.
    """
    rates = rates or LearningRates()
    dim, space = (0, "") if embedder is None else (embedder.dim, embedder.identity)
    names = [name for name in dir(rates) if not name.startswith("_")]
    numbers = [(name, getattr(rates, name)) for name in names]
    begins = Learned(dim, rates)
    if priors is not None and len(priors):
        begins = begins.fold(priors, None)
        numbers.append(("priors", priors.tobytes()))
    return LearnedFactory(lambda: begins, Learned.from_bytes, dim, space, rates_key(dim, space, numbers))


def keeping_of(
    messages: LoggedMessages, journal: str | PathLike[str] | None, durable: Durable
) -> RecordingOptions:
    """The options of `Toolroll.open` for events and outcomes, checked.

    Raises:
        InvalidInput: one is of a kind that is not known.
    """
    if journal is not None and not isinstance(journal, (str, PathLike)):
        raise InvalidInput(f"journal: is {journal!r:.80}, must be a folder")
    return RecordingOptions(messages, None if journal is None else Path(journal).absolute(), durable)


def pace_of(poll_s: float, settings_s: float, organisations: int, listens: bool) -> FollowOptions:
    """The options of `Toolroll.open`, checked.

    Raises:
        InvalidInput: one is out of range.
    """
    for name, value, least in (("poll_s", poll_s, 0.05), ("settings_s", settings_s, 0.0)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 3_600:
            raise InvalidInput(f"{name}: is {value!r:.80}, must be from {least} to 3600 seconds")
    if isinstance(organisations, bool) or not isinstance(organisations, int) or organisations < 1:
        raise InvalidInput(f"organisations: is {organisations!r:.80}, must be a whole number of at least 1")
    if not isinstance(listens, bool):
        raise InvalidInput(f"listens: is {listens!r:.80}, must be True or False")
    return FollowOptions(poll_s, settings_s, organisations, listens)
