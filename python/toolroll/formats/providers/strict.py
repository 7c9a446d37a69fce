"""Converts JSON Schema for OpenAI's strict mode.

In strict mode the model can only write arguments that match the schema, but the schema is restricted: every
object is closed, every property is required, and some keywords are rejected. So an optional property may be
null, which stands for absent. Rejected keywords are dropped, which only allows more. If the mode cannot
express the tool's parameters (any value, properties of any name), the tool is sent without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolroll.formats.providers.references import (
    STRUCTURE,
    Notes,
    TooLargeError,
    distinct,
    merged,
    placed,
    resolve,
    rooted,
    strings,
)
from toolroll.model.errors import quoted

MOST_LEVELS = 10  # objects within objects
MOST_PROPERTIES = 5_000
MOST_VALUES = 1_000  # values of all enumerations
MOST_CHARACTERS = 120_000  # characters of all names and values together
_MOST_NODES = 20_000
_MOST_DEPTH = 80  # the depth of the walk

_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_KEPT: Mapping[str, tuple[str, ...]] = {
    "string": ("pattern",),
    "number": ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems"),
}


class NotStrictError(Exception):
    """Strict mode cannot express this; caught in this package.

    Attributes:
        where: path to the part of the schema.
        why: the reason.
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


def strict_schema(parameters: Mapping[str, Any] | None) -> tuple[dict[str, Any], Notes]:
    """The schema of strict mode, and notes on dropped keywords.

    A strict schema is returned equal, without notes. Time and size are bounded, whatever the schema refers
    to. Raises NotStrictError if the tool has to be sent without strict mode.
    """
    notes = Notes()
    walk = _Walk(parameters or {}, notes)
    try:
        made = walk.object(rooted(parameters or {}, notes), "parameters", 0, is_root=True)
    except TooLargeError:
        raise NotStrictError("parameters", "the schema is too large for strict mode") from None
    if walk.definitions:
        made["$defs"] = walk.definitions
    return made, notes


