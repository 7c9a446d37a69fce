"""Selects the tools that the caller requires, in place of all soft stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll.model.context import Turn
from toolroll.selection.candidates import Candidates


@dataclass(frozen=True, slots=True, eq=False)
class Required:
    """Keeps the tools that the context names, in that order. Unknown and forbidden names are ignored.

    `Selection.missing_required` reports the ignored names.

    Attributes:
        names: tool name → row.
    """

    names: Mapping[str, int]

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        wanted = dict.fromkeys(turn.context.required)
        rows = np.array([self.names[name] for name in wanted if name in self.names], np.int32)
        return candidates.narrow(rows, "required")
