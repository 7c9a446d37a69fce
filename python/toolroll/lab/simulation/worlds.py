"""Draws simulated worlds: real tools and messages, and everything else from a seed.

A world adds facts to its source that only use reveals:

- *families*: near-duplicates of some tools in other words. One member of each works well, the others do not.
- *contexts*: users of three tiers on twelve pages. Most messages of a page have its topic. The success rate
  of a tool differs a little by page and tier, and a few hardly work on some page.
- *change*: halfway some popular tools break, and half of them are repaired later; newcomers arrive after a
  quarter of the time, half of them better than the old tools.

Everything depends on source, scenario and seed alone, so that policies meet the same messages and random
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll.lab.simulation.source_data import TOPICS, Ints, SourceData, Vectors, near_duplicates, text_of
from toolroll.model.context import Context
from toolroll.model.embedder import vectors_of
from toolroll.model.tools import Definitions, Tool

PAGES, TIERS, USERS = TOPICS, ("free", "team", "enterprise"), 300
CONTEXTS = PAGES * len(TIERS)
SECONDS = 28 * 86_400 / 6_000  # between two messages
START = 1_767_225_600.0  # of the simulated clock: 1 January 2026, UTC
CHANCES = 8  # uniform random numbers for a message

_TIER_SHARES = (0.5, 0.35, 0.15)
_BROKEN = 0.03  # success rate of a broken tool
_BETTER, _WORSE = (0.93, 0.60), (0.40, 0.93)  # a newcomer, and the old tool

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Random = np.random.Generator


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One draw. n tools, near-duplicates included; T messages.

    Attributes:
        tools: the source's, then their near-duplicates, newcomers last.
        first: the number of tools at the start; the others arrive at message `arrival`.
        family: int64[n], the tool that this one can replace; most tools have their own number.
        reliable: float64[CONTEXTS, n], success rate of a tool that is not broken.
        breaks, repairs: int64[n], the message at which a tool breaks and is repaired; T for never.
        newcomer: int64[n], 1 for a better one, -1 for a worse one, 0 for the others.
        taste: float64[n], the bias of the model, in nats.
        likeness: float32[m, n], cosine of each message of the source and each tool, on the common scale.
        right: the correct tools for each message of the source.
        message, context, user: int64[T].
        chance: float64[T, CHANCES], uniform random numbers of each message.
    """

    source: SourceData
    scenario: Scenario
    seed: int
    tools: tuple[Tool, ...]
    first: int
    arrival: int
    family: Ints
    reliable: Reals
    breaks: Ints
    repairs: Ints
    newcomer: Ints
    taste: Reals
    likeness: Vectors
    right: tuple[frozenset[int], ...]
    message: Ints
    context: Ints
    user: Ints
    chance: Reals
    _contexts: dict[tuple[int, int], Context] = field(default_factory=dict, repr=False)

    @classmethod
    def draw(cls, source: SourceData, scenario: Scenario, seed: int, length: int) -> World:
        """The world of this random seed with `length` messages."""
        random = np.random.default_rng([20_261_122, seed])
        base = len(source.definitions.tools)
        counts = np.bincount([one[0] for one in source.right], minlength=base).astype(np.float64)
        duplicated = _Duplicates.draw(counts, random) if scenario.duplicates else _Duplicates((), (), ())
        family = np.array([*range(base), *duplicated.owners], np.int64)
        made = near_duplicates(source.definitions.tools, duplicated.owners, random)
        quality, newcomer = _qualities(family, duplicated, random)
        if scenario.equal:
            quality[:] = 0.95
        breaks, repairs = _broken(scenario, length, family, quality, duplicated, counts, random)
        user = random.choice(USERS, length, p=_falling(USERS))
        tier = random.choice(len(TIERS), USERS, p=_TIER_SHARES)[user]
        page = random.choice(PAGES, length, p=_falling(PAGES))
        made_vectors = vectors_of(source.embedder, [text_of(tool) for tool in made])
        made_vectors = made_vectors.reshape(len(made), source.tool_vectors.shape[1])
        likeness = source.vectors @ np.concatenate([source.tool_vectors, made_vectors]).T
        kin: dict[int, list[int]] = {}
        for place, owner in enumerate(family.tolist()):
            kin.setdefault(owner, []).append(place)
        return cls(
            source,
            scenario,
            seed,
            tools=(*source.definitions.tools, *made),
            first=len(family) - len(duplicated.late),
            arrival=length // 4,
            family=family,
            reliable=_by_context(quality, scenario.equal, random),
            breaks=breaks,
            repairs=repairs,
            newcomer=newcomer,
            taste=random.normal(0, scenario.taste, len(family)),
            likeness=source.scale.gain * (likeness - source.scale.floor),
            right=tuple(frozenset(place for tool in one for place in kin[tool]) for one in source.right),
            message=_stream(source, scenario, counts, page, random),
            context=tier * PAGES + page,
            user=user,
            chance=random.random((length, CHANCES)),
        )

    def __len__(self) -> int:
        return len(self.message)

    def definitions(self, at: int) -> Definitions:
        """The catalog at message `at`."""
        there = self.tools if at >= self.arrival else self.tools[: self.first]
        return replace(self.source.definitions, tools=there)

    def context_of(self, at: int) -> Context:
        """The context of message `at`."""
        where, user = int(self.context[at]), int(self.user[at])
        found = self._contexts.get((where, user))
        if found is None:
            tier, page = divmod(where, PAGES)
            found = Context(
                user=f"user-{user}", tier=TIERS[tier], page=f"page-{page}", settings=self.source.settings
            )
            self._contexts[where, user] = found
        return found

    def now(self, at: int) -> float:
        """Seconds since the epoch at message `at`."""
        return START + at * SECONDS

    def works(self, at: Any, tool: Any) -> Any:
        """The success rate of a call of the tool at message `at`; arrays broadcast."""
        is_broken = (at >= self.breaks[tool]) & (at < self.repairs[tool])
        return np.where(is_broken, _BROKEN, self.reliable[self.context[at], tool])

    def is_there(self, at: Any, tool: Any) -> Any:
        """Whether the tool has arrived; arrays broadcast."""
        return (tool < self.first) | (at >= self.arrival)


