"""Builds pipelines from definitions, in the same steps for objects, a folder or a registry."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from toolroll.catalog.catalog import Catalog, CatalogOptions
from toolroll.catalog.catalog import Progress as Progress
from toolroll.catalog.pins import Pin, with_pins
from toolroll.catalog.refresh import ToolChanges, with_changes
from toolroll.catalog.saved import SavedCatalog
from toolroll.catalog.tool_text import ToolText
from toolroll.catalog.toolkits import absent_members
from toolroll.model.embedder import Embedder
from toolroll.model.errors import EmbedderUnavailable, Failure, InvalidInput, NotFound
from toolroll.model.tools import Definitions, Tool
from toolroll.selection.compose import compose, recomposed
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.policy import Policy
from toolroll.selection.profiles import Profile
from toolroll.selection.stages.visibility import Visibility
from toolroll.selection.steps import OwnStep

_log = logging.getLogger("toolroll")

_MOST_WARNINGS = 20  # warnings about one catalog
_LEAST = 1_000  # tools: a smaller catalog is built whole
_SHARE = 8  # one tool in this many: if more change, a whole build takes no longer


class SavedFinder(Protocol):
    """Finds a saved catalog, so that it need not be built."""

    def __call__(self, definitions: Definitions, builder: PipelineBuilder) -> SavedCatalog | None:
        """The saved catalog of exactly these definitions; None to build one."""

    def failures(self) -> Iterable[Failure]:
        """Why this process built the last catalog, for a health check; empty if a saved one was found."""

    def health(self) -> Mapping[str, Any]:
        """The saved catalog in use, and its origin."""


@dataclass(frozen=True, slots=True, eq=False)
class PipelineBuilder:
    """The settings that all pipelines of one process share.

    Attributes:
        embedder: embeds tools and messages; None for lexical retrieval only.
        parameters: the profile.
        hnsw: whether an HNSW graph is built over the shared tools; see `CatalogOptions`.
        variants: profiles of an experiment, by variant. They share the catalog, so they use the
            `description_counts` and `keyword_mode` of `parameters`.
        steps: the caller's, in every pipeline.
        is_deferred: whether catalogs compute tokens and revision only on the first read.
        find_saved: finds the saved catalog of definitions; None builds every catalog.
    """

    embedder: Embedder | None
    parameters: Profile
    hnsw: bool | Literal["auto"] = False
    variants: Mapping[str, Profile] = field(default_factory=dict)
    steps: tuple[OwnStep, ...] = ()
    is_deferred: bool = False
    find_saved: SavedFinder | None = None
    _warned: set[str] = field(default_factory=set, repr=False)

    def pipeline(
        self,
        definitions: Definitions,
        policy: EffectivePolicy,
        progress: Progress | None = None,
        text_of: Callable[[Tool], ToolText] = ToolText.of,
    ) -> Pipeline:
        """Indexes the definitions and puts the stages over them.

        progress, text_of: see `Catalog.build`.

        Raises:
            InvalidDefinition: the definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        saved = None if self.find_saved is None else self.find_saved(definitions, self)
        if saved is not None:
            return self.over(saved, policy)
        return self._built(definitions, self.embedder, policy, progress, text_of)

    def over(self, saved: SavedCatalog, policy: EffectivePolicy) -> Pipeline:
        """Puts the stages over a saved catalog.

        Raises:
            InvalidInput: the file is damaged, or was built with another embedder or for another profile.
        """
        started = time.perf_counter()
        pipeline = self._staged(saved.catalog(self.embedder, self.options), policy)
        return replace(pipeline, build_s=time.perf_counter() - started)

    def changed(
        self, pipeline: Pipeline, changes: ToolChanges, rest: Definitions, policy: EffectivePolicy
    ) -> Pipeline | None:
        """The pipeline of definitions that differ in a few tools from a pipeline of this builder.

        It selects like one that is built whole, except that damping and calibration stay the same until
        `measured` is called. Its vectors have no graph. None if a whole build is needed, or as good.

        rest: the definitions; their tools are not read.

        Raises:
            InvalidDefinition: the definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        started = time.perf_counter()
        catalog, record = pipeline.catalog, pipeline.catalog.record
        space = "" if self.embedder is None else self.embedder.identity
        n, options = len(catalog), self.options
        if (
            record is None
            or catalog.space != space
            or options.damping != (record.probe_digests is not None)
            or n < _LEAST
            or len(changes) * _SHARE > n
        ):
            return None
        changed = with_changes(catalog, changes, rest, self.embedder, options)
        return replace(self._staged(changed, policy), build_s=time.perf_counter() - started)

    def trial(self, pipeline: Pipeline, tools: Iterable[Tool], policy: EffectivePolicy) -> Pipeline:
        """The pipeline with these tools in place of the tools of the same names, for trying them out.

        Damping and calibration stay the same. The catalog may have any size.

        Raises:
            InvalidInput: the catalog was read from a file, or cannot have changes for another reason.
            NotFound: the pipeline has no tool of that name.
            EmbedderUnavailable: the embedder fails.
        """
        catalog, record, new = pipeline.catalog, pipeline.catalog.record, tuple(tools)
        for tool in new:
            if tool.name not in catalog.names:
                raise NotFound(f"tool {tool.name!r:.80}: is not in the catalog")
        if record is None:
            raise InvalidInput(
                "tools: this catalog cannot have other tools: it was read from a file, or merged"
            )
        changes = ToolChanges(frozenset(tool.name for tool in new), new)
        rest = Definitions((), record.declared, record.routes)
        embedder = self.embedder if catalog.dim else None
        changed = self._staged(with_changes(catalog, changes, rest, embedder, self.options), policy)
        if pipeline.lasting_failures:
            changed = changed.lacking(*pipeline.lasting_failures)
        return changed.withdrawing(pipeline.withdrawn)  # rows stay the same, since names do

    def changes(self, pipeline: Pipeline, definitions: Definitions) -> ToolChanges | None:
        """The changes from a pipeline's tools to these; None if a whole build is as good."""
        if pipeline.catalog.record is None or len(pipeline.catalog) < _LEAST:
            return None
        return ToolChanges.between(pipeline.catalog, definitions.tools)

    def measured(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with its own damping and calibration; itself if it has them already."""
        catalog = pipeline.catalog.measured()
        return pipeline if catalog is pipeline.catalog else self._over(pipeline, catalog)

    def _over(self, pipeline: Pipeline, catalog: Catalog) -> Pipeline:
        """The pipeline over another catalog of the same tools."""
        composed = self.varied(
            compose(catalog, self.parameters, self._at_once).governed(pipeline.hard[0], pipeline.pages)
        )
        if pipeline.lasting_failures:
            composed = composed.lacking(*pipeline.lasting_failures)
        return replace(composed.withdrawing(pipeline.withdrawn), build_s=pipeline.build_s)

    def warn_of_absent(self, catalog: Catalog) -> None:
        """Warns once of each toolkit in `no_hit`, and each member of a toolkit, that the catalog lacks.

        Neither is an error: a server that starts later may have tools of these names.
        """
        p = self.parameters
        kits = (() if p.no_hit is None else p.no_hit) if p.routes != "favour" else ()
        absent = [f"no_hit: toolkit {name!r:.80}" for name in kits if name not in catalog.toolkits]
        absent += [
            f"toolkit {name!r:.80}: member {member!r:.80}"
            for name, member in absent_members(catalog.toolkits.values(), catalog.names)
        ]
        for what in [one for one in absent if one not in self._warned][:_MOST_WARNINGS]:
            _log.warning("%s is not in the catalog", what)
        self._warned.update(absent)

    def by_words(
        self, definitions: Definitions, policy: EffectivePolicy, error: EmbedderUnavailable
    ) -> Pipeline:
        """The pipeline without vectors, for an embedder that fails now. Every selection names the failure."""
        # A copy, because the error itself keeps the frames of its caller alive.
        failure = Failure("embedder", EmbedderUnavailable(str(error), retry_after_s=error.retry_after_s))
        return self._built(definitions, None, policy).lacking(failure)

    def stacked(
        self,
        shared: Pipeline,
        own: Definitions,
        policy: EffectivePolicy,
        pins: Iterable[tuple[Tool, Pin]] = (),
    ) -> Pipeline:
        """An organisation's pipeline, over the shared catalog and its own definitions.

        policy: this organisation's part. pins: its pins of shared tools.

        Raises:
            InvalidDefinition: its own definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        catalog = Catalog.stacked(
            shared.catalog, own, self.embedder if shared.catalog.dim else None, self.options
        )
        pipeline = self._staged(with_pins(catalog, pins), policy, _compiled(shared))
        return pipeline.lacking(*shared.lasting_failures) if shared.lasting_failures else pipeline

    def governed(
        self, pipeline: Pipeline, policy: EffectivePolicy, shared: Pipeline | None = None
    ) -> Pipeline:
        """The pipeline under other rules and page mappings.

        shared: for an organisation, the shared pipeline, already under the new rules.
        """
        return pipeline.governed(*policy.stages(pipeline.catalog, _compiled(shared), _compiled(pipeline)))

    @property
    def options(self) -> CatalogOptions:
        """The options of its catalogs."""
        profiles = (self.parameters, *self.variants.values())
        return CatalogOptions(
            self.hnsw,
            any(profile.toolkit_threshold is not None for profile in profiles),
            self.parameters.description_counts,
            self.parameters.keyword_mode,
            any(profile.damping for profile in profiles),
            self.is_deferred,
        )

    @property
    def _at_once(self) -> bool:
        return self.embedder is None or self.embedder.is_instant

    def _built(
        self,
        definitions: Definitions,
        embedder: Embedder | None,
        policy: EffectivePolicy,
        progress: Progress | None = None,
        text_of: Callable[[Tool], ToolText] = ToolText.of,
    ) -> Pipeline:
        started = time.perf_counter()
        catalog = Catalog.build(definitions, embedder, self.options, progress, text_of)
        return replace(self._staged(catalog, policy), build_s=time.perf_counter() - started)

    def _staged(self, catalog: Catalog, policy: EffectivePolicy, platform: Policy | None = None) -> Pipeline:
        return self.varied(
            compose(catalog, self.parameters, self._at_once, *policy.stages(catalog, platform))
        )

    def varied(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with the current steps and variants."""
        if self.steps:
            pipeline = replace(pipeline, steps=self.steps)
        if not self.variants and not pipeline.variants:
            return pipeline
        variants = {name: recomposed(pipeline, p, self._at_once) for name, p in self.variants.items()}
        return replace(pipeline, variants=variants)


def _compiled(pipeline: Pipeline | None) -> Policy | None:
    """The compiled rules of a pipeline. The platform's are compiled once for all organisations."""
    for stage in () if pipeline is None else pipeline.hard:
        if isinstance(stage, Visibility):
            return stage.policy
    return None
