"""Makes the text file that the static table is distilled from: one text a line, nothing else.

The table must know two kinds of English: what software says of itself (tool descriptions) and what people
ask for in a chat. The first comes from one-line package summaries, the second from WordNet: its definitions
and example sentences, and its everyday nouns and verbs put into the ways in which people ask for things.
No sentence of a benchmark is in it, so the table may be judged on any of them.

    python -m tools.train.corpus --wordnet /usr/share/wordnet --summaries names.tsv --out texts.txt

`names.tsv` has `name<TAB>summary` a line: the columns `name, summary` of the public BigQuery table
`bigquery-public-data.pypi.distribution_metadata`, or from any Debian system

    apt-cache dumpavail |
        awk '/^Package: /{n=$2} /^Description(-en)?: /{sub(/^[^:]*: /,""); print n "\\t" $0}'

WordNet's folder (`data.*`, `index.*`) is in the Debian package `wordnet-base`. The same sources and seed
give the same file.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

# How people put a task that a summary names ("parse dates", "a client for …").
TASK_FRAMES = (
    "I want to {}", "Can you help me {}?", "Please {}", "I need to {} for my team", "Could you {} please?",
    "How do I {}?", "What is the best way to {}?", "Hey, can you {} for me today?", "I'd like to {}",
    "My boss asked me to {}", "Find me a tool to {}", "Tell me about {}", "Show me {}",
    "I am working on a project and need {}", "Give me information about {}", "Let's {}",
    "Do you know how to {}?", "Also, {} and send me the result",
    "First, {}. Then let me know when it is done.", "Search for {}", "Get {}", "List all {}",
    "Recommend {}", "{} right now", "Would it be possible to {}?", "What's {}?", "Compare {}",
    "{}, and make it quick", "A tool that can {}", "Use this to {}",
)  # fmt: skip

# How people put a verb on its own.
VERB_FRAMES = (
    "Can you {} it for me?", "I want to {} something", "Please {} this", "How do I {} that?",
    "I have to {} them today", "Did anybody {} it yesterday?", "Remind me to {} it tonight",
    "Should we {} it or leave it as it is?", "Don't let me forget to {}", "A function to {} things",
    "What happens when I {} it?", "{} everything in this list",
)  # fmt: skip

# How people talk about a thing, by WordNet's lexicographer file: what kind of thing it is.
_ANY_NOUN = (
    "Tell me about {a}", "I need {a}", "What is {a}?", "Is there any {} left?", "Show me every {} we have",
    "Get details of {a}", "Create a new {}", "Find {a} near me", "Anything new about the {}?",
)  # fmt: skip
NOUN_FRAMES: dict[int, tuple[str, ...]] = {
    4: (
        "I'd like to try {} this weekend", "When is the next {}?", "Is {} good for me?",
        "Plan my {} for tomorrow",
    ),
    5: ("Is my {} ill?", "I saw {a} in the garden", "What does {a} eat?"),
    6: (
        "Should I bring {a}?", "Where can I buy {a}?", "My {} is broken, who can repair it?",
        "How much is {a}?", "Do I need {a} today?", "Turn the {} off", "Did I leave the {} on?",
        "Is {a} worth the money?", "I lost my {}", "Should I wear {a} or not?", "Pack {a} for the trip",
    ),
    7: ("How can I improve my {}?", "Why does {} matter?"),
    8: ("My {} hurts", "What helps against pain in the {}?", "I hurt my {} at the gym"),
    9: ("Explain {} to me in simple words", "I'd like to learn {}", "Any good book about {}?"),
    10: (
        "Send {a} to my sister", "Write {a} for me", "Read me the {}", "Did I get {a} from Anna?",
        "Translate this {}", "Reply to the {}",
    ),
    11: (
        "When does the {} start?", "Who won the {}?", "Get me tickets for the {}",
        "Will the {} be cancelled?",
    ),
    12: ("I feel so much {} lately", "How do I deal with {}?"),
    13: (
        "I'm craving {}", "What can I cook with {}?", "Order {} for dinner", "Add {} to the shopping list",
        "How many calories are in {}?", "Is {} healthy?", "We ran out of {}",
    ),
    14: ("How many people are in the {}?", "Invite the whole {}", "Share it with the {}"),
    15: (
        "How do I get to {a}?", "What's it like in the {} this time of year?", "Book a room near the {}",
        "How far is the {} from here?",
    ),
    17: ("Can we hike to the {}?", "How deep is the {}?"),
    18: (
        "Call the {}", "I need to talk to {a}", "Book an appointment with {a}", "Message my {}",
        "Who is the best {}?",
    ),
    19: ("Will there be {} tomorrow?", "Should I worry about the {}?", "Is {} expected at the weekend?"),
    20: ("How often should I water the {}?", "Plant {a} in the garden"),
    21: ("How much {} do I have?", "What is my {} this month?", "Pay the {}", "Did the {} arrive?"),
    22: ("Why does {} happen?",),
    23: ("How much is {a} in metric units?", "Convert {} for me", "Count every {}"),
    26: ("Could this be {}?", "What helps against {}?", "How do I get out of {}?"),
    27: ("Is {} dangerous?", "What is {} made of?"),
    28: (
        "What have I got on {}?", "Move it to the next {}", "Remind me every {}",
        "What will it be like this {}?", "Am I free that {}?",
    ),
}  # fmt: skip


class Noun(NamedTuple):
    """A noun in the sense that comes first in WordNet, with its lexicographer file (what kind of thing)."""

    word: str
    kind: int


def synsets(dict_folder: Path, part: str) -> Iterator[tuple[int, int, list[str], str, list[str]]]:
    """Yields offset, lexicographer file, words, definition and example sentences of `data.<part>`."""
    for line in (dict_folder / f"data.{part}").read_text("ascii").splitlines():
        if line.startswith(" "):
            continue  # the licence on top
        fields, _, gloss = line.partition(" | ")
        head = fields.split(" ")
        words = [re.sub(r"\(.*\)$", "", w).replace("_", " ") for w in head[4 : 4 + 2 * int(head[3], 16) : 2]]
        examples = re.findall(r'"([^"]+)"', gloss)
        definition = re.sub(r'[;:,]?\s*"[^"]*"(\s*-\s*[^;"]*)?', "", gloss).strip(" ;")
        yield int(head[0]), int(head[1]), words, definition, examples


def first_senses(dict_folder: Path, part: str) -> Iterator[tuple[str, int]]:
    """Yields each word of `index.<part>` with the offset of its most frequent sense."""
    for line in (dict_folder / f"index.{part}").read_text("ascii").splitlines():
        if not line.startswith(" "):
            fields = line.split()
            yield fields[0].replace("_", " "), int(fields[-int(fields[2])])


def article(word: str) -> str:
    """Puts a or an before a word."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def everyday(dict_folder: Path, vocabulary: frozenset[str]) -> tuple[list[Noun], list[str]]:
    """Nouns and verbs of WordNet that the encoder's vocabulary holds as one piece: the frequent ones."""
    kind = {offset: file for offset, file, *_ in synsets(dict_folder, "noun")}
    nouns = [Noun(w, kind[o]) for w, o in first_senses(dict_folder, "noun") if w in vocabulary and len(w) > 2]
    verbs = [w for w, _ in first_senses(dict_folder, "verb") if w in vocabulary and len(w) > 1]
    return [n for n in nouns if n.word.isalpha()], [v for v in verbs if v.isalpha()]


