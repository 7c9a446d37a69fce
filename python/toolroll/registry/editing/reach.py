"""`Reach`: the platform's tools and toolkits that the author of a request may know.

For a caller of an organisation, a tool that nobody there may see does not exist: it changes no answer, is in
no suggestion, and its name is free (decision 91).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """The platform's tools (name → tool_id) and toolkits that the author of a request may know.

    The toolkits contain one of the tools, directly or in a toolkit below them.
    """

    tools: Mapping[str, str]
    toolkits: Container[str]


def knows_tool(reach: Reach | None, name: str) -> bool:
    """Whether the author may know a tool of the platform. reach: None for all."""
    return reach is None or name in reach.tools


def knows_toolkit(reach: Reach | None, name: str | None) -> bool:
    """Whether the author may know a toolkit of the platform. reach: None for all."""
    return reach is None or name in reach.toolkits
