"""The vectors of a tool, from its description and its example messages.

A message is nearer to other messages than to a description, so examples make the better vector. The
description counts as much as three examples. So a tool with many examples is found by them, and a single
example gives a tool no great advantage.

One mean blurs a tool that does several things. So many examples of a tool are grouped into intents, and
the nearest intent counts on top of the mean.

Source: S. Moon et al., "Efficient and Scalable Estimation of Tool Representations in Vector Space"
(Tool2Vec), 2024, for the mean of the example queries; A. Gelman et al., "Bayesian Data Analysis", for its
shrinkage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import Intents
from toolroll.catalog.tool_text import ToolText
from toolroll.model.arrays import Rows, Scores
from toolroll.model.embedder import Embedder, vectors_of

DESCRIPTION_COUNTS = 3.0  # the weight of a description, in examples
PARAMETERS_WEIGHT = 0.4  # the weight of parameter names, beside 1 for the description
VERB_WEIGHT = 0.1  # the weight of the verb's synonyms, beside both

LEAST_GROUPED = 8  # examples of a tool from which on they are grouped
GROUP_SIZE = 4  # examples in a group, on the mean
MOST_GROUPS = 8

Groups: TypeAlias = tuple[npt.NDArray[np.int64], Scores, Scores]

_BATCH = 4096
_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class ToolVectors:
    """Unit vectors of all texts of tools.

    Attributes:
        descriptions: float32[n, dim], of the descriptions with the names of the parameters and the verbs.
        examples: float32[m, dim], of the example messages, tool by tool.
        begins: int64[n + 1]: tool r has the examples begins[r] to begins[r + 1].
        description_counts: the weight of a description, in examples; 0 for Tool2Vec as published, in which a
            description counts only without examples.
    """

    descriptions: Scores
    examples: Scores
    begins: npt.NDArray[np.int64]
    description_counts: float = DESCRIPTION_COUNTS

    @classmethod
    def of(
        cls,
        texts: Sequence[ToolText],
        embedder: Embedder,
        progress: Callable[[int, int], None] | None = None,
        description_counts: float = DESCRIPTION_COUNTS,
        centre: bytes = b"",
    ) -> ToolVectors:
        """Embeds the tools' texts. progress: called with (texts embedded, texts in all) after each batch.

        centre: of the embedder's `Scale`. Parameters and verbs turn only the rest of a description's vector:
        otherwise a tool with many of them would be near every message.

        Raises EmbedderUnavailable if the embedder fails, or its answer is no vector.
        """
        n = len(texts)
        # Each once: many tools have the same parameters, and nearly all one of a few verbs.
        shared = dict.fromkeys(part for text in texts for part in (text.parameter_names, text.verb) if part)
        every = [text.description for text in texts]
        every += shared
        every += [example for text in texts for example in text.examples]
        vectors = np.empty((len(every), embedder.dim), np.float32)
        for at in range(0, len(every), _BATCH):
            vectors[at : at + _BATCH] = vectors_of(embedder, every[at : at + _BATCH])
            if progress is not None:
                progress(min(at + _BATCH, len(every)), len(every))
        descriptions, parts, examples = np.split(vectors, (n, n + len(shared)))
        places = {part: row for row, part in enumerate(shared)}
        for weight, column in (
            (PARAMETERS_WEIGHT, [text.parameter_names for text in texts]),
            (VERB_WEIGHT, [text.verb for text in texts]),
        ):
            rows = np.array([row for row, part in enumerate(column) if part], np.intp)
            added = np.array([places[part] for part in column if part], np.intp)
            for at in range(0, len(rows), _BATCH):  # all at once would take the memory of all several times
                some, of = rows[at : at + _BATCH], added[at : at + _BATCH]
                descriptions[some] = _turned(descriptions[some], np.float32(weight), parts[of], centre)
        begins = np.concatenate(([0], np.cumsum([len(text.examples) for text in texts]))).astype(np.int64)
        return cls(descriptions, examples, begins, description_counts)

    def part(self, rows: Rows, kept: npt.NDArray[np.bool_]) -> ToolVectors:
        """The vectors of these rows, in this order, with the kept examples (bool[m])."""
        places = [np.arange(self.begins[row], self.begins[row + 1]) for row in rows.tolist()]
        places = [some[kept[some]] for some in places]
        begins = np.concatenate(([0], np.cumsum([len(some) for some in places]))).astype(np.int64)
        every = np.concatenate(places) if places else np.empty(0, np.int64)
        return ToolVectors(self.descriptions[rows], self.examples[every], begins, self.description_counts)

    def vectors(self) -> Scores:
        """float32[n, dim]: one vector for each tool, of unit length, or zero if no text has a vector."""
        if not len(self.examples):
            return _unit(self.descriptions)
        share = self._shares()[:, None]
        sums = np.zeros_like(self.descriptions)
        np.add.at(sums, self._owners(), self.examples)
        return _unit((1 - share) * self.descriptions + share * _unit(sums))

    def intents(self) -> Intents | None:
        """The groups of the tools that have many examples; None if no tool has."""
        groups = self.groups()
        return None if groups is None else Intents.build(*groups)

    def no_groups(self) -> Groups:
        """The result of `groups` for tools without groups."""
        dim = self.descriptions.shape[1]
        return np.zeros(len(self.begins), np.int64), np.empty((0, dim), np.float32), np.empty(0, np.float32)

    def groups(self) -> Groups | None:
        """Begins of each tool's groups, unit vectors and weights, for `Intents.build`; None without.

        The groups count as much as the examples do in the tool's vector.
        """
        if len(self.examples) < LEAST_GROUPED:
            return None
        shares = self._shares()
        begins = np.zeros(len(self.begins), np.int64)
        centres, weights = [], []
        for row in np.flatnonzero(np.diff(self.begins) >= LEAST_GROUPED).tolist():
            own = self.examples[self.begins[row] : self.begins[row + 1]]
            known = own[own.any(axis=1)]
            if len(known) < LEAST_GROUPED:
                continue
            groups = _centres(known)
            begins[row + 1] = len(groups)
            centres.append(groups)
            weights += [shares[row]] * len(groups)
        if not centres:
            return None
        return np.cumsum(begins), np.concatenate(centres), np.array(weights, np.float32)

    def _owners(self) -> npt.NDArray[np.intp]:
        """The tool of each example."""
        return np.repeat(np.arange(len(self.descriptions)), np.diff(self.begins))

    def _shares(self) -> Scores:
        """The share of the examples in each tool's vector; examples without a vector do not count."""
        known = self.examples.any(axis=1)
        counts = np.bincount(self._owners(), known, minlength=len(self.descriptions))
        beside = np.where(counts > 0, counts + self.description_counts, 1)
        shares: Scores = (counts / beside).astype(np.float32)
        return shares


