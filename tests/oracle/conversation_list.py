"""Adds the tools that a conversation holds, and changes its list little, for the provider's prompt cache."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from tests.oracle.candidates import BeforeList, Candidates
from tests.oracle.cap import Cap
from toolroll._core import Bitset
from toolroll.model.context import Turn
from toolroll.model.conversation import Conversation, Retention

_BATCH = 1 / 3  # of a full list goes at once: the cache behind the first gap is lost anyway


@dataclass(frozen=True, slots=True, eq=False)
class ConversationList:
    """Soft. Adds tools that were loaded, called or sent before, and the best of the new ones.

    k counts none of the former. A tool that was sent before costs a tenth while the provider's cache holds
    it; a new one costs its full price once. So of this turn's selection, core tools stay, and so do tools
    that the conversation holds or was sent; of the others only the first few come in. Where the list is too
    long, or over `max_tools`, the provider's limit or the budget, the tools that were selected longest ago
    go, a third at once. Tools that were sent keep their places, and newcomers go behind them.

    Attributes:
        names: tool name → row.
        cap: how many, and which of them k does not count.
        retention: how long called tools stay, how far the list may grow, and by how much in a turn.
    """

    names: Mapping[str, int]
    cap: Cap
    retention: Retention

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        conversation = turn.conversation
        if conversation is None or candidates.pool is not None:
            return candidates
        found, allowed, known = candidates.rows.tolist(), candidates.allowed, self.names
        core = self.cap.core_of(turn)
        sent = _allowed(
            {row: at for at, name in enumerate(conversation.listed) if (row := known.get(name)) is not None},
            allowed,
        )
        selected = set(found)
        names = conversation.held(self.retention, lambda name: known.get(name) in selected)
        held = [row for name in names if (row := known.get(name)) is not None]
        if not sent.keys() >= set(held):
            held = list(_allowed(dict.fromkeys(held, 0), allowed))
        ahead = dict.fromkeys([*[row for row in found if row in core], *held])
        counted = [row for row in found if row not in ahead]
        k, growth = turn.places(self.cap.k), self.retention.growth
        most = None if k is None or not growth or conversation.is_whole else math.ceil(k * growth)
        if most is not None and k is not None and sent:
            room = round(k * self.retention.newcomers)
            counted = counted[:room] + [row for row in counted[room:] if row in sent]
        picked = [*ahead, *counted]
        if conversation.is_whole:
            order = list(dict.fromkeys((*sent, *picked, *allowed.rows().tolist())))
        elif most is not None:
            order = list(dict.fromkeys((*sent, *picked)))
        else:
            stays = set(picked)
            order = [row for row in sent if row in stays] + [row for row in picked if row not in sent]
        limit, budget = self.cap.limit(turn), turn.budget_tokens
        is_full = most is not None and len(order) - len(ahead) > most
        if is_full or budget is not None or (limit is not None and len(order) > limit):
            back = self._latest(set(order).difference(picked), sent, conversation)
            if is_full and most is not None:
                back = back[: max(0, math.floor(most * (1 - _BATCH)) - len(counted))]
            batch = 0.0 if conversation.is_whole else _BATCH
            order = self._bounded(order, picked, back, (limit, budget), batch)
        if order == found:
            return candidates
        return candidates.arrange(order, "listing", BeforeList(candidates.rows))

    def _latest(
        self, back: Collection[int], sent: Mapping[int, int], conversation: Conversation
    ) -> list[int]:
        """These rows, latest selected first; rows of one turn as they were sent, then by row."""
        last = conversation.picked
        return sorted(
            back, key=lambda row: (-last[sent[row]], sent[row], row) if row in sent else (0, row, row)
        )

    def _bounded(
        self,
        order: list[int],
        picked: list[int],
        back: list[int],
        bounds: tuple[int | None, int | None],
        batch: float,
    ) -> list[int]:
        """The order without the tools that exceed the bounds: `back` is cut from its end, `picked` after it.

        bounds: how many tools, and how many tokens. batch: the share of them that a cut frees at once.
        """
        limit, budget = bounds
        if limit is not None and len(picked) + len(back) > limit:
            picked = picked[:limit]
            back = back[: max(0, math.floor(limit * (1 - batch)) - len(picked))]
        if budget is not None:
            picked, left = self._affordable(picked, budget)
            if sum(cost for _, cost in self._priced(back)) > left:
                back, _ = self._affordable(back, left - math.floor(budget * batch))
        stays = {*picked, *back}
        return [row for row in order if row in stays]

    def _affordable(self, rows: list[int], left: int) -> tuple[list[int], int]:
        """The rows that fit, one after the other, and the tokens that are left."""
        chosen = []
        for row, cost in self._priced(rows):
            if cost <= left:
                left -= cost
                chosen.append(row)
        return chosen, left

    def _priced(self, rows: list[int]) -> list[tuple[int, int]]:
        return list(zip(rows, self.cap.costs[np.array(rows, np.int32)].tolist(), strict=True))


def _allowed(places: dict[int, int], allowed: Bitset) -> dict[int, int]:
    """The allowed rows, in their order."""
    if places:
        rows = np.fromiter(places, np.int32, len(places))
        if not allowed.holds_all(rows):
            return {row: places[row] for row in rows[allowed.holds(rows)].tolist()}
    return places
