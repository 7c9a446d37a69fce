"""Messages as people mistype them: what a spelling corrector, and selection behind it, is judged by."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["wrong", "missing", "added", "swapped"]

SHORTEST = 4  # letters of a word that gets a typo

_WORD = re.compile(rf"[A-Za-z]{{{SHORTEST},}}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _wrong(word: str, draw: random.Random) -> str:
    at = draw.randrange(len(word))
    return word[:at] + draw.choice([c for c in _LETTERS if c != word[at].lower()]) + word[at + 1 :]


def _missing(word: str, draw: random.Random) -> str:
    at = draw.randrange(len(word))
    return word[:at] + word[at + 1 :]


def _added(word: str, draw: random.Random) -> str:
    at = draw.randrange(len(word) + 1)
    return word[:at] + draw.choice(_LETTERS) + word[at:]


def _swapped(word: str, draw: random.Random) -> str:
    places = [at for at in range(len(word) - 1) if word[at] != word[at + 1]]
    if not places:
        return word
    at = draw.choice(places)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


_MAKERS: Mapping[Kind, Callable[[str, random.Random], str]] = {
    "wrong": _wrong,
    "missing": _missing,
    "added": _added,
    "swapped": _swapped,
}
KINDS: tuple[Kind, ...] = tuple(_MAKERS)


def mistyped(message: str, seed: int, *, words: int = 2, kinds: Sequence[Kind] = ("wrong",)) -> str:
    """The message with one typo in each of so many words of at least four Latin letters.

    A function of message, seed and settings. Words, letters and kinds are drawn evenly; a message with
    fewer words of that length gets fewer typos. A typo may happen to spell another word.
    """
    draw = random.Random(f"{seed} {message}")
    places = list(_WORD.finditer(message))
    chosen = draw.sample(places, min(words, len(places)))
    for place in sorted(chosen, key=re.Match.start, reverse=True):
        typo = _MAKERS[draw.choice(list(kinds))](place.group(), draw)
        message = message[: place.start()] + typo + message[place.end() :]
    return message
