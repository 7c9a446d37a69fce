"""The pipelines in use: one for everybody, and one for each organisation with tools of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from toolroll.learning.experiments import Experiment
from toolroll.model.context import Context
from toolroll.model.errors import Failure, Unavailable
from toolroll.model.tool_list import ToolList
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline import Pipeline

_NO_SETTINGS: frozenset[str] = frozenset()
_NO_POLICY = EffectivePolicy()
_NOBODY: Mapping[str, Pipeline] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The data that turns read, replaced as a whole. No method waits.

    Attributes:
        shared: for all organisations without a pipeline of their own.
        own: organisation → pipeline over the shared tools and its own.
        awaited: organisations whose own pipeline is not built yet. They get the shared one, and their
            selections say so.
        stored: organisation → settings with a stored value; "" for the platform's.
        experiments: organisation → the experiment that assigns its turns to variants; "" for all others.
        lasting_failures: failures for everybody, such as a registry that cannot be reached.
        org_failures: organisation → its failures, such as damaged policy rows; "" for all.
        policy: the rules and page mappings of the pipelines.
        expired: the failure if the policy is too old to show other than public tools; otherwise None.
        tool_list: the request's list of tools; None for a catalog.
        held: organisation → names of its tools that are in no catalog, because they wait for review or cannot
            be read; "" for the platform's.
        coming: organisation → names of tools that were read and are in no catalog yet.
        revision: the registry's revision of the rules; the catalog may be older.
    """

    shared: Pipeline
    own: Mapping[str, Pipeline] = field(default_factory=dict)
    awaited: frozenset[str] = frozenset()
    stored: Mapping[str, frozenset[str]] = field(default_factory=dict)
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    lasting_failures: tuple[Failure, ...] = ()
    org_failures: Mapping[str, tuple[Failure, ...]] = field(default_factory=dict)
    revision: int = 0
    policy: EffectivePolicy = _NO_POLICY
    tool_list: ToolList | None = None
    expired: Failure | None = None
    held: Mapping[str, frozenset[str]] = field(default_factory=dict)
    coming: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def over(self, pipeline: Pipeline, tool_list: ToolList) -> Snapshot:
        """A snapshot of one request's tools, under the same rules, settings and failures."""
        return replace(self, shared=pipeline, own=_NOBODY, tool_list=tool_list)

    def has_rules(self, org: str) -> bool:
        """Whether something could deny a tool to a context of this organisation.

        Rules, damaged policy rows, a toolkit's tier, a tool's status, and a part of the catalog that is not
        built yet can. A setting without a value denies nothing.
        """
        owners = self.policy.owners
        return (
            self.expired is not None
            or "" in owners
            or org in owners
            or "" in self.held
            or org in self.held
            or self.is_coming(org)
            or self.pipeline(org).may_deny
        )

    def may_hide(self, org: str) -> bool:
        """Whether a rule, setting or deletion could hide a tool from this organisation's contexts."""
        pipeline = self.pipeline(org)
        return bool(pipeline.catalog.switches.keys) or pipeline.withdrawn is not None or self.has_rules(org)

    @property
    def has_tools(self) -> bool:
        """Whether the snapshot has tools of its own, which define the toolkits."""
        return bool(len(self.shared.catalog) or self.own or self.awaited)

    def is_coming(self, org: str) -> bool:
        """Whether the organisation has tools of its own, none of which is in a catalog yet."""
        return org in self.awaited and org not in self.own

    def held_by(self, org: str) -> frozenset[str]:
        """Names of the platform and of this organisation that are in no catalog."""
        names = _NO_SETTINGS
        for owner in ("", org) if org else ("",):
            for by_org in (self.held, self.coming):
                if owner in by_org:
                    names |= by_org[owner]
        return names

    def pipeline(self, org: str) -> Pipeline:
        """The pipeline of this organisation."""
        return self.own.get(org, self.shared)

    def variant_for(self, context: Context) -> tuple[str, Pipeline]:
        """The variant for this context ("" if none) and its pipeline."""
        pipeline = self.own.get(context.org, self.shared)
        if not self.experiments:
            return "", pipeline
        experiment = self.experiment(context.org)
        variant = "" if experiment is None else experiment.variant(context)
        variant_for = pipeline.variants.get(variant)
        return ("", pipeline) if variant_for is None else (variant, variant_for)

    def experiment(self, org: str) -> Experiment | None:
        """The experiment for this organisation's turns."""
        return self.experiments.get(org) or self.experiments.get("")

    def settings(self, org: str) -> frozenset[str]:
        """Settings with a stored value, of this organisation or of the platform."""
        stored = self.stored
        if not stored:
            return _NO_SETTINGS
        found = stored.get(org)
        return stored.get("", _NO_SETTINGS) if found is None else found

    def failures(self, org: str) -> tuple[Failure, ...]:
        """The failures that every selection for this organisation names now."""
        failures = self.lasting_failures if self.expired is None else (*self.lasting_failures, self.expired)
        if self.org_failures:
            failures += self.org_failures.get("", ())
            if org:
                failures += self.org_failures.get(org, ())
        if org in self.awaited:
            waiting = Unavailable(f"organisation {org!r}: its own tools are being indexed", retry_after_s=1.0)
            failures += (Failure("organisation", waiting),)
        return failures
