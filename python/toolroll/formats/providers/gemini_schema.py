"""Converts JSON Schema to Gemini's `parameters`, a subset of OpenAPI 3.0.

Gemini rejects the whole request for an unknown keyword. So references are inlined, ``const`` becomes
``enum``, null in a list of types becomes ``nullable``, ``oneOf`` becomes ``anyOf``, and a keyword without a
counterpart is dropped and noted. That only allows more than the tool does, and the tool still checks its
arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolroll.formats.providers.references import (
    STRUCTURE,
    Notes,
    distinct,
    merged,
    placed,
    resolve,
    rooted,
    strings,
)
from toolroll.model.errors import quoted

MAX_NODES = 2_000  # schemas in a translation; a few definitions that use each other can grow without bound
MAX_DEPTH = 32

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
_EXCLUSIVE = ("exclusiveMinimum", "exclusiveMaximum")  # over whole numbers these have inclusive twins
_TELLING = {"type", "properties", "additionalProperties", "items", "prefixItems", "enum", "const"}
_READ = STRUCTURE | {"propertyOrdering", "example"}


def gemini_schema(schema: Mapping[str, Any], notes: Notes | None = None) -> dict[str, Any]:
    """Translates a JSON Schema of an object; bounded by MAX_NODES and MAX_DEPTH, whatever it refers to.

    notes: collects what is lost. Raises TooLargeError if it would take too many steps.
    """
    notes = Notes() if notes is None else notes
    root = rooted(schema, notes)
    return _Translation(schema, notes).schema(root, MAX_DEPTH, (), "parameters")


class _Translation:
    """One walk over a schema, with a count of the schemas made so far."""

    def __init__(self, root: Mapping[str, Any], notes: Notes) -> None:
        self.root = root
        self.notes = notes
        self.nodes = 0

    def schema(self, schema: Any, depth: int, entered: tuple[str, ...], where: str) -> dict[str, Any]:
        """`entered`: references followed so far. A second visit of one of them ends the walk."""
        self.nodes += 1
        if not isinstance(schema, Mapping):  # true and false are schemas too
            self.note(where, "any value is sent as a string")
            return {"type": "STRING"}
        if depth == 0 or self.nodes > MAX_NODES:
            self.note(where, "the schema is too large, what lies below is dropped")
            return _leaf(schema)
        self.notes.read(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = None if reference in entered else resolve(self.root, reference)
            if target is None:
                self.note(where, f"$ref {quoted(reference)} leads nowhere, or back to itself: an open object")
                return _leaf(schema, default="OBJECT")
            whole = placed(target, schema, self.notes, where)
            return self.schema(whole, depth - 1, (*entered, reference), where)
        if isinstance(parts := schema.get("allOf"), Sequence) and not isinstance(parts, str):
            whole, entered = merged(schema, parts, self.root, entered, self.notes, where)
            return self.schema(whole, depth - 1, entered, where)
        kinds, nullable = _kinds(schema)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(choices := schema.get(keyword), Sequence) and not isinstance(choices, str):
                if keyword == "oneOf":
                    self.note(where, "oneOf is sent as anyOf")
                return self._choice(schema, list(choices), nullable, depth, entered, f"{where}.{keyword}")
        if len(kinds) > 1:
            bare = {key: value for key, value in schema.items() if key != "type"}
            return self._choice(
                {"description": schema.get("description")},
                [{**_without_foreign(bare, kind), "type": kind} for kind in kinds],
                nullable,
                depth,
                entered,
                where,
            )
        translated = self._typed(schema, kinds[0], depth, entered, where)
        if nullable:
            translated["nullable"] = True
        return translated

    def _typed(
        self, schema: Mapping[str, Any], kind: str, depth: int, entered: tuple[str, ...], where: str
    ) -> dict[str, Any]:
        self._note_dropped(schema, kind, where)
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
                str(name): self.schema(value, depth - 1, entered, f"{where}.properties.{name}")
                for name, value in properties.items()
                if self.nodes <= MAX_NODES
            }
            if kept := [key for key in strings(schema.get("required")) if key in translated["properties"]]:
                translated["required"] = kept
        if kind == "array":
            translated["items"] = self._items(schema, depth, entered, f"{where}.items")
        return translated

    def _note_dropped(self, schema: Mapping[str, Any], kind: str, where: str) -> None:
        kept = [keyword for keyword, kinds in _KEPT.items() if not kinds or kind in kinds]
        if kind == "integer" and all(isinstance(schema.get(key, 0), int) for key in _EXCLUSIVE):
            kept += _EXCLUSIVE
        if "format" in schema and schema["format"] not in _FORMATS.get(kind, ()):
            self.note(where, f"format {schema['format']!r:.40} is dropped")
        if not schema.keys() & _TELLING:
            self.note(where, f"any value is sent as {kind}")
        if schema.get("additionalProperties") is not None and schema["additionalProperties"] is not False:
            self.note(where, "properties of any name are not sent")
        self.drop(schema, where, kept)
        values = [value for value in _enumeration(schema) or () if value is not None]
        if values and not (kind == "string" and all(isinstance(value, str) and value for value in values)):
            self.note(where, "enum: only non-empty strings can be listed, others go into the description")

    def drop(self, schema: Mapping[str, Any], where: str, kept: Sequence[str]) -> None:
        for key in schema:
            if key not in _READ and key not in kept:
                self.note(where, f"{key!s:.40} is dropped")

    def note(self, where: str, what: str) -> None:
        if len(self.notes) < MAX_NODES:
            self.notes.append((where, what))

    def _items(
        self, schema: Mapping[str, Any], depth: int, entered: tuple[str, ...], where: str
    ) -> dict[str, Any]:
        """One schema for every item of a list, since Gemini has no tuples."""
        places = schema.get("prefixItems") or schema.get("items")
        if isinstance(places, Sequence) and not isinstance(places, str):
            self.note(where, "a schema for each place is sent as one for all")
            return self._choice({}, list(places), False, depth, entered, where)
        return self.schema(places if places is not None else {}, depth - 1, entered, where)

    def _choice(
        self,
        schema: Mapping[str, Any],
        choices: list[Any],
        nullable: bool,
        depth: int,
        entered: tuple[str, ...],
        where: str,
    ) -> dict[str, Any]:
        """Writes alternatives, each with description and nullable: in Gemini, `anyOf` stands alone."""
        real = [choice for choice in choices if not _is_null(choice)]
        nullable = nullable or len(real) < len(choices)
        shared = {
            key: value
            for key, value in schema.items()
            if key not in ("anyOf", "oneOf", "description", "default", "title", "$defs", "definitions")
        }
        made: list[dict[str, Any]] = []
        for choice in real:
            if self.nodes > MAX_NODES:
                self.note(where, "the schema is too large, further alternatives are dropped")
                break
            self.notes.read(shared)
            whole = {**shared, **choice} if isinstance(choice, Mapping) else choice
            one = self.schema(whole, depth - 1, entered, where)
            made += one["anyOf"] if set(one) == {"anyOf"} else [one]
        made = distinct(made)
        for option in made:
            if schema.get("description"):
                option.setdefault("description", str(schema["description"]))
            if nullable:
                option["nullable"] = True
        if len(made) == 1:
            extras = {key: schema[key] for key in ("title", "default") if key in schema}
            return {**made[0], **extras}
        if "default" in schema:
            self.note(where, "default of several alternatives is dropped")
        return {"anyOf": made} if made else _leaf(schema)


def _leaf(schema: Mapping[str, Any], kind: str = "", default: str = "STRING") -> dict[str, Any]:
    leaf: dict[str, Any] = {"type": kind.upper() or default}
    if isinstance(description := schema.get("description"), str) and description:
        leaf["description"] = description
    return leaf


def _kinds(schema: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The types that a schema allows, inferred if it names none, and whether null is one of them."""
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
    """The values that a schema lists, null included; None if it lists none."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else None


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "null" or schema.get("const", "") is None or schema.get("enum") == [None]
    )


def _without_foreign(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The schema of several types, with only the keywords for this type."""
    foreign = set()
    if kind != "object":
        foreign |= {"properties", "required", "additionalProperties"}
    if kind != "array":
        foreign |= {"items", "prefixItems"}
    return {key: value for key, value in schema.items() if key not in foreign and key != "description"}


def _enumerate(schema: Mapping[str, Any], kind: str, translated: dict[str, Any]) -> None:
    """Writes listed values. Gemini lists only non-empty strings, so other values go into the description."""
    values = [value for value in _enumeration(schema) or () if value is not None]
    if kind == "string" and all(isinstance(value, str) for value in values):
        if named := [value for value in values if value]:
            translated["enum"] = named
    elif values:
        said = ", ".join(map(str, values[:50]))
        translated["description"] = f"{translated.get('description', '')} One of: {said}.".strip()


def _close_bounds(schema: Mapping[str, Any], translated: dict[str, Any]) -> None:
    """Makes an integer's exclusive bounds inclusive."""
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(low, int) and not isinstance(low, bool):
        translated.setdefault("minimum", low + 1)
    if isinstance(high, int) and not isinstance(high, bool):
        translated.setdefault("maximum", high - 1)
