"""Tool -> what Gemini takes, and Gemini's dialect back to JSON Schema.

Gemini's `parameters` is a subset of OpenAPI 3.0 and rejects the whole request for a keyword that it
doesn't know. So a schema is translated: references are put in place, ``const`` becomes ``enum``, null
in a list of types becomes ``nullable``, ``oneOf`` becomes ``anyOf``; what has no counterpart is
dropped. That only ever allows more than the tool does, and the tool still checks its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolroll.schemas.names import is_allowed, provider_name
from toolroll.schemas.original import says_the_same
from toolroll.schemas.references import resolve
from toolroll.tools import Tool

MAX_NODES = 2_000  # of a translated schema: a few definitions that use each other can grow without bound
MAX_DEPTH = 32

_MAX_PARTS = 100  # of one allOf

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
_TYPES = ("object", "array", "string", "number", "integer", "boolean")
_KEPT = {  # keyword -> the types that may carry it; () for all
    "title": (),
    "default": (),
    "pattern": ("string",),
    "minLength": ("string",),
    "maxLength": ("string",),
    "minimum": ("number", "integer"),
    "maximum": ("number", "integer"),
    "minItems": ("array",),
    "maxItems": ("array",),
    "minProperties": ("object",),
    "maxProperties": ("object",),
}
_FORMATS = {  # any other format is refused
    "string": ("date-time", "enum"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}


def to_gemini(tool: Tool, name: str | None = None) -> dict[str, Any]:
    """One function declaration; the caller's own object where it already is one.

    A tool without parameters has none here either: Gemini refuses an object without properties.
    """
    original = tool.original
    if name in (None, tool.name) and isinstance(original, dict) and _is_declaration(original, tool):
        return original
    declaration: dict[str, Any] = {
        "name": name or provider_name(tool.name, "gemini"),
        "description": tool.description,
    }
    if tool.parameters and (schema := gemini_schema(tool.parameters)).get("properties"):
        declaration["parameters"] = schema
    return declaration


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Translates a JSON Schema of an object; bounded by MAX_NODES and MAX_DEPTH, whatever it refers to."""
    translated = _Translation(schema).schema(schema, MAX_DEPTH, ())
    if translated.get("type") == "OBJECT":
        return translated
    return {"type": "OBJECT", "properties": {}}  # alternatives at the root: no form that Gemini takes


def from_gemini(schema: Any) -> Any:
    """Turns Gemini's dialect into JSON Schema: small letters, nullable as a type, numbers as numbers."""
    return _from_gemini(schema, MAX_DEPTH * 2)


def _is_declaration(original: dict[str, Any], tool: Tool) -> bool:
    if not original.keys() <= _KEYS or not is_allowed(tool.name, "gemini"):
        return False
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        if key in original:
            return says_the_same(original, tool, key)
    parameters = original.get("parameters")
    if not isinstance(parameters, Mapping) or not str(parameters.get("type", "")).isupper():
        return False  # {"name", "parameters"} in JSON Schema: our plain form, not a declaration
    return (
        original.get("name") == tool.name
        and (original.get("description") or "") == tool.description
        and from_gemini(parameters) == tool.parameters
    )


