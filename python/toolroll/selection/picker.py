"""One call into the core for all soft stages: `Selector.pick` ranks, cuts and orders.

`Selector` in selector.hpp defines the soft stages. This module passes the data from Python: the rows of
pages, keywords, marks and names, the conversation, and the statistics of outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import (
    Budget,
    ConversationRows,
    Learned,
    Outcomes,
    Selector,
    ToolKeys,
    ToolkitRows,
    TurnInput,
)
from toolroll.catalog.mark_table import MarkHit, MarkTable
from toolroll.catalog.stacked import StackedColumn
from toolroll.model.arrays import NO_ROWS, Rows, Scores
from toolroll.model.context import Turn
from toolroll.model.conversation import Conversation, Retention
from toolroll.model.identity import scopes
from toolroll.model.tools import Tool
from toolroll.selection.candidates import Candidates
from toolroll.selection.limits import Limits
from toolroll.selection.picked_candidates import PickedCandidates, Words
from toolroll.selection.policy.pages import PageTable
from toolroll.selection.routes import RouteHits

_DECAY = 0.5  # the factor for each turn
_MOST_ROWS = 256  # tools of a toolkit: one call tells little about more
_NO_WORDS: Words = ()
_NO_NAMES: tuple[str, ...] = ()
_NO_HITS: Mapping[str, str] = {}
_NO_COSINES: Mapping[str, float] = {}
_NO_MARKS: tuple[MarkHit, ...] = ()

# The name of a step, and its function of rows and scores, which returns new scores or None.
NamedRerank: TypeAlias = tuple[str, Callable[[Rows, Scores], Scores | None]]


@dataclass(frozen=True, slots=True, eq=False)
class CalledToolkits:
    """Favours the toolkits whose tools a conversation just called.

    A user who has listed mails will read or answer one. A past call is no evidence that this message needs a
    tool, so the confidence ignores it.

    Attributes:
        weight: added to a score for the last turn, halved for each turn before it.
        tools, names: the catalog's tools by row, and name → row.
        below: toolkit → rows of its tools and of the toolkits below it.
    """

    weight: float
    tools: Sequence[Tool]
    names: Mapping[str, int]
    below: Mapping[str, Rows]

    def called(self, conversation: Conversation) -> list[tuple[Rows, float]]:
        """The rows of each called toolkit with their gain, the latest turn first."""
        weights: dict[str, float] = {}
        for number, names in conversation.called:
            weight = self.weight * _DECAY ** max(conversation.turn - number - 1, 0)
            for name in names:
                if (row := self.names.get(name)) is not None:
                    weights.setdefault(self.tools[row].toolkit, weight)
        found = [(self.below.get(toolkit), weight) for toolkit, weight in weights.items()]
        return [(rows, weight) for rows, weight in found if rows is not None and len(rows) <= _MOST_ROWS]


@dataclass(frozen=True, slots=True, eq=False)
class Picker:
    """A `Selector`, and the data of the catalog that its turns need.

    Attributes:
        selector: the stages.
        limits: names, costs and limits of the catalog.
        routes: finds the toolkits that a message hits; None if it may hit none.
        marks: finds marks and services in a message; None if they do not count.
        toolkits: favours toolkits that were just called; None if they do not count.
        retention: how long a conversation keeps its tools; None if the turn belongs to none.
        reads_page: whether the context's page narrows the tools.
        is_damped: whether evidence is damped.
        keys: the statistics of each row; None if outcomes do not count.
        explore: see `Draw.explore`.
    """

    selector: Selector
    limits: Limits
    routes: RouteHits | None = None
    marks: MarkTable | None = None
    toolkits: CalledToolkits | None = None
    retention: Retention | None = None
    reads_page: bool = False
    is_damped: bool = False
    keys: Callable[[], ToolKeys] | None = None
    explore: float = 0.0

    def __call__(
        self, candidates: Candidates, turn: Turn, pages: PageTable, reranks: Sequence[NamedRerank] = ()
    ) -> Candidates:
        """The selected tools.

        candidates: a set, from which the core selects. reranks: the caller's steps.
        """
        pool, context, text, query = candidates.pool, turn.context, turn.text, turn.query
        more: dict[str, Any] = {}  # arguments that few turns need
        assert pool is not None
        of_page, words, marks = _NO_WORDS, _NO_HITS, _NO_MARKS
        if self.reads_page and pages.mappings and (page := pages.kept(context)) is not None:
            of_page, more["page"] = page.words, page.rows
        if self.routes is not None:
            if self.routes.toolkits is None:
                words, cosines = self.routes.table.hits(text, query), _NO_COSINES
            else:
                words, cosines = self.routes.hits(turn)
            if words:
                rows = self.routes.table.rows
                more["routed"] = [
                    ToolkitRows(rows.get(name, NO_ROWS), cosines.get(name, 1.0)) for name in words
                ]
        if self.marks is not None and (found := self.marks.found(text, query)) is not None:
            marks, more["marks"] = found
        limits, max_tools, conversation = self.limits, turn.max_tools, turn.conversation
        if (limit := limits.provider_limits[context.provider]) is not None:
            max_tools = limit if max_tools is None else min(max_tools, limit)
        if conversation is not None and self.retention is not None:
            more["conversation"] = self._conversation(conversation, self.retention)
        if conversation is not None and self.toolkits is not None and conversation.called:
            more["called"] = [ToolkitRows(*one) for one in self.toolkits.called(conversation)]
        if turn.learned is not None and self.keys is not None:
            more["outcomes"] = _outcomes(turn, turn.learned, self.keys())
        if turn.budget_tokens is not None:
            more["budget"] = self._budget(turn.budget_tokens)
        if turn.always_include:
            known = limits.names
            more["included"] = [known[name] for name in dict.fromkeys(turn.always_include) if name in known]
        if turn.sent:
            more["sent"] = [limits.names.get(name, -1) for name in dict.fromkeys(turn.sent)]
        names = _NO_NAMES
        if reranks:
            names, more["rerank"] = zip(*reranks, strict=True)
        picked = self.selector.pick(
            TurnInput(
                turn.texts if turn.reading is None else turn.reading,
                pool,
                turn.seed,
                turn.k,
                turn.room,
                max_tools,
                **more,
            )
        )
        return PickedCandidates(
            picked, candidates, (turn, of_page, words, marks, self.is_damped, self.explore, names)
        )

    def _budget(self, tokens: int) -> Budget:
        """The budget of this many tokens, with the cost of each row."""
        costs = self.limits.costs
        if isinstance(costs, StackedColumn):
            return Budget(tokens, _array(costs.shared), _array(costs.own))
        return Budget(tokens, _array(costs))

    def _conversation(self, conversation: Conversation, retention: Retention) -> ConversationRows:
        """The rows of a conversation's tools; -1 for a tool that is not in the catalog."""
        row = self.limits.names.get
        return ConversationRows(
            is_whole=conversation.whole > 0 and conversation.whole == conversation.turn,
            loaded=[row(one.name, -1) for one in conversation.loaded],
            recent=[row(name, -1) for name in conversation.recent(retention)] if conversation.called else [],
            listed=[row(name, -1) for name in conversation.listed],
            picked=conversation.picked,
            turn=conversation.turn,
        )


def _outcomes(turn: Turn, learned: Learned, keys: ToolKeys) -> Outcomes:
    """The statistics of outcomes, and the scopes in which they count."""
    context = turn.context
    return Outcomes(learned, keys, scopes(context.page, context.tier, turn.category), turn.at)


def _array(costs: Any) -> npt.NDArray[np.int32]:
    """The costs of all rows. Deferred costs are computed on the first call."""
    if isinstance(costs, np.ndarray):
        return costs
    every: npt.NDArray[np.int32] = costs[np.arange(len(costs), dtype=np.int32)]
    return every
