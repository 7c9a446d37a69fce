"""JSON Schema by the book, for the few keywords that strict mode knows: slow, obvious, and an oracle."""

from __future__ import annotations

from typing import Any

TYPES: dict[str, Any] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def is_valid(value: Any, schema: Any, root: Any = None) -> bool:
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    checks = []
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        checks.append(is_valid(value, target, root))
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        checks.append(any(TYPES[kind](value) for kind in kinds))
    if "enum" in schema:
        checks.append(any(same(value, one) for one in schema["enum"]))
    if "const" in schema:
        checks.append(same(value, schema["const"]))
    for keyword, enough in (("anyOf", any), ("oneOf", lambda found: sum(found) == 1), ("allOf", all)):
        if keyword in schema:
            checks.append(enough([is_valid(value, option, root) for option in schema[keyword]]))
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        checks += [is_valid(value[name], part, root) for name, part in properties.items() if name in value]
        checks += [name in value for name in schema.get("required", [])]
        if schema.get("additionalProperties") is False:
            checks.append(value.keys() <= properties.keys())
    if isinstance(value, list):
        checks += [is_valid(part, schema.get("items", True), root) for part in value]
        checks.append(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)))
    if TYPES["number"](value):
        checks.append(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return all(checks)
