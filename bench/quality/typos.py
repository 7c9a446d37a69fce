"""What misspelt words cost in recall@5, and what mending them gives back.

``python -m bench.quality.typos [--embedder static|minilm] [--most N] [--kind KIND]… FOLDER…``. Reads the
*train* split only: its odd messages are asked, its even ones give the tools up to eight examples each.
Each message is asked as it is and with a typo in each of two words, as written and mended. ``cost`` is what
typos cost with the speller; ``touched`` the percentage of messages without typos in which it changed a word.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolroll import Parameters, Toolroll
from toolroll.evaluation.typos import KINDS, mistyped

K = 5
MOST_EXAMPLES = 8
SEED = 1


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _recall(roll: Toolroll, asked: Sequence[dict[str, Any]], messages: Sequence[str]) -> float:
    total = 0.0
    for query, message in zip(asked, messages, strict=True):
        found = roll.select(message, k=K).names
        same = query.get("context", {}).get("alt", {})  # tools that are just as right
        hits = [any(name in found for name in (gold, *same.get(gold, ()))) for gold in query["gold"]]
        total += sum(hits) / len(hits)
    return 100 * total / len(asked)


def _ask(tools: list[dict[str, Any]], asked: list[dict[str, Any]], options: argparse.Namespace) -> str:
    clean = [query["text"] for query in asked]
    typos = [mistyped(message, SEED, kinds=options.kind or ("wrong",)) for message in clean]
    mends = Toolroll.from_tools(tools, embedder=options.embedder)
    reads = Toolroll.from_tools(tools, embedder=options.embedder, profile=Parameters(spelling=False))
    figures = [_recall(roll, asked, messages) for messages in (clean, typos) for roll in (reads, mends)]
    figures.append(figures[0] - figures[3])  # what typos cost, clean as it was and typos mended
    figures.append(sum(bool(mends.select(message, k=1).corrected) for message in clean) / len(clean) * 100)
    return "".join(f"{figure:>9.1f}" for figure in figures)


def main() -> int:
    """Prints two lines for each folder: with the tools' texts alone, and with examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--most", type=int, default=10_000, help="messages of a folder")
    parser.add_argument("--kind", action="append", choices=KINDS)
    options = parser.parse_args()
    print(
        f"{'folder':<18}{'':<10}{'asked':>6}{'clean':>9}{'+mended':>9}{'typos':>9}{'+mended':>9}{'cost':>9}{'touched':>9}"
    )
    for folder in options.folders:
        tools = list(_lines(folder / "tools.jsonl"))
        queries = [q for q in _lines(folder / "queries.jsonl") if q.get("split") == "train" and q["gold"]]
        examples: defaultdict[str, list[str]] = defaultdict(list)
        for query in queries[::2]:
            for name in query["gold"]:
                examples[name].append(query["text"])
        asked = queries[1::2]
        asked = asked[:: -(-len(asked) // options.most)]
        for label, most in (("texts", 0), ("examples", MOST_EXAMPLES)):
            told = [{**tool, "examples": examples[tool["name"]][:most]} for tool in tools]
            print(f"{folder.name:<18}{label:<10}{len(asked):>6}{_ask(told, asked, options)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
