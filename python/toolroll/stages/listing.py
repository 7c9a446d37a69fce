"""Adds what a conversation holds, and keeps its list steady: a provider's prompt cache keeps its prefix."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bitset
from toolroll.candidates import Candidates
from toolroll.context import Turn
from toolroll.conversation import Retention
from toolroll.stages.cap import Cap

LISTED = "listing"

_BATCH = 1 / 3  # of a list that is full goes at once: what is cached behind the first gap is lost anyway


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Soft. Brings in what is loaded and what was called or sent before, and lets in the best of what is new.

    k counts none of these. A tool that was sent costs a tenth while the provider's cache holds it, and a new
    one costs itself once. So what this turn selected stays where it is core, held by the conversation or sent
    already; of the rest, which a changed message has always some of, the first few come in. Where the list is
    too long, or over `max_tools`, the provider's limit or the budget, what was selected longest ago goes, a
    third at once. What was sent keeps its place, and newcomers go behind it.

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
        found, allowed = candidates.rows.tolist(), candidates.allowed
        core = self.cap.core
        sent = self._places(conversation.listed, allowed)
        ahead = dict.fromkeys([row for row in found if row in core])
        ahead |= self._places(conversation.held(self.retention), allowed)
        counted = [row for row in found if row not in ahead]
        k = turn.places(self.cap.k)
        back: list[int] = []
        if conversation.is_whole:
            present = {*ahead, *counted}
            back = [row for row in allowed.rows().tolist() if row not in present]
        elif sent and self.retention.growth and k is not None:
            counted = _first(counted, round(k * self.retention.newcomers), sent)
            present = {*ahead, *counted}
            back = [row for row in sent if row not in present]
            picked = conversation.picked
            back.sort(key=lambda row: -picked[sent[row]])  # stable: of one turn, as they were sent
            back = self._back(back, len(counted), k)
        batch = 0.0 if conversation.is_whole else _BATCH
        chosen = self._within([*ahead, *counted], back, batch, turn)
        if sent:
            stays = set(chosen)
            chosen = [row for row in sent if row in stays] + [row for row in chosen if row not in sent]
        return candidates if chosen == found else candidates.arrange(chosen, LISTED)

    def _places(self, names: Sequence[str], allowed: Bitset) -> dict[int, int]:
        """Row → place among the names, of those that are in the catalog and allowed."""
        known = self.names
        places = {row: at for at, name in enumerate(names) if (row := known.get(name)) is not None}
        if places:
            rows = np.array(list(places), np.int32)
            if not allowed.holds_all(rows):
                return {row: places[row] for row in rows[allowed.holds(rows)].tolist()}
        return places

    def _back(self, back: list[int], counted: int, k: int) -> list[int]:
        """As many of those that were sent before as the list has room for."""
        most = math.ceil(k * self.retention.growth)
        if counted + len(back) <= most:
            return back
        return back[: max(0, math.floor(most * (1 - _BATCH)) - counted)]

    def _within(self, picked: list[int], back: list[int], batch: float, turn: Turn) -> list[int]:
        """Those that limit and budget leave, the last ones out first; of what was only sent, a batch."""
        limit = self.cap.limit(turn)
        if limit is not None and len(picked) + len(back) > limit:
            picked = picked[:limit]
            back = back[: max(0, math.floor(limit * (1 - batch)) - len(picked))]
        if (left := turn.budget_tokens) is None:
            return picked + back
        chosen = []
        for row, cost in self._priced(picked):
            if cost <= left:
                left -= cost
                chosen.append(row)
        priced = self._priced(back)
        if sum(cost for _, cost in priced) > left:
            left -= math.floor(turn.budget_tokens * batch) if turn.budget_tokens is not None else 0
        for row, cost in priced:
            left -= cost
            if left < 0:
                break
            chosen.append(row)
        return chosen

    def _priced(self, rows: list[int]) -> list[tuple[int, int]]:
        return list(zip(rows, self.cap.costs[np.array(rows, np.int32)].tolist(), strict=True))


def _first(rows: list[int], room: int, sent: Collection[int]) -> list[int]:
    """The first so many of the rows, and of the others those that were sent."""
    return rows[:room] + [row for row in rows[room:] if row in sent]
