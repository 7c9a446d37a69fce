"""Checks the bank: its form, duplicates, its balance, and that it holds no message of an evaluation set.

    python -m tools.train.lint_bank [EVALUATION_SET ...]

An evaluation set is a folder with a `queries.jsonl` somewhere below it, or a JSONL file; its lines have a
`text` or a `message`. Prints a line for each problem; the exit status is 1 if there is any.

A message is a copy if it has at least `LEAST_SHARED` content words of an evaluation message, and these are at
least `SHARE` of the content words of the longer one. Two people who ask for the same thing in few words may
write such messages independently of each other; those are removed too.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.train.capabilities import BANK, Capability, lines

DESCRIPTIONS = range(2, 4)
MESSAGES = range(8, 13)
MOST_OF_A_FIELD = 0.05  # share of the capabilities; the field is the first word of the id
MOST_OF_AN_ACTION = 0.2  # the action is the last word
LEAST_BALANCED = 500  # capabilities; the shares of a smaller bank mean nothing
LEAST_SHARED = 3  # content words
SHARE = 0.6
COMMON = 0.15  # a word in more of the evaluation messages than this finds no candidates

_ID = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*(?:\.[a-z0-9]+(?:[-_][a-z0-9]+)*){1,3}")
_WORD = re.compile(r"[^\W\d_]\w+(?:'\w+)?")  # no numbers, no single letters
_STOP = frozenset(
    (
        "add", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does",
        "don't", "for", "from", "get", "give", "had", "has", "have", "help", "how", "i'd", "i'll", "i'm", "if",
        "in", "is", "it", "it's", "its", "list", "many", "me", "much", "my", "need", "new", "no", "not", "of",
        "on", "or", "our", "pls", "please", "put", "set", "should", "show", "so", "tell", "that", "that's",
        "the", "there", "this", "to", "up", "want", "was", "we", "were", "what", "what's", "when", "where",
        "which", "who", "why", "with", "would", "you", "your",
    )
)  # fmt: skip


def content_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about."""
    return frozenset(_WORD.findall(text.casefold())) - _STOP


def problems(folder: Path, evaluation: Sequence[str] = ()) -> Iterator[str]:
    """Yields a line for each problem of the bank.

    evaluation: the messages of the evaluation sets.
    """
    try:
        bank = list(lines(folder))
    except ValueError as error:  # the other checks need every line
        yield str(error)
        return
    yield from _of_single_lines(bank)
    yield from _balance([capability for _, _, capability in bank])
    copies = Copies(evaluation)
    for file, line, capability in bank:
        for message in capability.messages:
            original = copies.original(message)
            if original is not None:
                yield f"{file}:{line}: {message!r} is a copy of an evaluation message: {original!r:.120}"


def _of_single_lines(bank: Sequence[tuple[str, int, Capability]]) -> Iterator[str]:
    ids: dict[str, str] = {}
    messages: dict[str, str] = {}
    for file, line, capability in bank:
        place = f"{file}:{line}"
        if not _ID.fullmatch(capability.id):
            yield f"{place}: id {capability.id!r} must be two to four words with dots between them"
        if capability.id in ids:
            yield f"{place}: id {capability.id!r} is also at {ids[capability.id]}"
        ids.setdefault(capability.id, place)
        for name, texts, counts in (
            ("descriptions", capability.descriptions, DESCRIPTIONS),
            ("messages", capability.messages, MESSAGES),
        ):
            if len(texts) not in counts:
                yield f"{place}: has {len(texts)} {name}, must have {counts.start} to {counts.stop - 1}"
        if len({_normal(text) for text in capability.descriptions}) < len(capability.descriptions):
            yield f"{place}: has a description twice"
        for message in capability.messages:
            normal = _normal(message)
            if normal in messages:
                yield f"{place}: message {message!r} is also at {messages[normal]}"
            messages.setdefault(normal, place)


def _balance(bank: Sequence[Capability]) -> Iterator[str]:
    if len(bank) < LEAST_BALANCED:
        return
    for what, place, most in (("field", 0, MOST_OF_A_FIELD), ("action", -1, MOST_OF_AN_ACTION)):
        for word, count in Counter(one.id.split(".")[place] for one in bank).most_common():
            if count > most * len(bank):
                yield f"{what} {word!r}: has {count} of {len(bank)} capabilities, must have at most {most:.0%}"


class Copies:
    """Finds the evaluation message of which a message is a copy."""

    def __init__(self, evaluation: Sequence[str]) -> None:
        self._texts = list(dict.fromkeys(evaluation))
        self._normal = {_normal(text): text for text in self._texts}
        self._words = [content_words(text) for text in self._texts]
        self._index: dict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self._words):
            for word in words:
                self._index[word].append(place)

    def original(self, message: str) -> str | None:
        """The evaluation message, or None."""
        same = self._normal.get(_normal(message))
        if same is not None:
            return same
        words = content_words(message)
        shared: Counter[int] = Counter()
        for word in words:
            places = self._index.get(word, ())
            if len(places) <= max(10, COMMON * len(self._texts)):
                shared.update(places)
        for place, _ in shared.most_common(30):
            count = len(words & self._words[place])
            if count >= max(LEAST_SHARED, SHARE * max(len(words), len(self._words[place]))):
                return self._texts[place]
        return None


def evaluation_messages(path: Path) -> list[str]:
    """The messages of an evaluation set: of a JSONL file, or of every `queries.jsonl` below a folder."""
    files = sorted(path.rglob("queries.jsonl")) if path.is_dir() else [path]
    if not files:
        raise SystemExit(f"{path}: has no queries.jsonl")
    records = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines() if line]
    return [record.get("text") or record["message"] for record in records]


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def main() -> int:
    """Prints the problems."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("evaluation", nargs="*", type=Path, help="folders or files of evaluation sets")
    parser.add_argument("--bank", type=Path, default=BANK, help="folder")
    args = parser.parse_args()
    evaluation = [text for path in args.evaluation for text in evaluation_messages(path)]
    found = list(problems(args.bank, evaluation))
    print("\n".join(found) or f"no problems, beside {len(evaluation)} evaluation messages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
