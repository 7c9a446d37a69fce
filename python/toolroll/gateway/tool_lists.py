"""Decides which tools a client sees, and makes its list.

- `search`: the core tools of the caller's page, `search_tools` and `call_tool`. The list does not change, so
  every client can handle it, and its prompt cache stays.
- `dynamic`: the same tools, and the tools that the searches of this conversation found. Only for clients that
  read the list again after `tools/list_changed`.
- `all`: everything that policy allows, for clients with their own search.
- `auto`: depends on the client and on the number of tools: a search among a few tools helps nobody.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

from toolroll.formats.schemas import SentTools
from toolroll.gateway.options import Mode
from toolroll.gateway.server_side import SharedResult

_MOST_TOOLS = 20_000  # in all lists that are kept


@dataclass(frozen=True, slots=True, eq=False)
class McpToolList:
    """One list.

    Attributes:
        result: the answer to `tools/list`.
        digest: the same for equal lists.
    """

    result: SharedResult
    digest: bytes
    _items: tuple[Any, ...]  # kept, so that their ids are not used again


class McpToolLists:
    """The most recent lists. Equal lists are made once.

    The key of a list is the identity of each of its objects: the tools that this caller may have now. So a
    caller never gets the list of another caller with other tools.
    """

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[int, ...], McpToolList] = OrderedDict()
        self._size = 0

    def of(self, tools: SentTools) -> McpToolList:
        """Returns the list with exactly these tools."""
        key = tuple(map(id, tools.items))
        found = self._lists.get(key)
        if found is not None:
            self._lists.move_to_end(key)
            return found
        digest = hashlib.sha256(tools.text()).digest()
        found = McpToolList(SharedResult({"tools": tools.schemas()}), digest, tuple(tools.items))
        self._lists[key] = found
        self._size += len(key)
        while self._size > _MOST_TOOLS and len(self._lists) > 1:
            self._size -= len(self._lists.popitem(last=False)[0])
        return found


ListMode = Literal["search", "dynamic", "all"]

FEW = 15  # tools, up to which they are all shown
# Clients that read the list again after a notification.
_REREADS = re.compile(r"(?i)visual studio code|vscode|mcp[- ]inspector|inspector-client")


def list_mode(mode: Mode, client: str, tools: int | None) -> ListMode:
    """Decides how a client sees the tools.

    client: its own name. tools: number of tools that the caller may have; None while servers are being
    started, because some clients read the list only once.
    """
    if mode != "auto":
        return mode
    if tools is not None and tools <= FEW:
        return "all"
    return "dynamic" if _REREADS.search(client) else "search"
