"""One spelling for each definition: what is hashed, compared and counted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from toolroll.errors import InvalidDefinition
from toolroll.tools import Tool


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and without spaces: equal values give equal text.

    Raises InvalidDefinition for what JSON cannot hold: NaN, a cycle, a set, half of a surrogate pair.
    """
    return _text(value, sort_keys=True)


def content_hash(tool: Tool) -> str:
    """SHA-256, as hex, of what the model gets to see: name, description and parameters."""
    content = {"description": tool.description, "name": tool.name, "parameters": tool.parameters or {}}
    try:
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()
    except InvalidDefinition as error:
        raise _of_tool(error, tool) from error


def schema_text(tool: Tool) -> str:
    """The compact JSON of the tool's OpenAI form, as it is sent: what token counts are made from."""
    try:
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": object_schema(tool.parameters),
        }
        return _text({"type": "function", "function": function}, sort_keys=False)
    except InvalidDefinition as error:
        raise _of_tool(error, tool) from error


def object_schema(parameters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The schema of an arguments object as every provider takes it: with type and properties.

    What already has both is returned as it is, not copied.
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