def _centres(examples: Scores) -> Scores:
    """Unit centres of groups of unit vectors: spherical k-means, with centres far apart at first."""
    wanted = min(MOST_GROUPS, len(examples) // GROUP_SIZE)
    first = int(np.argmax(examples @ examples.mean(axis=0)))
    chosen, nearest = [first], examples @ examples[first]
    while len(chosen) < wanted:
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, examples @ examples[chosen[-1]])
    centres = examples[chosen]
    for _ in range(_ROUNDS):
        group = np.argmax(examples @ centres.T, axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, group, examples)
        centres = np.where(sums.any(axis=1, keepdims=True), _unit(sums), centres)
    return centres


def _turned(rows: Scores, weight: np.float32, added: Scores, centre: bytes) -> Scores:
    """The rows as unit vectors, turned towards the added vectors about their common part."""
    if not centre:
        return _unit(rows + weight * added)
    common = np.frombuffer(centre, np.float32)
    turned = _unit(_unit(rows - common) + weight * _unit(added - common))
    # As far in the new direction as the unit sphere is. Not a product of matrices: the last digits of those
    # depend on the number of rows, and a tool's vector must not depend on the tools beside it.
    along = (turned * common).sum(axis=1)
    reach = np.sqrt(np.maximum(0, along**2 + 1 - common @ common)) - along
    return _unit(common + reach[:, None] * turned)


def _unit(rows: Scores) -> Scores:
    lengths: Scores = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: Scores = rows / lengths
    return unit
