"""Any model that sentence-transformers can load, in this process (extra `sentence-transformers`)."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from toolroll.embedders.checks import clean
from toolroll.embedders.fingerprint import TEXT
from toolroll.model.embedder import Embedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

INSTALL = 'pip install "toolroll[sentence-transformers]"'


class Encoder(Protocol):
    """The part of a SentenceTransformer that is used here; any object with this method will do."""

    def encode(self, sentences: list[str], **options: Any) -> Any:
        """A vector for each sentence: float[n, dim]."""
        ...


class SentenceTransformersEmbedder(Embedder):
    """Embeds by a SentenceTransformer, one call at a time.

    The identity is a hash of the loaded weights, layers and tokeniser, so a model that was fine-tuned in
    place gets another one. For an encoder without a `state_dict` it is a hash of its answer to a fixed text.
    Hashing reads the weights once: about three seconds a gigabyte.

    Attributes:
        identity: name and revision.
        dim: the width of its vectors.
    """

    def __init__(
        self,
        model: str | Encoder,
        *,
        local_files_only: bool = True,
        device: str | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        batch: int = 1,
        max_chars: int = 20_000,
    ) -> None:
        """Loads `model`, a folder or a name; or takes a loaded one.

        local_files_only: False lets the library download a model that is not on this machine. batch: above 1
        is up to three times faster, but the last digits of a vector (1e-7 for MiniLM) then depend on the
        other texts of its batch.
        """
        if batch < 1 or max_chars < 1:
            raise InvalidInput(
                f"sentence-transformers embedder: batch is {batch}, max_chars is {max_chars}, "
                "must be at least 1"
            )
        self._name = model if isinstance(model, str) else type(model).__name__
        self._encoder = _loaded(model, local_files_only, device) if isinstance(model, str) else model
        self._query_prefix, self._document_prefix = query_prefix, document_prefix
        self._batch, self._max_chars = batch, max_chars
        self._lock = threading.Lock()  # the library is not thread-safe
        answer = self._encode([TEXT])
        self.dim = int(answer.shape[1])
        digest = hashlib.sha256(f"1\n{query_prefix!r}\n{document_prefix!r}\n{max_chars}\n".encode())
        _digest_of(self._encoder, answer, digest)
        readable = self._name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].replace("@", "-")
        self.identity = f"sentence-transformers:{readable}@{digest.hexdigest()[:12]}"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], unit rows."""
        if not len(texts):
            return np.zeros((0, self.dim), np.float32)
        return self._encode([self._document_prefix + clean(text)[: self._max_chars] for text in texts])

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim]; with different prefixes it differs from the row of `embed`."""
        row: npt.NDArray[np.float32] = self._encode([self._query_prefix + clean(text)[: self._max_chars]])[0]
        return row

    def _encode(self, texts: list[str]) -> npt.NDArray[np.float32]:
        try:
            with self._lock:
                answer = self._encoder.encode(
                    texts, batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True
                )
            numbers = np.asarray(answer, np.float64)
        except Exception as error:  # torch, tokenizers and transformers share no base class
            raise EmbedderUnavailable(f"embedder {self._name}: {type(error).__name__}: {error}") from error
        if numbers.ndim != 2 or len(numbers) != len(texts):
            raise EmbedderUnavailable(
                f"embedder {self._name}: answered shape {numbers.shape}, must be ({len(texts)}, dim)"
            )
        lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise EmbedderUnavailable(f"embedder {self._name}: answered a vector that is zero or not finite")
        units: npt.NDArray[np.float32] = (numbers / lengths[:, None]).astype(np.float32)
        return units


def _loaded(name: str, local_files_only: bool, device: str | None) -> Encoder:
    try:
        from sentence_transformers import (  # type: ignore[import-not-found, unused-ignore]
            SentenceTransformer,
        )
    except ImportError as error:
        raise EmbedderUnavailable(f"sentence-transformers embedder: {error}: {INSTALL}") from error
    try:
        model: Encoder = SentenceTransformer(name, device=device, local_files_only=local_files_only)
    except Exception as error:  # OSError, ValueError and the hub client's own
        hint = "; local_files_only=False lets the library download it" if local_files_only else ""
        raise EmbedderUnavailable(
            f"sentence-transformers embedder: cannot load {name!r}: {type(error).__name__}: "
            f"{error!s:.300}{hint}"
        ) from error
    return model


def _digest_of(encoder: Any, answer: npt.NDArray[np.float32], digest: Any) -> None:
    """Adds weights, layers and tokeniser of the encoder; without a `state_dict`, its answer."""
    if not hasattr(encoder, "state_dict"):
        digest.update(repr([round(float(number), 2) + 0.0 for number in answer[0]]).encode())
        return
    digest.update(repr(encoder).encode())  # layers, pooling, length
    digest.update(str(getattr(encoder, "max_seq_length", "")).encode())
    backend = getattr(getattr(encoder, "tokenizer", None), "backend_tokenizer", None)
    if backend is not None:
        rules = json.loads(backend.to_str())
        for state in ("padding", "truncation"):  # state of the last call, not of the model
            rules.pop(state, None)
        digest.update(json.dumps(rules, sort_keys=True).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        numbers = tensor.detach().cpu().contiguous().flatten()
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(numbers.view(_bytes_type()).numpy() if numbers.numel() else b"")


def _bytes_type() -> Any:
    import torch  # type: ignore[import-not-found, unused-ignore]

    return torch.uint8
