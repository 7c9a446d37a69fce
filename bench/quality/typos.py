"""Loss of recall@5 by misspelt words, and how much spelling correction recovers.

``python -m bench.quality.typos [--embedder static|minilm] [--most N] [--kind KIND]… FOLDER…``. Reads the
*train* split only: its odd messages are asked, its even ones give the tools up to eight examples each.
Each message is asked as it is and with a typo in each of two words, with and without spelling correction.
``cost`` is the loss by typos with correction; ``touched`` the percentage of messages without typos in which
it changed a word.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.quality.typo_model import KINDS, mistyped

from toolroll import Profile, Tool, Toolroll
from toolroll.lab.evaluation.dataset import Query, read_dataset, with_examples
from toolroll.lab.evaluation.metrics import recall

K = 5
MOST_EXAMPLES = 8
SEED = 1


def _recall(roll: Toolroll, asked: Sequence[Query], messages: Sequence[str]) -> float:
    found = [roll.select(message, k=K).names for message in messages]
    return 100 * sum(map(recall, asked, found)) / len(asked)


def _ask(tools: Sequence[Tool], asked: Sequence[Query], options: argparse.Namespace) -> str:
    clean = [query.text for query in asked]
    typos = [mistyped(message, SEED, kinds=options.kind or ("wrong",)) for message in clean]
    corrects = Toolroll.from_tools(tools, embedder=options.embedder)
    reads = Toolroll.from_tools(tools, embedder=options.embedder, profile=Profile(spelling=False))
    figures = [_recall(roll, asked, messages) for messages in (clean, typos) for roll in (reads, corrects)]
    figures.append(figures[0] - figures[3])  # what typos cost, clean as it was and typos corrected
    figures.append(
        sum(bool(corrects.select(message, k=1).spelling_corrections) for message in clean) / len(clean) * 100
    )
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
        f"{'folder':<18}{'':<10}{'asked':>6}{'clean':>9}{'+fixed':>9}{'typos':>9}{'+fixed':>9}{'cost':>9}{'touched':>9}"
    )
    for folder in options.folders:
        dataset = read_dataset(folder)
        queries = [query for query in dataset.queries if query.split == "train" and query.gold]
        asked = queries[1::2]
        asked = asked[:: -(-len(asked) // options.most)]
        for label, most in (("texts", 0), ("examples", MOST_EXAMPLES)):
            told = with_examples(dataset.definitions, queries[::2], keep=False, most=most).tools
            print(f"{folder.name:<18}{label:<10}{len(asked):>6}{_ask(told, asked, options)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
