"""Keeps the messages that find their tool; for the others, names the tool that they fit better.

For each message, the catalog has all examples and all other candidates of every tool, but not this message.
So the message must resemble the other texts of its tool.

Source: Z. Dai et al., "Promptagator: Few-shot Dense Retrieval From 8 Examples", 2022, which keeps messages
    only if their tool comes first. Here that would drop the most useful messages: docs/decisions/0039.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolroll.embedders.named import EmbedderChoice
from toolroll.lab.evaluation.dataset import Query
from toolroll.lab.evaluation.runner import answer, select
from toolroll.model.tools import Definitions
from toolroll.roll import Toolroll

WITHIN = 10  # the places in which a message has to find its tool

Messages = Mapping[str, Sequence[str]]  # name of a tool → messages
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected message of a tool, with the reason in words. fits: the tool that it fits better, if any."""

    tool: str
    text: str
    reason: str
    fits: str = ""

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        return {"text": self.text, "reason": self.reason, **({"fits": self.fits} if self.fits else {})}


class RoundTrip:
    """Runs messages over catalogs that differ in their tools' examples."""

    def __init__(
        self, definitions: Definitions, embedder: EmbedderChoice = "static", within: int = WITHIN
    ) -> None:
        """within: the number of first places in which a message must find its tool."""
        self._definitions, self._embedder, self._within = definitions, embedder, within
        self._group = {tool.name: tool.interchangeable or tool.name for tool in definitions.tools}

    def found(
        self, candidates: Messages, progress: Progress | None = None
    ) -> tuple[dict[str, list[str]], list[Rejection]]:
        """The candidates that find their tool, in order, and all others. progress: gets (done, all)."""
        total, done = sum(map(len, candidates.values())), 0
        kept: dict[str, list[str]] = {name: [] for name in candidates}
        rejected = []
        for place in range(max(map(len, candidates.values()), default=0)):
            others = {name: [*texts[:place], *texts[place + 1 :]] for name, texts in candidates.items()}
            with self._roll(others) as roll:
                for name, texts in candidates.items():
                    if place >= len(texts):
                        continue
                    names = ranked(roll, texts[place], self._within)
                    if self._is_in(name, names):
                        kept[name].append(texts[place])
                    else:
                        rejected.append(_rejection(name, texts[place], names))
                    done += 1
                    if progress is not None:
                        progress(done, total)
        return kept, rejected

    def first(self, messages: Messages, examples: Messages) -> set[tuple[str, str]]:
        """The pairs of tool and message for which the tool comes first. examples: beside the tools' own."""
        if not any(messages.values()):
            return set()
        with self._roll(examples) as roll:
            return {
                (name, text)
                for name, texts in messages.items()
                for text in texts
                if self._is_in(name, ranked(roll, text)[:1])
            }

    def _roll(self, examples: Messages) -> Toolroll:
        tools = tuple(
            replace(tool, examples=(*tool.examples, *examples.get(tool.name, ())))
            for tool in self._definitions.tools
        )
        return Toolroll.from_definitions(replace(self._definitions, tools=tools), embedder=self._embedder)

    def _is_in(self, name: str, names: Iterable[str]) -> bool:
        """Whether the tool, or an interchangeable one, is among these."""
        return any(self._group[other] == self._group[name] for other in names)


def ranked(roll: Toolroll, text: str, k: int = WITHIN) -> tuple[str, ...]:
    """The first k tools that a message finds, the best first."""
    return answer(select(roll, Query("", text), k, False), k).ranked


def _rejection(tool: str, text: str, names: Sequence[str]) -> Rejection:
    if not names:
        return Rejection(tool, text, "finds no tool")
    return Rejection(tool, text, f"fits {names[0]!r} better", names[0])
