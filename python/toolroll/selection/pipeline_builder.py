"""From definitions to a pipeline: the same steps for a catalog of objects, of a folder and of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from toolroll.catalog.catalog import Catalog, CatalogOptions
from toolroll.catalog.catalog import Progress as Progress
from toolroll.embedder import Embedder
from toolroll.errors import EmbedderUnavailable, Failure
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.policy import Policy
from toolroll.selection.profiles import Profile, compose
from toolroll.selection.stages.visibility import Visibility
from toolroll.tools import Definitions


@dataclass(frozen=True, slots=True, eq=False)
class PipelineBuilder:
    """How pipelines are made here.

    Attributes:
        embedder: of tools and messages; None for lexical retrieval only.
        parameters: the profile.
        hnsw: whether an HNSW graph is built over the shared tools.
        variants: profiles that an experiment deals out. They share the catalog, so how texts count in vectors
            (`description_counts`) and keywords stand (`keyword_mode`) is what `parameters` say.
    """

    embedder: Embedder | None
    parameters: Profile
    hnsw: bool = False
    variants: Mapping[str, Profile] = field(default_factory=dict)

    def pipeline(
        self, definitions: Definitions, in_force: EffectivePolicy, progress: Progress | None = None
    ) -> Pipeline:
        """Indexes the definitions and puts the stages over them.

        Raises:
            InvalidDefinition: the definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        return self._staged(Catalog.build(definitions, self.embedder, self._options, progress), in_force)

    def by_words(
        self, definitions: Definitions, in_force: EffectivePolicy, error: EmbedderUnavailable
    ) -> Pipeline:
        """The same without vectors, which says so in every selection: for an embedder that fails now."""
        pipeline = self._staged(Catalog.build(definitions, None, self._options), in_force)
        return pipeline.lacking(Failure("embedder", error))

    def stacked(self, shared: Pipeline, own: Definitions, in_force: EffectivePolicy) -> Pipeline:
        """An organisation's: over the shared catalog and its own definitions.

        in_force: what concerns this organisation.

        Raises:
            InvalidDefinition: its own definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        catalog = Catalog.stacked(
            shared.catalog,
            own,
            self.embedder if shared.catalog.dim else None,
            self._options,
        )
        pipeline = self._staged(catalog, in_force, _platform(shared))
        return pipeline.lacking(*shared.lasting_failures) if shared.lasting_failures else pipeline

    def governed(
        self, pipeline: Pipeline, in_force: EffectivePolicy, shared: Pipeline | None = None
    ) -> Pipeline:
        """The same catalog under other rules and page mappings.

        shared: of an organisation's, the pipeline that everybody shares, governed already.
        """
        return pipeline.governed(*in_force.stages(pipeline.catalog, _platform(shared)))

    @property
    def _options(self) -> CatalogOptions:
        profiles = (self.parameters, *self.variants.values())
        return CatalogOptions(
            self.hnsw,
            any(profile.toolkit_threshold is not None for profile in profiles),
            self.parameters.description_counts,
            self.parameters.keyword_mode,
        )

    @property
    def _at_once(self) -> bool:
        return self.embedder is None or self.embedder.is_instant

    def _staged(
        self, catalog: Catalog, in_force: EffectivePolicy, platform: Policy | None = None
    ) -> Pipeline:
        return self.varied(
            compose(catalog, self.parameters, self._at_once, *in_force.stages(catalog, platform))
        )

    def varied(self, pipeline: Pipeline) -> Pipeline:
        """The same, with the variants that there are now."""
        if not self.variants and not pipeline.variants:
            return pipeline
        catalog, lasting_failures, withdrawn = pipeline.catalog, pipeline.lasting_failures, pipeline.withdrawn
        variants = {
            name: replace(
                compose(catalog, p, self._at_once), lasting_failures=lasting_failures, withdrawn=withdrawn
            ).governed(pipeline.hard[0], pipeline.soft[0])
            for name, p in self.variants.items()
        }
        return replace(pipeline, variants=variants)


def _platform(shared: Pipeline | None) -> Policy | None:
    """The compiled rules of the platform: what a thousand organisations have in common is compiled once."""
    for stage in () if shared is None else shared.hard:
        if isinstance(stage, Visibility):
            return stage.policy
    return None
