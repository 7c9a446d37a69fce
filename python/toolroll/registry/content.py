"""A tool as the registry keeps it: one dictionary, one canonical text, one hash.

What is hashed is everything that its author says and a model, a ranker or a caller reads, so that a change
of any of it is a change. Both databases must hold the same thing, so what one of them could not hold is
refused here, before either sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from toolroll.errors import InvalidDefinition
from toolroll.identity import canonical_json
from toolroll.tools import Tool

LONGEST = 256 * 1024  # bytes of a tool's canonical JSON
LONGEST_NAME = 128

# Content: what the tool's author says. The order is that of diffs.
FIELDS = (
    "name",
    "display_name",
    "description",
    "parameters",
    "returns",
    "toolkit",
    "summary",
    "when_to_use",
    "limitations",
    "tags",
    "examples",
    "execution_type",
    "execution_config",
    "version",
)
# Governance: what only those decide who are trusted with the registry. Not hashed.
GOVERNED = ("status", "public", "pinned", "pin_weight", "interchangeable")

_EMPTY: Mapping[str, object] = {name: getattr(Tool("x"), name) for name in (*FIELDS, *GOVERNED)}


def content_of(tool: Tool) -> dict[str, Any]:
    """All fields, content and governance, as JSON holds them: lists for tuples."""
    return {
        name: list(value) if type(value := getattr(tool, name)) is tuple else value
        for name in (*FIELDS, *GOVERNED)
    }


def tool_of(content: Mapping[str, Any], tool_id: str = "") -> Tool:
    """The tool that `content_of` made this of; keys that are missing have their defaults.

    Raises:
        InvalidDefinition: a key is unknown, or a value of the wrong type.
    """
    unknown = sorted(content.keys() - _EMPTY.keys())
    if unknown:
        raise InvalidDefinition(
            f"has no field {unknown[0]!r}; known are {', '.join(_EMPTY)}", tool=str(content.get("name"))
        )
    return Tool(tool_id=tool_id, **{"name": "", **content})


def content_hash(tool: Tool) -> str:
    """SHA-256, as hex, of the canonical JSON of the tool's content.

    Raises:
        InvalidDefinition: it cannot be kept: too long, with NUL or half of a surrogate pair, not JSON.
    """
    content = {name: value for name in FIELDS if (value := getattr(tool, name)) != _EMPTY[name]}
    try:
        data = canonical_json(content).encode()
    except InvalidDefinition as error:
        raise InvalidDefinition(error.problem, tool=tool.name) from error
    if len(data) > LONGEST:
        raise InvalidDefinition(
            f"takes {len(data):,} bytes as JSON, must be at most {LONGEST:,}", tool=tool.name[:80]
        )
    if len(tool.name) > LONGEST_NAME:
        raise InvalidDefinition(
            f"name has {len(tool.name)} characters, must have at most {LONGEST_NAME}",
            field="name",
            tool=tool.name[:80],
        )
    if b"\\u0000" in data and _has_nul(content):
        raise InvalidDefinition("holds a NUL character, which no database keeps", tool=tool.name)
    return hashlib.sha256(data).hexdigest()


def changed_fields(before: Tool, after: Tool) -> tuple[str, ...]:
    """Names of the fields, content and governance, in which the two differ."""
    return tuple(name for name in (*FIELDS, *GOVERNED) if getattr(before, name) != getattr(after, name))


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(map(_has_nul, value))