def from_wordnet(dict_folder: Path, rng: random.Random, definitions: int, examples: int) -> Iterator[str]:
    """Definitions ("umbrella: a …", every other without the word) and example sentences."""
    defined, sentences = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for _, _, words, definition, quoted in synsets(dict_folder, part):
            if 15 < len(definition) < 200:
                defined.append((words, definition))
            sentences += [q for q in quoted if " " in q and len(q) < 200]
    rng.shuffle(defined)
    rng.shuffle(sentences)
    for i, (words, definition) in enumerate(defined[:definitions]):
        yield f"{', '.join(words[:3])}: {definition}" if i % 3 else definition
    yield from sentences[:examples]


def from_everyday(nouns: list[Noun], verbs: list[str], rng: random.Random, asked: int) -> Iterator[str]:
    """Everyday words in everyday requests: each noun alone and in turn in a frame of its kind."""
    yield from (n.word for n in nouns)
    yield from verbs
    for i in range(asked):
        if i % 5 == 4:
            yield rng.choice(VERB_FRAMES).format(rng.choice(verbs))
            continue
        noun = rng.choice(nouns)
        of_kind = NOUN_FRAMES.get(noun.kind, ())
        frame = rng.choice(of_kind if of_kind and rng.random() < 0.7 else _ANY_NOUN)
        yield frame.format(noun.word, a=article(noun.word))


def from_summaries(lines: Iterable[str], rng: random.Random, plain: int, asked: int) -> Iterator[str]:
    """Package summaries: half with the package's name before them, some as somebody's request."""
    pairs = [line.rstrip("\n").split("\t") for line in lines]
    pairs = [p for p in pairs if len(p) == 2 and 30 < len(p[1]) < 200 and p[1].isascii()]
    seen: set[str] = set()
    pairs = [p for p in pairs if p[1] not in seen and not seen.add(p[1])]  # type: ignore[func-returns-value]
    rng.shuffle(pairs)
    for i, (name, summary) in enumerate(pairs[:plain]):
        yield f"{name.replace('-', ' ')}: {summary}" if i % 2 else summary
    for _, summary in pairs[plain : plain + asked]:
        yield rng.choice(TASK_FRAMES).format(summary[0].lower() + summary[1:].rstrip(". "))


def main() -> None:
    """Reads the sources, writes the text file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wordnet", type=Path, required=True, help="folder with data.noun, index.noun, …")
    parser.add_argument("--summaries", type=Path, required=True, help="name<TAB>summary a line")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plain", type=int, default=45_000, help="summaries as they are")
    parser.add_argument("--asked", type=int, default=12_000, help="summaries as requests")
    parser.add_argument("--definitions", type=int, default=30_000)
    parser.add_argument("--examples", type=int, default=25_000)
    parser.add_argument("--everyday", type=int, default=40_000, help="requests around everyday words")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    vocabulary = frozenset(
        resources.files("toolroll.embedders.data").joinpath("vocab.txt").read_text("utf-8").split("\n")
    )
    nouns, verbs = everyday(args.wordnet, vocabulary)
    texts = list(from_everyday(nouns, verbs, rng, args.everyday))
    texts += from_wordnet(args.wordnet, rng, args.definitions, args.examples)
    with open(args.summaries, encoding="utf-8", errors="replace") as lines:
        texts += from_summaries(lines, rng, args.plain, args.asked)
    texts = sorted({" ".join(t.split()) for t in texts})
    rng.shuffle(texts)
    args.out.write_text("".join(t + "\n" for t in texts), "utf-8", newline="\n")
    print(f"{len(texts)} texts, {sum(map(len, texts)) / len(texts):.0f} characters each, in {args.out}")


if __name__ == "__main__":
    main()
