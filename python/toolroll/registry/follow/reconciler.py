"""What serves, brought to what a registry has: rules first, since they need no index, then catalogs.

What is to be done is read off the difference between a replica and what serves, never off an event: a build
that failed, was overtaken or given up is still to be done in the next round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from toolroll.catalog.catalog import Catalog
from toolroll.embedder import Embedder
from toolroll.errors import EmbedderUnavailable, Failure, InvalidDefinition, ToolrollError
from toolroll.learning.experiments import Experiment
from toolroll.registry.replica import Replica
from toolroll.registry.vectors import StoredEmbedder
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.engine import Engine
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.selection.profiles import PROFILES
from toolroll.selection.snapshot import Snapshot
from toolroll.tools import Tool

_log = logging.getLogger("toolroll")

_LATER_S = 5.0  # between tries to build what could not be built


EngineOver: TypeAlias = Callable[[Snapshot, "Embedder | None", Callable[[str], object]], Engine]


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


class Reconciler:
    """Holds an engine and what its pipelines were made of. One thread at a time, but for `change`."""

    def __init__(
        self,
        builder: PipelineBuilder,
        replica: Replica,
        organisations: int,
        want: Callable[[str], None],
        progress: Progress | None,
        engine_over: EngineOver,
    ) -> None:
        """Builds the shared catalog.

        organisations: how many organisations' pipelines are kept. want: see `Engine`. engine_over: makes
            the engine, of its first snapshot.

        Raises:
            InvalidDefinition: what is in the replica makes no catalog.
        """
        self._builder, self._replica, self._organisations = builder, replica, organisations
        self._swapping = threading.Lock()  # held to change what serves
        self._made: dict[str, _Made] = {}  # organisation → of what; "" of the shared catalog
        self._withdrawn: dict[str, frozenset[str]] = {}  # organisation → names taken out since
        self._not_before: dict[str, float] = {}  # organisation → when to try again what could not be built
        self._errors: dict[str, Failure] = {}  # organisation → why not
        self._written = replica.policy_source
        self._dealt: Mapping[str, Experiment] = {}  # what the variants of pipelines are for
        self._deal(replica)
        self._in_force = EffectivePolicy.of(self._written, builder.parameters.on_policy_error, None)
        snapshot = Snapshot(
            self._made_shared(progress),
            {},
            replica.orgs,
            replica.settings,
            experiments=replica.experiments,
            revision=replica.revision,
        )
        self.engine = engine_over(snapshot, builder.embedder, want)
        self.change(org_failures=self._lasting())

    @property
    def replica(self) -> Replica:
        """The registry that what serves is brought to."""
        return self._replica

    def change(self, **fields: Any) -> None:
        """Changes some of what serves, and nothing else of it: two threads do so."""
        with self._swapping:
            self.engine.swap(replace(self.engine.snapshot, **fields))

    def reset_lock(self) -> None:
        """For the child of a fork, where the lock may have been held."""
        self._swapping = threading.Lock()

    def reconcile(self, replica: Replica, progress: Progress | None) -> None:
        """Brings what serves to the replica: first what needs no index, then the shared catalog.

        Raises:
            InvalidDefinition: what is in it makes no shared catalog; the last good one goes on serving.
        """
        self._replica = replica
        if self.engine.snapshot.stored is not replica.settings:
            self.change(stored=replica.settings)
        if replica.experiments != self._dealt:
            self._deal(replica)
            snapshot = self.engine.snapshot
            self.change(
                shared=self._builder.varied(snapshot.shared),
                own={org: self._builder.varied(pipeline) for org, pipeline in snapshot.own.items()},
                experiments=replica.experiments,
            )
        self._withdraw()
        if replica.policy_source != self._written:
            self._govern()
        if replica.revision != self.engine.snapshot.revision:
            self.change(revision=replica.revision)
        try:
            if not self._made[""].is_of(replica, "", None) and self.may_build(""):
                self._not_before[""] = time.monotonic() + _LATER_S  # unless it succeeds
                self.change(shared=self._made_shared(progress))
        finally:
            self._sort_out()

    def try_again(self) -> None:
        """Forgets when what could not be built was to be tried again: now."""
        self._not_before.clear()

    def may_build(self, org: str) -> bool:
        """Whether it is time to try; what has just failed would fail again."""
        return time.monotonic() >= self._not_before.get(org, 0.0)

    def due(self) -> str | None:
        """The organisation to build for next: of those with an old catalog, else of those with none."""
        snapshot = self.engine.snapshot
        waiting = [org for org in snapshot.awaited if self.may_build(org)]
        old = [org for org in waiting if org in snapshot.own]
        if old or len(snapshot.own) < self._organisations:
            return min(old or waiting, default=None)
        return None

    def build(self, org: str) -> bool:
        """Builds the organisation's catalog; False where its tools make none."""
        shared, lost = self.engine.snapshot.shared, self._lost
        try:
            pipeline = self._builder.stacked(
                shared, self._replica.definitions(org), self._in_force.concerning(org)
            )
        except ToolrollError as error:
            _log.warning("organisation %r: its own tools make no catalog: %s", org, error)
            self._errors[org] = Failure("organisation", error)
            self._not_before[org] = time.monotonic() + _LATER_S
            self.change(org_failures=self._lasting())
            return False
        is_whole = self._lost == lost
        self._errors.pop(org, None)
        self._not_before.pop(org, None)
        if not is_whole:
            self._not_before[org] = time.monotonic() + _LATER_S
        self._made[org] = self._making(org, shared.catalog, is_whole)
        self._withdrawn.pop(org, None)
        own = {**self.engine.snapshot.own, org: pipeline.without(self._withdrawn.get("", ()))}
        while len(own) > self._organisations:
            used = self.engine.used
            del own[min(own.keys() - {org}, key=lambda name: used.get(name, 0))]
        self.change(own=own)
        self._sort_out()
        return True

    def error(self, org: str) -> Exception:
        """Why `build` was False."""
        return self._errors[org].error

    def _lasting(self) -> dict[str, tuple[Failure, ...]]:
        """Organisation → what its selections lack until somebody mends it."""
        org_failures = dict(self._in_force.failures)
        for org, rows in self._replica.damaged.items():
            shown = "; ".join(sorted(rows.values())[:3])
            problem = InvalidDefinition(f"{len(rows)} rows cannot be read and are in no catalog: {shown}")
            org_failures[org] = (*org_failures.get(org, ()), Failure("registry", problem))
        for org, failure in self._errors.items():
            org_failures[org] = (*org_failures.get(org, ()), failure)
        return org_failures

    def _sort_out(self) -> None:
        """Drops the pipelines of organisations that have nothing of their own, and says who waits for one."""
        snapshot, replica = self.engine.snapshot, self._replica
        own = {org: pipeline for org, pipeline in snapshot.own.items() if org in replica.orgs}
        current = {org for org in own if self._made[org].is_of(replica, org, snapshot.shared.catalog)}
        for org in self._made.keys() - own.keys() - {""}:
            del self._made[org]
        for org in self._errors.keys() - replica.orgs - {""}:
            del self._errors[org]
        self.change(own=own, awaited=replica.orgs - current, org_failures=self._lasting())

    def _deal(self, replica: Replica) -> None:
        """Has pipelines made with the variants that the experiments of the replica deal out."""
        names = {name for experiment in replica.experiments.values() for name in experiment.variants}
        variants = {name: PROFILES[name] for name in sorted(names) if name in PROFILES}
        self._builder, self._dealt = replace(self._builder, variants=variants), replica.experiments

    def _withdraw(self) -> None:
        """Takes deleted tools, and those that wait for review, out of what serves."""
        snapshot = self.engine.snapshot
        gone = {org: self._gone(org) for org in ("", *snapshot.own)}
        if all(self._withdrawn.get(org, frozenset()) == names for org, names in gone.items()):
            return
        self._withdrawn = gone
        shared = gone[""]
        self.change(
            shared=snapshot.shared.without(shared),
            own={org: pipeline.without(shared | gone[org]) for org, pipeline in snapshot.own.items()},
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
        snapshot, builder, before = self.engine.snapshot, self._builder, self._in_force
        written = self._replica.policy_source
        now = EffectivePolicy.of(written, builder.parameters.on_policy_error, before)
        shared = builder.governed(snapshot.shared, now)
        own = {
            org: builder.governed(pipeline, now.concerning(org), shared)
            if now.concerning(org) != before.concerning(org)
            else pipeline
            for org, pipeline in snapshot.own.items()
        }
        self._written, self._in_force = written, now
        self.change(shared=shared, own=own, org_failures=self._lasting())

    def _made_shared(self, progress: Progress | None) -> Pipeline:
        definitions, builder = self._replica.definitions(""), self._builder
        lost = self._lost
        try:
            pipeline = builder.pipeline(definitions, self._in_force, progress)
            is_whole = self._lost == lost
        except EmbedderUnavailable as error:
            _log.warning("catalog: built without vectors until the embedder answers: %s", error)
            pipeline, is_whole = builder.by_words(definitions, self._in_force, error), False
        except InvalidDefinition as error:
            self._errors[""] = Failure("registry", error)
            raise
        self._errors.pop("", None)
        if not is_whole and pipeline.catalog.dim:
            lacking = EmbedderUnavailable(f"{self._lost - lost} texts of tools have no vector yet")
            pipeline = pipeline.lacking(Failure("embedder", lacking))
        if is_whole:
            self._not_before.pop("", None)
        else:
            self._not_before[""] = time.monotonic() + _LATER_S
        self._made[""] = self._making("", None, is_whole)
        self._withdrawn.pop("", None)
        return pipeline

    def _making(self, org: str, shared: Catalog | None, is_whole: bool) -> _Made:
        replica = self._replica
        return _Made(replica.tools.get(org), replica.toolkits.get(org), shared, is_whole)

    @property
    def _lost(self) -> int:
        """Texts that could not be embedded so far."""
        embedder = self._builder.embedder
        return embedder.lost if isinstance(embedder, StoredEmbedder) else 0
