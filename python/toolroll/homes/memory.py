"""`Home`, which selects, learns and keeps conversations for a `Toolroll`; and the one in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypedDict, TypeVar

from toolroll._core import Learned
from toolroll.learning.experiments import Experiment
from toolroll.learning.exposure import Exposure
from toolroll.learning.memory import Memory
from toolroll.learning.outcomes import NOT_SHOWN, Entry, Report
from toolroll.learning.record_result import RecordResult
from toolroll.learning.reporters import stored_reporter
from toolroll.model.errors import EmbedderUnavailable, InvalidInput, NotFound, quoted
from toolroll.model.tools import Definitions, Tool
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.engine import Engine
from toolroll.selection.exposure import not_shown
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.selection.readiness import readiness
from toolroll.selection.recent_selections import MOST_SELECTIONS, RecentSelections
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.telemetry import Counters
from toolroll.selection.tool_lists import ToolLists
from toolroll.sessions.live import Conversations, ConversationsInMemory
from toolroll.snapshots.saved_source import SavedSource, save_catalog

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger("toolroll")
T = TypeVar("T")

MOST_CONVERSATIONS = 100_000  # conversations in memory


class OutcomeChoice(TypedDict, total=False):
    """The outcomes that `Toolroll.forget_outcomes` takes back."""

    event: str | None
    reporter: str | None
    tool: str | None
    since: datetime | None
    until: datetime | None


class Home(Protocol):
    """The parts of a `Toolroll` that differ between a catalog in memory and one that follows a registry.

    Safe to share between threads. `Toolroll` checks arguments before it calls a home.
    """

    @property
    def engine(self) -> Engine:
        """Selects from the newest catalog; the same engine for the life of this home."""

    @property
    def conversations(self) -> Conversations:
        """The state of conversations between turns."""

    @property
    def tool_lists(self) -> ToolLists:
        """The catalogs of tool lists that arrived with requests."""

    def recent(self, event_id: str) -> Selection | Exposure | None:
        """The selection of this event, or its exposure; None if only other processes can know it.

        Raises:
            NotFound: no process knows the event.
        """

    def record(
        self,
        picked: Selection | Exposure | str,
        entries: tuple[Entry, ...],
        *,
        final: bool,
        reporter: str | None,
        org: str | None,
    ) -> RecordResult:
        """Counts a report about a selection; see `Toolroll.record`."""

    @property
    def record_turn(self) -> Callable[[Exposure, Report], RecordResult]:
        """Counts a session's report about a turn. The result may leave out `pending`."""

    def receipt(self, picked: Selection) -> str:
        """Text by which another process can report the outcome; see `Toolroll.receipt`."""

    def learned(self, org: str) -> Learned | None:
        """The statistics of an organisation's outcomes; None if it has none."""

    def refresh(self, tools: Iterable[Any] | None, progress: Progress | None) -> None:
        """Replaces the catalog. If that fails, the last good one stays; see `Toolroll.refresh`."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the catalog to a file; see `Toolroll.save`."""

    def trial(self, tools: tuple[Tool, ...], orgs: Iterable[str]) -> Snapshot:
        """The snapshot with these tools instead of the tools of the same names. Nothing is replaced.

        orgs: the organisations that will be asked about.

        Raises:
            NotFound: there is no tool of that name.
            InvalidInput: this catalog cannot have changes.
        """

    def warm_up(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        """Builds the catalogs that their first use would build; see `Toolroll.warm_up`."""

    def is_preparing(self, org: str) -> bool:
        """Whether an organisation's first request came and its own tools are being built. Must not wait."""

    def forget_outcomes(self, org: str, *, actor: str, reason: str, **which: Unpack[OutcomeChoice]) -> int:
        """Takes outcomes back; see `Toolroll.forget_outcomes`."""

    def flush(self, timeout_s: float) -> bool:
        """Waits until everything recorded so far is durable. Returns whether it is."""

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""

    def counters(self) -> Counters:
        """The counts of this process; see `Toolroll.counters`."""

    def health(self) -> dict[str, Any]:
        """The state for a health check; see `Toolroll.health`. Must not wait."""

    def close(self, timeout_s: float) -> None:
        """Ends background work; see `Toolroll.close`."""

    async def arun(self, call: Callable[[], T]) -> T:
        """Runs a call that may wait for the store, without blocking an event loop."""

    def fork_locks(self) -> Iterable[threading.Lock]:
        """The locks to hold while the process forks."""

    def after_fork(self) -> None:
        """Starts the threads of a fork's child, which has none of its parent's."""


class MemoryHome:
    """A catalog in this process. Outcomes and conversations end with the process."""

    def __init__(
        self,
        definitions: Definitions | SavedSource,
        builder: PipelineBuilder,
        *,
        read: Callable[[Iterable[Any] | None], Definitions | SavedSource] | None = None,
        experiment: Experiment | None = None,
        progress: Progress | None = None,
        clock: Callable[[], float] | None = None,
        draw: Callable[[], int] | None = None,
    ) -> None:
        """Builds the catalog of the definitions, or takes it from the file.

        read: makes the next definitions from the tools that `refresh` received, or from None. progress:
        called with (texts embedded, in all). clock, draw: see `Engine`.
        """
        self._builder, self._read = builder, read
        self.tool_lists = ToolLists(builder)
        self._building = threading.RLock()  # held while a catalog is built: the later one wins
        self.is_closed = False
        self._experiments = {} if experiment is None else {"": experiment}
        self._recent = RecentSelections(
            lambda selection: self.engine.exposure(selection, stored_reporter(selection.turn.context.user))
        )
        pipeline = self._first(definitions, progress)
        self._memory = Memory(pipeline.catalog.dim)
        self.record_turn = partial(self._memory.record, explains=False)
        self.conversations = ConversationsInMemory(MOST_CONVERSATIONS)
        hooks: dict[str, Any] = {"clock": clock, "draw": draw}
        self.engine = Engine(
            self._snapshot(pipeline, definitions),
            builder.embedder,
            learned=self._memory.learned.get,
            observe=self._recent.append,
            **{name: hook for name, hook in hooks.items() if hook is not None},
        )

    def recent(self, event_id: str) -> Selection | Exposure:
        found = self._recent.find(event_id)
        if found is None:
            raise NotFound(
                f"event {quoted(event_id)}: is not among the last {MOST_SELECTIONS} selections; "
                "keep the selection itself"
            )
        return found

    def record(
        self,
        picked: Selection | Exposure | str,
        entries: tuple[Entry, ...],
        *,
        final: bool,
        reporter: str | None,
        org: str | None,
    ) -> RecordResult:
        """Folds the report into the statistics; one lock, microseconds.

        Raises:
            InvalidInput: a tool was not shown.
            NotFound: the event is not among the last selections, or belongs to another organisation.
        """
        picked = self.recent(picked) if isinstance(picked, str) else picked
        owner = picked.org if isinstance(picked, Exposure) else picked.turn.context.org
        if org is not None and owner != org:
            raise NotFound(f"event {picked.event_id}: is another organisation's")
        if isinstance(picked, Exposure):
            exposure = picked if reporter is None else replace(picked, reporter=reporter)
            return self._memory.record(exposure, Report(picked.event_id, entries, (), final))
        if reporter is None:
            user = picked.turn.context.user
            reporter = stored_reporter(user) if user else ""
        exposure = self.engine.exposure(picked, reporter)
        names = [entry.name for entry in entries if entry.kind in NOT_SHOWN]
        others = not_shown(picked, names) if names else ()
        return self._memory.record(exposure, Report(picked.event_id, entries, others, final))

    def receipt(self, picked: Selection) -> str:
        """The event id: in memory, only this process can report."""
        return picked.event_id

    def learned(self, org: str) -> Learned | None:
        return self._memory.learned.get(org)

    def refresh(self, tools: Iterable[Any] | None, progress: Progress | None) -> None:
        with self._building:
            if self._read is None:
                raise InvalidInput("refresh: this catalog was made from definitions, make another one")
            definitions = self._read(tools)
            changed = self._changed(definitions)
            if changed is not None:  # selections begin with the measurements of before
                self.engine.swap(self._snapshot(changed, definitions))
                pipeline = self._builder.measured(changed)
            else:
                pipeline = self._compose(definitions, progress)
            self.engine.swap(self._snapshot(pipeline, definitions))

    def save(self, path: str | PathLike[str]) -> None:
        snapshot = self.engine.snapshot
        if snapshot.shared.lasting_failures:
            raise InvalidInput(
                f"save: the catalog was built without vectors ({snapshot.shared.lasting_failures[0].error}); "
                "call refresh() first"
            )
        save_catalog(snapshot.shared.catalog, snapshot.policy.policy_source, path)

    def trial(self, tools: tuple[Tool, ...], orgs: Iterable[str]) -> Snapshot:
        snapshot = self.engine.snapshot
        return replace(snapshot, shared=self._builder.trial(snapshot.shared, tools, snapshot.policy))

    def warm_up(self, orgs: frozenset[str] | None, progress: Progress | None) -> None:
        """Does nothing: the catalog is built."""

    def is_preparing(self, org: str) -> bool:
        return False

    def forget_outcomes(self, org: str, **which: object) -> NoReturn:
        """Refuses: in memory, outcomes are folded into statistics and not kept."""
        raise InvalidInput(
            "forget_outcomes: in memory outcomes are not kept, so none can be taken back; "
            "use a registry (Toolroll.open)"
        )

    def flush(self, timeout_s: float) -> bool:
        """True: nothing waits to be written."""
        return True

    def health(self) -> dict[str, Any]:
        snapshot = self.engine.snapshot
        catalog = snapshot.shared.catalog
        return {
            **readiness(
                self.is_closed,
                (*snapshot.failures(""), *snapshot.shared.lasting_failures),
                self.engine.failing,
            ),
            "catalog_revision": catalog.revision,
            "tools": len(catalog),
            "graph": self.engine.graph.health(),
            "sessions": {"held": len(self.conversations)},
            "revision": None,
            "age_s": None,
            "organisations": None,
            "recording": None,
        }

    def counters(self) -> Counters:
        return self.engine.counters()

    def close(self, timeout_s: float) -> None:
        """Notes it for `health`: there is no background work."""
        self.is_closed = True
        self.engine.stop_threads()

    async def arun(self, call: Callable[[], T]) -> T:
        return call()

    def fork_locks(self) -> Iterable[threading.Lock]:
        """Leaves out the lock of a build, which may take long."""
        return (self._memory.recording, *self.conversations.locks)

    def after_fork(self) -> None:
        self._building = threading.RLock()
        self.engine.graph.health()  # begins its build

    def _first(self, definitions: Definitions | SavedSource, progress: Progress | None) -> Pipeline:
        """A pipeline in any case: without vectors, and degraded, if the embedder fails now."""
        try:
            return self._compose(definitions, progress)
        except EmbedderUnavailable as error:
            if isinstance(definitions, SavedSource):
                raise
            _log.warning("catalog: built without vectors until refresh(): %s", error)
            return self._builder.by_words(definitions, _effective_policy(definitions), error)

    def _changed(self, definitions: Definitions | SavedSource) -> Pipeline | None:
        """The pipeline of these definitions, if few of their tools differ from the present ones."""
        now = self.engine.snapshot.shared
        if isinstance(definitions, SavedSource):
            return None
        changes = self._builder.changes(now, definitions)
        if changes is None:
            return None
        pipeline = self._builder.changed(now, changes, definitions, _effective_policy(definitions))
        if pipeline is not None:
            self._builder.warn_of_absent(pipeline.catalog)
        return pipeline

    def _compose(self, definitions: Definitions | SavedSource, progress: Progress | None) -> Pipeline:
        policy = _effective_policy(definitions)
        if isinstance(definitions, SavedSource):
            pipeline = self._builder.over(definitions.saved, policy)
        else:
            pipeline = self._builder.pipeline(definitions, policy, progress)
        self._builder.warn_of_absent(pipeline.catalog)
        return pipeline

    def _snapshot(self, pipeline: Pipeline, definitions: Definitions | SavedSource) -> Snapshot:
        experiments: Mapping[str, Experiment] = self._experiments
        return Snapshot(pipeline, experiments=experiments, policy=_effective_policy(definitions))


def _effective_policy(source: Definitions | SavedSource) -> EffectivePolicy:
    definitions = source.declared if isinstance(source, SavedSource) else source
    return EffectivePolicy.validated(PolicySource(definitions.rules, definitions.pages, definitions.tiers))
