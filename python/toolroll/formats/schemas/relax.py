"""Relaxes a schema for common mistakes of models, so that no provider or framework rejects the call.

The relaxed schema accepts everything that the original accepts, and also numbers and booleans as text, and
null for optional properties. `repair` with the original schema then makes the arguments fit the tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolroll.formats.providers.references import TooLargeError, resolve, strings
from toolroll.formats.strict_json import MAX_DIGITS
from toolroll.model.errors import InvalidInput, quoted

MAX_DEPTH = 64  # deeper schemas are not relaxed
MAX_COPIES = 100  # targets of references that do not point to a definition
MAX_NODES = 20_000  # schemas in the result: nested targets are copied repeatedly

_ONE = ("items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
_LISTS = ("prefixItems", "items", "allOf", "anyOf", "oneOf")
_NAMED = ("patternProperties", "$defs", "definitions", "dependentSchemas")
_TEXTUAL = frozenset({"number", "integer", "boolean"})
_PLAIN = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})


def relax(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which numbers and booleans may be text, and optional properties may be null.

    Valid arguments stay valid. So `oneOf` becomes `anyOf`, since relaxed alternatives may overlap, and a
    `not` or `if` that refers to a definition is dropped, since the definition accepts more. A schema whose
    copy would have more than MAX_NODES schemas is not relaxed.

    Raises InvalidInput for anything but a JSON Schema object.
    """
    schema = json_schema(schema)
    pointers = sorted(_references(schema))
    odd = [pointer for pointer in pointers if not _is_definition(pointer)]
    if len(odd) > MAX_COPIES:
        return dict(schema)
    taken = _definitions(schema, "$defs").keys()
    names = {pointer: _free(f"relaxed_{i}", taken) for i, pointer in enumerate(odd)}
    relaxation = _Relaxation({pointer: f"#/$defs/{name}" for pointer, name in names.items()})
    try:
        relaxed = relaxation.schema(schema, MAX_DEPTH)
        copies = {
            name: relaxation.schema(target, MAX_DEPTH)
            for pointer, name in names.items()
            if (target := resolve(schema, pointer)) is not None
        }
    except TooLargeError:
        return dict(schema)
    if copies:
        relaxed["$defs"] = {**_definitions(relaxed, "$defs"), **copies}
    return relaxed


def json_schema(value: object) -> Mapping[str, Any]:
    """The value itself if it can be a tool's parameters; raises InvalidInput for any other."""
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f"schema is {quoted(value)}, must be a JSON Schema object, such as a tool's parameters"
        )
    return value


