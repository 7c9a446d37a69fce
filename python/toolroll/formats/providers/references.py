"""Resolves references, merges allOf and alternatives, and makes the root of a schema one object.

Every conversion uses it. Nothing is ever fetched: a reference out of the schema resolves to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from toolroll.model.errors import quoted

MOST_STEPS = 100_000  # keys and values read in one conversion, each time that a reference leads to them


class TooLargeError(Exception):
    """A conversion would take too long; caught in this package."""


class Notes(list[tuple[str, str]]):
    """The losses of a conversion, as pairs of a place in the tool and a text. Also counts the steps."""

    steps = 0

    def spend(self, steps: int) -> None:
        """Raises TooLargeError once the conversion has taken more than MOST_STEPS."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise TooLargeError

    def read(self, schema: Mapping[str, Any]) -> None:
        """Counts the size of a schema without its subschemas: keys, and texts and lists by length."""
        texts = sum(len(value) >> 3 for value in schema.values() if isinstance(value, (str, list)))
        self.spend(len(schema) + texts)


def distinct(values: Sequence[Any]) -> list[Any]:
    """The distinct values, in order; compared by their text, since comparing all pairs is quadratic."""
    return list({repr(value): value for value in reversed(values)}.values())[::-1]


# Keywords that every walk reads itself, and some that weigh nothing; all others are kept or dropped.
STRUCTURE = frozenset(
    [
        *("type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum", "const"),
        *("anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "nullable", "format"),
        *("title", "description", "$schema", "$id", "$anchor", "$comment"),
    ]
)

_MOST_PARTS = 100  # schemas in one allOf, or alternatives at the root
_MOST_VALUES = 1_000  # values of united enumerations, which are compared in pairs
_MOST_STEPS = 16  # from one reference to the next
_NOT_AT_THE_ROOT = ("enum", "not", "const")
_MARKS = ("title", "description", "default", "examples", "deprecated", "$comment")


def resolve(root: Any, reference: str) -> Mapping[str, Any] | None:
    """The target of a reference into the same schema; None for any other."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    value = root
    for part in reference[2:].split("/") if reference != "#" else ():
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and len(key) < 10 and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value if isinstance(value, Mapping) else None


def placed(target: Mapping[str, Any], schema: Mapping[str, Any], notes: Notes, where: str) -> dict[str, Any]:
    """The target of a reference merged with the keywords beside the reference, since both apply."""
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    if not beside:
        notes.spend(len(target))
        return dict(target)
    bare = {key: value for key, value in target.items() if key != "$ref"}
    whole, _ = merged(beside, [bare], None, (), notes, where)
    return {**whole, "$ref": target["$ref"]} if "$ref" in target else whole


def followed(schema: Any, root: Any, notes: Notes, where: str) -> Mapping[str, Any] | None:
    """The schema with its own reference resolved; None if that fails or is circular."""
    for _ in range(_MOST_STEPS):
        if not isinstance(schema, Mapping):
            return None
        if not isinstance(reference := schema.get("$ref"), str):
            return schema
        if (target := resolve(root, reference)) is None:
            return None
        schema = placed(target, schema, notes, where)
    return None


def merged(
    schema: Mapping[str, Any],
    parts: Sequence[Any],
    root: Any,
    entered: tuple[str, ...],
    notes: Notes,
    where: str,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The parts of an allOf as one schema: all properties and required ones, else the first value.

    entered: references on the way here, which are not followed again; newly followed ones are added.
    """
    notes.read(schema)
    together = {key: value for key, value in schema.items() if key != "allOf"}
    if len(parts) > _MOST_PARTS:
        notes.append((where, f"allOf: only the first {_MOST_PARTS} parts are sent"))
    for part in parts[:_MOST_PARTS]:
        if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
            target = None if reference in entered else resolve(root, reference)
            if target is None:
                notes.append((where, f"allOf: {quoted(reference)} leads nowhere, or back"))
            entered = (*entered, reference)
            part = {**(target or {}), **{key: value for key, value in part.items() if key != "$ref"}}
        if not isinstance(part, Mapping):
            continue
        notes.read(part)
        for key, value in part.items():
            mine = together.get(key)
            if key == "properties" and isinstance(mine, Mapping) and isinstance(value, Mapping):
                notes.spend(len(mine) + len(value))
                for name in value.keys() & mine.keys():
                    if value[name] != mine[name]:
                        notes.append((where, f"two schemas of property {name!s:.80}, the first is sent"))
                together[key] = {**value, **mine}
            elif key == "required" and isinstance(mine, list) and isinstance(value, list):
                notes.spend(len(mine) + len(value))
                together[key] = list(dict.fromkeys([*strings(mine), *strings(value)]))
            else:
                if key in together and mine != value and key not in _MARKS:
                    notes.append((where, f"two values of {key} at once, the first is sent"))
                together.setdefault(key, value)
    return together, entered


def rooted(schema: Mapping[str, Any], notes: Notes, where: str = "parameters") -> Mapping[str, Any]:
    """The schema as one object, since providers reject references and alternatives at the root.

    A schema that is an object is returned. Alternatives become one object with the properties of all. A
    property is required if all alternatives require it, so the object only allows more.
    """
    if not schema:
        return {"type": "object", "properties": {}}
    kind = schema.get("type")
    if kind == "object" and not any(
        key in schema for key in ("$ref", "anyOf", "oneOf", "allOf", *_NOT_AT_THE_ROOT)
    ):
        return schema if "properties" in schema else {"type": "object", "properties": {}, **schema}
    whole = followed(schema, schema, notes, where)
    if whole is None:
        notes.append((where, f"$ref: {quoted(schema.get('$ref'))} leads nowhere in this schema"))
        whole = {key: value for key, value in schema.items() if key != "$ref"}
    if isinstance(parts := whole.get("allOf"), list):
        whole, _ = merged(whole, parts, schema, ("#",), notes, where)
    one = {key: value for key, value in whole.items() if key not in (*_NOT_AT_THE_ROOT, "allOf", "$ref")}
    for key in _NOT_AT_THE_ROOT:
        if key in whole:
            notes.append((where, f"{key} is not taken at the root"))
    for key in ("anyOf", "oneOf"):
        if isinstance(options := one.pop(key, None), list):
            notes.append((where, f"{key} at the root: sent as one object with the properties of all"))
            one = _united(one, options[:_MOST_PARTS], schema, notes)
    rest = {key: value for key, value in one.items() if key not in ("type", "properties")}
    return {"type": "object", "properties": _mapping(one.get("properties")), **rest}


def _united(one: dict[str, Any], options: Sequence[Any], root: Any, notes: Notes) -> dict[str, Any]:
    """One object for alternatives: the properties of all, required if all require them."""
    properties: dict[str, Any] = dict(_mapping(one.get("properties")))
    shared = frozenset(properties)
    required: list[dict[str, None]] = []
    for option in options:
        inner = Notes()
        found = followed(option, root, inner, "")
        notes.spend(inner.steps)
        if found is None or found.get("type", "object") != "object":
            continue
        notes.read(found)
        required.append(dict.fromkeys(strings(found.get("required"))))
        notes.spend(len(_mapping(found.get("properties"))))
        for name, value in _mapping(found.get("properties")).items():
            if name not in properties:
                properties[name] = value
            elif name not in shared and properties[name] != value:
                properties[name] = _either(properties[name], value, notes)
    in_all = [name for name in required[0] if all(name in other for other in required)] if required else []
    wanted = [*strings(one.get("required")), *in_all]
    united = {**one, "properties": properties, "required": list(dict.fromkeys(wanted))}
    if not united["required"]:
        del united["required"]
    united.pop("additionalProperties", None)  # it applied to the properties beside the alternatives
    return united


def _either(one: Any, other: Any, notes: Notes) -> dict[str, Any]:
    """Either of two schemas; constants, which distinguish alternatives, become one enum."""
    values = [*_values(one), *_values(other)]
    notes.spend(len(values))
    if _values(one) and _values(other) and len(values) < _MOST_VALUES:
        same = {key: value for key, value in one.items() if key not in ("const", "enum")}
        return {**same, "enum": distinct(values)}
    options = one["anyOf"] if isinstance(one, Mapping) and one.keys() == {"anyOf"} else [one]
    notes.spend(len(options))
    return {"anyOf": [*options, *([] if other in options else [other])]}


def _values(schema: Any) -> list[Any]:
    if not isinstance(schema, Mapping):
        return []
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def strings(value: Any) -> list[str]:
    """The names in a list of property names; none if it is not a list."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, (list, tuple)) else []
