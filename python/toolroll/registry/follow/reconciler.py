"""Brings an engine up to date with a replica: rules at once, then catalogs, which take longer.

Each round compares the engine with the replica, never with an event. So a failed or outdated build is due
again in the next round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any, TypeAlias

from toolroll.catalog.catalog import Catalog
from toolroll.learning.experiments import Experiment
from toolroll.model.embedder import Embedder
from toolroll.model.errors import (
    EmbedderUnavailable,
    Failure,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    ToolrollError,
)
from toolroll.model.tools import Route, Tool, Toolkit
from toolroll.registry.editing.vectors import StoredEmbedder
from toolroll.registry.follow.replica import Replica
from toolroll.registry.follow.tracked_rows import TrackedRows
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.engine import Engine
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.selection.profiles import profile
from toolroll.selection.snapshot import Snapshot

_log = logging.getLogger("toolroll")

_MEASURED = "\0measured"  # no organisation has this name
_RETRY_S = 5.0  # between two attempts to build a catalog that failed
# If an organisation's tools change all the time, its builds take this share of a core: other organisations
# select in the same process. Deleted and denied tools do not wait for a build.
_BUILD_SHARE, _LONGEST_PAUSE_S = 0.02, 1.0

ToolkitRows: TypeAlias = "Mapping[str, tuple[Toolkit, tuple[Route, ...]]]"
EngineOver: TypeAlias = Callable[[Snapshot, "Embedder | None", Callable[[str], object]], Engine]


@dataclass(frozen=True, slots=True, eq=False)
class _BuildInputs:
    """The rows from which a pipeline was built. The pipeline is current while the replica has the same rows.

    Attributes:
        shared: the catalog below an organisation's own; None for the shared catalog.
        is_whole: whether all texts have vectors.
    """

    tools: Mapping[str, Tool] | None
    toolkits: ToolkitRows | None
    pins: object
    shared: Catalog | None
    is_whole: bool

    def is_of(self, replica: Replica, org: str, shared: Catalog | None) -> bool:
        """Whether a build now would have the same inputs."""
        now = (replica.tools.get(org), replica.toolkits.get(org), replica.pins.get(org), shared)
        before = (self.tools, self.toolkits, self.pins, self.shared)
        return self.is_whole and all(one is other for one, other in zip(before, now, strict=True))


def _requirements(owned: Iterable[ToolkitRows | None]) -> Callable[[str], Any]:
    """Returns a function: a toolkit's name → its own and its ancestors' requirements on a caller.

    Of two toolkits with one name, the last counts.
    """
    known = {toolkit.name: toolkit for rows in owned for toolkit, _ in (rows or {}).values()}

    def requirements(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        at: str | None = name
        while at is not None and at not in found:
            toolkit = known.get(at, Toolkit(at))
            found[at], at = (toolkit.tier, toolkit.settings_keys), toolkit.parent
        return found

    return requirements


class Reconciler:
    """Owns an engine and the inputs of its pipelines. Only `change` is safe to share between threads."""

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

        organisations: the most pipelines of organisations to keep. want: called with an organisation that
            selects without a pipeline; see `Engine`. engine_over: makes the engine from its first snapshot.

        Raises InvalidDefinition if the replica's tools do not form a valid catalog.
        """
        self._builder, self._replica, self._organisations = builder, replica, organisations
        self._swapping = threading.Lock()  # held to change the snapshot
        self._inputs: dict[str, _BuildInputs] = {}  # by organisation; "" for the shared one
        self._withdrawn: dict[str, frozenset[str]] = {}  # organisation → names removed since the build
        self._retry_at: dict[str, float] = {}  # organisation → the earliest time of its next build
        self._errors: dict[str, Failure] = {}  # organisation → why its build failed
        self._others: Mapping[str, Failure] = {}
        self._policy_source = replica.policy_source
        self.policy_at = replica.read_at  # of the policy in force; monotonic seconds
        self.is_measured = True  # whether damping and calibration of the shared catalog are its own
        self._experiments: Mapping[str, Experiment] = {}  # the pipelines have their variants
        self._set_variants(replica)
        self._policy = EffectivePolicy.of(self._policy_source, builder.parameters.on_policy_error, None)
        snapshot = Snapshot(
            self._build_shared(progress),
            {},
            replica.orgs,
            replica.settings,
            experiments=replica.experiments,
            revision=replica.revision,
            policy=self._policy,
        )
        self.engine = engine_over(snapshot, builder.embedder, want)
        self.change(held=self._held(), org_failures=self._org_failures())

    @property
    def replica(self) -> Replica:
        """The registry at the last read."""
        return self._replica

    def change(self, **fields: Any) -> None:
        """Replaces these fields of the engine's snapshot. Two threads call this."""
        with self._swapping:
            self.engine.swap(replace(self.engine.snapshot, **fields))

    def reset_lock(self) -> None:
        """For the child of a fork: another thread may have held the lock."""
        self._swapping = threading.Lock()

    def reconcile(self, replica: Replica, progress: Progress | None, others: Mapping[str, Failure]) -> None:
        """Brings the engine up to date: policy, settings and deleted tools first, then the shared catalog.

        others: organisation → a failure elsewhere, which its selections report.

        Raises InvalidDefinition if the tools make no shared catalog; the last good one stays in use.
        """
        followed = replica.followed or frozenset()
        kept = {*replica.orgs, *replica.damaged, *replica.held, *replica.policy_source.wrong()}
        empty = followed - kept
        self._replica, self._others = replica.without(empty), others
        if self.engine.snapshot.stored is not replica.settings:
            self.change(stored=replica.settings)
        if replica.experiments != self._experiments:
            self._set_variants(replica)
            snapshot = self.engine.snapshot
            self.change(
                shared=self._builder.varied(snapshot.shared),
                own={org: self._builder.varied(pipeline) for org, pipeline in snapshot.own.items()},
                experiments=replica.experiments,
            )
        held, coming, snapshot = self._held(), self._coming(), self.engine.snapshot
        if held is not snapshot.held or coming is not snapshot.coming:
            self.change(held=held, coming=coming)
        self._remove_withdrawn()
        if replica.policy_source != self._policy_source:
            self._apply_policy()
        self.policy_at = replica.read_at
        if replica.revision != self.engine.snapshot.revision:
            self.change(revision=replica.revision)
        try:
            if not self._inputs[""].is_of(replica, "", None) and self.may_build(""):
                self._retry_at[""] = time.monotonic() + _RETRY_S  # if it fails
                self.change(shared=self._build_shared(progress))
        finally:
            self._update_awaited()

    def try_again(self) -> None:
        """Makes failed builds due at once."""
        self._retry_at.clear()

    def may_build(self, org: str) -> bool:
        """Whether enough time has passed since the last build or failure."""
        return time.monotonic() >= self._retry_at.get(org, 0.0)

    def due(self) -> tuple[str | None, float]:
        """The next organisation with an old catalog, or None, and the seconds until its build is due."""
        snapshot = self.engine.snapshot
        old = [org for org in snapshot.own if org in snapshot.awaited]
        org = min(old, key=lambda name: (self._retry_at.get(name, 0.0), name), default=None)
        return org, 0.0 if org is None else max(0.0, self._retry_at.get(org, 0.0) - time.monotonic())

    def build(self, org: str) -> bool:
        """Builds the organisation's catalog. Returns False if its tools do not form a valid one."""
        shared, lost, begun = self.engine.snapshot.shared, self._lost_texts, time.monotonic()
        try:
            pipeline = self._builder.stacked(
                shared,
                self._replica.definitions(org),
                self._policy.concerning(org),
                self._replica.pins_of(org),
            )
        except Exception as error:  # no error may stop other organisations
            is_known = isinstance(error, ToolrollError)
            _log.warning(
                "organisation %r: its own tools make no catalog: %s",
                org,
                error,
                exc_info=None if is_known else error,
            )
            self._errors[org] = Failure("organisation", error)
            self._retry_at[org] = time.monotonic() + _RETRY_S
            if org not in self.engine.snapshot.own:  # only the error is kept
                self._replica = self._replica.without((org,))
            self.change(org_failures=self._org_failures())
            return False
        is_whole, ended = self._lost_texts == lost, time.monotonic()
        self._errors.pop(org, None)
        pause_s = min((ended - begun) / _BUILD_SHARE, _LONGEST_PAUSE_S)
        self._retry_at[org] = ended + (pause_s if is_whole else _RETRY_S)
        self._inputs[org] = self._inputs_of(org, shared.catalog, is_whole)
        self._withdrawn.pop(org, None)
        own = {**self.engine.snapshot.own, org: pipeline.without(self._withdrawn.get("", ()))}
        dropped = self._least_used(own, org)
        self.change(own={name: pipeline for name, pipeline in own.items() if name not in dropped})
        self._forget(dropped)
        self._update_awaited()
        return True

    def _least_used(self, own: Mapping[str, Pipeline], newest: str) -> frozenset[str]:
        """The organisations beyond the limit, least recently used first."""
        surplus, used = len(own) - self._organisations, self.engine.used
        if surplus <= 0:
            return frozenset()
        return frozenset(nsmallest(surplus, own.keys() - {newest}, key=lambda name: used.get(name, 0)))

    def _forget(self, orgs: frozenset[str]) -> None:
        """Frees the rows and pipelines of these organisations."""
        self._replica = self._replica.without(orgs)
        for org in orgs:
            for known in (self._inputs, self._withdrawn, self._retry_at, self._errors, self.engine.used):
                known.pop(org, None)

    def trial(self, tools: tuple[Tool, ...], orgs: Iterable[str]) -> Snapshot:
        """The snapshot in which these tools replace tools of the same names. Safe in any thread.

        An organisation's own tool comes before a tool of the platform.
        """
        snapshot, replica, builder, policy = self.engine.snapshot, self._replica, self._builder, self._policy
        own = {org: replica.definitions(org) for org in orgs if org in snapshot.own and replica.has_read(org)}
        owned = {tool.name for definitions in own.values() for tool in definitions.tools}
        changed = {tool.name: tool for tool in tools}
        of_platform = [tool for tool in tools if tool.name not in owned]
        shared = builder.trial(snapshot.shared, of_platform, policy) if of_platform else snapshot.shared
        pipelines = {
            org: builder.stacked(
                shared,
                replace(definitions, tools=tuple(changed.get(tool.name, tool) for tool in definitions.tools)),
                policy.concerning(org),
                replica.pins_of(org),
            ).without(self._withdrawn.get("", frozenset()) | self._withdrawn.get(org, frozenset()))
            for org, definitions in own.items()
        }
        return replace(snapshot, shared=shared, own=pipelines)

    def error(self, org: str) -> Exception:
        """The error after `build` returned False."""
        return self._errors[org].error

    def _org_failures(self) -> dict[str, tuple[Failure, ...]]:
        """`Snapshot.org_failures`: failures of policy, damaged rows, failed builds and other parts."""
        org_failures = dict(self._policy.failures)
        for org, rows in self._replica.damaged.items():
            shown = "; ".join(sorted(rows.values())[:3])
            count = "1 row is damaged and" if len(rows) == 1 else f"{len(rows)} rows are damaged and"
            problem = InvalidDefinition(f"{count} not in the catalog: {shown}")
            org_failures[org] = (*org_failures.get(org, ()), Failure("registry", problem))
        for org, failure in (*self._errors.items(), *self._others.items()):
            org_failures[org] = (*org_failures.get(org, ()), failure)
        return org_failures

    def _update_awaited(self) -> None:
        """Drops pipelines of organisations without own tools, and updates `Snapshot.awaited`."""
        snapshot, replica = self.engine.snapshot, self._replica
        orgs = replica.orgs
        own = {org: pipeline for org, pipeline in snapshot.own.items() if org in orgs}
        current = {org for org in own if self._inputs[org].is_of(replica, org, snapshot.shared.catalog)}
        for org in self._inputs.keys() - own.keys() - {""}:
            del self._inputs[org]
        for org in self._errors.keys() - orgs - {""}:
            del self._errors[org]
        self.change(
            own=own,
            awaited=orgs - current,
            held=self._held(),
            coming=self._coming(),
            org_failures=self._org_failures(),
        )

    def _held(self) -> Mapping[str, frozenset[str]]:
        """`Snapshot.held`."""
        replica = self._replica
        held = {org: names for org in replica.held if (names := replica.names_held(org))}
        known = self.engine.snapshot.held
        return known if known == held else held

    def _coming(self) -> Mapping[str, frozenset[str]]:
        """`Snapshot.coming`."""
        inputs, since = self._inputs.items(), self._replica.names_since
        coming = {org: names for org, built in inputs if (names := since(org, built.tools or {}))}
        known = self.engine.snapshot.coming
        return known if known == coming else coming

    def _set_variants(self, replica: Replica) -> None:
        """Makes the builder build pipelines for the variants of the replica's experiments."""
        names = {name for experiment in replica.experiments.values() for name in experiment.variants}
        variants = {}
        for name in sorted(names):
            try:
                variants[name] = profile(name)
            except NotFound:  # a profile of a later version, or of a package that is not installed here
                continue
            except InvalidInput as error:  # another package is broken: its variant is not served
                _log.warning("%s", error)
        self._builder, self._experiments = replace(self._builder, variants=variants), replica.experiments

    def _remove_withdrawn(self) -> None:
        """Removes deleted tools, and tools that wait for review, from the pipelines."""
        snapshot = self.engine.snapshot
        gone = {org: self._withdrawn_names(org) for org in ("", *snapshot.own)}
        if all(self._withdrawn.get(org, frozenset()) == names for org, names in gone.items()):
            return
        self._withdrawn = gone
        shared = gone[""]
        self.change(
            shared=snapshot.shared.without(shared),
            own={org: pipeline.without(shared | gone[org]) for org, pipeline in snapshot.own.items()},
        )

    def _withdrawn_names(self, org: str) -> frozenset[str]:
        """Names of tools in the organisation's index that are inactive by now, or have other governance.

        Rules and tiers read toolkits and annotations from the index. So a tool with a new toolkit or new
        hints waits for the next build.
        """
        before, now = self._inputs[org].tools or {}, self._replica.tools.get(org, {})
        regoverned = self._regoverned_toolkits(org)
        if before is now and not regoverned:
            return frozenset()
        if not regoverned and isinstance(now, TrackedRows):
            changed = now.changed_since(before)
            if changed is not None:  # all other tools are unchanged
                before = {key: before[key] for key in changed if key in before}
                now = {key: now[key] for key in changed if key in now}
        active = {tool.name: tool for tool in now.values() if tool.status == "active"}
        return frozenset(
            tool.name
            for tool in before.values()
            if (newer := active.get(tool.name)) is None
            or tool.toolkit in regoverned
            or tool.toolkit != newer.toolkit
            or (tool.public and not newer.public)
            or (tool.annotations is not newer.annotations and tool.hints != newer.hints)
        )

    def _regoverned_toolkits(self, org: str) -> frozenset[str]:
        """The toolkits whose tier, settings or parents differ from the organisation's index."""
        built = [self._inputs[owner].toolkits for owner in dict.fromkeys((org, "")) if owner in self._inputs]
        read = [self._replica.toolkits.get(owner) for owner in dict.fromkeys((org, ""))]
        if all(one is other for one, other in zip(built, read, strict=True)):
            return frozenset()
        before, now = _requirements(built), _requirements(read)
        names = {toolkit.name for rows in (*built, *read) for toolkit, _ in (rows or {}).values()}
        return frozenset(name for name in names if before(name) != now(name))

    def _apply_policy(self) -> None:
        """Applies the replica's rules and page mappings to all pipelines."""
        snapshot, builder, before = self.engine.snapshot, self._builder, self._policy
        written = self._replica.policy_source
        now = EffectivePolicy.of(written, builder.parameters.on_policy_error, before)
        shared, is_other = builder.governed(snapshot.shared, now), now.concerns_otherwise(before)
        own = {
            org: builder.governed(pipeline, now.concerning(org), shared) if is_other(org) else pipeline
            for org, pipeline in snapshot.own.items()
        }
        self._policy_source, self._policy = written, now
        self.change(shared=shared, own=own, policy=now, org_failures=self._org_failures())

    def measure(self) -> None:
        """Measures damping and calibration of the shared catalog again, if some of its tools have changed.

        It takes hundreds of searches, so the catalog is in use before they end.
        """
        if self.is_measured or not self.may_build(_MEASURED):
            return
        shared = self.engine.snapshot.shared
        try:
            measured = self._builder.measured(shared)
        except ToolrollError as error:
            _log.warning("catalog: keeps damping and calibration of an earlier catalog: %s", error)
            self._retry_at[_MEASURED] = time.monotonic() + _RETRY_S
            return
        self.is_measured = True
        if measured is not shared:
            self.change(shared=measured)
            self._update_awaited()

    def _changed_shared(self) -> Pipeline | None:
        """The shared pipeline with the changes since its build; None if it must be rebuilt."""
        inputs, replica = self._inputs.get(""), self._replica
        if inputs is None or not inputs.is_whole:
            return None
        changes = replica.changes("", inputs.tools)
        if changes is None:
            return None
        shared, rest = self.engine.snapshot.shared, replica.toolkits_and_routes("")
        try:
            return self._builder.changed(shared, changes, rest, self._policy)
        except EmbedderUnavailable:  # for the new texts; the store has vectors of all others
            return None

    def _build_shared(self, progress: Progress | None) -> Pipeline:
        builder = self._builder
        lost = self._lost_texts
        try:
            pipeline = self._changed_shared()
            self.is_measured = pipeline is None
            if pipeline is None:
                pipeline = builder.pipeline(self._replica.definitions(""), self._policy, progress)
            is_whole = self._lost_texts == lost
        except EmbedderUnavailable as error:
            _log.warning("catalog: built without vectors until the embedder answers: %s", error)
            definitions = self._replica.definitions("")
            pipeline, is_whole = builder.by_words(definitions, self._policy, error), False
        except InvalidDefinition as error:
            self._errors[""] = Failure("registry", error)
            raise
        self._errors.pop("", None)
        builder.warn_of_absent(pipeline.catalog)
        if not is_whole and pipeline.catalog.dim:
            lacking = EmbedderUnavailable(f"{self._lost_texts - lost} texts of tools have no vector yet")
            pipeline = pipeline.lacking(Failure("embedder", lacking))
        if is_whole:
            self._retry_at.pop("", None)
        else:
            self._retry_at[""] = time.monotonic() + _RETRY_S
        self._inputs[""] = self._inputs_of("", None, is_whole)
        self._withdrawn.pop("", None)
        return pipeline

    def _inputs_of(self, org: str, shared: Catalog | None, is_whole: bool) -> _BuildInputs:
        replica = self._replica
        own = (replica.tools.get(org), replica.toolkits.get(org), replica.pins.get(org))
        return _BuildInputs(*own, shared, is_whole)

    @property
    def _lost_texts(self) -> int:
        """The number of texts so far that could not be embedded."""
        embedder = self._builder.embedder
        return embedder.lost if isinstance(embedder, StoredEmbedder) else 0
