"""What a client is shown: everything, or a few tools with a search, or a list that grows with the search.

- `search`: the core tools of the caller's page, `search_tools` and `call_tool`. The list does not change, so
  every client can handle it, and its prompt cache stays.
- `dynamic`: the same, and what the searches of this conversation found. Only for clients that read the list
  again after `tools/list_changed`.
- `all`: everything that policy allows, for clients that have a search of their own.
- `auto`: by the client, and by the number of tools: a search among a few tools helps nobody.
"""

from __future__ import annotations

import re
from typing import Literal

from toolroll.gateway.options import Mode

Shown = Literal["search", "dynamic", "all"]

FEW = 15  # tools, up to which they are all shown
# Clients that read the list again when they are told that it changed.
_REREADS = re.compile(r"(?i)visual studio code|vscode|mcp[- ]inspector|inspector-client")


def shown_for(mode: Mode, client: str, tools: int | None) -> Shown:
    """What this client is shown.

    client: its name for itself. tools: that the caller may have; None while servers are being started, when
    a list of few tools could be all that a client ever reads.
    """
    if mode != "auto":
        return mode
    if tools is not None and tools <= FEW:
        return "all"
    return "dynamic" if _REREADS.search(client) else "search"
