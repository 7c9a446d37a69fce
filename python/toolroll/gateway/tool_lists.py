"""Lists of tools as they are sent: made once, and sent to every client whose list is the same."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from toolroll.formats.schemas import SentTools
from toolroll.gateway.server_side import Prepared

_MOST_TOOLS = 20_000  # in all lists that are kept


@dataclass(frozen=True, slots=True, eq=False)
class ToolList:
    """One list.

    Attributes:
        result: the answer to `tools/list`. Nobody changes it.
        digest: the same for equal lists.
    """

    result: Prepared
    digest: bytes
    _items: tuple[Any, ...]  # kept, so that no other object gets the id of one of them


class ToolLists:
    """The lists that were sent last.

    A list is found by the very objects in it, which are the tools that this caller may have now. So no list
    can reach a caller whose own list differs.
    """

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[int, ...], ToolList] = OrderedDict()
        self._size = 0

    def of(self, tools: SentTools) -> ToolList:
        """The list with exactly these tools."""
        key = tuple(map(id, tools.items))
        found = self._lists.get(key)
        if found is not None:
            self._lists.move_to_end(key)
            return found
        digest = hashlib.sha256(tools.text()).digest()
        found = ToolList(Prepared({"tools": tools.schemas()}), digest, tuple(tools.items))
        self._lists[key] = found
        self._size += len(key)
        while self._size > _MOST_TOOLS and len(self._lists) > 1:
            self._size -= len(self._lists.popitem(last=False)[0])
        return found
