"""Damping of tools that are found for most messages (hubs), measured when a catalog is built.

A plugin that writes its own examples can be found for most messages, and its own texts do not tell a greedy
tool from a useful one. The other tools' texts do: they are messages and descriptions that belong elsewhere.
So all of them are searched for, and a tool's share is counted: the searches in which it is among the first k.
If the share is far too large, a factor damps all scores of the tool until the share is not. All tools of a
toolkit together are damped likewise. Other tools keep their scores.

The naive way is a bound on the similarity of examples and own description. It loses the most valuable honest
examples, which the description would not have found, and greedy descriptions pass it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, Fusion, Retriever, latin_share
from toolroll.catalog.digests import DigestArray, TextDigests, ascending
from toolroll.catalog.everyday import LEAST_TOOLS, everyday_vectors
from toolroll.catalog.searches import Search, best_found
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import MOST_EXAMPLES, ToolText
from toolroll.model.arrays import NO_ROWS, Rows, Scores
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.tools import Tool
from toolroll.runtime.gil import GilYielder

LEAST_PROBES, MOST_PROBES = 200, 1_000
MOST_OWN_PROBES = (
    400  # probes for an organisation's own tools, which take time in each of a thousand organisations
)
_MOST_WORK = 20_000_000  # probes times tools

# Shares of foreign probes that are allowed, as multiples of the even share k / n. Honest tools
# reach 2.4 times it with examples and 5.6 times without (metatool, multiturn: 99 % of them 2.1 and 2.7).
WARM_SHARE = 2.6
COLD_SHARE = 3.0
LEAST_SHARE = 0.02
TOOLKIT_SHARE = 0.25  # or its share of all tools; of multiturn's eleven servers the greediest reaches 0.24

# A tool at c times its bound is damped to 1 / c³ of the bound, so that a larger share does not pay.
_SEVERITY = 3
_LEAST = 0.4  # factor, for a tool and again for its toolkit: its own messages still find it
_ERRORS = 1.0  # standard errors that a share must lie above its bound
_VOTES = 0.1  # the largest share of one toolkit
_MOST_AGAINST = 0.5  # the share of a bound that the texts of one toolkit or tool can weigh against a tool
_ENOUGH = 50  # tools whose examples stand for the messages of all
_OF_DESCRIPTIONS = 0.3  # the share of the probes, if everyday messages are searched for, too
FOUND = 64  # best tools of each probe that are read, to find the best outside a toolkit


ProbeVectors: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Probes:
    """Texts that belong to certain tools.

    Attributes:
        texts: each once.
        owners: of each text, the rows of its tools.
        toolkits: int32[n], a number for the toolkit of each tool; -1 for a tool in none.
        have_examples: bool[n], whether each tool has examples.
        vectors: float32[m, dim] or float16, of the texts; None without an embedder.
        is_english: whether the embedder has learnt English alone.
        everyday: `everyday_vectors`, if these are searched for, too; else None.
    """

    texts: tuple[str, ...]
    owners: tuple[tuple[int, ...], ...]
    toolkits: Rows
    have_examples: npt.NDArray[np.bool_]
    vectors: ProbeVectors | None = None
    is_english: bool = False
    everyday: npt.NDArray[np.float16] | None = None

    def in_space_of(self, embedder: Embedder, vectors: ProbeVectors) -> Probes:
        """The probes with these vectors, and with everyday messages' vectors if the tools need them."""
        everyday = everyday_vectors(embedder) if _is_large_and_cold(self.have_examples) else None
        return replace(self, vectors=vectors, is_english=embedder.is_english, everyday=everyday)

    def embedded(
        self, texts: Sequence[ToolText], known: ToolVectors, embedder: Embedder, dtype: npt.DTypeLike
    ) -> Probes:
        """The probes with vectors. Most of them were embedded with the tools."""
        vectors = np.empty((len(self.texts), embedder.dim), dtype)
        left = []
        for at, (probe, (row, *_)) in enumerate(zip(self.texts, self.owners, strict=True)):
            examples = texts[row].examples
            if probe in examples:
                vectors[at] = known.examples[known.begins[row] + examples.index(probe)]
            elif probe == texts[row].description:
                vectors[at] = known.descriptions[row]
            else:  # an example beyond those that count
                left.append(at)
        if left:
            vectors[left] = vectors_of(embedder, [self.texts[at] for at in left])
        return self.in_space_of(embedder, vectors)

    def search(self, retriever: Retriever, fusion: Fusion) -> tuple[Rows, Scores]:
        """The results of selection for each probe, for `damping`: int32[m, `FOUND`], float32[m, `FOUND`]."""
        everything = Bitset.full(retriever.size)
        searches: list[Search] = [
            (
                text,
                None if self.vectors is None else self.vectors[at].astype(np.float32, copy=False),
                latin_share(text) if self.is_english else 1.0,
                (),
                everything,
            )
            for at, text in enumerate(self.texts)
        ]
        return best_found(retriever, searches, FOUND, fusion)


