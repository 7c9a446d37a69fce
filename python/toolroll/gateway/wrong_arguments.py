"""Tells calls with wrong arguments from failures of a tool: they are the caller's fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolroll import Tool
from toolroll.formats.repair.validation import Validator
from toolroll.gateway.protocol import Json

_READ = 2_000  # characters of a result
# What servers made with the packages of Python and TypeScript answer where their own check refuses arguments.
_REFUSED = re.compile(r"-32602|[Ii]nput validation error|validation errors? for (?:\w+Arguments\b|call\[)")


def are_wrong(tool: Tool, arguments: Mapping[str, Any], result: Json) -> bool:
    """Whether a call failed because of its arguments: the result says so, or they do not fit the schema.

    It takes half a second at the most.
    """
    content = result.get("content")
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str) and _REFUSED.search(text[:_READ]):
            return True
    schema = tool.parameters or {}
    try:
        return not Validator(schema).accepts(arguments, schema)
    except (
        Exception
    ):  # too large to be checked, or a server's schema is none: then nobody knows whose fault it was
        return True
