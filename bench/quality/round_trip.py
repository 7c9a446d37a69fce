"""What the round trip of `toolroll examples` keeps, and what that is worth.

``python -m bench.quality.round_trip [--wrong SHARE] [--within N]… FOLDER…``. Stands for a model that errs.
Each tool gets up to twelve messages of the *train* split, and a share of them is replaced by messages of the
tools that its description is most similar to. At most eight of those that are kept become examples, and the
*test* split is asked. ``kept`` counts messages, ``wrong`` those among them that were replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolroll import Toolroll
from toolroll.lab.evaluation.dataset import Dataset, divide, read_dataset
from toolroll.lab.evaluation.metrics import figures
from toolroll.lab.evaluation.runner import answer, select
from toolroll.lab.examples.round_trip import RoundTrip, ranked

WRITTEN, EXAMPLES, NEIGHBOURS, DEPTH = 12, 8, 5, 10

Messages = Mapping[str, Sequence[str]]


def written(dataset: Dataset, share: float) -> tuple[dict[str, list[str]], set[tuple[str, str]]]:
    """Messages by tool, and the pairs of tool and message that are wrong."""
    draw = np.random.default_rng(0)
    own: dict[str, list[str]] = {}
    for query in divide(dataset.queries, "test", "train")[1]:
        for name in query.gold[:1]:
            own.setdefault(name, []).append(query.text)
    own = {name: list(dict.fromkeys(texts)) for name, texts in own.items()}
    own = {name: [texts[at] for at in draw.permutation(len(texts))[:WRITTEN]] for name, texts in own.items()}
    found, wrong = {}, set()
    descriptions = {tool.name: tool.description or tool.name for tool in dataset.definitions.tools}
    with Toolroll.from_definitions(replace(dataset.definitions, tools=_with(dataset, {}))) as roll:
        for name, texts in own.items():
            near = [
                other for other in ranked(roll, descriptions[name], DEPTH) if other != name and other in own
            ]
            row = []
            for text in texts:
                if near and draw.random() < share:
                    others = own[near[draw.integers(min(NEIGHBOURS, len(near)))]]
                    text = others[draw.integers(len(others))]
                    wrong.add((name, text))
                row.append(text)
            found[name] = list(dict.fromkeys(row))
    return found, wrong


def recall(dataset: Dataset, examples: Messages) -> tuple[float, ...]:
    """At 1 and at 5, on the test split."""
    asked, _ = divide(dataset.queries, "test", "none")
    few = {name: texts[:EXAMPLES] for name, texts in examples.items()}
    with Toolroll.from_definitions(replace(dataset.definitions, tools=_with(dataset, few))) as roll:
        answers = [answer(select(roll, query, DEPTH, True), DEPTH) for query in asked]
    return figures(asked, answers, (1, 5), 0).recall


def _with(dataset: Dataset, examples: Messages):
    return tuple(
        replace(tool, examples=tuple(examples.get(tool.name, ()))) for tool in dataset.definitions.tools
    )


def main() -> int:
    """Prints a line for each folder and each way to keep messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--wrong", type=float, default=0.2, help="share of the messages")
    parser.add_argument("--within", type=int, action="append", help="places; several are compared")
    options = parser.parse_args()
    print(f"{'folder':<18}{'keeps':<14}{'kept':>7}{'wrong':>7}{'recall@1':>10}{'recall@5':>10}")
    for folder in options.folders:
        dataset = read_dataset(folder)
        messages, wrong = written(dataset, options.wrong)
        right = {
            name: [text for text in texts if (name, text) not in wrong] for name, texts in messages.items()
        }
        ways: dict[str, Messages] = {"none": {}, "all": messages, "the right": right}
        bare = replace(dataset.definitions, tools=_with(dataset, {}))
        for within in options.within or (1, 3, 5, 10, 20):
            ways[f"within {within}"] = RoundTrip(bare, within=within).found(messages)[0]
        for way, kept in ways.items():
            bad = sum((name, text) in wrong for name, texts in kept.items() for text in texts)
            row = f"{sum(map(len, kept.values())):>7}{bad:>7}"
            print(
                f"{folder.name:<18}{way:<14}{row}",
                *(f"{each:>9.3f}" for each in recall(dataset, kept)),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