class _Walk:
    """One walk over a schema. Referenced schemas are collected under ``$defs``, each converted once."""

    def __init__(self, root: Mapping[str, Any], notes: Notes) -> None:
        self.root = root
        self.notes = notes
        self.definitions: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.nodes = self.depth = self.properties = self.values = self.characters = 0

    def schema(self, schema: Any, where: str, level: int, entered: tuple[str, ...] = ()) -> dict[str, Any]:
        """`level`: enclosing objects; `entered`: references that were resolved on the way here."""
        self.nodes += 1
        self.depth += 1
        if self.nodes > _MOST_NODES or self.depth > _MOST_DEPTH:
            raise NotStrictError(where, "the schema is too large for strict mode")
        made = self.one(schema, where, level, entered)
        self.depth -= 1
        return made

    def one(self, schema: Any, where: str, level: int, entered: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(schema, Mapping):
            raise NotStrictError(where, "takes any value, which strict mode cannot say")
        self.notes.read(schema)
        if isinstance(reference := schema.get("$ref"), str):
            return self.reference(schema, reference, where, level, entered)
        if isinstance(parts := schema.get("allOf"), list):
            whole, entered = merged(schema, parts, self.root, entered, self.notes, where)
            return self.schema(whole, where, level, entered)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(keyword), list) and options:
                if keyword == "oneOf":
                    self.note(where, "oneOf is sent as anyOf")
                return self.choice(schema, keyword, options, where, level, entered)
        made = self.typed(schema, where, level, entered)
        return or_null(made) if schema.get("nullable") is True else made

    def reference(
        self, schema: Mapping[str, Any], reference: str, where: str, level: int, entered: tuple[str, ...]
    ) -> dict[str, Any]:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if beside.keys() - {"title", "description", "default", "examples", "$comment"}:
            target = None if reference in entered else resolve(self.root, reference)
            if target is None:
                raise NotStrictError(where, f"$ref {quoted(reference)} leads nowhere, or back to itself")
            whole = placed(target, schema, self.notes, where)
            return self.schema(whole, where, level, (*entered, reference))
        for keyword in ("default", "examples"):
            if keyword in beside:
                self.note(where, f"{keyword} is dropped")
        made = {"$ref": self.define(reference, where, level)}
        if marks := marks_of(beside):  # a reference may have nothing beside it
            return {"anyOf": [made], **marks}
        return made

    def define(self, reference: str, where: str, level: int) -> str:
        """The reference to the converted target. Converts the target on its first use."""
        if reference == "#":
            return reference
        if (name := self.names.get(reference)) is None:
            target = resolve(self.root, reference)
            if target is None:
                raise NotStrictError(where, f"$ref {quoted(reference)} leads nowhere in this schema")
            stem = re.sub(r"[^a-zA-Z0-9_-]", "_", reference.rsplit("/", 1)[-1]) or "_"
            name, again = stem, 2
            while name in self.definitions:
                name, again = f"{stem}_{again}", again + 1
            self.names[reference] = name
            self.definitions[name] = None  # taken while the target, which may refer to itself, is made
            self.count(where, name)
            self.definitions[name] = self.schema(target, where, level)
        return f"#/$defs/{name}"

    def choice(
        self,
        schema: Mapping[str, Any],
        keyword: str,
        options: Sequence[Any],
        where: str,
        level: int,
        entered: tuple[str, ...],
    ) -> dict[str, Any]:
        """A choice of alternatives. Keywords beside them are added to each alternative."""
        beside = {
            key: value
            for key, value in schema.items()
            if key not in (keyword, "title", "description", "default", "examples", "nullable", "$defs")
        }
        made: list[dict[str, Any]] = []
        for i, option in enumerate(options):
            if beside and isinstance(option, Mapping):
                whole, _ = merged({**option}, [beside], self.root, entered, self.notes, where)
                option = whole
            one = self.schema(option, f"{where}.{keyword}[{i}]", level, entered)
            made += one["anyOf"] if one.keys() == {"anyOf"} else [one]
        made = distinct(made)
        for dropped in ("default", "examples"):
            if dropped in schema:
                self.note(where, f"{dropped} is dropped")
        whole = made[0] if len(made) == 1 else {"anyOf": made}
        if marks := marks_of(schema):
            whole = {"anyOf": [whole], **marks} if "$ref" in whole else {**whole, **marks}
        return or_null(whole) if schema.get("nullable") is True else whole

    def typed(
        self, schema: Mapping[str, Any], where: str, level: int, entered: tuple[str, ...]
    ) -> dict[str, Any]:
        kinds = kinds_of(schema)
        if not kinds:
            raise NotStrictError(where, "takes any value, which strict mode cannot say")
        real = [kind for kind in kinds if kind != "null"]
        if len(real) > 1 and not set(real) <= set(SCALARS):
            bare = {
                key: value for key, value in schema.items() if key not in ("type", "title", "description")
            }
            options = [{**bare, "type": kind} for kind in kinds]
            return self.choice(marks_of(schema), "anyOf", options, where, level, entered)
        if "object" in real:
            made = self.object(schema, where, level)
        elif "array" in real:
            made = self.array(schema, where, level, entered)
        else:
            made = self.scalar(schema, real, where)
        return or_null(made) if "null" in kinds and None in made.get("enum", (None,)) else made

    def object(
        self, schema: Mapping[str, Any], where: str, level: int, is_root: bool = False
    ) -> dict[str, Any]:
        if level >= MOST_LEVELS:
            raise NotStrictError(where, f"more than {MOST_LEVELS} objects within each other")
        properties = schema.get("properties")
        more = schema.get("additionalProperties")
        if more not in (None, False) or schema.get("patternProperties"):
            raise NotStrictError(where, "takes properties of any name, which strict mode cannot say")
        if not isinstance(properties, Mapping) or (not properties and more is None and not is_root):
            raise NotStrictError(where, "takes any object, which strict mode cannot say")
        self.drop(schema, where, ())
        required = dict.fromkeys(strings(schema.get("required")))
        for name in required:
            if name not in properties:
                self.note(f"{where}.required", f"{quoted(name)} is not among the properties")
        made: dict[str, Any] = {}
        for name, value in properties.items():
            self.properties += 1
            self.count(where, str(name))
            part = self.schema(value, f"{where}.properties.{name}", level + 1)
            made[str(name)] = part if name in required else or_null(part)
        return {
            "type": "object",
            **marks_of(schema),
            "properties": made,
            "required": list(made),
            "additionalProperties": False,
        }

    def array(
        self, schema: Mapping[str, Any], where: str, level: int, entered: tuple[str, ...]
    ) -> dict[str, Any]:
        places = schema.get("prefixItems", schema.get("items"))
        if isinstance(places, list):
            self.note(where, "a list with a schema for each place is sent with one for all")
            items = self.choice({}, "anyOf", places, f"{where}.items", level, entered) if places else None
        else:
            items = self.schema(places, f"{where}.items", level, entered)
        if items is None:
            raise NotStrictError(where, "takes any value, which strict mode cannot say")
        self.drop(schema, where, _KEPT["array"])
        kept = {key: schema[key] for key in _KEPT["array"] if is_number(schema.get(key))}
        return {"type": "array", **marks_of(schema), "items": items, **kept}

    def scalar(self, schema: Mapping[str, Any], kinds: list[str], where: str) -> dict[str, Any]:
        made: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds or "null", **marks_of(schema)}
        if "const" in schema or isinstance(schema.get("enum"), list):
            made["enum"] = self.enumeration(schema, where)
        keywords = tuple(
            keyword
            for kind in dict.fromkeys("number" if kind == "integer" else kind for kind in kinds)
            for keyword in _KEPT.get(kind, ())
        )
        self.drop(schema, where, keywords)
        for keyword in keywords:
            if (
                isinstance(schema.get(keyword), str)
                if keyword == "pattern"
                else is_number(schema.get(keyword))
            ):
                made[keyword] = schema[keyword]
        if "format" in schema:
            if "string" in kinds and schema["format"] in _FORMATS:
                made["format"] = schema["format"]
            else:
                self.note(where, f"format {schema['format']!r:.40} is dropped")
        return made

    def enumeration(self, schema: Mapping[str, Any], where: str) -> list[Any]:
        """The listed values of the allowed types; for a constant, the constant."""
        known = kinds_of(schema)
        values = []
        for value in [schema["const"]] if "const" in schema else schema["enum"]:
            if isinstance(value, (Mapping, list)):
                raise NotStrictError(where, "lists an object or a list, which strict mode cannot say")
            if (kind := kind_of(value)) in known or (kind == "integer" and "number" in known):
                values.append(value)
            self.values += 1
            self.count(where, str(value))
        if not values:
            raise NotStrictError(where, "takes no value at all, which strict mode cannot say")
        return values

    def drop(self, schema: Mapping[str, Any], where: str, kept: tuple[str, ...]) -> None:
        for key in schema:
            if key not in STRUCTURE and key not in kept:
                self.note(where, f"{key!s:.40} is dropped")

    def note(self, where: str, what: str) -> None:
        self.notes.append((where, f"{what} in strict mode"))

    def count(self, where: str, text: str) -> None:
        self.characters += len(text)
        if (
            self.characters > MOST_CHARACTERS
            or self.values > MOST_VALUES
            or self.properties > MOST_PROPERTIES
        ):
            raise NotStrictError(where, "the schema is too large for strict mode")


SCALARS = ("string", "number", "integer", "boolean")


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that accepts null, too."""
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
    """The types that a schema allows, by `type` or its values; none if it allows any."""
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
    """The type of a JSON value; a whole number is an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"


def marks_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Title and description, if they are texts."""
    return {key: schema[key] for key in ("title", "description") if isinstance(schema.get(key), str)}


def is_number(value: Any) -> bool:
    """Whether this is a JSON number; true is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
