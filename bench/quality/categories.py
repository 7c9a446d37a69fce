"""What the classifier of messages is worth on data sets that it has never seen.

    python -m bench.quality.categories /path/to/datasets

`tests/data/message_categories.tsv` has data set, id and category of messages of train splits, labelled by
reading them; messages that ask for things of two kinds, or that readers would not agree on, were left out.
Beside the classifier: the vector without the cue words, the first verb of `tools.train.categories.VERBS`
(read where there is none), and always "read", the most frequent.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.train.categories import VERBS, Message, answers, report

from toolroll.lab.evaluation.dataset import read_dataset
from toolroll.learning.categories import CATEGORIES, built_in

LABELS = Path(__file__).parents[2] / "tests" / "data" / "message_categories.tsv"


def labelled(folder: Path) -> dict[str, list[Message]]:
    """By data set: those of `folder` that are there."""
    texts: dict[str, dict[str, str]] = {}
    found: dict[str, list[Message]] = {}
    for line in LABELS.read_text("utf-8").splitlines():
        dataset, name, kind = line.split("\t")
        if dataset not in texts:
            path = folder / dataset
            queries = read_dataset(path).queries if path.is_dir() else ()
            texts[dataset] = {query.id: query.text for query in queries}
        if name in texts[dataset]:
            found.setdefault(dataset, []).append((kind, texts[dataset][name]))
    return found


def by_first_verb(text: str) -> str:
    """The category of the verb that comes first in a text."""
    lowered = f" {text.lower()} "
    places = [
        (lowered.find(f" {verb.lower()} "), -len(verb), kind)
        for kind, verbs in VERBS.items()
        for verb in verbs.split(", ")
    ]
    return min((place for place in places if place[0] >= 0), default=(0, 0, CATEGORIES[0]))[2]


def show(name: str, messages: Sequence[Message], said: Sequence[str]) -> None:
    print(f"\n{name}\n{report(messages, said)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", type=Path)
    args = parser.parse_args()
    groups = labelled(args.datasets)
    every = [message for messages in groups.values() for message in messages]
    classifier = built_in()
    for dataset, messages in groups.items():
        print(f"{dataset}: " + report(messages, answers(classifier, messages)).splitlines()[-1])
    show("the classifier", every, answers(classifier, every))
    certain = replace(classifier, least=0.0)
    show("the classifier, when it may not say general", every, answers(certain, every))
    blind = replace(certain, rows={})
    show("the same without its cue words", every, answers(blind, every))
    show("the first verb", every, [by_first_verb(text) for _, text in every])
    show("always read", every, ["read"] * len(every))


if __name__ == "__main__":
    main()
