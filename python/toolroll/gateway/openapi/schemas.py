"""Rewrites OpenAPI's schemas as JSON Schema.

Each schema behind a reference is copied once into `$defs` and stays a reference, so a schema may refer to
itself. Version 3.0 differs from JSON Schema in some keywords, version 3.1 does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.model.errors import InvalidDefinition

Json = dict[str, Any]
_DEEPEST = 64  # references that lead to references
# Keywords that a model does not need to write arguments.
_LEFT_OUT = frozenset({"xml", "externalDocs", "discriminator", "example", "$schema", "$id"})
# The keys of these objects are names, not keywords.
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"default", "const", "enum", "examples"})


def target(document: Mapping[str, Any], reference: object) -> Any:
    """Returns the target of a reference within the document.

    Raises:
        InvalidDefinition: it leads out of the document, or nowhere.
    """
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise InvalidDefinition(f"$ref {reference!r:.200} leads out of the document")
    found: Any = document
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict) and key in found:
            found = found[key]
        else:
            raise InvalidDefinition(f"$ref {reference!r:.200} leads nowhere")
    return found


def dereferenced(document: Mapping[str, Any], value: object) -> Json:
    """Follows references until an object of the document is found.

    Raises:
        InvalidDefinition: it is no object, or a reference leads nowhere, out of the document or in a circle.
    """
    for _ in range(_DEEPEST):
        if not isinstance(value, dict):
            raise InvalidDefinition(f"has {type(value).__name__} where an object must be")
        if "$ref" not in value:
            return value
        value = target(document, value["$ref"])
    raise InvalidDefinition("has references in a circle")


class Schemas:
    """Rewrites the schemas of one operation; `definitions` holds the targets of their references."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.definitions: dict[str, Any] = {}
        self._document = document
        self._names: dict[str, str] = {}  # reference → key in the definitions

    def rewritten(self, schema: Any) -> Any:
        """The schema as JSON Schema, with references into `$defs`.

        Raises:
            InvalidDefinition: a reference leads out of the document, or nowhere.
        """
        if isinstance(schema, list):
            return [self.rewritten(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            found = {"$ref": f"#/$defs/{self._name(schema['$ref'])}"}
            return found | {key: schema[key] for key in ("description", "default") if key in schema}
        written: Json = {}
        for key, value in schema.items():
            if key in _LEFT_OUT or key.startswith("x-") or key == "nullable":
                continue
            if key in _MAPS and isinstance(value, dict):
                written[key] = {name: self.rewritten(each) for name, each in value.items()}
            else:
                written[key] = value if key in _VALUES else self.rewritten(value)
        return _of_version_3_0(written, schema.get("nullable") is True)

    def _name(self, reference: Any) -> str:
        if not isinstance(reference, str) or reference not in self._names:
            found = target(self._document, reference)
            if isinstance(found, dict) and "$ref" in found:
                dereferenced(self._document, found)  # refuses a circle that nothing but references are in
            plain = name = "".join(
                each if each.isascii() and (each.isalnum() or each in "_-") else "_"
                for each in reference.rpartition("/")[2]
            )
            while name in self.definitions:
                name = f"{plain}_{len(self.definitions)}"
            self._names[reference], self.definitions[name] = name, {}
            self.definitions[name] = self.rewritten(found)
        return self._names[reference]


def _of_version_3_0(schema: Json, is_nullable: bool) -> Json:
    for limit in ("minimum", "maximum"):
        key = f"exclusive{limit.title()}"
        if isinstance(schema.get(key), bool):  # a number in JSON Schema
            is_exclusive = schema.pop(key)
            if is_exclusive and limit in schema:
                schema[key] = schema.pop(limit)
    if not is_nullable:
        return schema
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
        return schema
    return {"anyOf": [schema, {"type": "null"}]}
