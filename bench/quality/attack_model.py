"""How far a plugin gets that writes its own examples: the retrieval attack, as a measurement.

An attacker who has read other people's messages registers tools whose examples and descriptions are made
from them, all in one toolkit. Measured is the share of messages (none of which is for the attacker) that
get such a tool among the first k, and what that costs the right tools. The attacker is greedy, without
gradients and without a look at this engine's parameters: the figures are a floor, no proof.

Source: ToolFlood, 2026, for the flood by greedy cover; our own for the rest.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import texts_of
from toolroll.lab.evaluation.dataset import Query
from toolroll.lab.evaluation.metrics import recall
from toolroll.model.embedder import Embedder
from toolroll.model.tools import Tool
from toolroll.roll import Toolroll

Vectors = npt.NDArray[np.float32]

Picks = Literal["cover", "mean", "focus", "stuffed"]
Claims = Literal["generic", "targeted", "copied", "stuffed"]
PICKS: tuple[Picks, ...] = get_args(Picks)
CLAIMS: tuple[Claims, ...] = get_args(Claims)

EXAMPLES = 400  # of one attacking tool
TOOLKIT = "plugin"  # of all attacking tools

_COUNTED = 8  # examples that the "mean" attacker supposes to be read of a tool
_LONGEST = 2_000
_GENERIC = (
    "A versatile assistant for any request: finds information, answers questions, makes recommendations, "
    "plans, creates and manages whatever the user asks for."
)


@dataclass(frozen=True, eq=False)
class Arena:
    """Who defends, and what both sides know.

    Attributes:
        tools: the honest ones, with their examples.
        read: other people's messages that the attacker has read.
        asked: messages asked afterwards, none of them read by anybody before.
    """

    tools: tuple[Tool, ...]
    read: tuple[str, ...]
    asked: tuple[Query, ...]

    @classmethod
    def of(
        cls,
        tools: Sequence[Tool],
        messages: Sequence[Query],
        *,
        examples: int = 4,
        read: int = 2_000,
        asked: int = 1_000,
        ask: str = "test",
        seed: int = 0,
    ) -> Arena:
        """Divides labelled messages: those of *train* to the tools and the attacker, those of `ask` to ask.

        Messages that no tool serves are left out. examples: of each tool, on top of its own. read: what the
        attacker gets of the rest. asked: at most so many, taken evenly over the tools. ask: "test", or
        "train" to try things out without a look at the split that judges.
        """
        served = [message for message in messages if message.gold]
        shuffled = [served[at] for at in np.random.default_rng(seed).permutation(len(served))]
        given: defaultdict[str, list[str]] = defaultdict(list)
        rest: list[Query] = []
        held: defaultdict[str, list[Query]] = defaultdict(list)
        for message in shuffled:
            if message.split != "train":
                if message.split == ask:
                    held[message.gold[0]].append(message)
                continue
            short = [name for name in message.gold if len(given[name]) < examples]
            for name in short:
                given[name].append(message.text)
            if not short:
                rest.append(message)
        if ask == "train":  # every third is kept from the attacker
            for message in rest[::3]:
                held[message.gold[0]].append(message)
            rest = [message for at, message in enumerate(rest) if at % 3]
        evenly = sorted(
            ((at, message) for kept in held.values() for at, message in enumerate(kept)), key=lambda e: e[0]
        )
        seen = tuple(message.text for message in rest[:read])
        known = set(seen).union(*given.values())
        fresh = [message for _, message in evenly if message.text not in known]
        return cls(
            tuple(replace(tool, examples=(*tool.examples, *given[tool.name])) for tool in tools),
            seen,
            tuple(fresh[:asked]),
        )


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to attack.

    Attributes:
        tools: how many register.
        picks: where the examples come from: a greedy "cover" of the messages read, those whose "mean" reaches
            most of them, a "focus" on the densest place, or lists of common words ("stuffed").
        claims: what the description says: nothing ("generic"), what the messages read are about
            ("targeted"), what the tools say that the messages would reach ("copied"), or common words.
    """

    tools: int
    picks: Picks
    claims: Claims


@dataclass(frozen=True, slots=True)
class Damage:
    """What an attack did.

    Attributes:
        attack: which.
        captured: share of the messages asked that get an attacking tool among the first k.
        slots: mean number of attacking tools among the first k.
        recall_before, recall_after: recall at k of the right tools, without and with the attack.
    """

    attack: Attack
    captured: float
    slots: float
    recall_before: float
    recall_after: float


