"""Messages that say which tools answer them, from the folder that `toolroll eval` reads."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Labelled:
    """A message and the tools that answer it.

    Attributes:
        text: what the user wrote.
        gold: names of the right tools.
        split: "train" or "test".
        equals: name of a right tool → other names that are just as right.
    """

    text: str
    gold: tuple[str, ...]
    split: str = "test"
    equals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def recall(self, found: Collection[str]) -> float:
        """Share of the right tools that are among those found."""
        hits = sum(any(name in found for name in (gold, *self.equals.get(gold, ()))) for gold in self.gold)
        return hits / len(self.gold)


def read_messages(folder: str | PathLike[str]) -> tuple[Labelled, ...]:
    """The messages of `queries.jsonl` that at least one tool answers, in the file's order."""
    messages = []
    with (Path(folder) / "queries.jsonl").open(encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                continue
            query = json.loads(line)
            if query["gold"]:
                equals = query.get("context", {}).get("alt", {})
                messages.append(
                    Labelled(
                        query["text"],
                        tuple(query["gold"]),
                        query.get("split", "test"),
                        {name: tuple(others) for name, others in equals.items()},
                    )
                )
    return tuple(messages)
