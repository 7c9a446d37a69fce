"""What a catalog's messages are spelt after: its own words, and a general English vocabulary."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from importlib import resources
from itertools import chain

import numpy as np

from toolroll._core import Lexicon, Speller

# The vocabulary of an embedder is in order of frequency behind its special and single-letter pieces, so the
# n-th word is used about 1 / (n + 1,000) as often as all of them: Zipf's law without its steep beginning.
_FLAT = 1_000


def speller_of(columns: Iterable[Sequence[str]]) -> Speller:
    """A speller over what tools say of themselves: columns as from `tool_text.fields`, one a field.

    A word counts for as often as it occurs, wherever it does. Memory follows the distinct words, 50 to 100
    bytes each; reading costs about 10 ns a character.
    """
    return Speller(Lexicon.of_texts(list(chain.from_iterable(columns))), general_words())


def general_words() -> Lexicon:
    """The whole words of `models/vocab.txt`: about 21,000, one copy a process, read when first asked for."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded


_lock = threading.Lock()
_loaded: Lexicon | None = None


def _load() -> Lexicon:
    text = resources.files("toolroll.models").joinpath("vocab.txt").read_text("utf-8")
    words = [piece for piece in text.splitlines() if len(piece) >= 3 and piece.isascii() and piece.isalpha()]
    return Lexicon.of_words(words, (1 / (np.arange(len(words)) + _FLAT)).astype(np.float32))
