"""Recall@5 on labelled messages, with and without example messages.

``python -m bench.quality FOLDER…``. A folder has ``tools.jsonl`` and ``queries.jsonl`` (`id`, `text`, `gold`,
`split`, `context`). Only the *train* split is read: its odd messages are asked, its even ones give the tools
up to eight examples each. So the figures may guide development, and the test split stays for the judge.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolroll import Toolroll

K = 5
MOST_EXAMPLES = 8


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _recall(roll: Toolroll, asked: list[dict[str, Any]]) -> float:
    """Mean share of a message's right tools among the first five."""
    total = 0.0
    for query in asked:
        found = roll.select(query["text"], k=K).names
        same = query.get("context", {}).get("alt", {})  # tools that are just as right
        hits = [any(name in found for name in (gold, *same.get(gold, ()))) for gold in query["gold"]]
        total += sum(hits) / len(hits)
    return total / len(asked)


def measure(folder: Path) -> tuple[int, int, float, float, float]:
    """Tools, messages asked, recall@5 by words alone, with the tools' texts, and with examples too."""
    tools = list(_lines(folder / "tools.jsonl"))
    queries = [q for q in _lines(folder / "queries.jsonl") if q.get("split") == "train" and q["gold"]]
    examples: defaultdict[str, list[str]] = defaultdict(list)
    for query in queries[::2]:
        for name in query["gold"]:
            examples[name].append(query["text"])
    cold = [{**tool, "examples": []} for tool in tools]
    warm = [{**tool, "examples": examples[tool["name"]][:MOST_EXAMPLES]} for tool in tools]
    asked = queries[1::2]
    words = _recall(Toolroll.from_tools(cold, embedder="none"), asked)
    texts = _recall(Toolroll.from_tools(cold), asked)
    return len(tools), len(asked), words, texts, _recall(Toolroll.from_tools(warm), asked)


def main() -> int:
    """Prints a line for each folder."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    print(f"{'folder':<20}{'tools':>7}{'messages':>10}{'BM25':>8}{'texts':>8}{'examples':>10}")
    for name in sys.argv[1:]:
        tools, asked, words, texts, warm = measure(Path(name))
        print(
            f"{Path(name).name:<20}{tools:>7,}{asked:>10,}{words:>8.3f}{texts:>8.3f}{warm:>10.3f}", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
