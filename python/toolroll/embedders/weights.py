"""Reads weights from published packages, which are never imported, after comparing their checksum.

Each reader yields views of the file's bytes, so that a large table stays mapped instead of copied. The
readers support what the one known file contains, not the whole format.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll.model.errors import EmbedderUnavailable


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """One published file that an embedder can read.

    Attributes:
        whose: the embedder's name in its errors.
        package: the module whose folder has the file; `distribution` is its name for pip.
        file: the path inside that folder.
        sha256: of the whole file; no other file is accepted.
        install: the command that installs it.
    """

    whose: str
    package: str
    distribution: str
    file: str
    sha256: str
    install: str

    def installed(self) -> Path:
        """The path of the file in its installed package."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise EmbedderUnavailable(
                f"{self.whose}: the package {self.distribution} is not installed: {self.install}"
            )
        return Path(spec.submodule_search_locations[0]) / self.file

    def read(self, path: Path) -> memoryview:
        """The mapped bytes of `path`; raises EmbedderUnavailable if their checksum differs."""
        try:
            with open(path, "rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise EmbedderUnavailable(
                f"{path}: cannot read the weights of the {self.whose}: {error}; {self.install}"
            ) from error
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise EmbedderUnavailable(
                f"{path}: sha256 is {found}, must be {self.sha256} "
                f"({self.file} of {self.distribution}); {self.install}"
            )
        return memoryview(content)


def safetensors(content: memoryview) -> dict[str, npt.NDArray[np.float32]]:
    """The float32 tensors of a safetensors file.

    Source: github.com/huggingface/safetensors, "Format": the length of a JSON header, the header, the bytes.
    """
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, about in json.loads(bytes(content[8:start])).items():
        if about.get("dtype") == "F32":
            first, end = about["data_offsets"]
            flat = np.frombuffer(content[start + first : start + end], "<f4")
            tensors[name] = flat.reshape(about["shape"])
    return tensors


# What is needed of protobuf (protobuf.dev/programming-guides/encoding) and of onnx.proto:
_GRAPH = 7  # ModelProto
_INITIALIZER = 5  # GraphProto
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9  # TensorProto
_TYPES: dict[int, type[np.generic]] = {1: np.float32, 3: np.int8}


def onnx_initialisers(content: memoryview) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Name and array of each int8 or float32 initialiser of an ONNX file."""
    for field, graph in protobuf_fields(content):
        if field != _GRAPH:
            continue
        for inner, tensor in protobuf_fields(graph):
            if inner != _INITIALIZER:
                continue
            dims: list[int] = []
            kind, name, raw = 0, "", None
            for part, value in protobuf_fields(tensor):
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


def protobuf_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
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
