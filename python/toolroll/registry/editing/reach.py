"""`Reach`: which of the platform's tools and toolkits the author of a request may know of.

To a caller of one organisation, a tool that nobody there sees is as one that does not exist: it changes no
answer, is in no suggestion, and keeps no name from being taken (decision 91).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """Names of the platform's tools and toolkits that the author of a request may know of.

    Attributes:
        tools: name → tool_id.
        toolkits: those that contain one of the tools, themselves or below them.
    """

    tools: Mapping[str, str]
    toolkits: Container[str]


def knows_tool(reach: Reach | None, name: str) -> bool:
    """Whether a tool of the platform with this name may be known of. None: all are."""
    return reach is None or name in reach.tools


def knows_toolkit(reach: Reach | None, name: str | None) -> bool:
    """Whether a toolkit of the platform with this name may be known of. None: all are."""
    return reach is None or name in reach.toolkits
