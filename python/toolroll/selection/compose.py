"""`compose` makes a pipeline of a catalog and a profile; no other function says which stages run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from toolroll._core import (
    CapStage,
    Fusion,
    LearningStage,
    ListStage,
    NoMatchStage,
    RetrievalStage,
    RoutesStage,
    Selector,
    ThompsonStage,
    Weights,
)
from toolroll.catalog.calibration import AT_LARGE, Calibration
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.message_text import Reader
from toolroll.formats.providers import MOST_TOOLS
from toolroll.model.context import Turn
from toolroll.model.conversation import Retention
from toolroll.model.embedder import Scale
from toolroll.selection.candidates import Candidates
from toolroll.selection.limits import Limits
from toolroll.selection.picker import CalledToolkits, Picker
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.pages import NO_PAGES, PageTable
from toolroll.selection.profiles import Profile
from toolroll.selection.routes import KeywordsSuffice, RouteHits
from toolroll.selection.stages.availability import Availability
from toolroll.selection.stages.continued_turn import ContinuedTurn
from toolroll.selection.stages.required import Required
from toolroll.selection.stages.visibility import Visibility

SPARE = 3  # candidates beyond those that are shown, among which the rule "thompson" draws

_DEFAULT = Profile()
_NO_RULES = Visibility(None)


@dataclass(frozen=True, slots=True)
class PassThrough:
    """Whether the candidates are few and cheap enough for the selection to keep all of them."""

    catalog: Catalog
    most_tools: int
    most_tokens: int

    def __call__(self, candidates: Candidates, turn: Turn) -> bool:
        """True if the call sets no k and all allowed rows are within both limits."""
        if turn.k is not None or len(candidates.allowed) > self.most_tools:
            return False
        return self.catalog.tokens_of(candidates.allowed.rows()) <= self.most_tokens


def fusion_of(p: Profile, scale: Scale) -> Fusion:
    """The weights of retrieval, for cosines on this scale."""
    return Fusion(
        dense=p.dense * scale.gain,
        dense_floor=scale.floor,
        lexical=p.lexical,
        lexical_saturation=p.lexical_saturation,
        intents=p.intents * scale.gain,
        intent_floor=max(-1.0, min(1.0, scale.floor + p.intent_floor / scale.gain)),
        clauses=p.clauses,
        threshold=0.0,
    )


def weights_of(p: Profile) -> Weights:
    """The weights of outcomes."""
    return Weights(
        reliability=p.reliability,
        lift=p.lift,
        exploration_scale=p.exploration_scale,
        sd_max=2.0,
        most_up=p.most_up,
        most_down=p.most_down,
        protected_leaders=p.protected_leaders,
        reliability_in_order=p.reliability_in_order,
        explore=p.explore,
    )


def words_alone(p: Profile) -> Profile | None:
    """The profile for messages on which vectors find nothing; None if the profile ranks by words anyway."""
    if p.lexical or not p.dense:
        return None
    return p.with_(dense=0.0, intents=0.0, lexical=_DEFAULT.lexical, clauses=_DEFAULT.clauses)


def compose(
    catalog: Catalog,
    p: Profile,
    at_once: bool = True,
    visibility: Visibility = _NO_RULES,
    pages: PageTable = NO_PAGES,
) -> Pipeline:
    """The pipeline of a profile over a catalog.

    at_once: whether the embedder answers without waiting; then each clause of a message may be embedded.
    visibility, pages: the rules and page mappings in force; none by default.
    """
    core = tuple(dict.fromkeys((*catalog.pinned.tolist(), *catalog.base.tolist())))
    limits = Limits(catalog.names, catalog.costs, core, p.max_tools, MOST_TOOLS)
    unlimited, retention = replace(limits, max_tools=None), p.retention
    return Pipeline(
        catalog,
        hard=(visibility, Availability(catalog.switches, catalog.names)),
        required=Required(catalog.names),
        soft=_ranking(catalog, p, limits),
        whole=_whole(catalog, CapStage(core, p.k, p.max_tools), limits, retention),
        everything=_whole(catalog, CapStage(core, p.k, None), unlimited, retention),
        search=_search(catalog, p, unlimited),
        continued=ContinuedTurn(limits, retention),
        limits=limits,
        pages=pages,
        passes_through=PassThrough(catalog, p.pass_through_tools, p.pass_through_tokens),
        reader=Reader(
            catalog.speller if p.spelling else None,
            clauses=p.clauses > 0 and at_once and p.retrieve == "tools",
            may_show=catalog.may_show,
        ),
        retention=retention,
        reads_vectors=p.retrieve == "tools" or p.toolkit_threshold is not None,
        keywords_suffice=KeywordsSuffice(catalog.routes)
        if p.spare_embedding and p.retrieve == "none"
        else None,
    )


def recomposed(pipeline: Pipeline, p: Profile, at_once: bool = True) -> Pipeline:
    """A pipeline with the same catalog, rules, page mappings and steps, under another profile.

    The catalog is not indexed again: it keeps the `description_counts` and `keyword_mode` of its first
    profile.
    """
    return replace(
        compose(pipeline.catalog, p, at_once),
        lasting_failures=pipeline.lasting_failures,
        withdrawn=pipeline.withdrawn,
        steps=pipeline.steps,
    ).governed(pipeline.hard[0], pipeline.pages)


def _selector(catalog: Catalog, cap: CapStage, **stages: Any) -> Selector:
    """A selector with only these stages."""
    absent: dict[str, Any] = {
        "routes": None,
        "services": 0.0,
        "marks": 0.0,
        "damps_marks": False,
        "retrieval": None,
        "by_words": None,
        "no_match": None,
        "learning": None,
        "thompson": None,
        "includes": False,
        "base": (),
        "pinned": (),
        "list": None,
        "has_order": False,
    }
    return Selector(size=len(catalog), cap=cap, **(absent | stages))


def _ranking(catalog: Catalog, p: Profile, limits: Limits) -> Picker:
    """The stages for a message."""
    retrieves, retrieved = p.retrieve == "tools", _retrieval(catalog, p, len(limits.core))
    finds_routes = p.routes != "ignore"
    has_marks = retrieves and bool(p.services or p.marks)
    stages: dict[str, Any] = {}
    if finds_routes or p.no_hit is not None:
        no_hit = None if p.no_hit is None else catalog.routes.rows_of(p.no_hit).tolist()
        stages["routes"] = RoutesStage(p.routes, p.route_weight, no_hit, not retrieves)
    if retrieves:
        stages |= retrieved.stages | _outcomes(catalog, p)
    if has_marks:
        stages |= {"services": p.services, "marks": p.marks, "damps_marks": retrieved.is_damped}
    if p.on_no_tool != "empty":
        least = p.rescored if p.learning == "thompson" else 0
        stages["no_match"] = NoMatchStage(max(p.candidates, 1), least, p.learning is not None)
    selector = _selector(
        catalog,
        CapStage(limits.core, p.k, p.max_tools),
        includes=True,
        base=catalog.base.tolist(),
        pinned=catalog.pinned.tolist(),
        list=_list(p.retention, p.retention.growth),
        has_order=True,
        **stages,
    )
    by_meaning = p.toolkit_threshold is not None
    return Picker(
        selector,
        limits,
        RouteHits(catalog.routes, catalog.toolkit_index if by_meaning else None, p.toolkit_threshold or 0.0)
        if finds_routes
        else None,
        catalog.marks if has_marks else None,
        CalledToolkits(p.affinity, catalog.tools, catalog.names, catalog.below)
        if retrieves and p.affinity
        else None,
        p.retention,
        reads_page=True,
        is_damped=retrieves and retrieved.is_damped,
        keys=catalog.keys if p.learning is not None else None,
        explore=p.explore if p.learning == "outcomes" else 0.0,
    )


def _search(catalog: Catalog, p: Profile, limits: Limits) -> Picker:
    """The stages for a search. Core tools get no preference, and the conversation does not count."""
    retrieved = _retrieval(catalog, p, len(limits.core))
    return Picker(
        _selector(catalog, CapStage((), p.k, None), **retrieved.stages, **_outcomes(catalog, p)),
        limits,
        is_damped=retrieved.is_damped,
        keys=catalog.keys if p.learning is not None else None,
        explore=p.explore if p.learning == "outcomes" else 0.0,
    )


def _whole(catalog: Catalog, cap: CapStage, limits: Limits, retention: Retention) -> Picker:
    """The stages that keep every candidate: limits and order alone."""
    return Picker(
        _selector(catalog, cap, list=_list(retention, 0.0), has_order=True), limits, retention=retention
    )


class _Retrieval(NamedTuple):
    """The stages that find tools, and whether evidence is damped."""

    stages: dict[str, RetrievalStage]
    is_damped: bool


def _retrieval(catalog: Catalog, p: Profile, core: int) -> _Retrieval:
    """The stages that find tools. core: the number of tools that are selected anyway."""
    fusion = fusion_of(p, catalog.scale)
    found = catalog.retriever(fusion, p.damping)
    is_damped = found.damping is not None

    def stage(fusion: Fusion, threshold: float, calibration: Calibration, learns: bool) -> RetrievalStage:
        return RetrievalStage(
            retriever=found.retriever,
            fusion=fusion,
            threshold=threshold,
            minimum=p.minimum,
            candidates=max(p.candidates, p.k or 0),
            core=core,
            rescored=p.rescored,
            spare=SPARE if p.learning == "thompson" else 0,
            best=calibration.best,
            own=calibration.own,
            has_vectors=calibration.has_vectors,
            least_confidence=p.least_confidence,
            keeps_unmatched=p.on_no_tool != "empty",
            learns=learns,
            is_damped=is_damped,
        )

    stages = {"retrieval": stage(fusion, p.threshold, found.calibration, p.learning == "outcomes")}
    if (words := words_alone(p)) is not None:
        stages["by_words"] = stage(fusion_of(words, catalog.scale), 0.0, AT_LARGE, False)
    return _Retrieval(stages, is_damped)


def _outcomes(catalog: Catalog, p: Profile) -> dict[str, Any]:
    """The stage that reads outcomes, if the profile has one."""
    core = np.unique(np.concatenate((catalog.base, catalog.pinned))).astype(np.int32)
    if p.learning == "thompson":
        return {"thompson": ThompsonStage(core, p.k)}
    if p.learning == "outcomes":
        return {"learning": LearningStage(core, weights_of(p), p.temperature, p.k)}
    return {}


def _list(retention: Retention, growth: float) -> ListStage:
    """The stage of a conversation's list, which grows to `growth` times k."""
    counts_added = retention.sticky_count == "added"
    return ListStage(retention.sticky_tools, counts_added, retention.newcomers, growth)
