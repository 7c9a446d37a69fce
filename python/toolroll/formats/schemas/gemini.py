"""Writes a tool for Gemini, and turns Gemini's dialect back into JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.formats.schemas.form import PLAIN, Form
from toolroll.formats.schemas.gemini_schema import MAX_DEPTH, gemini_schema
from toolroll.formats.schemas.names import is_allowed, provider_name
from toolroll.formats.schemas.original import additional_fields, matches
from toolroll.formats.schemas.references import Notes, rooted
from toolroll.model.tools import Tool

_KEYS = frozenset(
    {
        "name",
        "description",
        "parameters",
        "parametersJsonSchema",
        "parameters_json_schema",
        "response",
        "responseJsonSchema",
        "response_json_schema",
        "behavior",
    }
)


def to_gemini(tool: Tool, name: str | None = None, form: Form = PLAIN) -> dict[str, Any]:
    """One function declaration; the caller's own object where it already is one.

    A tool without parameters has none here either: Gemini rejects an object without properties.
    """
    original = tool.original
    if name in (None, tool.name) and isinstance(original, dict) and _is_declaration(original, tool, form):
        return original
    declaration: dict[str, Any] = {
        "name": name or provider_name(tool.name, "gemini"),
        "description": tool.description,
    }
    if form.json_schema:
        if (schema := rooted(tool.parameters or {}, Notes())).get("properties"):
            declaration["parameters_json_schema"] = schema
    elif (translated := gemini_schema(tool.parameters or {})).get("properties"):
        declaration["parameters"] = translated
    if form.returns and (returns := additional_fields(tool).get("outputSchema")) is not None:
        declaration["response_json_schema"] = returns
    return declaration


def from_gemini(schema: Any) -> Any:
    """Turns Gemini's dialect into JSON Schema: small letters, nullable as a type, numbers as numbers."""
    return _from_gemini(schema, MAX_DEPTH * 2)


def _is_declaration(original: dict[str, Any], tool: Tool, form: Form) -> bool:
    if not original.keys() <= _KEYS or not is_allowed(tool.name, "gemini"):
        return False
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        if key in original:
            return matches(original, tool, key)
    parameters = original.get("parameters")
    if form.json_schema and parameters is not None:
        return False
    if not isinstance(parameters, Mapping) or not str(parameters.get("type", "")).isupper():
        return False  # {"name", "parameters"} in JSON Schema: our plain form, not a declaration
    return (
        original.get("name") == tool.name
        and (original.get("description") or "") == tool.description
        and from_gemini(parameters) == tool.parameters
    )


_SNAKE = {
    "any_of": "anyOf",
    "max_items": "maxItems",
    "min_items": "minItems",
    "max_length": "maxLength",
    "min_length": "minLength",
    "max_properties": "maxProperties",
    "min_properties": "minProperties",
}
_COUNTS = frozenset(key for pair in _SNAKE.items() for key in pair if key not in ("any_of", "anyOf"))


def _from_gemini(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth == 0:
        return schema
    made: dict[str, Any] = {}
    for key, value in dict(schema).items():
        if key in ("nullable", "property_ordering", "propertyOrdering", "example"):
            continue
        if key == "type" and isinstance(value, str):
            value = value.lower()
        elif key == "properties" and isinstance(value, Mapping):
            value = {name: _from_gemini(part, depth - 1) for name, part in value.items()}
        elif key == "items":
            value = _from_gemini(value, depth - 1)
        elif key in ("anyOf", "any_of") and isinstance(value, list):
            value = [_from_gemini(part, depth - 1) for part in value]
        elif key in _COUNTS and isinstance(value, str) and value.isdigit():
            value = int(value)  # 64-bit numbers are strings in Google's JSON
        made[_SNAKE.get(key, key)] = value
    kind = made.get("type")
    if schema.get("nullable") is True and isinstance(kind, str):
        made["type"] = [kind, "null"]
    return made