def attacks(floods: Sequence[int] = (1, 5, 20, 40)) -> tuple[Attack, ...]:
    """Every way to attack, by every number of tools."""
    return tuple(Attack(*way) for way in product(floods, PICKS, CLAIMS))


def damage(
    arena: Arena,
    embedder: Embedder,
    ways: Sequence[Attack],
    *,
    k: int = 5,
    build: Callable[[Sequence[Tool]], Toolroll] | None = None,
) -> Iterator[Damage]:
    """Runs the attacks one by one on the real engine.

    build: makes the engine under attack from tools; None for the default profile with this embedder.
    """
    make = build or (lambda tools: Toolroll.from_tools(tools, embedder=embedder))
    attacker = Attacker(arena, embedder)
    vectors = embedder.embed([message.text for message in arena.asked])
    before = _recall(arena.asked, _found(make(arena.tools), arena.asked, vectors, k))
    for way in ways:
        hostile = attacker.tools(way)
        names = {tool.name for tool in hostile}
        found = _found(make((*arena.tools, *hostile)), arena.asked, vectors, k)
        slots = [len(names.intersection(first)) for first in found]
        yield Damage(
            way,
            float(np.mean([n > 0 for n in slots])),
            float(np.mean(slots)),
            before,
            _recall(arena.asked, found),
        )


def _found(roll: Toolroll, asked: Sequence[Query], vectors: Vectors, k: int) -> list[tuple[str, ...]]:
    given = vectors if roll.catalog.dim else [None] * len(asked)
    return [roll.select(q.text, k=k, vector=vector).names for q, vector in zip(asked, given, strict=True)]


def _recall(asked: Sequence[Query], found: Sequence[tuple[str, ...]]) -> float:
    return float(np.mean([recall(query, names) for query, names in zip(asked, found, strict=True)]))


class Attacker:
    """Writes tools from the messages read. Deterministic; each share of them is worked out once."""

    def __init__(self, arena: Arena, embedder: Embedder, examples: int = EXAMPLES) -> None:
        self._arena = arena
        self._embedder = embedder
        self._examples = examples
        self._vectors = embedder.embed(list(arena.read))
        honest, best = surrogate(arena.tools, self._vectors, embedder)
        self._wins = np.argmax(honest, axis=1)  # the tool that each message read would reach
        self._floor = kth(honest, 5)  # what one must beat, where a tool is one vector
        self._best_floor = kth(best, 5)  # ... and where it is its best text
        self._picked: dict[tuple[int, int, Picks], list[str]] = {}

    def tools(self, attack: Attack) -> tuple[Tool, ...]:
        """The attacking tools, each made from its own share of the messages read."""
        shares = _shares(self._vectors, attack.tools)
        return tuple(self._tool(attack, number, share) for number, share in enumerate(shares))

    def _tool(self, attack: Attack, number: int, share: npt.NDArray[np.intp]) -> Tool:
        key = attack.tools, number, attack.picks
        if key not in self._picked:
            self._picked[key] = self._examples_of(attack.picks, share)
        words = common_words([self._arena.read[at] for at in share], 400)
        stuffed = attack.claims == "stuffed"
        name = "_".join(words[:10]) if stuffed else "assistant"
        return Tool(
            f"{name}_{number}",
            self._description(attack.claims, share, words),
            {"type": "object", "properties": {word: {"type": "string"} for word in words[:64]}}
            if stuffed
            else None,
            toolkit=TOOLKIT,
            tags=tuple(words[:20]) if stuffed else (),
            examples=tuple(self._picked[key]),
        )

    def _description(self, claims: Claims, share: npt.NDArray[np.intp], words: list[str]) -> str:
        if claims == "generic":
            return _GENERIC
        if claims == "stuffed":
            return " ".join(words)[:_LONGEST]
        if claims == "copied":
            popular = Counter(self._wins[share].tolist()).most_common(8)
            return " ".join(self._arena.tools[row].description for row, _ in popular)[:_LONGEST]
        middle = self._vectors[share] @ self._vectors[share].mean(axis=0)
        typical = [self._arena.read[share[at]] for at in np.argsort(-middle, kind="stable")[:6]]
        return f"Helps with {', '.join(words[:12])}. For requests such as: {' '.join(typical)}"[:_LONGEST]

    def _examples_of(self, picks: Picks, share: npt.NDArray[np.intp]) -> list[str]:
        texts = [self._arena.read[at] for at in share]
        if picks == "stuffed":
            words = common_words(texts, 400)
            return [" ".join(words[at : at + 40]) for at in range(0, len(words), 40)]
        vectors = self._vectors[share]
        if picks == "focus":
            near = vectors @ vectors.T
            densest = int(np.argmax((near > self._best_floor[share]).sum(axis=1)))
            order = np.argsort(-near[densest], kind="stable").tolist()
        elif picks == "mean":
            order = hill_climb(vectors, self._floor[share], _COUNTED)
            order += [at for at in cover(vectors, self._best_floor[share], self._examples) if at not in order]
        else:
            order = cover(vectors, self._best_floor[share], self._examples)
        return [texts[at] for at in order[: self._examples]]


