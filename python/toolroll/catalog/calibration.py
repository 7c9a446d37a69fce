"""Confidence: how sure a score makes it that some tool of a catalog serves the message.

The best score of a message grows with the catalog's examples, its size and its language, so no score means
the same everywhere. A share does: confidence is the share of served messages whose best score is no higher.
On every catalog, a limit of 0.05 refuses one in twenty served messages.

Examples tell which messages a tool serves. Some are held out, and searched for in the catalog without them
(conformal prediction). Where a catalog has few, the scores of other catalogs stand in.

Source: V. Vovk et al., "Algorithmic Learning in a Random World", 2005.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bitset, Fusion, clauses_of, latin_share
from toolroll.arrays import NO_ROWS, NO_SCORES, Part, Rows, Scores
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import ToolText
from toolroll.embedder import Embedder

LEAST_HELD_OUT, MOST_HELD_OUT = 10, 256
MOST_TOOLS = 5_000  # that a calibration set searches: more take longer and give the same

# Best scores of served messages where tools have no examples, as logistic curves by centre and scale: with
# vectors 5 % lie below 0.25, by words alone below 0.06. Catalogs of many tools have higher ones, but a wrong
# refusal costs more than a missed one. And how many held-out messages the curve weighs.
_WITH_VECTORS, _BY_WORDS, _COUNTS = (0.70, 0.153), (0.30, 0.08), 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Scores of messages that are known to be served.

    Attributes:
        best: float32[n], ascending: the best score of any tool.
        own: float32[n], ascending: the score of the right tool, for turns that may not see every tool.
        has_vectors: whether the searches had vectors; scores by words alone have another scale.
    """

    best: Scores
    own: Scores
    has_vectors: bool = False

    def confidence(self, score: float, whole: bool, trust: float | None) -> float:
        """The share of served messages that score no higher, in [0, 1].

        A score of 0 is no evidence, so its share is 0, however many served messages have none either.

        whole: whether the turn could see (nearly) the whole catalog. trust: how much its vector counts; None
            where it has none.
        """
        if score <= 0:
            return 0.0
        centre, scale = _WITH_VECTORS if trust is not None and trust >= 0.5 else _BY_WORDS
        at_large = 1 / (1 + math.exp(-(score - centre) / scale))
        if self.has_vectors and trust is None:  # the embedder has failed
            return at_large
        known = self.best if whole else self.own
        # Not np.searchsorted: it releases the interpreter. The memoryview gives exact Python floats.
        below = bisect_right(known.data, score)
        return (_COUNTS * at_large + below) / (_COUNTS + len(known))


AT_LARGE = Calibration(NO_SCORES, NO_SCORES)


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationSet:
    """Held-out messages, and the catalog without them.

    Attributes:
        indexes: over the tools without them.
        turns: text, vector and clauses of each message.
        owners: int32[h], the row of the tool whose example it was.
    """

    indexes: Indexes
    turns: tuple[tuple[Part, tuple[Part, ...]], ...]
    owners: Rows

    def calibrate(self, fusion: Fusion) -> Calibration:
        """Searches for every message with these weights."""
        retriever, size = self.indexes.retriever(), self.indexes.size
        everything = Bitset.full(size)
        best, own = np.empty((2, len(self.turns)), np.float32)
        for at, ((text, vector, trust, _), pieces) in enumerate(self.turns):
            for scores, rows in ((best, everything), (own, Bitset.of(size, self.owners[at : at + 1]))):
                found = retriever.search(text, vector, trust, pieces, (), rows, NO_ROWS, NO_SCORES, 1, fusion)
                scores[at] = found[3]
        has_vectors = any(part[1] is not None for part, _ in self.turns)
        return Calibration(np.sort(best), np.sort(own), has_vectors)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Examples that are held out, and the tools of their search.

    Attributes:
        rows: int32[w], the tools, ascending.
        messages: (row, number of the example) of each, in no order.
        out: all places of these texts, since several tools may have the same example.
    """

    rows: Rows
    messages: tuple[tuple[int, int], ...]
    out: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, texts: Sequence[ToolText]) -> HeldOut | None:
        """At most `MOST_HELD_OUT`, and of a tool at most an eighth or one; None where tools have too few.

        A tool may lend its only one, since messages come for tools without examples, too. The choice is a
        function of the texts: the same definitions give the same confidence.
        """
        if sum(len(text.examples) for text in texts) < LEAST_HELD_OUT:
            return None
        places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        spare = [max(1, len(text.examples) // 8) for text in texts]
        for row, text in enumerate(texts):
            for at, example in enumerate(text.examples):
                places[example].append((row, at))
        chosen: list[tuple[int, int]] = []
        out: list[tuple[int, int]] = []
        for example in sorted(places, key=_digest):
            if len(chosen) == MOST_HELD_OUT:
                break
            lenders = {row for row, _ in places[example]}
            if all(spare[row] for row in lenders):
                for row in lenders:
                    spare[row] -= 1
                chosen.append(places[example][0])
                out += places[example]
        if len(chosen) < LEAST_HELD_OUT:
            return None
        lent = {row for row, _ in out}
        others = sorted(set(range(len(texts))) - lent, key=lambda row: _digest(texts[row].name))
        rows = np.array(sorted([*lent, *others[: max(0, MOST_TOOLS - len(lent))]]), np.int32)
        return cls(rows, tuple(chosen), frozenset(out))

    def texts(self, texts: Sequence[ToolText]) -> list[ToolText]:
        """The texts of these tools, less the examples that are held out."""
        return [texts[row]._replace(examples=self._rest_of(row, texts[row])) for row in self.rows.tolist()]

    def _rest_of(self, row: int, text: ToolText) -> tuple[str, ...]:
        return tuple([one for at, one in enumerate(text.examples) if (row, at) not in self.out])

    def vectors(self, vectors: ToolVectors) -> ToolVectors:
        """The vectors of those texts."""
        kept = np.ones(len(vectors.examples), np.bool_)
        kept[[vectors.begins[row] + at for row, at in self.out]] = False
        return vectors.part(self.rows, kept)

    def calibration_set(
        self,
        texts: Sequence[ToolText],
        indexes: Indexes,
        vectors: ToolVectors | None,
        embedder: Embedder | None,
    ) -> CalibrationSet:
        """The messages as turns; `indexes` do not know them. Clauses are embedded if that is instant."""
        place = {row: at for at, row in enumerate(self.rows.tolist())}
        is_english = embedder is not None and embedder.is_english
        is_instant = embedder is None or embedder.is_instant
        turns = []
        for row, at in self.messages:
            text = texts[row].examples[at]
            vector = None if vectors is None else vectors.examples[vectors.begins[row] + at]
            pieces = [
                (piece, None if embedder is None else embedder.embed_query(piece))
                for piece in (clauses_of(text) if is_instant else ())
            ]
            parts: list[Part] = [
                (part, vector, latin_share(part) if is_english else 1.0, 1.0)
                for part, vector in [(text, vector), *pieces]
            ]
            turns.append((parts[0], tuple(parts[1:])))
        return CalibrationSet(
            indexes, tuple(turns), np.array([place[row] for row, _ in self.messages], np.int32)
        )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
