"""What `_core.WordPiece` and `_core.TokenTable` must compute, by the `tokenizers` package and numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers


class WordPieceTwin:
    def __init__(self, vocabulary: Sequence[str]) -> None:
        ids = {piece: row for row, piece in enumerate(vocabulary)}
        self._tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
        self._tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def encode(self, text: str, max_tokens: int = 0) -> npt.NDArray[np.int32]:
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return np.array(ids[:max_tokens] if max_tokens else ids, np.int32)


class TokenTableTwin:
    def __init__(
        self, vocabulary: Sequence[str], table: npt.NDArray[np.int8], scale: npt.NDArray[np.float32]
    ) -> None:
        self._pieces = WordPieceTwin(vocabulary)
        self._rows = table.astype(np.float64) * scale[:, None].astype(np.float64)
        self.dim = table.shape[1]

    def embed(self, text: str) -> npt.NDArray[np.float32]:
        total = self._rows[self._pieces.encode(text)].sum(0)
        length = np.linalg.norm(total)
        return (total / length if length > 0 else total).astype(np.float32)

    def embed_batch(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.array([self.embed(text) for text in texts], np.float32).reshape(len(texts), self.dim)