class _Translation:
    """One walk over a schema, with a count of what it has made so far."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.nodes = 0

    def schema(self, schema: Any, depth: int, entered: tuple[str, ...]) -> dict[str, Any]:
        """`entered` holds the references followed to come here: one that leads back ends the walk."""
        self.nodes += 1
        if not isinstance(schema, Mapping):  # true and false are schemas too
            return {"type": "STRING"}
        if depth == 0 or self.nodes > MAX_NODES:
            return _leaf(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = None if reference in entered else resolve(self.root, reference)
            if target is None:
                return _leaf(schema, default="OBJECT")
            here = {key: value for key, value in schema.items() if key != "$ref"}
            return self.schema({**target, **here}, depth - 1, (*entered, reference))
        if isinstance(parts := schema.get("allOf"), Sequence) and not isinstance(parts, str):
            merged, entered = _merge(schema, parts, self.root, entered)
            return self.schema(merged, depth - 1, entered)
        kinds, nullable = _kinds(schema)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(choices := schema.get(keyword), Sequence) and not isinstance(choices, str):
                return self._choice(schema, list(choices), nullable, depth, entered)
        if len(kinds) > 1:
            bare = {key: value for key, value in schema.items() if key != "type"}
            return self._choice(
                {"description": schema.get("description")},
                [{**_without_foreign(bare, kind), "type": kind} for kind in kinds],
                nullable,
                depth,
                entered,
            )
        translated = self._typed(schema, kinds[0], depth, entered)
        if nullable:
            translated["nullable"] = True
        return translated

    def _typed(
        self, schema: Mapping[str, Any], kind: str, depth: int, entered: tuple[str, ...]
    ) -> dict[str, Any]:
        translated = _leaf(schema, kind)
        for keyword, kinds in _KEPT.items():
            if keyword in schema and (not kinds or kind in kinds):
                translated[keyword] = schema[keyword]
        if schema.get("format") in _FORMATS.get(kind, ()):
            translated["format"] = schema["format"]
        if kind == "integer":
            _close_bounds(schema, translated)
        _enumerate(schema, kind, translated)
        if kind == "object" and isinstance(properties := schema.get("properties"), Mapping):
            translated["properties"] = {
                str(name): self.schema(value, depth - 1, entered)
                for name, value in properties.items()
                if self.nodes <= MAX_NODES
            }
            required = schema.get("required")
            if isinstance(required, Sequence) and (
                kept := [key for key in required if key in translated["properties"]]
            ):
                translated["required"] = kept
        if kind == "array":
            translated["items"] = self._items(schema, depth, entered)
        return translated

    def _items(self, schema: Mapping[str, Any], depth: int, entered: tuple[str, ...]) -> dict[str, Any]:
        """Of a list, one schema for every place, since Gemini knows no tuples."""
        places = schema.get("prefixItems") or schema.get("items")
        if isinstance(places, Sequence) and not isinstance(places, str):
            return self._choice({}, list(places), False, depth, entered)
        return self.schema(places if places is not None else {}, depth - 1, entered)

    def _choice(
        self,
        schema: Mapping[str, Any],
        choices: list[Any],
        nullable: bool,
        depth: int,
        entered: tuple[str, ...],
    ) -> dict[str, Any]:
        """AnyOf stands alone in Gemini: description and nullable go into the alternatives."""
        real = [choice for choice in choices if not _is_null(choice)]
        nullable = nullable or len(real) < len(choices)
        shared = {
            key: value
            for key, value in schema.items()
            if key not in ("anyOf", "oneOf", "description", "default", "title", "$defs", "definitions")
        }
        distinct: list[dict[str, Any]] = []
        for choice in real:
            if self.nodes > MAX_NODES:
                break
            merged = {**shared, **choice} if isinstance(choice, Mapping) else choice
            made = self.schema(merged, depth - 1, entered)
            options = made["anyOf"] if set(made) == {"anyOf"} else [made]
            distinct += [option for option in options if option not in distinct]
        for option in distinct:
            if schema.get("description"):
                option.setdefault("description", str(schema["description"]))
            if nullable:
                option["nullable"] = True
        if len(distinct) == 1:
            extras = {key: schema[key] for key in ("title", "default") if key in schema}
            return {**distinct[0], **extras}
        return {"anyOf": distinct} if distinct else _leaf(schema)


def _leaf(schema: Mapping[str, Any], kind: str = "", default: str = "STRING") -> dict[str, Any]:
    leaf: dict[str, Any] = {"type": kind.upper() or default}
    if isinstance(description := schema.get("description"), str) and description:
        leaf["description"] = description
    return leaf


def _kinds(schema: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The types that a schema allows, guessed where it does not say, and whether null is among them."""
    said = schema.get("type")
    listed = [said] if isinstance(said, str) else list(said) if isinstance(said, Sequence) else []
    kinds = [kind.lower() for kind in listed if isinstance(kind, str)]
    nullable = "null" in kinds or schema.get("nullable") is True
    values = _enumeration(schema)
    if values is not None and None in values:
        nullable = True
    known = list(dict.fromkeys(kind for kind in kinds if kind in _TYPES))
    return known or [_guess(schema, values)], nullable


def _guess(schema: Mapping[str, Any], values: list[Any] | None) -> str:
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    real = [value for value in values or () if value is not None]
    if real and all(isinstance(value, bool) for value in real):
        return "boolean"
    if real and all(isinstance(value, int) for value in real):
        return "integer"
    if real and all(isinstance(value, (int, float)) for value in real):
        return "number"
    return "string"


def _enumeration(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values that a schema allows, null among them; None where it doesn't list any."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else None


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "null" or schema.get("const", "") is None or schema.get("enum") == [None]
    )


def _without_foreign(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Of a schema with several types, the part that concerns one of them."""
    foreign = set()
    if kind != "object":
        foreign |= {"properties", "required", "additionalProperties"}
    if kind != "array":
        foreign |= {"items", "prefixItems"}
    return {key: value for key, value in schema.items() if key not in foreign and key != "description"}


def _enumerate(schema: Mapping[str, Any], kind: str, translated: dict[str, Any]) -> None:
    """Only strings can be enumerated, and none may be empty: other values are told to the model in words."""
    values = [value for value in _enumeration(schema) or () if value is not None]
    if kind == "string" and all(isinstance(value, str) for value in values):
        if named := [value for value in values if value]:
            translated["enum"] = named
    elif values:
        said = ", ".join(map(str, values[:50]))
        translated["description"] = f"{translated.get('description', '')} One of: {said}.".strip()


def _close_bounds(schema: Mapping[str, Any], translated: dict[str, Any]) -> None:
    """Over whole numbers an exclusive bound has an inclusive twin."""
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(low, int) and not isinstance(low, bool):
        translated.setdefault("minimum", low + 1)
    if isinstance(high, int) and not isinstance(high, bool):
        translated.setdefault("maximum", high - 1)


def _merge(
    schema: Mapping[str, Any], parts: Sequence[Any], root: Mapping[str, Any], entered: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """AllOf as one schema: properties and required together, of all else the first that says it."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts[:_MAX_PARTS]:
        if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
            target = None if reference in entered else resolve(root, reference)
            entered = (*entered, reference)
            part = {**(target or {}), **{key: value for key, value in part.items() if key != "$ref"}}
        if not isinstance(part, Mapping):
            continue
        for key, value in part.items():
            mine = merged.get(key)
            if key == "properties" and isinstance(mine, Mapping) and isinstance(value, Mapping):
                merged[key] = {**value, **mine}
            elif key == "required" and isinstance(mine, list) and isinstance(value, list):
                merged[key] = list(dict.fromkeys([*mine, *value]))
            else:
                merged.setdefault(key, value)
    return merged, entered


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
