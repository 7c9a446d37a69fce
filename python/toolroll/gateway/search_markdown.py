"""The answer of a search as short Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolroll.formats.meta_tools import CALL_TOOL


def markdown(answer: str) -> str:
    """The answer of a search as short Markdown: half the tokens of JSON, and read as well."""
    content = json.loads(answer)
    parts = [content["note"]] if "note" in content else []
    for tool in content["tools"]:
        parts.append(f"## {tool['name']}\n{tool['description']}\n{_parameters(tool['parameters'])}".rstrip())
    return "\n\n".join([*parts, f"Call them with {CALL_TOOL.name}."])


def _parameters(schema: Mapping[str, Any]) -> str:
    """The parameters of a tool, a line each; nested ones as JSON."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return (
            ""
            if schema.keys() <= {"type", "properties", "additionalProperties", "$schema", "title"}
            else _json(schema)
        )
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    if "$defs" in schema or "definitions" in schema:
        return _json(schema)
    lines = []
    for name, each in properties.items():
        each = each if isinstance(each, dict) else {}
        kind = each.get("type")
        rest = {
            key: value
            for key, value in each.items()
            if key not in ("type", "description", "title", "default")
        }
        said = kind if isinstance(kind, str) and not rest else _json({"type": kind, **rest} if kind else rest)
        mark = "" if name in required else ", optional"
        default = f", default {_json(each['default'])}" if "default" in each else ""
        told = f": {each['description']}" if isinstance(each.get("description"), str) else ""
        lines.append(f"- `{name}` ({said}{mark}{default}){told}")
    return "\n".join(lines)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