class _Relaxation:
    """One walk over a schema; `moved` maps references to the new places of their targets."""

    def __init__(self, moved: Mapping[str, str]) -> None:
        self.moved = moved
        self.nodes = 0

    def schema(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLargeError
        made = {key: value for key, value in schema.items() if not _is_narrowed(key, schema)}
        if depth == 0:
            return self._pointed(made)
        for key in _ONE:
            if isinstance(schema.get(key), Mapping):
                made[key] = self.schema(schema[key], depth - 1)
        for key in _LISTS:
            if isinstance(schema.get(key), (list, tuple)):
                made[key] = [self._any(part, depth) for part in schema[key]]
        for key in (*_NAMED, "properties"):
            if isinstance(schema.get(key), Mapping):
                made[key] = {name: self._any(part, depth) for name, part in schema[key].items()}
        for key in ("then", "else"):
            if key in made:
                made[key] = self._any(schema[key], depth)
        if isinstance(made.get("properties"), dict):
            required = frozenset(strings(schema.get("required")))
            for name, part in made["properties"].items():
                if name not in required and isinstance(part, dict):
                    made["properties"][name] = _nullable(part)
        return self._pointed(_textual(_without_one_of(made)))

    def _any(self, part: Any, depth: int) -> Any:
        return self.schema(part, depth - 1) if isinstance(part, Mapping) else part

    def _pointed(self, made: dict[str, Any]) -> dict[str, Any]:
        reference = made.get("$ref")
        if isinstance(reference, str) and reference in self.moved:
            made["$ref"] = self.moved[reference]
        return made


def _textual(made: dict[str, Any]) -> dict[str, Any]:
    """Allows the text of a number or boolean in `type`, `enum` and `const`."""
    kinds = made.get("type")
    named = list(kinds) if isinstance(kinds, (list, tuple)) else [kinds]
    if "string" not in named and any(isinstance(kind, str) and kind in _TEXTUAL for kind in named):
        made["type"] = [*named, "string"]
    listed = [made["const"]] if "const" in made else made.get("enum")
    if isinstance(listed, (list, tuple)):
        texts = [json.dumps(value) for value in listed if _has_text(value)]
        known = frozenset(strings(listed))
        if fresh := [text for text in texts if text not in known]:
            made.pop("const", None)
            made["enum"] = [*listed, *fresh]
    return made


def _has_text(value: object) -> bool:
    """Whether a value is a boolean, or a number short enough to be written."""
    is_short = not isinstance(value, int) or value.bit_length() < 3 * MAX_DIGITS
    return is_short and isinstance(value, (bool, int, float))


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kinds, listed = schema.get("type"), schema.get("enum")
    constrained = schema.keys() & {"$ref", "$dynamicRef", "allOf", "anyOf", "not", "if", "const"}
    if not constrained and not isinstance(listed, (list, tuple)):
        if isinstance(kinds, (str, list, tuple)):
            schema["type"] = _with(kinds, "null")
        return schema
    if not constrained and isinstance(listed, (list, tuple)):
        if kinds is not None:
            schema["type"] = _with(kinds, "null")
        schema["enum"] = [*listed] if None in listed else [*listed, None]
        return schema
    if constrained == {"anyOf"} and kinds is None and listed is None and isinstance(schema["anyOf"], list):
        if not any(isinstance(part, dict) and part.get("type") == "null" for part in schema["anyOf"]):
            schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
        return schema
    outside = {key: value for key, value in schema.items() if key in _PLAIN}
    inside = {key: value for key, value in schema.items() if key not in _PLAIN}
    return {**outside, "anyOf": [inside, {"type": "null"}]}


def _with(kinds: Any, kind: str) -> list[Any]:
    named = list(kinds) if isinstance(kinds, (list, tuple)) else [kinds]
    return named if kind in named else [*named, kind]


def _without_one_of(made: dict[str, Any]) -> dict[str, Any]:
    if "oneOf" not in made:
        return made
    choices = made.pop("oneOf")
    if "anyOf" not in made:
        made["anyOf"] = choices
    else:
        held = made.get("allOf")
        made["allOf"] = [*(held if isinstance(held, (list, tuple)) else ()), {"anyOf": choices}]
    return made


def _is_narrowed(key: str, schema: Mapping[str, Any]) -> bool:
    """Whether a keyword would accept less if the definitions that it refers to accept more."""
    if key in ("then", "else"):
        key = "if"
    return key in ("not", "if", "contains") and key in schema and bool(_references(schema[key]))


def _references(schema: Any) -> set[str]:
    """Every local reference in a schema."""
    found: set[str] = set()
    waiting: list[tuple[Any, int]] = [(schema, 3 * MAX_DEPTH)]
    while waiting:
        value, depth = waiting.pop()
        if depth == 0:
            continue
        if isinstance(value, Mapping):
            reference = value.get("$ref")
            if isinstance(reference, str) and reference.startswith("#"):
                found.add(reference)
            waiting += [(part, depth - 1) for part in value.values()]
        elif isinstance(value, (list, tuple)):
            waiting += [(part, depth - 1) for part in value]
    return found


def _is_definition(pointer: str) -> bool:
    parts = pointer.split("/")
    return pointer == "#" or (len(parts) == 3 and parts[1] in ("$defs", "definitions"))


def _definitions(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    held = schema.get(keyword)
    return held if isinstance(held, Mapping) else {}


def _free(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name