NO_PROBES = Probes((), (), NO_ROWS, np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class ProbeDigests:
    """The digests by which probes are chosen.

    Attributes:
        names: uint64[n], digests of the tools' names.
        have_examples: bool[n], whether each tool has examples.
    """

    examples: TextDigests
    names: DigestArray
    have_examples: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> ProbeDigests:
        """Reads the tools. O(characters of the examples)."""
        return cls(
            TextDigests.of((tool.examples[:MOST_EXAMPLES] for tool in tools), _digest),
            np.array([_digest(tool.name) for tool in tools], np.uint64),
            np.array([bool(tool.examples) for tool in tools], np.bool_),
        )

    def with_changes(self, sources: Rows, added: ProbeDigests) -> ProbeDigests:
        """The digests of the kept rows and the added ones. sources: see `RowChanges`."""
        is_added = sources < 0
        names, have_examples = self.names[sources], self.have_examples[sources]
        names[is_added], have_examples[is_added] = added.names, added.have_examples
        return ProbeDigests(self.examples.with_changes(sources, added.examples), names, have_examples)

    def probes(
        self,
        tools: Sequence[Tool],
        toolkits: Rows,
        description_of: Callable[[int], str],
        most: int = MOST_PROBES,
    ) -> Probes:
        """Examples of the tools, which are messages; if too few tools have any, their descriptions.

        Returns at most `most` probes, fewer for a large catalog. toolkits: int32[n], as in `Probes`.
        description_of: a row's `ToolText.description`.
        """
        n = len(self.names)
        most = min(most, max(LEAST_PROBES, _MOST_WORK // max(n, 1)))
        plain: list[int] = []
        if int(self.have_examples.sum()) < _ENOUGH:
            cold = np.flatnonzero(~self.have_examples)
            some = int(_OF_DESCRIPTIONS * most) if _is_large_and_cold(self.have_examples) else most
            plain = cold[np.argsort(self.names[cold], kind="stable")[:some]].tolist()
        descriptions = [description_of(row) for row in plain]
        count = len(self.examples.digests)
        digests = np.array([_digest(text) for text in descriptions], np.uint64)

        def place(at: int) -> tuple[int, int]:
            return self.examples.place(at) if at < count else (plain[at - count], count - 1 - at)

        texts: list[str] = []
        owners: list[tuple[int, ...]] = []
        for places in ascending(np.concatenate((self.examples.digests, digests)), most, place):
            if len(texts) == most:
                break
            row, at = places[0]
            texts.append(descriptions[-1 - at] if at < 0 else tools[row].examples[at])
            owners.append(tuple(dict.fromkeys(row for row, _ in places)))
        return Probes(tuple(texts), tuple(owners), toolkits, self.have_examples)


def damping(probes: Probes, rows: Rows, scores: Scores, k: int = 5) -> Scores:
    """The factor for each tool's score: float32[n], 1 for all but the greedy ones, at least 0.16.

    rows, scores: int32[m, s] and float32[m, s]: the results of selection for each probe, best first, s at
    least k + 1 and better `FOUND`; -1 and 0 for missing results.

    O(m s log s), and O(m s) for each tool that reaches far.
    """
    n, m = len(probes.toolkits), len(probes.texts)
    factors = np.ones(n, np.float32)
    if n <= 2 * k or not m:
        return factors
    assert rows.shape == scores.shape and rows.shape[0] == m and rows.shape[1] > k
    weights = _ProbeWeights.of(probes)
    groups, votes = weights.groups, weights.votes
    is_found = scores > 0
    floor, below = scores[:, k - 1], scores[:, k]
    within = is_found & (scores >= floor[:, None])
    probe, place = np.nonzero(within)
    reached = rows[probe, place]
    is_foreign = weights.are_foreign(probe, groups[reached])
    foreign = np.bincount(reached[is_foreign], votes[probe[is_foreign]], minlength=n)
    shares = foreign / np.maximum(votes.sum() - weights.owned_votes()[groups], 1e-9)
    bounds = np.maximum(LEAST_SHARE, np.where(probes.have_examples, WARM_SHARE, COLD_SHARE) * k / n)
    yielder = GilYielder()
    for row in np.flatnonzero(shares > bounds):
        yielder()
        among = weights.foreign_to(int(groups[row]))
        own = np.where((rows == row) & is_found, scores, 0).max(axis=1)[among]
        others = np.where(own >= floor[among], below[among], floor[among])
        factors[row] = weights.factor(among, own, others, float(bounds[row]))

    damped = np.where(is_found, scores * factors[rows], 0)
    order = np.argsort(-damped, axis=1, kind="stable")
    found = np.where(is_found, groups[rows], -1)
    found, damped = np.take_along_axis(found, order, axis=1), np.take_along_axis(damped, order, axis=1)
    # The toolkits come before the groups of one tool.
    for group in sorted(set(found[:, :k].ravel().tolist()) & set(range(weights.toolkits))):
        yielder()
        members = np.flatnonzero(groups == group)
        foreign_probes = np.flatnonzero(weights.foreign_to(group))
        if n - len(members) < k or not len(foreign_probes):
            continue
        bound = max(TOOLKIT_SHARE, len(members) / n)
        theirs = found[foreign_probes] == group
        if votes[foreign_probes[theirs[:, :k].any(axis=1)]].sum() <= bound * votes[foreign_probes].sum():
            continue
        outside = np.cumsum(~theirs, axis=1) >= k
        kth = np.where(outside[:, -1], np.argmax(outside, axis=1), found.shape[1] - 1)
        own = np.where(theirs, damped[foreign_probes], 0).max(axis=1)
        factors[members] *= weights.factor(foreign_probes, own, damped[foreign_probes, kth], bound)
    return factors


@dataclass(frozen=True, slots=True, eq=False)
class _ProbeWeights:
    """The owner and the weight of each probe.

    Attributes:
        toolkits: how many there are; their numbers come first.
        groups: intp[n]: for each tool the number of its toolkit, or a number of its own.
        votes: float64[m], the weight of each probe: one vote a tool, and at most a tenth of all votes for
            a group.
        authors: intp[m], the group of each probe.
        owned: int64[p], probe * (toolkits + n) + group of each probe that one group alone has, ascending: a
            matrix of all probes and groups would take gigabytes for a million tools. A text that several
            groups have is foreign to each of them: otherwise examples copied from everybody would hide a
            greedy tool.
    """

    toolkits: int
    groups: npt.NDArray[np.intp]
    votes: npt.NDArray[np.float64]
    authors: npt.NDArray[np.intp]
    owned: npt.NDArray[np.int64]

    @classmethod
    def of(cls, probes: Probes) -> _ProbeWeights:
        n = len(probes.toolkits)
        toolkits = int(probes.toolkits.max(initial=-1)) + 1
        groups = np.where(probes.toolkits < 0, toolkits + np.arange(n), probes.toolkits).astype(np.intp)
        texts = np.bincount([row for owners in probes.owners for row in owners], minlength=n)
        votes = np.array([sum(1 / texts[row] for row in owners) for owners in probes.owners])
        authors = groups[[owners[0] for owners in probes.owners]]
        together = np.bincount(authors, votes, minlength=toolkits + n)
        votes = votes * np.minimum(1, _VOTES * votes.sum() / np.maximum(together, 1e-9))[authors]
        pairs = [
            at * (toolkits + n) + having.pop()
            for at, owners in enumerate(probes.owners)
            if len(having := set(groups[list(owners)].tolist())) == 1
        ]
        return cls(toolkits, groups, votes, authors, np.array(pairs, np.int64))

    def are_foreign(
        self, probes: npt.NDArray[np.intp], groups: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.bool_]:
        """For each pair of a probe and a group, whether the probe is not the group's alone."""
        pairs = probes * (self.toolkits + len(self.groups)) + groups
        if not len(self.owned):
            return np.ones(len(pairs), np.bool_)
        places = np.minimum(np.searchsorted(self.owned, pairs), len(self.owned) - 1)
        foreign: npt.NDArray[np.bool_] = self.owned[places] != pairs
        return foreign

    def foreign_to(self, group: int) -> npt.NDArray[np.bool_]:
        """bool[m]: the probes that are not the group's alone."""
        probes = np.arange(len(self.votes))
        return self.are_foreign(probes, np.full(len(probes), group))

    def owned_votes(self) -> npt.NDArray[np.float64]:
        """The votes of all probes of each group."""
        probes, groups = np.divmod(self.owned, self.toolkits + len(self.groups))
        votes: npt.NDArray[np.float64] = np.bincount(
            groups, self.votes[probes], self.toolkits + len(self.groups)
        ).astype(np.float64)
        return votes

    def factor(
        self, among: npt.NDArray[np.bool_] | npt.NDArray[np.intp], own: Scores, others: Scores, bound: float
    ) -> float:
        """1 for a share of probes within the bound, else the factor that brings the share below the bound.

        among: the foreign probes. own: the tool's best score on each probe. others: the score of the k-th
        tool on each. No group alone weighs more than half of the bound against a tool; otherwise a flood of
        texts about a tool's subject would damp that tool.
        """
        votes, authors, within = self.votes[among], self.authors[among], own > others
        against = np.bincount(authors, votes * within)
        weighed = np.minimum(1, _MOST_AGAINST * bound * votes.sum() / np.maximum(against, 1e-9))
        votes = votes * weighed[authors]
        total = votes.sum()
        if total <= 0:
            return 1.0
        share = float(votes[within].sum() / total)
        error = float(np.sqrt((votes**2).sum() * bound * (1 - bound)) / total)
        if share - _ERRORS * error <= bound:
            return 1.0
        needed = others / np.maximum(own, np.float32(1e-6))  # within reach where the factor is above this
        order = np.argsort(needed, kind="stable")
        reached = np.cumsum(votes[order]) / total
        at = int(np.searchsorted(reached, bound * (bound / share) ** _SEVERITY, side="right"))
        return float(np.clip(needed[order[min(at, len(order) - 1)]], _LEAST, 1))


def _is_large_and_cold(have_examples: npt.NDArray[np.bool_]) -> bool:
    return len(have_examples) >= LEAST_TOOLS and int(have_examples.sum()) < _ENOUGH


def _digest(text: str) -> int:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
