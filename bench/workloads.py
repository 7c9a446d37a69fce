"""Seeded data for the benchmarks: vectors and keywords, beside the tools and messages of the package."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from toolroll.lab.evaluation.workloads import (
    ADJECTIVES,
    APPS,
    NOUNS,
    VERBS,
    labelled_messages,
    messages,
    tools,
    words,
)

__all__ = [
    "clustered_vectors",
    "keyword_messages",
    "keywords",
    "messages",
    "queries_near",
    "targets",
    "tools",
]

LATENT_DIMS = 32


def clustered_vectors(n: int, dim: int = 384, seed: int = 0) -> NDArray[np.float32]:
    """float32[n, dim] of unit rows that lie as sentence vectors do.

    About sqrt(n) clusters in 32 latent dimensions, all of them leaning towards one common direction, with a
    little noise in every dimension. `queries_near` makes the queries.
    """
    generator = np.random.default_rng([seed, n, dim])
    latent = min(LATENT_DIMS, dim)
    basis, _ = np.linalg.qr(generator.standard_normal((dim, latent)))
    centres = generator.standard_normal((max(2, round(n**0.5)), latent))
    common = generator.standard_normal(dim) / dim**0.5
    rows = np.empty((n, dim), dtype=np.float32)
    for start in range(0, n, 50_000):  # in blocks: a million rows never exist as float64
        m = min(50_000, n - start)
        points = centres[generator.integers(len(centres), size=m)]
        points = points + 0.5 * generator.standard_normal((m, latent))
        block = points @ basis.T / latent**0.5
        block += 0.6 * common + 0.25 * generator.standard_normal((m, dim)) / dim**0.5
        rows[start : start + m] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def queries_near(vectors: NDArray[np.float32], count: int, seed: int = 1) -> NDArray[np.float32]:
    """float32[count, dim] unit queries: rows of the set moved a good way off, as a message is from a tool."""
    generator = np.random.default_rng([seed, *vectors.shape])
    picked = vectors[generator.integers(len(vectors), size=count)]
    noise = generator.standard_normal(picked.shape) * (0.6 / vectors.shape[1] ** 0.5)
    moved = picked + noise
    return np.ascontiguousarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), dtype=np.float32)


def targets(n: int, catalog: int = 158, seed: int = 1) -> list[tuple[str, str, str]]:
    """(app, verb, noun) that each of `messages` asks for: a good answer has a tool of that name in it."""
    return [target for _, target in labelled_messages(n, catalog, seed)]


_SYLLABLES = words(
    "ba be bi bo ca ce co da de di do fa fi ga go ha la le li lo ma me mi mo na ne ni no pa pe pi po ra "
    "re ri ro sa se si so ta te ti to va ve vi"
)


def keywords(n: int, seed: int = 2) -> list[str]:
    """Makes n distinct lower-case keywords of one to three words, such as routes have."""
    rng = random.Random(seed)
    stock = [*VERBS, *NOUNS, *APPS, *ADJECTIVES]
    made: dict[str, None] = dict.fromkeys(rng.sample(stock, min(n // 4, len(stock))))
    while len(made) < n:
        invented = "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 4)))
        pair = f"{rng.choice(stock)} {rng.choice(stock)}"
        made[rng.choice((invented, f"{invented} {rng.choice(stock)}", pair))] = None
    return list(made)


def keyword_messages(count: int, length: int, patterns: list[str], seed: int = 3) -> list[str]:
    """Makes count ASCII messages of just ``length`` characters; about one word in twelve begins a keyword."""
    rng = random.Random(seed)
    small = words("the a my our please with and for of to in on it that this could")
    stock = [*VERBS, *NOUNS, *ADJECTIVES, *small]
    made = []
    for _ in range(count):
        text: list[str] = []
        size = 0
        while size <= length:
            word = rng.choice(patterns) if rng.random() < 1 / 12 else rng.choice(stock)
            text.append(word)
            size += len(word) + 1
        made.append(" ".join(text)[:length])
    return made
