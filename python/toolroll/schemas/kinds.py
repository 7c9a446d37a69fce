"""Of a JSON Schema: the types that it allows, and the same schema with null among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCALARS = ("string", "number", "integer", "boolean")


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    if "anyOf" in schema:
        if any(option.get("type") == "null" for option in schema["anyOf"]):
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    wider = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in wider and None not in wider["enum"]:
        wider = {**wider, "enum": [*wider["enum"], None]}
    return wider


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema allows, from what it says or lists; none where it allows any."""
    said = schema.get("type")
    listed = [said] if isinstance(said, str) else said if isinstance(said, (list, tuple)) else []
    known = [kind for kind in listed if kind in (*SCALARS, "object", "array", "null")]
    if known:
        return list(dict.fromkeys(known))
    if "properties" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return list(dict.fromkeys(map(kind_of, values))) if isinstance(values, list) else []


def kind_of(value: Any) -> str:
    """The type of a JSON value, a whole number being an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"


def marks_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Title and description, where they are texts."""
    return {key: schema[key] for key in ("title", "description") if isinstance(schema.get(key), str)}


def is_number(value: Any) -> bool:
    """Whether this is a number of JSON, which true is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
