"""Selects tools where nothing matched the message, so that a selection is not empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.oracle.candidates import Candidates, Fallback
from tests.oracle.cap import Cap
from toolroll._core import ToolKeys
from toolroll.model.arrays import Rows
from toolroll.model.context import Turn
from toolroll.model.conversation import Retention
from toolroll.model.identity import scopes


@dataclass(frozen=True, slots=True, eq=False)
class NoMatch:
    """Soft. Selects k tools as a fallback where no stage found any. Their score stays 0: it is no evidence.

    The tools are, by the first rule that applies:

    1. None, where the conversation has tools from earlier turns: they stay in the list.
    2. Of tools that were found below the threshold: the best, unless there are core tools.
    3. Where the page or routes narrowed the catalog: what they left.
    4. None, where there are core tools: they are in the list.
    5. All that this caller may have.

    In 3 and 5 the tools that worked best for this organisation come first, then by row, which is by name.

    Attributes:
        cap: k, and which rows it does not count.
        retention: whether tools that were sent before stay.
        keys: returns which statistics belong to which row; None where outcomes have no say.
        most: how many tools without a k.
        least: how many tools are handed on at the least, for a later stage that draws among them.
    """

    cap: Cap
    retention: Retention
    keys: Callable[[], ToolKeys] | None
    most: int
    least: int = 0

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if len(candidates):
            return candidates
        k = turn.places(self.cap.k)
        places = self.most if k is None else k
        if not places or self._has_earlier(candidates, turn):
            return candidates
        core = np.fromiter(self.cap.core_of(turn), np.int32)
        has_core = bool(candidates.allowed.holds(core).any())
        retrieved = candidates.retrieved
        if retrieved is not None and len(retrieved.rows):
            rows = np.array([] if has_core else retrieved.rows[:places], np.int32)
        elif has_core and not self._is_narrowed(candidates):
            return candidates
        else:
            rows = candidates.last_choice.rows()
            rows = self._in_order(rows[~np.isin(rows, core)], turn)[: max(places, self.least)]
        if not len(rows):
            return candidates
        found = candidates.admit(rows, "no_match", Fallback(rows))
        return found if found.pool is None else found.narrow(rows, "no_match")

    def _has_earlier(self, candidates: Candidates, turn: Turn) -> bool:
        """Whether the conversation adds tools of earlier turns to the list."""
        conversation = turn.conversation
        if conversation is None:
            return False
        if conversation.is_whole:
            return True
        names = [*conversation.held(self.retention), *(conversation.listed if self.retention.growth else ())]
        core = self.cap.core_of(turn)
        known = self.cap.names
        rows = [row for name in names if (row := known.get(name)) is not None and row not in core]
        return bool(candidates.allowed.holds(np.array(rows, np.int32)).any())

    def _is_narrowed(self, candidates: Candidates) -> bool:
        """Whether the page or routes chose some of the tools."""
        return 0 < len(candidates.last_pool) < len(candidates.allowed)

    def _in_order(self, rows: Rows, turn: Turn) -> Rows:
        """The rows, those that outcomes speak for first."""
        if self.keys is None or turn.learned is None:
            return rows
        where = scopes(turn.context.page, turn.context.tier, turn.category)
        alpha, beta = turn.learned.reliability(where[:3], self.keys().arms(rows), turn.at)
        order: npt.NDArray[np.intp] = np.lexsort((rows, -alpha / (alpha + beta)))
        return rows[order]
