"""From a str to a vector with the static token table, and its tokenising alone, beside what PyPI has.

The peers are the `tokenizers` library, set up as BERT's uncased WordPiece, and the sum of table rows in
numpy on top of it: how static embeddings are usually run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import workloads
from bench.harness import Case
from toolroll import _core

ASKED = 512
LIMIT_US = 10.0  # for a message of 25 tokens
UNKNOWN = "[UNK]"


def cases(quick: bool) -> Iterator[Case]:
    vocabulary, table, scale = _table()
    pieces = _core.WordPiece(vocabulary)
    embedder = _core.TokenTable(vocabulary, table, scale)
    tokenizer = _tokenizer(vocabulary)
    for size, messages in _messages(pieces).items():
        count = np.mean([pieces.encode(text).size for text in messages])
        yield Case(
            operation="WordPiece",
            size=size,
            ours=lambda i, texts=messages: pieces.encode(texts[i % ASKED]),
            peers={"tokenizers": _call(tokenizer, messages)},
            check=lambda texts=messages: _same_ids(pieces, tokenizer, texts),
            note=f"{count:.0f} tokens",
        )
        summed = _in_numpy(tokenizer, vocabulary, table, scale)
        yield Case(
            operation=f"static vector, {table.shape[1]} dimensions",
            size=size,
            ours=lambda i, texts=messages: embedder.embed(texts[i % ASKED]),
            peers={"tokenizers and numpy": _call(summed, messages)},
            check=lambda texts=messages, twin=summed: _same_vectors(embedder, twin, texts),
            limit_us=LIMIT_US if count <= 26 else None,
            note=f"{count:.0f} tokens",
        )


def _table() -> tuple[list[str], NDArray[np.int8], NDArray[np.float32]]:
    """The package's vocabulary, with random rows: what they hold makes no difference to the time."""
    vocabulary = (
        resources.files("toolroll.embedders.data").joinpath("vocab.txt").read_text("utf-8").splitlines()
    )
    generator = np.random.default_rng(7)
    table = generator.integers(-127, 128, (len(vocabulary), 256), dtype=np.int8)
    return vocabulary, table, generator.random(len(vocabulary), dtype=np.float32)


def _messages(pieces: Any) -> dict[str, list[str]]:
    """Messages of 25 tokens on average, and ones with ten times as many."""
    stock = workloads.messages(8 * ASKED)
    short = sorted(stock, key=lambda text: abs(pieces.encode(text).size - 25))[:ASKED]
    return {"a message": short, "ten messages in one": [" ".join(stock[i : i + 10]) for i in range(ASKED)]}


def _tokenizer(vocabulary: list[str]) -> Callable[[str], list[int]] | None:
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        return None
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda text: tokenizer.encode(text).ids


def _in_numpy(
    tokenizer: Callable[[str], list[int]] | None,
    vocabulary: list[str],
    table: NDArray[np.int8],
    scale: NDArray[np.float32],
) -> Callable[[str], NDArray[np.float32]] | None:
    if tokenizer is None:
        return None
    rows = table.astype(np.float32) * scale[:, None]
    unknown = vocabulary.index(UNKNOWN)

    def embed(text: str) -> NDArray[np.float32]:
        total: NDArray[np.float32] = rows[[i for i in tokenizer(text) if i != unknown]].sum(axis=0)
        length = np.linalg.norm(total)
        return total / length if length else total

    return embed


def _call(peer: Callable[[str], Any] | None, texts: list[str]) -> Callable[[int], object] | None:
    return None if peer is None else lambda i: peer(texts[i % ASKED])


def _same_ids(pieces: Any, tokenizer: Callable[[str], list[int]] | None, texts: list[str]) -> str:
    if tokenizer is None:
        return "no tokenizers library to compare with"
    for text in texts:
        assert pieces.encode(text).tolist() == tokenizer(text), text
    return f"same ids for {len(texts)} texts"


def _same_vectors(embedder: Any, twin: Callable[[str], NDArray[np.float32]] | None, texts: list[str]) -> str:
    if twin is None:
        return "no tokenizers library to compare with"
    furthest = max(float(np.max(np.abs(embedder.embed(text) - twin(text)))) for text in texts)
    assert furthest < 2e-6, f"a vector is {furthest:.1e} off"
    return f"equal to {furthest:.0e}"
