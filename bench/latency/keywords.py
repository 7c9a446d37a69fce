"""Keywords in a message: str in, the numbers of the patterns found out, folding included.

Peers fold with ``str.casefold``, which is less than we do: composition is no matter to them. For whole
words they report every occurrence and a look at both sides in Python keeps the words. Messages rotate
through enough text that no branch predictor learns them by heart.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from bench import workloads
from bench.harness import Case
from toolroll._core import Automaton

Search = Callable[[str], list[int]]
Occurrences = Callable[[str], "Iterator[tuple[int, int, int]]"]

COUNTS = (3_000, 30_000)
LENGTHS = (50, 500, 5_000)
TEXT = 400_000  # bytes of messages to rotate through
BARS = {"substring": 1.5, "word": 2.0}  # of ahocorasick_rs


def installed(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def korean(n: int, length: int, patterns: list[str], seed: int = 4) -> list[str]:
    """N messages of about `length` bytes: three words in five are Hangul, one in 25 is a pattern."""
    rng = random.Random(seed)
    latin = [pattern for pattern in patterns if pattern.isascii()]
    made = []
    for _ in range(n):
        words: list[str] = []
        size = 0
        while size < length:
            draw = rng.random()
            source = patterns if draw < 0.04 else latin
            words.append(hangul(rng) if 0.04 <= draw < 0.6 else rng.choice(source))
            size += len(words[-1].encode()) + 1
        made.append(" ".join(words).encode()[:length].decode("utf-8", "ignore"))
    return made


def hangul(rng: random.Random) -> str:
    return "".join(chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(rng.randint(2, 4)))


def mixed(n: int) -> list[str]:
    """N keywords, one in three of them Korean."""
    rng = random.Random(n)
    made = dict.fromkeys(workloads.keywords(n - n // 3))
    while len(made) < n:
        made[hangul(rng)] = None
    return list(made)


def occurrences(folded: list[str]) -> dict[str, Occurrences | None]:
    """Every peer's matches as (pattern, start, end) of the casefolded text."""
    rust, python = installed("ahocorasick_rs"), installed("ahocorasick")
    found: dict[str, Occurrences | None] = {"ahocorasick_rs": None, "pyahocorasick": None}
    if rust is not None:
        automaton: Any = rust.AhoCorasick(folded)
        found["ahocorasick_rs"] = lambda text: iter(automaton.find_matches_as_indexes(text, overlapping=True))
    if python is not None:
        other: Any = python.Automaton()
        for number, pattern in enumerate(folded):
            other.add_word(pattern, (number, len(pattern)))
        other.make_automaton()
        found["pyahocorasick"] = lambda text: (
            (number, end + 1 - length, end + 1) for end, (number, length) in other.iter(text)
        )
    return found


def substrings(find: Occurrences) -> Search:
    return lambda text: sorted({number for number, _, _ in find(text.casefold())})


def whole_words(find: Occurrences) -> Search:
    def search(text: str) -> list[int]:
        text = text.casefold()
        return sorted(
            {
                number
                for number, start, end in find(text)
                if not (start and text[start - 1].isalnum() and text[start].isalnum())
                and not (end < len(text) and text[end - 1].isalnum() and text[end].isalnum())
            }
        )

    return search


def keyword_case(
    patterns: list[str],
    peers: dict[str, Occurrences | None],
    messages: list[str],
    mode: str,
    automaton: Automaton,
    size: str,
) -> Case:
    spelled = substrings if mode == "substring" else whole_words
    searches = {name: spelled(find) if find else None for name, find in peers.items()}

    def rotating(search: Search) -> Callable[[int], object]:
        return lambda i: search(messages[i % len(messages)])

    def check() -> str:
        found = 0
        for message in messages[:300]:
            ours = automaton.find(message)
            found += len(ours)
            for name, search in searches.items():
                if search is not None:
                    theirs = search(message)
                    assert ours == theirs, f"{name} finds {theirs}, we {ours}, in {message!r}"
        return f"same matches, {found / len(messages[:300]):.1f} a message"

    return Case(
        operation=f"keywords, {'substrings' if mode == 'substring' else 'whole words'}",
        size=size,
        ours=rotating(automaton.find),
        peers={name: rotating(search) if search else None for name, search in searches.items()},
        check=check,
        bars={"ahocorasick_rs": BARS[mode], "pyahocorasick": 2.5},
        note=f"{len(messages)} messages; index {automaton.memory_bytes / 1e6:.1f} MB",
    )


def cases(quick: bool) -> Iterator[Case]:
    for count in COUNTS[:1] if quick else COUNTS:
        patterns = mixed(count)
        peers = occurrences([pattern.casefold() for pattern in patterns])
        for mode in ("substring", "word"):
            automaton = Automaton(patterns, [mode] * count)
            for language in ("English", "Korean"):
                for length in LENGTHS:
                    n = TEXT // length
                    if language == "English":
                        ascii_patterns = [pattern for pattern in patterns if pattern.isascii()]
                        messages = workloads.keyword_messages(n, length, ascii_patterns)
                    else:
                        messages = korean(n, length, patterns)
                    size = f"{count:,} patterns, {length:,} bytes {language}"
                    yield keyword_case(patterns, peers, messages, mode, automaton, size)
