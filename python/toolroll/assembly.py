"""From definitions to a pipeline: the same steps for a catalog of objects, of a folder and of a registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from toolroll.catalog import Catalog
from toolroll.errors import EmbedderUnavailable
from toolroll.governance import Governance, Governed
from toolroll.pipeline import Pipeline
from toolroll.policy import Policy
from toolroll.ports import Embedder
from toolroll.profiles import Parameters, compose, govern
from toolroll.selection import Failure
from toolroll.stages.visibility import Visibility
from toolroll.tools import Definitions

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """How pipelines are made here.

    Attributes:
        embedder: of tools and messages; None for lexical retrieval only.
        parameters: the profile.
        graph: whether an HNSW graph is built over the shared tools.
    """

    embedder: Embedder | None
    parameters: Parameters
    graph: bool = False

    def pipeline(
        self,
        definitions: Definitions,
        governance: Governance,
        last_known: Governance | None = None,
        progress: Progress | None = None,
    ) -> Pipeline:
        """Indexes the definitions and puts the stages over them.

        Raises:
            InvalidDefinition: the definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        return self._staged(self._catalog(definitions, self.embedder, progress), governance, last_known)

    def by_words(
        self,
        definitions: Definitions,
        governance: Governance,
        error: EmbedderUnavailable,
        last_known: Governance | None = None,
    ) -> Pipeline:
        """The same without vectors, which says so in every selection: for an embedder that fails now."""
        pipeline = self._staged(self._catalog(definitions, None, None), governance, last_known)
        return replace(pipeline, standing=(*pipeline.standing, Failure("embedder", error)))

    def stacked(
        self,
        shared: Pipeline,
        own: Definitions,
        governance: Governance,
        last_known: Governance | None = None,
    ) -> Pipeline:
        """An organisation's: over the shared catalog and its own definitions.

        Raises:
            InvalidDefinition: its own definitions are malformed.
            EmbedderUnavailable: the embedder fails.
        """
        embedder = self.embedder if shared.catalog.dim else None
        catalog = Catalog.stacked(
            shared.catalog, own, embedder, description_counts=self.parameters.description_counts
        )
        return self._staged(catalog, governance, last_known, _platform(shared))

    def governed(
        self,
        pipeline: Pipeline,
        governance: Governance,
        last_known: Governance | None = None,
        shared: Pipeline | None = None,
    ) -> Pipeline:
        """The same catalog under other rules and page mappings.

        shared: of an organisation's, the pipeline that everybody shares, governed already.
        """
        governed = self._governed(pipeline.catalog, governance, last_known, _platform(shared))
        others = tuple(failure for failure in pipeline.standing if failure.where != "policy")
        pipeline = govern(pipeline, governed.visibility, governed.page)
        return replace(pipeline, standing=(*others, *governed.failures))

    def _catalog(
        self, definitions: Definitions, embedder: Embedder | None, progress: Progress | None
    ) -> Catalog:
        return Catalog.build(
            definitions,
            embedder,
            graph=self.graph and embedder is not None,
            toolkits_by_meaning=self.parameters.toolkit_threshold is not None,
            description_counts=self.parameters.description_counts,
            progress=progress,
        )

    def _governed(
        self,
        catalog: Catalog,
        governance: Governance,
        last_known: Governance | None,
        platform: Policy | None,
    ) -> Governed:
        return Governed.of(catalog, governance, self.parameters.on_policy_error, last_known, platform)

    def _staged(
        self,
        catalog: Catalog,
        governance: Governance,
        last_known: Governance | None,
        platform: Policy | None = None,
    ) -> Pipeline:
        governed = self._governed(catalog, governance, last_known, platform)
        at_once = self.embedder is None or self.embedder.is_instant
        pipeline = compose(catalog, self.parameters, at_once, governed.visibility, governed.page)
        return replace(pipeline, standing=governed.failures) if governed.failures else pipeline


def _platform(shared: Pipeline | None) -> Policy | None:
    """The compiled rules of the platform: what a thousand organisations have in common is compiled once."""
    for stage in () if shared is None else shared.hard:
        if isinstance(stage, Visibility):
            return stage.policy
    return None
