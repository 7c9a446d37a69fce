"""`SelectionOptions`: the keyword arguments that the adapters of agent frameworks have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict


class SelectionOptions(TypedDict, total=False):
    """How many tools each turn has, and which ones in any case. All are arguments of `ToolSelector` too.

    Attributes:
        max_tools: how many tools are sent at the most, beside `always_include`, hosted tools, and those that
            the framework itself adds. Left out, or None: no limit.
        always_include: names of tools that every turn has. A name that no tool has is passed over.
        k: how many tools retrieval finds, as in `Toolroll.select`.
    """

    max_tools: int | None
    always_include: Iterable[str]
    k: int | None
