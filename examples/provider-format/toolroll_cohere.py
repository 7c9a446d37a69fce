"""Cohere's first interface: a tool's parameters are a flat table of Python types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolroll import Tool
from toolroll.formats.providers import PROVIDERS, Form, Notes, Provider

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list"}
_SCHEMA_TYPES = {name: kind for kind, name in _TYPES.items()}
_SENT = {"type", "description"}


def write(tool: Tool, name: str, form: Form, lost: Notes) -> dict[str, Any]:
    """The definition to send. Notes what the table has no column for."""
    if name == tool.name and isinstance(tool.original, dict) and "parameter_definitions" in tool.original:
        return tool.original
    schema = tool.parameters or {}
    table = {}
    for key, part in schema.get("properties", {}).items():
        table[key] = {
            "type": _TYPES.get(str(part.get("type")), "str"),
            "description": part.get("description", ""),
            "required": key in schema.get("required", ()),
        }
        lost += [(f"parameters.properties.{key}", f"{word} is dropped") for word in part if word not in _SENT]
    return {"name": name, "description": tool.description, "parameter_definitions": table}


def read(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same tool in toolroll's plain form; None for an object that is not in Cohere's."""
    table = item.get("parameter_definitions")
    if not isinstance(table, Mapping):
        return None
    properties = {
        key: {"type": _SCHEMA_TYPES.get(part["type"], "string"), "description": part.get("description", "")}
        for key, part in table.items()
    }
    required = [key for key, part in table.items() if part.get("required")]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": item["name"], "description": item.get("description", ""), "parameters": parameters}


COHERE = Provider(
    "cohere",
    write,
    re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
    most_tools=50,
    read=read,
    history=PROVIDERS["openai"].history,  # its second interface has OpenAI's messages
)
