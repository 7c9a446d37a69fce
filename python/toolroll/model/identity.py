"""Canonical text, hashes and statistics keys of tools."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from toolroll._core import compact_json
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Tool


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and without spaces: equal values give equal text.

    Raises InvalidDefinition for values without a form in JSON: NaN, a cycle, a set, half of a surrogate pair.
    """
    return _text(value, sort_keys=True)


def content_hash(tool: Tool) -> str:
    """SHA-256, as hex, of the parts that the model sees: name, description and parameters."""
    content = {"description": tool.description, "name": tool.name, "parameters": tool.parameters or {}}
    try:
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()
    except InvalidDefinition as error:
        raise _of_tool(error, tool) from error


def schema_text(tool: Tool) -> str:
    """The compact JSON of the tool's OpenAI form; token counts are estimated from it."""
    try:
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": object_schema(tool.parameters),
        }
        value = {"type": "function", "function": function}
        # The same text, if there is nothing unusual in it.
        return compact_json(value) or _text(value, sort_keys=False)
    except InvalidDefinition as error:
        raise _of_tool(error, tool) from error


def object_schema(parameters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The schema of an arguments object with `type` and `properties`, as every provider requires.

    A schema that has both is returned, not copied.
    """
    if not parameters:
        return {"type": "object", "properties": {}}
    if "type" in parameters and "properties" in parameters:
        return parameters
    return {"type": "object", "properties": {}, **parameters}


def _of_tool(error: InvalidDefinition, tool: Tool) -> InvalidDefinition:
    return InvalidDefinition(error.problem, field="parameters", tool=tool.name)


def _text(value: Any, sort_keys: bool) -> str:
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=sort_keys,
            separators=(",", ":"),
            default=_mapping,
        )
        if not text.isascii():
            text.encode()
    except RecursionError as error:
        raise InvalidDefinition("is nested too deeply to be written as JSON") from error
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(f"cannot be written as JSON: {error}") from error
    return text


def _mapping(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


NONE = 0  # no group, no reporter
_KEYS = struct.Struct("<QQQ")  # the bytes of a `ToolKey`


def key(*parts: str) -> int:
    """A key for these words in this order; never `NONE`.

    Hashes their length-prefixed encoding, so ("ab", "c") and ("a", "bc") differ. Two of a million keys are
    equal by chance in one of 37 million catalogs.
    """
    digest = blake2b(digest_size=8)
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(4, "little"))
        digest.update(text)
    return int.from_bytes(digest.digest(), "little") or 1


class Scopes(NamedTuple):
    """The keys of counts by context, from the widest to the narrowest: each level is the prior of the next.

    Attributes:
        everywhere: the whole organisation.
        page: one page.
        leaf: one tier on one page with one category of message.
        plain: "tier:page:general", for the level of statistics without priors.
    """

    everywhere: int
    page: int
    leaf: int
    plain: int


@lru_cache(maxsize=4_096)
def scopes(page: str, tier: str, category: str) -> Scopes:
    """The keys of a context."""
    return Scopes(
        key("everywhere"),
        key("page", page),
        key("leaf", tier, page, category),
        key("plain", plain_key(tier, page)),
    )


def plain_key(tier: str, page: str) -> str:
    """The key of a context for statistics without priors."""
    return f"{tier}:{page}:general"


class ToolKey(NamedTuple):
    """The keys of a tool's statistics.

    Attributes:
        arm: from its name alone, for the statistics of success.
        intent: from its name and text, for the statistics of calls: a changed text starts new ones.
        group: from its group of interchangeable tools, which share statistics of calls; `NONE` for none.
    """

    arm: int
    intent: int
    group: int


def tool_key(tool: Tool) -> ToolKey:
    """The keys of a tool. Only its prose counts as text, not parameters and examples."""
    prose = (tool.description, tool.summary, tool.when_to_use, *tool.tags)
    group = key("group", tool.interchangeable) if tool.interchangeable else NONE
    return ToolKey(key("arm", tool.name), key("intent", tool.name, *prose), group)


def tool_keys(tools: Sequence[Tool]) -> list[ToolKey]:
    """`tool_key` of each tool."""
    return [tool_key(tool) for tool in tools]


def pack_key(key: ToolKey) -> bytes:
    """The keys as bytes: the first part of a packed tool (`pack_tools`), the same in each event."""
    return _KEYS.pack(*key)


def pack_keys(keys: Sequence[ToolKey]) -> list[bytes]:
    """`pack_key` of each key."""
    return [_KEYS.pack(*key) for key in keys]


@lru_cache(maxsize=4_096)
def reporter_key(reporter: str) -> int:
    """The key of a reporter; `NONE` for the application itself."""
    return key("reporter", reporter) if reporter else NONE
