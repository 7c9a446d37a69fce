"""Reviews a model's answers: chooses messages as examples, and gives reasons for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolroll.lab.examples.answers import ModelAnswer
from toolroll.lab.examples.plan import RequestPlan
from toolroll.lab.examples.round_trip import Rejection, RoundTrip
from toolroll.lab.examples.screening import Screen, cleaned, distinct
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.tools import Definitions

_ROUNDS = 3  # in each, a tool loses one example for each near miss that finds it first


@dataclass(frozen=True, slots=True)
class NearMisses:
    """How many near misses put their tool first: with its own examples, and with the new ones as well."""

    messages: int
    first_before: int
    first_after: int

    def to_dict(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review.

    Attributes:
        kept: name of a tool → its new examples.
        rejected: the other messages, except surplus ones.
        near_misses: the effect of the examples on near misses.
    """

    kept: Mapping[str, tuple[str, ...]]
    rejected: tuple[Rejection, ...]
    near_misses: NearMisses

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = [
            *self.kept,
            *dict.fromkeys(each.tool for each in self.rejected if each.tool not in self.kept),
        ]
        return {
            "tools": [
                {
                    "name": name,
                    "kept": list(self.kept.get(name, ())),
                    "rejected": [each.to_dict() for each in self.rejected if each.tool == name],
                }
                for name in names
            ],
            "near_misses": self.near_misses.to_dict(),
        }


def review(
    definitions: Definitions,
    plan: RequestPlan,
    answers: Mapping[str, ModelAnswer],
    embedder: Embedder | None,
    progress: Callable[[int, int], None] | None = None,
) -> Review:
    """Keeps well-formed new messages that find their tool, up to the number that the tool lacks.

    If the new examples put a tool first for one of its near misses, the tool loses the new examples nearest
        to it. progress: called with (messages done, all messages).
    """
    screen = Screen(definitions.tools)
    candidates: dict[str, list[str]] = {}
    near_misses: dict[str, list[str]] = {}
    rejected: list[Rejection] = []
    for wanted in plan.wanted:
        name = wanted.tool.name
        answer = answers.get(name)
        if answer is None:
            continue
        near_misses[name] = [
            text
            for text in dict.fromkeys(map(cleaned, answer.near_misses[: 2 * wanted.near_misses]))
            if not screen.reason(wanted.tool, text)
        ]
        written = dict.fromkeys(map(cleaned, answer.messages[: 2 * wanted.messages]))
        known = set(wanted.tool.examples)  # an earlier run has written some of them
        reasons = {text: screen.reason(wanted.tool, text) for text in written if text not in known}
        rejected += (Rejection(name, text, reason) for text, reason in reasons.items() if reason)
        new = [text for text, reason in reasons.items() if not reason]
        candidates[name], copies = distinct(wanted.tool, new, near_misses[name], embedder)
        rejected += copies
    trip = RoundTrip(definitions, embedder)
    found, unfit = trip.found(candidates, progress)
    rejected += unfit
    before = trip.first(near_misses, {})
    chosen = {name: texts[: plan.missing[name]] for name, texts in found.items()}
    after = trip.first(near_misses, chosen)
    for _ in range(_ROUNDS):
        attracted = sorted((name, text) for name, text in after - before if chosen[name])
        if not attracted:
            break
        for name, text in attracted:
            if chosen[name]:
                nearest = _nearest(text, chosen[name], embedder)
                chosen[name].remove(nearest)
                rejected.append(Rejection(name, nearest, f"makes the near miss {text!r} find its tool first"))
        after = trip.first(near_misses, chosen)
    return Review(
        {name: tuple(texts) for name, texts in chosen.items() if texts},
        tuple(rejected),
        NearMisses(sum(map(len, near_misses.values())), len(before), len(after)),
    )


def _nearest(text: str, texts: Sequence[str], embedder: Embedder | None) -> str:
    if embedder is None:
        words = set(text.casefold().split())
        return max(texts, key=lambda each: len(words & set(each.casefold().split())))
    vectors = vectors_of(embedder, [text, *texts])
    return texts[int(np.argmax(vectors[1:] @ vectors[0]))]
