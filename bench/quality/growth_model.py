"""What examples from use are worth: messages stream through a catalog that learns from them.

Each message of the *train* split is selected for, once, in a seeded order. Where a right tool was selected
the model is taken to call it with success, and the message becomes that tool's example; what selection
misses is never learnt. Recall is measured on the *test* split, whose messages nothing learns from. Messages
that no tool serves are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolroll.embedders.named import EmbedderChoice
from toolroll.evaluation.dataset import Query
from toolroll.evaluation.metrics import recall
from toolroll.learning.example_bank import ExampleBank
from toolroll.roll import Toolroll
from toolroll.tools import Tool


@dataclass(frozen=True, slots=True)
class Growth:
    """Where a catalog stands after a part of the stream.

    Attributes:
        streamed: messages so far.
        examples: grown by them, after the bounds.
        taught: share of the tools that have any.
        recall: at k, on the test split, of the catalog with these examples.
    """

    streamed: int
    examples: int
    taught: float
    recall: float


def grow(
    tools: Sequence[Tool],
    messages: Sequence[Query],
    *,
    embedder: EmbedderChoice = "static",
    most_per_tool: int = 8,
    most_per_source: int = 4,
    sources: int = 50,
    k: int = 5,
    every: int = 200,
    parts: Sequence[float] = (0, 0.125, 0.25, 0.5, 1),
    mistakes: float = 0.0,
    asked: int = 2_000,
    seed: int = 0,
) -> Iterator[Growth]:
    """Streams the train split, and measures after each part of it.

    sources: how many users the messages come from. every: messages between two rebuilds of the catalog.
    mistakes: share of the messages for which a wrong tool of the selection is reported. asked: messages of
    the test split, at the most.
    """
    draw = np.random.default_rng(seed)
    train, test = _divide(messages, asked, draw)
    roll = Toolroll.from_tools(tools, embedder=embedder)
    roll.grown = ExampleBank(most_per_tool, most_per_source)
    ends = [round(part * len(train)) for part in parts]
    for at in range(len(train) + 1):
        if at in ends:
            roll.apply_grown()
            share = len(roll.grown.grown) / len(tools)
            yield Growth(at, len(roll.grown), share, _recall(roll, test, k))
        elif at % every == 0:
            roll.apply_grown()
        if at == ends[-1]:
            return
        message = train[at]
        picked = roll.select(message.text, k=k)
        called = [name for name in picked.names if recall(message, [name])]
        if draw.random() < mistakes:
            called = [name for name in picked.names if name not in called][:1]
        roll.grow(picked, message.text, called, source=f"user-{draw.integers(sources)}")


def given(
    tools: Sequence[Tool],
    messages: Sequence[Query],
    examples: int,
    *,
    embedder: EmbedderChoice = "static",
    k: int = 5,
    asked: int = 2_000,
    seed: int = 0,
) -> float:
    """Recall at k on the same test messages if each tool had so many train messages from the start."""
    draw = np.random.default_rng(seed)
    train, test = _divide(messages, asked, draw)
    texts: dict[str, list[str]] = {tool.name: [] for tool in tools}
    for message in train:
        for name in message.gold:
            if len(texts[name]) < examples:
                texts[name].append(message.text)
    warm = [replace(tool, examples=(*tool.examples, *texts[tool.name])) for tool in tools]
    roll = Toolroll.from_tools(warm, embedder=embedder)
    return _recall(roll, test, k)


def _divide(
    messages: Sequence[Query], asked: int, draw: np.random.Generator
) -> tuple[list[Query], list[Query]]:
    """The train split in a drawn order, and at most so many messages of the test split."""
    train = [message for message in messages if message.split == "train" and message.gold]
    test = [message for message in messages if message.split == "test" and message.gold]
    train = [train[at] for at in draw.permutation(len(train))]
    return train, [test[at] for at in sorted(draw.permutation(len(test))[:asked])]


def _recall(roll: Toolroll, asked: Sequence[Query], k: int) -> float:
    return float(np.mean([recall(query, roll.select(query.text, k=k).names) for query in asked]))
