"""The soft stages one by one, in the order of the core: slow, and plain to read.

`Selector` in selector.hpp is the definition. `decide` does each step once more in Python, so that tests can
compare both on random turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tests.oracle.affinity import Affinity
from tests.oracle.always_included import AlwaysIncluded
from tests.oracle.candidates import Candidates
from tests.oracle.cap import Cap
from tests.oracle.conversation_list import ConversationList
from tests.oracle.learning import Learning, Thompson
from tests.oracle.lexical_retrieval import LexicalRetrieval
from tests.oracle.marks import Marks
from tests.oracle.no_match import NoMatch
from tests.oracle.page import Page
from tests.oracle.retrieval import Retrieval
from tests.oracle.routes import Routes
from tests.oracle.stable_order import StableOrder
from toolroll._core import Bitset
from toolroll.catalog.calibration import AT_LARGE
from toolroll.catalog.catalog import Catalog
from toolroll.formats.providers import MOST_TOOLS
from toolroll.model.context import Turn
from toolroll.model.errors import Failure
from toolroll.selection.compose import SPARE, fusion_of, weights_of, words_alone
from toolroll.selection.pipeline import Pipeline, _Runner
from toolroll.selection.profiles import Profile
from toolroll.selection.selection import Selection

Stage: TypeAlias = Callable[[Candidates, Turn], Candidates]


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """The soft stages of a pipeline, for each way in which a turn may be decided."""

    soft: tuple[Stage, ...]
    whole: tuple[Stage, ...]
    everything: tuple[Stage, ...]
    search: tuple[Stage, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, p: Profile) -> Stages:
        """The stages of this profile, over the catalog and the page mappings of the pipeline."""
        catalog, retention = pipeline.catalog, p.retention
        cap = Cap(
            {row: at for at, row in enumerate(pipeline.limits.core)},
            catalog.names,
            catalog.costs,
            p.k,
            p.max_tools,
            MOST_TOOLS,
        )
        uncut = replace(cap, max_tools=None)
        short, order = replace(retention, growth=0.0), StableOrder(catalog.names)
        retrieval, learning = retrieval_of(catalog, p, len(cap.core)), learning_of(catalog, p)
        by_words = by_words_of(catalog, p, retrieval)
        return cls(
            soft=(
                Page(pipeline.pages),
                *_reading(catalog, p, retrieval, by_words, learning, cap),
                AlwaysIncluded(catalog.base, catalog.pinned, catalog.names),
                cap,
                ConversationList(catalog.names, cap, retention),
                order,
            ),
            whole=(cap, ConversationList(catalog.names, cap, short), order),
            everything=(uncut, ConversationList(catalog.names, uncut, short), order),
            search=(retrieval, *by_words, *learning, replace(cap, core={}, max_tools=None)),
        )


def decide(pipeline: Pipeline, p: Profile, turn: Turn) -> Selection:
    """The selection of `Pipeline.decide`, made by the stages here."""
    failures: list[Failure] = list(pipeline.lasting_failures)
    stages, start = Stages.of(pipeline, p), pipeline._allowed(turn, _Runner(failures, []))
    candidates, run = start, ()
    if turn.is_search:
        run = stages.search
    elif turn.shown is not None and not turn.text:
        pass
    elif turn.context.required:
        candidates = pipeline.required(candidates, turn)
    elif turn.context.everything:
        candidates, run = candidates.narrow(candidates.allowed, "everything"), stages.everything
    elif pipeline.passes_through(candidates, turn):
        candidates, run = candidates.narrow(candidates.allowed, "pass_through"), stages.whole
    else:
        run = stages.soft
    candidates = Candidates.of(candidates) if run else candidates
    for stage in run:
        candidates = stage(candidates, turn)
    if turn.shown is not None:
        candidates = pipeline.continued(candidates, turn)
    return Selection.of(candidates, pipeline.catalog, turn, tuple(failures), (), "")


def retrieval_of(catalog: Catalog, p: Profile, core: int) -> Retrieval:
    """The stage that finds tools. core: how many tools are selected anyway."""
    fusion = fusion_of(p, catalog.scale)
    found = catalog.retriever(fusion, p.damping)
    return Retrieval(
        found.retriever,
        fusion,
        p.threshold,
        p.minimum,
        max(p.candidates, p.k or 0),
        core,
        found.calibration,
        p.least_confidence,
        p.on_no_tool,
        found.damping,
        catalog.keys if p.learning == "outcomes" else None,
        p.rescored,
        SPARE if p.learning == "thompson" else 0,
    )


def by_words_of(catalog: Catalog, p: Profile, retrieval: Retrieval) -> tuple[LexicalRetrieval, ...]:
    """The stage that reads words where vectors find nothing, if the profile ranks by vectors alone."""
    if (words := words_alone(p)) is None:
        return ()
    fusion = fusion_of(words, catalog.scale)
    found = replace(retrieval, fusion=fusion, threshold=0.0, calibration=AT_LARGE, keys=None)
    return (LexicalRetrieval(found),)


def learning_of(catalog: Catalog, p: Profile) -> tuple[Stage, ...]:
    """The stage that reads outcomes, if any does."""
    core = Bitset.of(len(catalog), np.concatenate((catalog.base, catalog.pinned)))
    if p.learning == "thompson":
        return (Thompson(catalog.keys, core, p.k),)
    if p.learning is None:
        return ()
    return (Learning(catalog.keys, core, weights_of(p), p.temperature, p.k),)


def _reading(
    catalog: Catalog,
    p: Profile,
    retrieval: Retrieval,
    by_words: tuple[Stage, ...],
    learning: tuple[Stage, ...],
    cap: Cap,
) -> tuple[Stage, ...]:
    """The stages that read the message, and the calls before it."""
    by_meaning = p.toolkit_threshold is not None
    routes = Routes(
        catalog.routes,
        p.routes,
        p.route_weight,
        p.no_hit,
        catalog.toolkit_index if by_meaning else None,
        p.toolkit_threshold or 0.0,
        cap,
        scores=p.retrieve == "none",
    )
    without_match: tuple[Stage, ...] = ()
    if p.on_no_tool != "empty":
        most, least = max(p.candidates, 1), p.rescored if p.learning == "thompson" else 0
        keys = None if p.learning is None else catalog.keys
        without_match = (NoMatch(cap, p.retention, keys, most, least),)
    if p.retrieve == "none":
        return (routes, *without_match)
    affinity = Affinity(p.affinity, catalog.tools, catalog.names, catalog.below)
    marks = (Marks(catalog.marks, p.services, p.marks, retrieval.damping),) if p.services or p.marks else ()
    if p.routes == "fill":
        return (*marks, affinity, retrieval, *learning, routes, *by_words, *without_match)
    return (routes, *marks, affinity, retrieval, *by_words, *without_match, *learning)
