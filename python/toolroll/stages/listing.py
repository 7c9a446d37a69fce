"""Adds what a conversation holds, and keeps its list steady: a provider's prompt cache keeps its prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bitset
from toolroll.candidates import Candidates
from toolroll.context import Turn
from toolroll.conversation import Conversation, Retention
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
        found, allowed, known = candidates.rows.tolist(), candidates.allowed, self.names
        core = self.cap.core
        sent = _allowed(
            {row: at for at, name in enumerate(conversation.listed) if (row := known.get(name)) is not None},
            allowed,
        )
        held = [row for name in conversation.held(self.retention) if (row := known.get(name)) is not None]
        if not sent.keys() >= set(held):
            held = list(_allowed(dict.fromkeys(held, 0), allowed))
        ahead = dict.fromkeys([*[row for row in found if row in core], *held])
        counted = [row for row in found if row not in ahead]
        k = turn.places(self.cap.k)
        back: list[int] = []
        if conversation.is_whole:
            present = {*ahead, *counted}
            back = [row for row in allowed.rows().tolist() if row not in present]
        elif sent and self.retention.growth and k is not None:
            room = round(k * self.retention.newcomers)
            counted = counted[:room] + [row for row in counted[room:] if row in sent]
            present = {*ahead, *counted}
            back = [row for row in sent if row not in present]
            most = math.ceil(k * self.retention.growth)
            if len(counted) + len(back) > most:
                back = self._latest(back, sent, conversation)
                back = back[: max(0, math.floor(most * (1 - _BATCH)) - len(counted))]
        chosen = self._within([*ahead, *counted], back, sent, turn)
        if sent:
            stays = set(chosen)
            chosen = [row for row in sent if row in stays] + [row for row in chosen if row not in sent]
        return candidates if chosen == found else candidates.arrange(chosen, LISTED)

    def _latest(self, back: list[int], sent: Mapping[int, int], conversation: Conversation) -> list[int]:
        """What was sent before, latest picked first; of one turn, as it was sent."""
        picked = conversation.picked
        return sorted(back, key=lambda row: -picked[sent[row]] if row in sent else 0)

    def _within(self, picked: list[int], back: list[int], sent: Mapping[int, int], turn: Turn) -> list[int]:
        """Those that limit and budget leave, the last ones out first; of what was only sent, a batch."""
        limit, left = self.cap.limit(turn), turn.budget_tokens
        conversation = turn.conversation
        assert conversation is not None
        batch = 0.0 if conversation.is_whole else _BATCH
        if limit is not None and len(picked) + len(back) > limit:
            picked, back = picked[:limit], self._latest(back, sent, conversation)
            back = back[: max(0, math.floor(limit * (1 - batch)) - len(picked))]
        if left is None:
            return picked + back
        chosen = []
        for row, cost in self._priced(picked):
            if cost <= left:
                left -= cost
                chosen.append(row)
        priced = self._priced(self._latest(back, sent, conversation))
        if sum(cost for _, cost in priced) > left:
            left -= math.floor((turn.budget_tokens or 0) * batch)
        for row, cost in priced:
            left -= cost
            if left < 0:
                break
            chosen.append(row)
        return chosen

    def _priced(self, rows: list[int]) -> list[tuple[int, int]]:
        return list(zip(rows, self.cap.costs[np.array(rows, np.int32)].tolist(), strict=True))


def _allowed(places: dict[int, int], allowed: Bitset) -> dict[int, int]:
    """Those of the rows that are allowed, in their order."""
    if places:
        rows = np.fromiter(places, np.int32, len(places))
        if not allowed.holds_all(rows):
            return {row: places[row] for row in rows[allowed.holds(rows)].tolist()}
    return places
