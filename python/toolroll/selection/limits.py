"""The limits of a selection, and the tools that are in every selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.stacked import Costs
from toolroll.model.context import Turn

_UNRANKED = 128  # tools of a turn that cannot be ranked, as many as most providers take


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """How many tools and tokens a selection may have.

    Attributes:
        names: tool name → row.
        costs: int32[n], tokens of each tool's schema.
        core: rows of pinned tools and of base toolkits, in their order at the front.
        max_tools: the most tools, unless the turn sets it; None for no limit.
        provider_limits: provider → the most tools that its API takes; None for any number, also for "".
    """

    names: Mapping[str, int]
    costs: Costs
    core: tuple[int, ...]
    max_tools: int | None
    provider_limits: Mapping[str, int | None]

    def most(self, turn: Turn) -> int | None:
        """The most tools for this turn; None for any number."""
        limits = (turn.max_tools, self.max_tools, self.provider_limits[turn.context.provider])
        return min((limit for limit in limits if limit is not None), default=None)

    def affordable(self, rows: list[int], tokens: int) -> list[int]:
        """The rows that fit into this many tokens, taken in order."""
        kept = []
        for row, cost in zip(rows, self.costs[np.array(rows, np.int32)].tolist(), strict=True):
            if cost <= tokens:
                tokens -= cost
                kept.append(row)
        return kept

    def cost(self, rows: list[int]) -> int:
        """The tokens of these rows together."""
        return int(self.costs[np.array(rows, np.int32)].sum()) if rows else 0

    def without_ranking(self, turn: Turn, allowed: Bitset) -> list[int]:
        """The rows for a turn that cannot be ranked: core tools, tools that the call names, others by name.

        At most 128, unless the caller asks for everything.
        """
        named = (self.names.get(name) for name in turn.always_include)
        first = dict.fromkeys((*self.core, *(row for row in named if row is not None)))
        rows = [row for row in first if row in allowed]
        rows += [row for row in allowed.rows().tolist() if row not in first]
        if turn.context.everything:
            rows = rows[: self.provider_limits[turn.context.provider]]
        else:
            most = self.most(turn)
            rows = rows[: _UNRANKED if most is None else min(most, _UNRANKED)]
        return rows if turn.budget_tokens is None else self.affordable(rows, turn.budget_tokens)