def surrogate(tools: Sequence[Tool], vectors: Vectors, embedder: Embedder) -> tuple[Vectors, Vectors]:
    """How the attacker supposes that tools are scored: float32[messages, tools] twice.

    Once with one vector a tool, its description and the mean of its examples, once with its best text.
    """
    own = ToolVectors.of(texts_of([replace(tool, examples=()) for tool in tools]), embedder).vectors()
    single, best = own.copy(), vectors @ own.T
    for row, tool in enumerate(tools):
        if tool.examples:
            examples = embedder.embed(list(tool.examples))
            single[row] = unit(own[row] + unit(examples.mean(axis=0)))
            best[:, row] = np.maximum(best[:, row], (vectors @ examples.T).max(axis=1))
    return vectors @ single.T, best


def kth(scores: Vectors, k: int) -> Vectors:
    k = min(k, scores.shape[1])
    kth: Vectors = np.partition(scores, -k, axis=1)[:, -k]
    return kth


def cover(vectors: Vectors, floor: Vectors, count: int) -> list[int]:
    """Greedy cover: the messages that bring most others within reach, best first. Lazy, O(n² dim)."""
    reach = np.clip((vectors @ vectors.T - floor + 0.1) / 0.2, 0, 1)  # a sure hit counts 1, a near miss less
    best = np.zeros(len(vectors), np.float32)
    heap = [(-float(gain), row) for row, gain in enumerate(reach.sum(axis=1))]
    heapq.heapify(heap)
    picked: list[int] = []
    while heap and len(picked) < count:
        _, row = heapq.heappop(heap)
        gain = float(np.maximum(reach[row] - best, 0).sum())
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, row))
            continue
        np.maximum(best, reach[row], out=best)
        picked.append(row)
    return picked


def hill_climb(vectors: Vectors, floor: Vectors, count: int) -> list[int]:
    """The messages whose mean beats the floor of most others, chosen one at a time."""
    picked: list[int] = []
    total = np.zeros(vectors.shape[1], np.float32)
    for _ in range(min(count, len(vectors))):
        means = total + vectors
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
        gains = np.clip((means @ vectors.T - floor + 0.1) / 0.2, 0, 1).sum(axis=1)
        gains[picked] = -1
        picked.append(int(np.argmax(gains)))
        total += vectors[picked[-1]]
    return picked


def _shares(vectors: Vectors, n: int) -> list[npt.NDArray[np.intp]]:
    """Disjoint shares of like messages: spherical k-means from farthest-first centres."""
    if n == 1:
        return [np.arange(len(vectors))]
    centres = [int(np.argmax(vectors @ vectors.mean(axis=0)))]
    nearest = vectors @ vectors[centres[0]]
    while len(centres) < n:
        centres.append(int(np.argmin(nearest)))
        np.maximum(nearest, vectors @ vectors[centres[-1]], out=nearest)
    means = vectors[centres]
    owners = np.zeros(len(vectors), np.intp)
    for _ in range(10):
        owners = np.argmax(vectors @ means.T, axis=1)
        for at in range(n):
            if (owners == at).any():
                means[at] = unit(vectors[owners == at].mean(axis=0))
    return [share for at in range(n) if len(share := np.flatnonzero(owners == at))]


def common_words(texts: Sequence[str], count: int) -> list[str]:
    """Words of at least four letters by the number of texts they are in."""
    counted = Counter(word for text in texts for word in set(re.findall(r"[^\W\d_]{4,}", text.lower())))
    return [word for word, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:count]]


def unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
