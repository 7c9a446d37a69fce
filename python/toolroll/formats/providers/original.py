"""The object that a tool was read from: whether it can be sent again, and its provider's marks.

Title, annotations, icons and the schema of the result are fields of the tool. A provider's own marks, such as
`cache_control`, are in the original only. They count while the original still matches the tool, so a changed
copy of the tool has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.model.tools import Tool

_MARKS: Mapping[str, tuple[str, ...]] = {
    "openai": ("strict", "allowed_callers"),
    "anthropic": ("strict", "cache_control", "input_examples", "allowed_callers", "eager_input_streaming"),
    "gemini": ("behavior",),
}
SHARED = ("strict", "allowed_callers")  # several dialects have these, with different meanings


def matches(original: Mapping[str, Any], tool: Tool, parameters: str = "parameters") -> bool:
    """Whether the object that a tool was read from still matches the tool."""
    return (
        original.get("name") == tool.name
        and (original.get("description") or "") == tool.description
        and original.get(parameters) is tool.parameters
    )


def marks(tool: Tool, dialect: str = "") -> dict[str, Any]:
    """The marks that a tool's author wrote for one provider, such as marks for a cache.

    dialect: "openai", "anthropic" or "gemini" leaves out the marks of the others; "" for all.
    """
    original: Any = tool.original
    if isinstance(original, Mapping) and "inputSchema" not in original:
        holder, found, parameters = _dialect_of(original)
        is_current = holder.get("name") == tool.name and _is_current(holder, tool, parameters)
        if is_current and dialect in ("", found):
            return {key: holder[key] for key in _MARKS[found] if holder.get(key) not in (None, False)}
    return {}


def mcp_fields(tool: Tool) -> dict[str, Any]:
    """The fields of MCP beside name, description and parameters, by MCP's keys."""
    fields = {
        "title": tool.display_name or None,
        "outputSchema": tool.returns,
        "annotations": tool.annotations,
        "icons": [*tool.icons] or None,
        "_meta": tool.meta,
        "execution": tool.execution,
    }
    return {key: value for key, value in fields.items() if value is not None}


def is_current_object(original: Any, tool: Tool) -> bool:
    """Whether this is an object of an MCP library that still matches the tool."""
    schema = getattr(original, "inputSchema", None) or getattr(original, "input_schema", None)
    return (
        schema is not None
        and schema is tool.parameters
        and original.name == tool.name
        and (original.description or "") == tool.description
    )


def plain(value: Any) -> Any:
    """A value of an MCP library's object as plain JSON values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True, exclude_none=True, mode="json")
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def _dialect_of(original: Mapping[str, Any]) -> tuple[Mapping[str, Any], str, str]:
    """The mapping with an original's keys, its dialect, and the key of its parameters."""
    if isinstance(function := original.get("function"), Mapping):
        return function, "openai", "parameters"
    if "input_schema" in original:
        return original, "anthropic", "input_schema"
    if original.get("type") == "function":
        return original, "openai", "parameters"
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        if key in original:
            return original, "gemini", key
    return original, "gemini", ""


def _is_current(holder: Mapping[str, Any], tool: Tool, parameters: str) -> bool:
    # Gemini's dialect was translated when it was read, so there is no object to compare.
    return not parameters or matches(holder, tool, parameters)
