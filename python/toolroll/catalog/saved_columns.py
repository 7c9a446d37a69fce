"""Columns of a saved catalog that are read row by row from the mapped file: tools and names.

A million tools cost no Python object until they are shown. The last decoded tools are kept, so that a tool
that is shown often is decoded once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from toolroll._core import SortedStrings
from toolroll.model.arrays import Rows
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.tools import Tool

Value = TypeVar("Value")

_MOST_DECODED = 4_096  # tools that are kept; forgotten all at once when there are more
_DEFAULTS = {field.name: getattr(Tool("x"), field.name) for field in fields(Tool) if field.compare}
_TUPLES = frozenset(name for name, value in _DEFAULTS.items() if isinstance(value, tuple))


def encoded(tool: Tool) -> bytes:
    """The tool as JSON, without default values and without the caller's own object.

    Raises InvalidInput if a field has no form in JSON.
    """
    found = {name: value for name, default in _DEFAULTS.items() if (value := getattr(tool, name)) != default}
    try:
        try:
            return _json(found, False).encode()
        except UnicodeEncodeError:  # half of a surrogate pair, in a field that no model reads
            return _json(found, True).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"tool {tool.name!r}: cannot be saved as JSON: {error}") from error


def _json(value: object, is_ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":"), default=plain)


def plain(value: object) -> object:
    """The value for JSON's encoder: a mapping of another kind as a dict."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def joined(texts: Iterable[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """All texts end to end, and the end of each text."""
    parts = list(texts)
    ends = np.cumsum([len(part) for part in parts], dtype=np.uint64)
    return np.frombuffer(b"".join(parts), np.uint8), ends


class SavedTools(Sequence[Tool]):
    """Tools by row, decoded when they are read."""

    __slots__ = ("_decoded", "_ends", "_text")

    def __init__(self, text: npt.NDArray[np.uint8], ends: npt.NDArray[np.uint64]) -> None:
        """text, ends: from `joined`. Raises ValueError if the ends do not ascend to the size of the text."""
        check_ends(ends, len(text))
        self._text, self._ends = text.data, ends
        self._decoded: dict[int, Tool] = {}

    @overload
    def __getitem__(self, row: int) -> Tool: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[Tool, ...]: ...
    def __getitem__(self, row: int | slice) -> Tool | tuple[Tool, ...]:
        if isinstance(row, slice):
            return tuple(map(self._decode, range(*row.indices(len(self)))))
        tool = self._decoded.get(row)
        if tool is None:
            tool = self._decode(range(len(self))[row])
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            self._decoded[row] = tool
        return tool

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[Tool]:
        return map(self._decode, range(len(self)))

    def _decode(self, row: int) -> Tool:
        """The tool of a row. Raises InvalidDefinition if the file holds no tool there."""
        begin = int(self._ends[row - 1]) if row else 0
        try:
            found = json.loads(bytes(self._text[begin : int(self._ends[row])]))
            for name in _TUPLES & found.keys():
                found[name] = tuple(found[name])
            return Tool(**found)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise InvalidDefinition(f"saved catalog: row {row} is no tool: {error}") from error


class SavedNames(Mapping[str, int]):
    """Tool name → row, searched in the file: O(log n)."""

    __slots__ = ("_strings",)

    def __init__(self, strings: SortedStrings) -> None:
        """strings: the names, ascending."""
        self._strings = strings

    def __getitem__(self, name: str) -> int:
        row = self._strings.find(name) if isinstance(name, str) else -1
        if row < 0:
            raise KeyError(name)
        return row

    @overload
    def get(self, name: str, default: None = None, /) -> int | None: ...
    @overload
    def get(self, name: str, default: int | Value, /) -> int | Value: ...
    def get(self, name: str, default: object = None, /) -> object:
        """The row of the name, or the default."""
        row = self._strings.find(name) if isinstance(name, str) else -1
        return row if row >= 0 else default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._strings.find(name) >= 0

    def __iter__(self) -> Iterator[str]:
        return map(self._strings.__getitem__, range(len(self._strings)))

    def __len__(self) -> int:
        return len(self._strings)

    def of_rows(self, rows: Rows) -> tuple[str, ...]:
        """The names of these rows."""
        return self._strings.texts(rows)


class RowLists(Mapping[str, Rows]):
    """Name → ascending rows, as slices of one column of the file."""

    __slots__ = ("_begins", "_places", "_rows")

    def __init__(self, names: Iterable[str], begins: npt.NDArray[np.int64], rows: Rows, size: int) -> None:
        """names: in the order of the lists. begins, rows: from `row_lists`. size: rows in the catalog.

        Raises ValueError if these are no lists of rows of such a catalog.
        """
        self._places = {name: at for at, name in enumerate(names)}
        check_ends(begins[1:], len(rows))
        if len(begins) != len(self._places) + 1 or begins[0] != 0:
            raise ValueError("not one list of rows a name")
        check_rows(rows, size)
        self._begins, self._rows = begins, rows

    def __getitem__(self, name: str) -> Rows:
        at = self._places[name]
        rows: Rows = self._rows[self._begins[at] : self._begins[at + 1]]
        return rows

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def row_lists(lists: Iterable[Rows]) -> tuple[npt.NDArray[np.int64], Rows]:
    """The lists end to end: the begin of each, and the end of the last; and the rows."""
    parts = list(lists)
    begins = np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64)
    return begins, np.concatenate([*parts, np.empty(0, np.int32)]).astype(np.int32)


def check_rows(rows: npt.NDArray[Any], size: int) -> None:
    """Raises ValueError unless all are rows of a catalog of this size."""
    if rows.dtype != np.int32 or (len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < size):
        raise ValueError("a row is out of range")


def check_ends(ends: npt.NDArray[Any], size: int) -> None:
    """Raises ValueError unless the ends ascend to this size."""
    if ends.dtype.kind not in "iu" or int(ends[-1] if len(ends) else 0) != size:
        raise ValueError("the last end is not the size")
    if len(ends) and (int(ends[0]) < 0 or (ends[1:] < ends[:-1]).any()):
        raise ValueError("the ends do not ascend")
