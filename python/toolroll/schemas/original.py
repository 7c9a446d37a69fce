"""Whether the object that a tool was read from may go out again in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.tools import Tool


def says_the_same(original: Mapping[str, Any], tool: Tool, parameters: str = "parameters") -> bool:
    """Whether the object that a tool was read from still says what the tool says.

    False once somebody has made a changed copy of the tool: then the original is history.
    """
    return (
        original.get("name") == tool.name
        and (original.get("description") or "") == tool.description
        and original.get(parameters) is tool.parameters
    )
