"""Confidence: how sure a score makes it that some tool of a catalog serves the message.

The best score of a message grows with the catalog's examples, its size and its language, so a score means
something else in each catalog. Confidence is a share, which means the same everywhere: the share of served
messages whose best score is no higher. On every catalog, a limit of 0.05 refuses one in twenty served
messages.

Examples tell which messages a tool serves. Some are held out, and searched for in the catalog without them
(conformal prediction). If a catalog has few, the scores of other catalogs replace them.

Source: V. Vovk et al., "Algorithmic Learning in a Random World", 2005.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from toolroll._core import Bitset, Fusion, clauses_of, latin_share
from toolroll.catalog.digests import DigestArray, TextDigests
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.searches import each_found
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import ToolText
from toolroll.model.arrays import NO_SCORES, Part, Rows, Scores
from toolroll.model.embedder import Embedder, query_vectors_of

LEAST_HELD_OUT, MOST_HELD_OUT = 10, 256
MOST_TOOLS = 5_000  # tools in a calibration set; more take longer and give the same


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Scores of messages that some tool serves; `Calibration` in selector.hpp reads them.

    Attributes:
        best: float32[n], ascending: the best score of any tool.
        own: float32[n], ascending: the score of the right tool, for turns that may not see every tool.
        has_vectors: whether the searches had vectors; scores by words alone have another scale.
    """

    best: Scores
    own: Scores
    has_vectors: bool = False


AT_LARGE = Calibration(NO_SCORES, NO_SCORES)

Message: TypeAlias = tuple[Part, tuple[Part, ...]]  # a text with its vector, and its clauses


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationSet:
    """Held-out messages, and the indexes of a catalog without them.

    Attributes:
        indexes: over the tools, without the held-out messages.
        turns: text, vector and clauses of each message.
        owners: int32[h], the row of each message's tool.
        held_out: the places of the messages and tools in the catalog; None if a file did not save them.
    """

    indexes: Indexes
    turns: tuple[Message, ...]
    owners: Rows
    held_out: HeldOut | None = None

    def calibrate(self, fusion: Fusion) -> Calibration:
        """Searches for every message with these weights."""
        retriever, size = self.indexes.retriever(), self.indexes.size
        everything = Bitset.full(size)
        searches = [
            (text, vector, trust, pieces, rows)
            for at, ((text, vector, trust, _), pieces) in enumerate(self.turns)
            for rows in (everything, Bitset.of(size, self.owners[at : at + 1]))
        ]
        found = [evidence for _, _, evidence in each_found(retriever, searches, 1, fusion)]
        best, own = np.array(found[::2], np.float32), np.array(found[1::2], np.float32)
        has_vectors = any(part[1] is not None for part, _ in self.turns)
        return Calibration(np.sort(best), np.sort(own), has_vectors)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Held-out examples, and the tools of their search.

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
        """The held-out examples of these tools; see `ExampleDigests.held_out`."""
        return ExampleDigests.of(texts).held_out()

    def texts(self, texts: Sequence[ToolText]) -> list[ToolText]:
        """The texts of the tools in `rows`, without the held-out examples."""
        return [self.rest(row, texts[row]) for row in self.rows.tolist()]

    def rest(self, row: int, text: ToolText) -> ToolText:
        """The text of one tool, without its held-out examples."""
        return text._replace(examples=self._rest_of(row, text))

    def _rest_of(self, row: int, text: ToolText) -> tuple[str, ...]:
        return tuple([one for at, one in enumerate(text.examples) if (row, at) not in self.out])

    def vectors(self, vectors: ToolVectors) -> ToolVectors:
        """The vectors of the tools in `rows`, without the held-out examples."""
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
        """The calibration set of these messages. indexes: built without the messages."""
        turns = []
        for row, at in self.messages:
            vector = None if vectors is None else vectors.examples[vectors.begins[row] + at]
            turns.append(message_of(texts[row].examples[at], vector, embedder))
        return self.over(indexes, turns)

    def over(self, indexes: Indexes, turns: Iterable[Message]) -> CalibrationSet:
        """The calibration set of these turns."""
        place = {row: at for at, row in enumerate(self.rows.tolist())}
        owners = np.array([place[row] for row, _ in self.messages], np.int32)
        return CalibrationSet(indexes, tuple(turns), owners, self)


def message_of(text: str, vector: Scores | None, embedder: Embedder | None) -> Message:
    """A held-out message as a turn. Clauses are embedded if that is instant."""
    is_english = embedder is not None and embedder.is_english
    is_instant = embedder is None or embedder.is_instant
    clauses = clauses_of(text) if is_instant else []
    vectors = [None] * len(clauses) if embedder is None else query_vectors_of(embedder, clauses)
    parts: list[Part] = [
        (part, vector, latin_share(part) if is_english else 1.0, 1.0)
        for part, vector in [(text, vector), *zip(clauses, vectors, strict=True)]
    ]
    return parts[0], tuple(parts[1:])


@dataclass(frozen=True, slots=True, eq=False)
class ExampleDigests:
    """The digests by which held-out messages and their tools are chosen.

    Attributes:
        examples: digests of the examples that count.
        names: uint64[n], digests of the tools' names.
    """

    examples: TextDigests
    names: DigestArray

    @classmethod
    def of(cls, texts: Sequence[ToolText]) -> ExampleDigests:
        """Reads the texts. O(characters of the examples)."""
        names = np.array([_digest(text.name) for text in texts], np.uint64)
        return cls(TextDigests.of((text.examples for text in texts), _digest), names)

    def with_changes(self, sources: Rows, added: ExampleDigests) -> ExampleDigests:
        """The digests of the kept rows and the added ones. sources: see `RowChanges`."""
        names = self.names[sources] if len(self.names) else np.empty(len(sources), np.uint64)
        names[sources < 0] = added.names
        return ExampleDigests(self.examples.with_changes(sources, added.examples), names)

    def held_out(self) -> HeldOut | None:
        """At most `MOST_HELD_OUT` messages: of each tool an eighth or one; None if there are too few.

        A tool may lose its only example, since tools without examples get messages, too. The choice is a
        function of the texts: the same definitions give the same confidence.
        """
        if len(self.examples.digests) < LEAST_HELD_OUT:
            return None
        counts = self.examples.counts
        lent: dict[int, int] = {}  # row → how many of its examples
        chosen: list[tuple[int, int]] = []
        out: list[tuple[int, int]] = []
        for places in self.examples.ascending(MOST_HELD_OUT):
            if len(chosen) == MOST_HELD_OUT:
                break
            lenders = {row for row, _ in places}
            if all(lent.get(row, 0) < max(1, counts[row] // 8) for row in lenders):
                for row in lenders:
                    lent[row] = lent.get(row, 0) + 1
                chosen.append(places[0])
                out += places
        if len(chosen) < LEAST_HELD_OUT:
            return None
        is_lent = np.zeros(len(counts), np.bool_)
        is_lent[list(lent)] = True
        others = np.flatnonzero(~is_lent)
        wanted = max(0, MOST_TOOLS - len(lent))
        if wanted < len(others):
            others = others[np.argsort(self.names[others], kind="stable")[:wanted]]
        rows = np.sort(np.concatenate((np.flatnonzero(is_lent), others))).astype(np.int32)
        return HeldOut(rows, tuple(chosen), frozenset(out))


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")
