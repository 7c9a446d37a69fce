"""Narrows to the toolkits of the page where the message was written."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.candidates import Candidates, Evidence
from toolroll.model.arrays import NO_ROWS
from toolroll.model.context import Turn
from toolroll.selection.policy.pages import PageTable


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """Soft. Narrows to the toolkits of every mapping that matches the page.

    Where the context names no page, no mapping matches or no tool in play belongs to it, the stage returns
    its input.

    Attributes:
        table: the compiled mappings.
    """

    table: PageTable

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        found = self.table.kept(turn.context)
        if found is None:
            return candidates
        kept = candidates.narrow(found.rows, "page.match", Evidence(NO_ROWS, words=found.words))
        # The columns beside a pool hold only rows with evidence: the pool says what is left.
        left = kept.rows.size if kept.pool is None else kept.pool
        return kept if left else candidates
