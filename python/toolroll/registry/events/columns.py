"""Columns of numbers: the candidates of a selection, and columns packed into one value of a row.

No query reads a packed value. A column stores the lowest bytes of all numbers first, then the next bytes,
because the high bytes of similar numbers are alike. The compressor has a dictionary of common words, so that
two usual rows fit into a page of SQLite.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_HEAD_BYTES = 4  # of the length of the head: a list of the text's length and of each column's type and length
_LEVEL, _BITS, _MEMORY = 6, -15, 8
# Words of usual rows, the most frequent last. They are a part of the format.
_WORDS = (
    b'"anthropic","gemini","openai","loaded":{"used":[["sent":["turn":1,'
    b'[{"user":"user-","roles":["admin"],"settings":[],"provider":"openai","required":[],"exclude":[],'
    b'"only":[],"everything":false},{"k":8,"max_tools":null,"budget_tokens":null,"always_include":[],"sent":[],'
    b'"conversation":null,"earlier":[]},["read","embed","visibility","availability","page","routes",'
    b'"affinity","retrieval","learning","additions","always_included","cap","conversation_list",'
    b'"stable_order","order","total"]]'
    b'[{"user":"","roles":[],"settings":[],"provider":"","required":[],"exclude":[],'
    b'"only":[],"everything":false},{"k":null,"max_tools":null,"budget_tokens":null,"always_include":[],'
    b'"sent":[],"conversation":null,"earlier":[]},["read","embed","visibility","availability","page","routes",'
    b'"affinity","retrieval","learning","always_included","cap","conversation_list","stable_order","total"]]'
)


def pack(columns: Sequence[npt.NDArray[Any]], text: bytes = b"") -> bytes:
    """The text and the columns, compressed."""
    head = json.dumps([len(text), *([one.dtype.str, len(one)] for one in columns)]).encode()
    planes = [one.view(np.uint8).reshape(len(one), one.itemsize).T.tobytes() for one in columns]
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _BITS, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _WORDS)
    plain = b"".join((len(head).to_bytes(_HEAD_BYTES, "little"), head, text, *planes))
    return compressor.compress(plain) + compressor.flush()


def unpack(data: bytes) -> tuple[bytes, list[npt.NDArray[Any]]]:
    """Reverses `pack`: the text and the columns. Raises ValueError for any other bytes."""
    stream = zlib.decompressobj(_BITS, _WORDS)
    try:
        plain = stream.decompress(data)
    except zlib.error as error:
        raise ValueError(f"packed bytes are damaged: {error}") from error
    if not stream.eof:
        raise ValueError("packed bytes are cut off")
    at = _HEAD_BYTES + int.from_bytes(plain[:_HEAD_BYTES], "little")
    length, *forms = json.loads(plain[_HEAD_BYTES:at])
    text, columns = plain[at : at + length], list[npt.NDArray[Any]]()
    at += length
    for name, count in forms:
        kind = np.dtype(name)
        planes = np.frombuffer(plain, np.uint8, count * kind.itemsize, at).reshape(kind.itemsize, count)
        columns.append(np.ascontiguousarray(planes.T).view(kind).reshape(count))
        at += count * kind.itemsize
    return text, columns


def float_column(values: npt.NDArray[np.floating[Any]] | None) -> npt.NDArray[np.floating[Any]]:
    """The floats, in single precision if that loses nothing; empty for None."""
    if values is None:
        return np.empty(0, "<f4")
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    return single if np.array_equal(single, values, equal_nan=True) else values.astype("<f8")


def floats(column: npt.NDArray[Any], count: int) -> list[float | None]:
    """Reverses `float_column` for `count` values; NaN becomes None."""
    if not len(column):
        return [None] * count
    return [None if value != value else value for value in column.astype(np.float64).tolist()]


FloatColumn = npt.NDArray[np.floating[Any]]


class CandidateColumns(NamedTuple):
    """Ranked tools, best first.

    Attributes:
        keys: the tools' packed keys (`pack_key`), one after another.
        score, mean, sd, show, propensity: float[n]; None if unknown.
    """

    names: Sequence[str] = ()
    keys: bytes = b""
    score: FloatColumn | None = None
    mean: FloatColumn | None = None
    sd: FloatColumn | None = None
    show: FloatColumn | None = None
    propensity: FloatColumn | None = None

    @property
    def numbers(self) -> tuple[FloatColumn | None, ...]:
        """The columns of numbers."""
        return self[2:]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Each tool's name and numbers."""
        empty = [None] * len(self.names)
        lists = (empty if column is None else column.tolist() for column in self.numbers)
        return zip(self.names, *lists, strict=True)
