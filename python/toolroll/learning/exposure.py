"""The tools that one selection showed, as plain values that can be stored until outcomes arrive."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolroll.model.identity import ToolKey

_TOOL = struct.Struct("<QQQd")  # a tool's three keys, and its share of calls
_KEYS = struct.Struct("<QQQ")


class ShownTool(NamedTuple):
    """A tool that the selection showed, or that the model found by a later search.

    Attributes:
        key: the key of its statistics.
        expected: in [0, 1]: the share of calls that similarity alone predicts.
    """

    name: str
    key: ToolKey
    expected: float

    def to_record(self) -> list[Any]:
        """A list for JSON. Keys are text, because JSON's readers round large numbers."""
        return [self.name, *map(str, self.key), round(self.expected, 6)]

    @property
    def as_stored(self) -> ShownTool:
        """The tool with `expected` rounded as in stores."""
        return self._replace(expected=round(self.expected, 6))


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """One event: the tools that were shown, to whom, in which context.

    Attributes:
        org: the organisation whose statistics its outcomes change.
        at: when the tools were shown, seconds since the epoch.
        reporter: who reports its outcomes, such as a user's id; "" for the application itself.
        page, tier, category: the context of its counts.
        shown: the tools, in the order in which they were sent.
        vector: float16[dim] of the message; None without an embedder.
        space: identity of the embedder of the vector.
    """

    event_id: str
    org: str
    at: float
    reporter: str
    page: str
    tier: str
    category: str
    shown: tuple[ShownTool, ...]
    vector: npt.NDArray[np.float16] | None = None
    space: str = ""


def pack_tools(tools: Iterable[ShownTool]) -> bytes:
    """The tools without their names: three keys and the expected calls of each."""
    return b"".join([_TOOL.pack(*tool.key, tool.expected) for tool in tools])


def unpack_keys(packed: bytes) -> list[ToolKey]:
    """Reverses `pack_key` for several concatenated keys."""
    return [_new_key(numbers) for numbers in _KEYS.iter_unpack(packed)]


def unpack_tools(names: Sequence[str], packed: bytes) -> tuple[ShownTool, ...]:
    """Reverses `pack_tools`. Raises ValueError if the number of bytes does not fit the names."""
    if len(packed) != len(names) * _TOOL.size:
        raise ValueError(f"has {len(packed)} bytes of keys for {len(names)} tools")
    # As `ShownTool(name, ToolKey(…), …)`, whose two calls in Python would take most of a report's time.
    return tuple(
        [
            _new_tool((name, _new_key(numbers[:3]), numbers[3]))
            for name, numbers in zip(names, _TOOL.iter_unpack(packed), strict=True)
        ]
    )


_new_key: Callable[[Iterable[Any]], ToolKey] = partial(tuple.__new__, ToolKey)
_new_tool: Callable[[Iterable[Any]], ShownTool] = partial(tuple.__new__, ShownTool)
