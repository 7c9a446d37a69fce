"""The speller of a catalog: it knows the catalog's words and a general English vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import LanguageGate, Lexicon, Speller, WordPiece
from toolroll.catalog.deferred import Deferred

# The vocabulary of an embedder is in order of frequency behind its special and single-letter pieces, so the
# n-th word is used about 1 / (n + 1,000) as often as all of them: Zipf's law without its steep beginning.
_FLAT = 1_000
_MODELS = "toolroll.embedders.data"

Correction: TypeAlias = tuple[int, int, str]  # begin, end and correction of a misspelt word

# The weight of an occurrence in each of `ToolText.fields` and in the keywords of routes. A word that names a
# tool is what people ask for, however often prose has another: "wether" is the weather, not whether.
_IN_NAME = 4.0
_WEIGHTS = (_IN_NAME, 1.0, 1.0, 1.0, _IN_NAME)


def speller_of(
    fields: Sequence[Sequence[str]], keywords: Sequence[str] = (), shared: Speller | None = None
) -> Speller:
    """A speller over the texts of tools, by field as in `ToolText.fields`, and over keywords.

    shared: a speller whose words this one also knows, without a copy. Memory follows the distinct words,
    about 50 bytes each; reading costs some 10 ns a character.
    """
    words = Lexicon.of_texts(*_weighed(fields, keywords))
    return Speller(words, general_words(), language_gate()) if shared is None else shared.with_own(words)


def changed_speller(
    speller: Speller,
    removed: tuple[Sequence[Sequence[str]], Sequence[str]],
    added: tuple[Sequence[Sequence[str]], Sequence[str]],
) -> Speller:
    """The speller without the removed texts and keywords, and with the added ones.

    removed, added: as `speller_of` takes them.
    """
    return speller.with_changes(*_weighed(*removed), *_weighed(*added))


def _weighed(
    fields: Sequence[Sequence[str]], keywords: Sequence[str]
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """All texts, and the weight of each one's words."""
    every = (*fields, keywords)
    weights = np.repeat(np.array(_WEIGHTS, np.float32), [len(texts) for texts in every])
    return list(chain.from_iterable(every)), weights


class DeferredSpeller:
    """A speller that reads the catalog's words at the first message that may need them.

    A message whose words are all in the general vocabulary is right in every catalog.
    """

    __slots__ = ("_speller",)

    def __init__(self, make: Callable[[], Speller]) -> None:
        """make: makes the speller, such as `speller_of`."""
        self._speller = Deferred(make)

    @property
    def speller(self) -> Speller:
        """The speller itself."""
        return self._speller()

    def knows_words_of(self, text: str) -> bool:
        """Whether the text is right without the words of the catalog."""
        return general_words().knows_words_of(text)

    def corrections(self, text: str) -> list[Correction]:
        """Begin, end and correction of each misspelt word."""
        return self._speller().corrections(text)


@cache  # two threads may both load it; the second replaces the first
def general_words() -> Lexicon:
    """The whole words of `models/vocab.txt`, about 21,000, read at the first call."""
    return Lexicon.of_vocabulary(_vocabulary(), _FLAT)


@cache
def language_gate() -> LanguageGate:
    """The gate of the built-in table: tells which messages are not English."""
    with resources.as_file(resources.files(_MODELS).joinpath("static_multilingual", "gate.npy")) as path:
        weights = np.load(path)
    return LanguageGate(WordPiece(_vocabulary()), weights.astype(np.float32))


def _vocabulary() -> bytes:
    return resources.files(_MODELS).joinpath("vocab.txt").read_bytes()
