"""The soft stages of a pipeline as one call into the core, where the core has all of them.

`Selector` in selector.hpp does what the stages in `selection/stages/` do; the tests compare both on random
turns. What needs Python's data stays here: pages, keywords and patterns, names, and the keys of outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from toolroll._core import (
    CapStage,
    Learned,
    LearningStage,
    ListStage,
    NoMatchStage,
    RetrievalStage,
    RoutesStage,
    Selector,
    ThompsonStage,
    ToolKeys,
)
from toolroll.catalog.mark_table import MarkHit
from toolroll.catalog.stacked import StackedColumn
from toolroll.model.arrays import NO_ROWS, Rows
from toolroll.model.context import Turn
from toolroll.model.conversation import Conversation
from toolroll.model.identity import scopes
from toolroll.selection.candidates import Candidates
from toolroll.selection.picked_candidates import PickedCandidates, Words
from toolroll.selection.policy.pages import NO_PAGES
from toolroll.selection.stages import Stage
from toolroll.selection.stages.affinity import Affinity
from toolroll.selection.stages.always_included import AlwaysIncluded
from toolroll.selection.stages.cap import Cap
from toolroll.selection.stages.conversation_list import ConversationList
from toolroll.selection.stages.learning import Learning, Thompson
from toolroll.selection.stages.lexical_retrieval import LexicalRetrieval
from toolroll.selection.stages.marks import Marks
from toolroll.selection.stages.no_match import NoMatch
from toolroll.selection.stages.page import Page
from toolroll.selection.stages.retrieval import Retrieval
from toolroll.selection.stages.routes import Routes
from toolroll.selection.stages.stable_order import StableOrder

# The stages of `Selector`, in its order: for routes that fill, and for all others.
_FIRST: tuple[type[Stage], ...] = (Marks, Affinity, Retrieval)
_UNMATCHED: tuple[type[Stage], ...] = (LexicalRetrieval, NoMatch)
_LEARNT: tuple[type[Stage], ...] = (Learning, Thompson)
_LAST: tuple[type[Stage], ...] = (AlwaysIncluded, Cap, ConversationList, StableOrder)
_FILLING = (Page, *_FIRST, *_LEARNT, Routes, *_UNMATCHED, *_LAST)
_ORDER = (Page, Routes, *_FIRST, *_UNMATCHED, *_LEARNT, *_LAST)
_NO_PAGE = Page(NO_PAGES)
_NO_WORDS: Words = ()
_NO_HITS: Mapping[str, str] = {}
_NO_COSINES: Mapping[str, float] = {}
_NO_MARKS: tuple[MarkHit, ...] = ()
_NONE: tuple[tuple[Rows, float], ...] = ()

T = TypeVar("T", bound=Stage)


class NotNative(Exception):
    """A turn that only the stages in Python can do."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeStages:
    """Soft stages as one call.

    Attributes:
        selector: the stages in the core.
        page, routes, marks, affinity, cap, listing: the stages whose data is read here; None for one that is
            not among them.
        is_damped: whether evidence is damped.
        keys: which statistics belong to which row; None where no stage reads outcomes.
        explore: see `Draw`.
    """

    selector: Selector
    page: Page
    routes: Routes | None
    marks: Marks | None
    affinity: Affinity | None
    cap: Cap
    listing: ConversationList | None
    is_damped: bool
    keys: Callable[[], ToolKeys] | None
    explore: float

    @classmethod
    def of(cls, stages: Sequence[Stage], size: int) -> NativeStages | None:
        """These stages; None where the core lacks one of them, or has them in another order."""
        found = {type(stage): stage for stage in stages}
        fills = any(isinstance(stage, Routes) and stage.mode == "fill" for stage in stages)
        order = _FILLING if fills and Retrieval in found else _ORDER
        if tuple(found) != tuple(kind for kind in order if kind in found) or len(found) != len(stages):
            return None

        def stage(kind: type[T]) -> T | None:
            one = found.get(kind)
            assert one is None or isinstance(one, kind)
            return one

        routes, retrieval, cap = stage(Routes), stage(Retrieval), stage(Cap)
        no_match, listing, learning = stage(NoMatch), stage(ConversationList), stage(Learning)
        thompson = stage(Thompson)
        if routes is not None and routes.mode == "ignore" and routes.no_hit is None:
            routes = None
        if (
            cap is None
            or (retrieval is None and not found.keys().isdisjoint((*_FIRST, *_LEARNT, LexicalRetrieval)))
            or (fills and routes is not None and routes.cap is not cap)
            or (listing is not None and listing.cap is not cap)
            or (
                no_match is not None
                and (no_match.cap is not cap or listing is None or no_match.retention != listing.retention)
            )
        ):
            return None
        by_words, always, marks = stage(LexicalRetrieval), stage(AlwaysIncluded), stage(Marks)
        selector = Selector(
            size=size,
            routes=None if routes is None else _routes(routes),
            services=0.0 if marks is None else marks.services,
            marks=0.0 if marks is None else marks.marks,
            damps_marks=marks is not None and marks.damping is not None,
            retrieval=None if retrieval is None else _retrieval(retrieval),
            by_words=None if by_words is None else _retrieval(by_words.by_words),
            no_match=None
            if no_match is None
            else NoMatchStage(no_match.most, no_match.least, no_match.keys is not None),
            learning=None
            if learning is None
            else LearningStage(learning.core.rows(), learning.weights, learning.temperature, learning.k),
            thompson=None if thompson is None else ThompsonStage(thompson.core.rows(), thompson.k),
            includes=always is not None,
            base=[] if always is None else always.base.tolist(),
            pinned=[] if always is None else always.pinned.tolist(),
            cap=CapStage(sorted(cap.core, key=cap.core.__getitem__), cap.k, cap.max_tools, cap.unranked),
            list=None if listing is None else _list(listing),
            has_order=StableOrder in found,
        )
        by_outcomes = (learning, thompson, retrieval, no_match)
        return cls(
            selector,
            stage(Page) or _NO_PAGE,
            routes,
            marks,
            stage(Affinity),
            cap,
            listing,
            retrieval is not None and retrieval.damping is not None,
            next((one.keys for one in by_outcomes if one is not None and one.keys), None),
            0.0 if learning is None else learning.weights.explore,
        )

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        """What the stages return for these candidates.

        Raises:
            NotNative: the core cannot do this turn.
            Exception: a stage would fail.
        """
        allowed, context, text, query = candidates.allowed, turn.context, turn.text, turn.query
        if candidates.pool is not allowed or len(candidates.rows):
            raise NotNative("other stages have run before")
        page, words, routed = None, _NO_HITS, _NONE
        if self.page.table.mappings:
            page = self.page.table.kept(context)
        if self.routes is not None and self.routes.mode != "ignore":
            if self.routes.toolkits is None:
                words, cosines = self.routes.table.hits(text, query), _NO_COSINES
            else:
                words, cosines = self.routes.hits(turn)
            if words:
                rows = self.routes.table.rows
                routed = tuple([(rows.get(name, NO_ROWS), cosines.get(name, 1.0)) for name in words])
        marks = _NO_MARKS if self.marks is None else self.marks.table.hits(text, query)
        cap, conversation = self.cap, turn.conversation
        names, max_tools = cap.names, turn.max_tools
        if (limit := cap.provider_limits[context.provider]) is not None:
            max_tools = limit if max_tools is None else min(max_tools, limit)
        called = _NONE
        if conversation is not None and self.affinity is not None and conversation.called:
            called = tuple(self.affinity.called(conversation))
        picked = self.selector.pick(
            turn.texts if turn.reading is None else turn.reading,
            allowed,
            None if page is None else page.rows,
            routed,
            marks,
            called,
            None if turn.learned is None else self._outcomes(turn, turn.learned),
            turn.seed,
            turn.k,
            turn.room,
            max_tools,
            None if turn.budget_tokens is None else self._budget(turn.budget_tokens),
            self._rows(turn.always_include) if turn.always_include else (),
            None if conversation is None else self._conversation(conversation),
            [names.get(name, -1) for name in dict.fromkeys(turn.sent)] if turn.sent else (),
        )
        of_page = _NO_WORDS if page is None else page.words
        return PickedCandidates(
            picked, candidates, (turn, of_page, words, marks, self.is_damped, self.explore)
        )

    def _rows(self, names: Sequence[str]) -> list[int]:
        known = self.cap.names
        return [known[name] for name in dict.fromkeys(names) if name in known]

    def _outcomes(
        self, turn: Turn, learned: Learned
    ) -> tuple[Learned, ToolKeys, tuple[int, int, int, int], float] | None:
        """What was learnt, and where it counts."""
        if self.keys is None:
            return None
        where = scopes(turn.context.page, turn.context.tier, turn.category)
        return learned, self.keys(), where, turn.at

    def _budget(self, tokens: int) -> tuple[object, ...]:
        """The tokens, and what each row costs."""
        costs = self.cap.costs
        if isinstance(costs, np.ndarray):
            return tokens, costs
        if isinstance(costs, StackedColumn):
            return tokens, costs.shared, costs.own
        raise NotNative("what a tool costs is computed for the tools that are selected")

    def _conversation(
        self, conversation: Conversation
    ) -> tuple[bool, list[int], list[int], list[int], tuple[int, ...], int] | None:
        """The rows of a conversation's tools; -1 for a tool that is not in the catalog."""
        if self.listing is None:
            return None
        row = self.listing.names.get
        return (
            conversation.whole > 0 and conversation.whole == conversation.turn,
            [row(one.name, -1) for one in conversation.loaded],
            [row(name, -1) for name in conversation.recent(self.listing.retention)]
            if conversation.called
            else [],
            [row(name, -1) for name in conversation.listed],
            conversation.picked,
            conversation.turn,
        )


def _routes(stage: Routes) -> RoutesStage:
    no_hit = None if stage.no_hit is None else stage.table.rows_of(stage.no_hit).tolist()
    return RoutesStage(stage.mode, stage.weight, no_hit, stage.scores)


def _retrieval(stage: Retrieval) -> RetrievalStage:
    calibration = stage.calibration
    return RetrievalStage(
        retriever=stage.retriever,
        fusion=stage.fusion,
        threshold=stage.threshold,
        minimum=stage.minimum,
        candidates=stage.candidates,
        core=stage.core,
        rescored=stage.rescored,
        spare=stage.spare,
        best=calibration.best,
        own=calibration.own,
        has_vectors=calibration.has_vectors,
        least_confidence=stage.least_confidence,
        keeps_unmatched=stage.on_no_tool != "empty",
        learns=stage.keys is not None,
        is_damped=stage.damping is not None,
    )


def _list(stage: ConversationList) -> ListStage:
    kept = stage.retention
    return ListStage(kept.sticky_tools, kept.sticky_count == "added", kept.newcomers, kept.growth)
