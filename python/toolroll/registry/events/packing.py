"""Packs columns of numbers and a text into few bytes, for the parts of rows that no query reads.

Each column is stored byte by byte: first the highest byte of each number, then the next one. The high bytes
of similar numbers are alike, so they compress well; the low bytes of measured numbers are noise, and are
stored as they are. The text is JSON; the compressor knows the words of most texts beforehand.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_FORM = 1
_TYPES: tuple[npt.DTypeLike, ...] = ("<u1", "<u4", "<f2", "<f4", "<f8")
_CODES = {np.dtype(one): code for code, one in enumerate(_TYPES)}
_LEVEL = 6
# Words of usual rows, the most frequent last. It is a part of the format: another one needs another _FORM.
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
# A copy of a compressor is cheaper than a new one, which has to index the words. Its window holds the words
# and a usual row: 32 kB to copy. With zlib's defaults it would be 268 kB.
_COMPRESSOR = zlib.compressobj(_LEVEL, zlib.DEFLATED, -12, 5, zlib.Z_DEFAULT_STRATEGY, _WORDS)


class Column(NamedTuple):
    """Numbers to be packed.

    Attributes:
        values: one-dimensional, of a type that packing knows.
        noise: how many low bytes of each number are not worth compressing.
    """

    values: npt.NDArray[Any]
    noise: int = 0


def pack(columns: Sequence[Column], text: bytes = b"") -> bytes:
    """The text and the columns as bytes."""
    high, low = [len(text).to_bytes(4, "little"), text], []
    for values, noise in columns:
        high.append(bytes((_CODES[values.dtype] | noise << 4,)) + len(values).to_bytes(3, "little"))
        content, width = values.tobytes(), values.itemsize
        planes = [content[place::width] for place in range(width)]  # cheaper than numpy's for few numbers
        high += planes[noise:]
        low += planes[:noise]
    compressor = _COMPRESSOR.copy()
    packed = compressor.compress(b"".join(high)) + compressor.flush()
    return b"".join((bytes((_FORM,)), len(packed).to_bytes(3, "little"), packed, *low))


def unpack(data: bytes) -> tuple[bytes, list[npt.NDArray[Any]]]:
    """Reverses `pack`: the text and the columns. Raises ValueError for bytes of another form."""
    if data[:1] != bytes((_FORM,)):
        raise ValueError(f"packed form is {data[:1]!r}, must be {_FORM}")
    at_low = 4 + int.from_bytes(data[1:4], "little")
    stream = zlib.decompressobj(-15, _WORDS)
    try:
        high = stream.decompress(data[4:at_low])
    except zlib.error as error:
        raise ValueError(f"packed bytes are damaged: {error}") from error
    if not stream.eof:
        raise ValueError("packed bytes are cut off")
    at = 4 + int.from_bytes(high[:4], "little")
    text, columns = high[4:at], []
    while at < len(high):
        code, count = high[at], int.from_bytes(high[at + 1 : at + 4], "little")
        kind, noise = np.dtype(_TYPES[code & 15]), code >> 4
        at += 4
        end, end_low = at + count * (kind.itemsize - noise), at_low + count * noise
        planes = np.frombuffer(data[at_low:end_low] + high[at:end], np.uint8).reshape(kind.itemsize, count)
        columns.append(np.ascontiguousarray(planes.T).view(kind).reshape(count))
        at, at_low = end, end_low
    return text, columns


def float_column(values: npt.NDArray[np.floating[Any]] | None, noise: int = 0) -> Column:
    """A column of floats, in single precision if that loses nothing; empty for None. `floats` reverses it.

    noise: for single precision.
    """
    if values is None:
        return Column(np.empty(0, "<f4"), noise)
    if values.dtype == np.float32:
        return Column(values.astype("<f4", copy=False), noise)
    with np.errstate(over="ignore"):
        single = values.astype("<f4")
    return (
        Column(single, noise)
        if np.array_equal(single, values, equal_nan=True)
        else Column(values.astype("<f8"), noise)
    )


def floats(column: npt.NDArray[Any], count: int) -> list[float | None]:
    """The values of a column that `float_column` made of so many; NaN is None."""
    if not len(column):
        return [None] * count
    found: list[float | None] = column.astype(np.float64).tolist()
    if np.isnan(column).any():
        return [None if value != value else value for value in found]
    return found
