"""Vectors of real texts: what software can do, as its documentation puts it, and how people ask for it.

The texts are those of `tools/train/bank`. The queries are messages of its part that no encoder was tuned on.
A benchmark of the scan needs them: its stages exclude rows by the angles between vectors, and the vectors of
`workloads.clustered_vectors` have fewer dimensions of their own than an encoder's.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolroll.embedders.static import StaticEmbedder
from toolroll.model.errors import ToolrollError

__all__ = ["ENCODERS", "text_vectors"]

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]

_BANK = Path(__file__).resolve().parent.parent / "tools" / "train" / "bank"
_KEPT = Path(tempfile.gettempdir()) / "toolroll-bench"
_NOISE = 0.2  # length of what is added to a text's vector that is used again
_QUERIES = 200


def text_vectors(encoder: str, n: int, seed: int = 0) -> tuple[Vectors, Vectors] | None:
    """float32[n, dim] unit rows and float32[200, dim] queries; None if the encoder is not installed.

    The texts' own vectors come first, in random order. Beyond their number (some 12,000) they are used again,
    with noise in every dimension.
    """
    known = _embedded(encoder)
    if known is None:
        return None
    texts, queries = known
    generator = np.random.default_rng([seed, n])
    order = generator.permutation(len(texts))
    rows = np.empty((n, texts.shape[1]), dtype=np.float32)
    rows[: len(texts)] = texts[order[:n]]
    for start in range(len(texts), n, 50_000):
        m = min(50_000, n - start)
        block = generator.standard_normal((m, texts.shape[1]), dtype=np.float32)
        block *= _NOISE / texts.shape[1] ** 0.5
        block += texts[generator.integers(len(texts), size=m)]
        rows[start : start + m] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return rows, queries


def _embedded(encoder: str) -> tuple[Vectors, Vectors] | None:
    """Vectors of all texts and of the queries, from the last run if they are still there."""
    descriptions, messages = _texts()
    path = _KEPT / f"texts-{encoder}-{len(descriptions)}.npz"
    try:
        with np.load(path) as kept:
            return kept["texts"], kept["queries"]
    except (OSError, ValueError, KeyError):
        pass
    try:
        embed = ENCODERS[encoder]()
    except (ImportError, ToolrollError):
        return None
    texts, queries = embed(descriptions), embed(messages)
    _KEPT.mkdir(exist_ok=True)
    np.savez(path, texts=texts, queries=queries)
    return texts, queries


def _texts() -> tuple[list[str], list[str]]:
    descriptions: dict[str, None] = {}
    messages: list[str] = []
    for path in sorted(_BANK.rglob("*.jsonl")):
        if path.parent.name == "languages":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            capability = json.loads(line)
            name = capability["id"].replace(".", " ").replace("_", " ")
            descriptions.update((f"{name}: {text}", None) for text in capability["descriptions"])
            if path.parent.name == "next":
                messages.append(capability["messages"][0])
    every = max(1, len(messages) // _QUERIES)
    return list(descriptions), messages[::every][:_QUERIES]


def _table() -> Embed:
    return StaticEmbedder().embed


def _minilm() -> Embed:
    from toolroll.embedders.minilm import MiniLMEmbedder

    embedder = MiniLMEmbedder()

    def embed(texts: Sequence[str]) -> Vectors:
        return np.concatenate([embedder.embed(texts[i : i + 256]) for i in range(0, len(texts), 256)])

    return embed


ENCODERS: dict[str, Callable[[], Embed]] = {"built-in table": _table, "MiniLM": _minilm}