@dataclass(frozen=True, slots=True)
class _Duplicates:
    """The tools with near-duplicates.

    Attributes:
        families: tools with near-duplicates.
        owners: the tool of each near-duplicate, newcomers last; late: of the newcomers.
    """

    families: tuple[int, ...]
    owners: tuple[int, ...]
    late: tuple[int, ...]

    @classmethod
    def draw(cls, counts: Reals, random: Random) -> _Duplicates:
        """A fifth of the tools that have messages, at most forty; every fourth of them has two."""
        size = min(40, max(4, int((counts > 0).sum()) // 5))
        chances = np.sqrt(counts)
        chosen = random.choice(len(counts), size, replace=False, p=chances / chances.sum()).tolist()
        twins, triplets = chosen[size // 4 :], chosen[: size // 4]
        late = twins[: min(10, len(twins) // 3)]
        return cls(tuple(chosen), (*twins[len(late) :], *triplets, *triplets, *late), tuple(late))


def _qualities(family: Ints, duplicated: _Duplicates, random: Random) -> tuple[Reals, Ints]:
    """How well each tool works, and which tools are newcomers."""
    n = len(family)
    quality = np.where(random.random(n) < 0.85, random.beta(18, 2, n), random.uniform(0.4, 0.75, n))
    for tool in duplicated.families:
        members = np.flatnonzero(family == tool)
        quality[members] = random.uniform(0.25, 0.65, len(members))
        quality[random.choice(members)] = random.uniform(0.88, 0.97)
    newcomer = np.zeros(n, np.int64)
    for place, owner in enumerate(duplicated.late, n - len(duplicated.late)):
        newcomer[place] = 1 if place % 2 else -1
        quality[place], quality[owner] = _BETTER if place % 2 else _WORSE
    return np.clip(quality, 0.02, 0.98), newcomer


def _by_context(quality: Reals, equal: bool, random: Random) -> Reals:
    """float64[CONTEXTS, n]; a context is tier * PAGES + page."""
    n = len(quality)
    if equal:
        return np.tile(quality, (CONTEXTS, 1))
    logits = np.log(quality / (1 - quality)) + random.normal(0, 0.4, (1, PAGES, n))
    logits = (logits + random.normal(0, 0.2, (len(TIERS), 1, n))).reshape(CONTEXTS, n)
    hardly = np.tile(random.random((PAGES, n)) < 0.02, (len(TIERS), 1))
    return np.where(hardly, 0.1, 1 / (1 + np.exp(-logits)))


def _broken(
    scenario: Scenario,
    length: int,
    family: Ints,
    quality: Reals,
    duplicated: _Duplicates,
    counts: Reals,
    random: Random,
) -> tuple[Ints, Ints]:
    """The times of breaks and repairs, for the best of eight families and eight tools without substitute."""
    breaks, repairs = np.full((2, len(family)), length)
    if not scenario.breaks or scenario.equal:
        return breaks, repairs
    ranked = np.argsort(-counts, kind="stable").tolist()
    each = min(8, max(1, int((counts > 0).sum()) // 20))
    with_kin = [tool for tool in ranked if tool in duplicated.families and tool not in duplicated.late]
    alone = [tool for tool in ranked if tool not in duplicated.families and counts[tool]]
    chosen = []
    for tool in random.permutation(with_kin[: 2 * each])[:each].tolist():
        members = np.flatnonzero(family == tool)
        chosen.append(int(members[quality[members].argmax()]))
    chosen += random.permutation(alone[: 8 * each])[:each].tolist()
    breaks[chosen] = length // 2
    repairs[chosen[::2]] = int(scenario.repaired * length)
    return breaks, repairs


def _stream(source: SourceData, scenario: Scenario, counts: Reals, page: Ints, random: Random) -> Ints:
    """The stream of messages; a tool's messages repeat after all of them were used."""
    length = len(page)
    is_own = random.random(length) < scenario.own_topic
    popular = counts**0.8
    anywhere = random.choice(len(popular), length, p=popular / popular.sum())
    of_topic = []
    for topic in range(PAGES):
        weights = np.where(source.topics == topic, popular, 0.0)
        weights = weights if weights.any() else popular
        of_topic.append(random.choice(len(popular), length, p=weights / weights.sum()))
    tool = np.where(is_own, np.array(of_topic)[page, np.arange(length)], anywhere)
    places: dict[int, list[int]] = {}
    for place, one in enumerate(source.right):
        places.setdefault(one[0], []).append(place)
    left: dict[int, list[int]] = {}
    message = np.empty(length, np.int64)
    for at, owner in enumerate(tool.tolist()):
        if not left.get(owner):
            left[owner] = random.permutation(places[owner]).tolist()
        message[at] = left[owner].pop()
    return message


def _falling(n: int) -> Reals:
    """Shares of n items with decreasing popularity."""
    weights: Reals = np.arange(1, n + 1, dtype=np.float64) ** -0.7
    return np.asarray(weights / weights.sum(), np.float64)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a world; the defaults are the scenario "main".

    Attributes:
        duplicates: whether tools have near-duplicates.
        equal: whether every tool works equally well everywhere, so that outcomes teach nothing.
        breaks: whether tools break halfway. repaired: the time when half of them work again, as a share of
            all time.
        own_topic: share of a page's messages that come from its topic.
        groups: whether the application declares which tools are interchangeable.
        position: nats by which each place further back lowers the chance of a tool.
        taste: standard deviation of the model's bias for a tool, in nats.
        seen_failing: share of failures that are reported; the others look like successes.
        false_failing: share of the successes that are reported as failures.
        corrected: share of completed calls of a wrong tool that the user corrects.
        lost, doubled: shares of the reports. delay: the number of messages after which a report arrives.
    """

    duplicates: bool = True
    equal: bool = False
    breaks: bool = True
    repaired: float = 0.8
    own_topic: float = 0.7
    groups: bool = False
    position: float = 0.35
    taste: float = 0.5
    seen_failing: float = 0.9
    false_failing: float = 0.02
    corrected: float = 0.5
    lost: float = 0.0
    doubled: float = 0.0
    delay: int = 0


SCENARIOS: Mapping[str, Scenario] = {
    "main": Scenario(),
    "null": Scenario(duplicates=False, equal=True, breaks=False),
    "channel": Scenario(lost=0.1, doubled=0.2, delay=50),
    "break": Scenario(repaired=1.0),
    "groups": Scenario(groups=True),
    "no-topics": Scenario(own_topic=0.0),
    "no-position": Scenario(position=0.0),
    "first-listed": Scenario(position=1.0),
    "noisy": Scenario(corrected=0.0, seen_failing=0.6, false_failing=0.05),
}
