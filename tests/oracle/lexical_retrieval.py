"""Finds tools by their words where a profile that ranks by vectors alone found none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.oracle.candidates import Candidates
from tests.oracle.retrieval import Retrieval
from toolroll.model.context import Turn


@dataclass(frozen=True, slots=True, eq=False)
class LexicalRetrieval:
    """Soft. Ranks by BM25 where nothing was found: the embedder failed, or does not know the message.

    Only profiles that give BM25 no weight have this stage; in the others `Retrieval` has read the words. If
    retrieval found tools below its threshold, the message is known and the stage returns its input.

    Attributes:
        by_words: retrieval whose weights are 0 for everything but words.
    """

    by_words: Retrieval

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if candidates.pool is not None or len(candidates.rows):
            return candidates
        retrieved = candidates.retrieved
        if retrieved is None or len(retrieved.rows):
            return candidates
        found = self.by_words.search(candidates.last_pool, replace(turn, vector=None))
        if not len(found.rows) or (not found.has_match and self.by_words.on_no_tool == "empty"):
            return candidates
        return candidates.admit(found.rows, "retrieval.words").rescore(
            found.scores, "retrieval.words", evidence=found
        )
