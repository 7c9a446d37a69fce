"""Gemini, whose own dialect of a schema is a subset of OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolroll.formats.providers.form import Form
from toolroll.formats.providers.gemini_history import GeminiHistory
from toolroll.formats.providers.gemini_schema import MAX_DEPTH, gemini_schema
from toolroll.formats.providers.original import matches
from toolroll.formats.providers.provider import Provider
from toolroll.formats.providers.references import Notes, rooted
from toolroll.formats.providers.request_form import RequestForm
from toolroll.model.tools import Tool

_KEYS = frozenset(
    [
        *("name", "description", "parameters", "parametersJsonSchema", "parameters_json_schema"),
        *("response", "responseJsonSchema", "response_json_schema", "behavior"),
    ]
)
_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    504: "DEADLINE_EXCEEDED",
}


def from_gemini(schema: Any) -> Any:
    """Turns Gemini's dialect into JSON Schema: small letters, nullable as a type, numbers as numbers."""
    return _from_gemini(schema, MAX_DEPTH * 2)


def is_gemini(schema: Any) -> bool:
    """Whether a schema is in Gemini's own dialect, whose types are in capitals."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return isinstance(kind, str) and kind.isupper()


def _write(tool: Tool, name: str, form: Form, lost: Notes) -> dict[str, Any]:
    """One function declaration.

    A tool without parameters has none here either: Gemini rejects an object without properties.
    """
    original = tool.original
    if name == tool.name and isinstance(original, dict) and _is_declaration(original, tool, form):
        return original
    declaration: dict[str, Any] = {"name": name, "description": tool.description}
    if form.json_schema:
        if (schema := rooted(tool.parameters or {}, lost)).get("properties"):
            declaration["parameters_json_schema"] = schema
    elif (translated := gemini_schema(tool.parameters or {}, lost)).get("properties"):
        declaration["parameters"] = translated
    if form.returns and tool.returns is not None:
        declaration["response_json_schema"] = tool.returns
    return declaration


def _is_declaration(original: dict[str, Any], tool: Tool, form: Form) -> bool:
    if not original.keys() <= _KEYS:
        return False
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        if key in original:
            return matches(original, tool, key)
    parameters = original.get("parameters")
    if (form.json_schema and parameters is not None) or not is_gemini(parameters):
        return False  # {"name", "parameters"} in JSON Schema: our plain form, not a declaration
    return (
        original.get("name") == tool.name
        and (original.get("description") or "") == tool.description
        and from_gemini(parameters) == tool.parameters
    )


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


def _restrict(sent: list[str], must_call: bool) -> dict[str, Any]:
    mode = "NONE" if not sent else "ANY" if must_call else "VALIDATED"
    names = {"allowed_function_names": sent} if sent else {}
    return {"tool_config": {"function_calling_config": {"mode": mode, **names}}}


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": _ERRORS.get(status, "UNAVAILABLE")}}


class _GenerateContent(RequestForm):
    """Gemini's choice of tools, `toolConfig`, in camel case or in snake case."""

    __slots__ = ()

    def chosen(self, choice: Any) -> tuple[str, ...]:
        """The names of the tools in the caller's choice."""
        calling = _function_calling(choice)
        names = calling.get("allowedFunctionNames", calling.get("allowed_function_names"))
        return tuple([name for name in names if isinstance(name, str)]) if isinstance(names, list) else ()

    def choice_without(self, choice: Any, gone: Iterable[str]) -> Any:
        """The caller's choice without these tools; None if no tool is left in it."""
        gone = frozenset(gone)
        calling = _function_calling(choice)
        kept = {key: value for key, value in choice.items() if value is not calling}
        (key,) = [key for key, value in choice.items() if value is calling]
        for name in ("allowedFunctionNames", "allowed_function_names"):
            if isinstance(names := calling.get(name), list):
                left = [one for one in names if one not in gone]
                if left:  # without any, the mode would demand one of no tools
                    kept[key] = {**calling, name: left}
        return kept or None

    def is_free(self, choice: Any) -> bool:
        """Whether the caller's choice restricts the model to no tools."""
        mode = str(_function_calling(choice).get("mode", "AUTO")).upper()
        return not self.chosen(choice) and mode in ("AUTO", "ANY", "VALIDATED")

    def must_call(self, choice: Any) -> bool:
        """Whether the caller's choice requires a tool call."""
        return str(_function_calling(choice).get("mode", "")).upper() == "ANY"

    def restricted(self, choice: Any, restriction: Mapping[str, Any]) -> Any:
        """The caller's choice with a restriction that `Provider.restrict` made, in camel case."""
        config = restriction["tool_config"]["function_calling_config"]
        written = {"mode": config["mode"]}
        if "allowed_function_names" in config:
            written["allowedFunctionNames"] = config["allowed_function_names"]
        calling = _function_calling(choice)
        others = choice if isinstance(choice, Mapping) else {}
        kept = {key: value for key, value in others.items() if value is not calling}
        return {**kept, "functionCallingConfig": written}


def _function_calling(choice: Any) -> Mapping[str, Any]:
    """The settings of function calls in `toolConfig`."""
    if not isinstance(choice, Mapping):
        return {}
    found = choice.get("functionCallingConfig", choice.get("function_calling_config"))
    return found if isinstance(found, Mapping) else {}


GEMINI = Provider(
    "gemini",
    _write,
    re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),  # its SDK says 128, its API 64
    64,
    512,  # "At most 512 function declarations can be specified"; the reference of Vertex AI says 128
    list_key="function_declarations",
    restrict=_restrict,
    require={"tool_config": {"function_calling_config": {"mode": "ANY"}}},
    history=GeminiHistory(),
    requests=(
        _GenerateContent(
            "gemini",
            re.compile(r"/models/[^/]+:(streamG|g)enerateContent\Z"),
            "/models/{model}:generateContent",
            ("contents",),
            ("tools",),
            ("toolConfig", "tool_config"),
        ),
    ),
    error=_error,
    takes_json_schema=True,
    dialect="gemini",
    carries=("outputSchema", "behavior"),
)
