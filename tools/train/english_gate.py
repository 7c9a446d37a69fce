"""Fits the gate of the multilingual table: a weight for each WordPiece, which tells other languages from English.

A logistic regression over the pieces of a text in Latin letters, on whole texts and on parts of one to four words.
English counts more than the other languages, and the bias is set so that hardly any English text is taken for
another language: an English text that is read by the wrong table loses its tools, while a message in another
language that is read as English is where it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tools.train.multilingual_pieces import accents

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

LATIN = ("es", "fr", "de", "pt", "it", "tr", "vi", "pl", "id")
ENGLISH_COUNTS = 3.0
DECAY = 2.0  # of the squared weights, over the number of texts
STEPS = 400
RATE = 0.1
OF_ACCENT = 1.0  # at most, since English texts quote names
MARGIN = 1.0
MOST_TAKEN = 0.0005  # share of held-out English texts that the gate may take for another language


def parts_of(texts: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Of each text the whole, and one part of one to four words."""
    out = []
    for text in texts:
        words = text.split()
        size = int(rng.integers(1, 5))
        begin = int(rng.integers(0, max(1, len(words) - size + 1)))
        out += [text, " ".join(words[begin : begin + size])]
    return out


def fit_gate(
    english: Sequence[str],
    others: Sequence[str],
    encode: Callable[[str, int], npt.NDArray[np.int32]],
    size: int,
) -> Floats:
    """float32[size + 2]: weights of pieces, of an accented letter, and the bias. Every tenth text is held out."""
    texts = [*english, *others]
    is_other = np.repeat([0.0, 1.0], [len(english), len(others)])
    bags = [np.append(encode(text, 400), [size] * accents(text)).astype(np.int64) for text in texts]
    owners = np.repeat(np.arange(len(bags)), [*map(len, bags)])
    pieces = np.concatenate(bags)
    is_held = np.arange(len(bags)) % 10 == 0
    count = np.where(is_held, 0.0, np.where(is_other > 0, 1.0, ENGLISH_COUNTS))
    weights, bias = np.zeros(size + 1), 0.0
    first, second = np.zeros(size + 2), np.zeros(size + 2)

    def sums() -> Doubles:
        found: Doubles = np.bincount(owners, weights[pieces], len(bags)) + bias
        return found

    for step in range(STEPS):
        error = count * (1 / (1 + np.exp(-np.clip(sums(), -40, 40))) - is_other)
        slope = np.append(np.bincount(pieces, error[owners], size + 1) + DECAY * weights, error.sum())
        slope /= len(bags) / 1000
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        move = RATE * (1 - step / STEPS) * first / (1 - 0.9 ** (step + 1))
        move /= np.sqrt(second / (1 - 0.99 ** (step + 1))) + 1e-6
        weights -= move[:-1]
        bias -= float(move[-1])
    found = sums()
    held = np.sort(found[is_held & (is_other == 0)])
    limit = max(0.0, float(held[int((1 - MOST_TAKEN) * (len(held) - 1))]))
    bias -= limit + MARGIN
    weights[size] = min(weights[size], OF_ACCENT)
    missed = float((found[is_held & (is_other > 0)] <= limit + MARGIN).mean())
    print(
        f"gate: {len(held):,} English texts held out, bias {bias:.2f} (moved {limit:.2f}), {missed:.3f} of others missed"
    )
    return np.concatenate((weights, [bias])).astype(np.float16).astype(np.float32)
