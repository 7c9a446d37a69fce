"""Recall@5 of messages in six languages over English tools, and their share of what English reaches.

``python -m bench.quality.languages FOLDER…``, folders of the datasets `mcp-office` and `metatool`. Tools have
no examples, and the embedder is the default.

The messages (`language_messages.tsv`) are translations that were made for this project. From each dataset
come the fifty English test messages with one right tool and at most 100 characters whose ids have the
smallest SHA-256. Each was translated as a native speaker would type it to an assistant: in everyday register,
with names of products and people as people write them, and without looking at a tool's text. They were
written once, before the first multilingual table existed, and none was changed after a measurement.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toolroll.lab.evaluation.dataset import Dataset, read_dataset
from toolroll.lab.evaluation.quality import evaluate

MESSAGES = Path(__file__).with_name("language_messages.tsv")
LANGUAGES = ("zh", "ko", "ru", "de", "es", "ja")
GOAL = 0.8  # of the recall of the same messages in English
K = 5


def read_messages() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Dataset → id → language → message."""
    found: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    with MESSAGES.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            found[row["dataset"]][row["id"]] = {language: row[language] for language in LANGUAGES}
    return found


def translated(dataset: Dataset, messages: Mapping[str, Mapping[str, str]], language: str) -> Dataset:
    """The dataset with these messages alone, in this language."""
    asked = [query for query in dataset.queries if query.id in messages]
    if language != "en":
        asked = [replace(query, text=messages[query.id][language]) for query in asked]
    return replace(dataset, queries=tuple(asked))


def recalls(folder: Path, embedder: str) -> dict[str, tuple[float, int]]:
    """Language → recall@5 and the number of messages."""
    dataset = read_dataset(folder)
    messages = read_messages()[dataset.name]
    found = {}
    for language in ("en", *LANGUAGES):
        done = evaluate(translated(dataset, messages, language), embedder=embedder, ks=(K,), examples="none")
        found[language] = done.figures.recall[0], len(done.queries)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each folder, and one for all messages with their share of English."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.languages")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--embedder", default="static")
    args = parser.parse_args(arguments)
    columns = ("en", *LANGUAGES)
    print(f"{'recall@5':<14}" + "".join(f"{language:>8}" for language in columns))
    sums: defaultdict[str, float] = defaultdict(float)
    for folder in args.folders:
        found = recalls(folder, args.embedder)
        for language, (recall, count) in found.items():
            sums[language] += recall * count
        print(
            f"{folder.name:<14}" + "".join(f"{found[language][0]:>8.3f}" for language in columns), flush=True
        )
    print(f"{'of English':<14}" + "".join(f"{sums[language] / sums['en']:>8.3f}" for language in columns))
    missed = [language for language in LANGUAGES if sums[language] < GOAL * sums["en"]]
    print(f"under {GOAL:.0%} of English: {', '.join(missed) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
