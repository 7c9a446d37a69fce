"""Reads tools from a list of provider dictionaries, MCP objects, functions and plain dictionaries.

The keys determine the shape, and `Tool.original` keeps the caller's own object unchanged. Unknown keys of a
provider's shape are ignored; in the plain shape, which is ours, an unknown key that resembles a known one is
an error. From MCP only the protocol's own keys are read: a remote server must not pin its tools or make them
public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolroll.errors import InvalidDefinition
from toolroll.formats.schemas.gemini import from_gemini
from toolroll.formats.schemas.original import plain
from toolroll.formats.sources import fields
from toolroll.formats.sources.callables import read_callable
from toolroll.formats.sources.fields import Field, FieldError
from toolroll.formats.sources.jsonl import toolkits_of
from toolroll.tools import Definitions, Tool

SHAPES = (
    "OpenAI chat {'type': 'function', 'function': {...}} or Responses {'type': 'function', 'name', ...}, "
    "Anthropic {'name', 'input_schema'}, Gemini {'function_declarations': [...]} or one declaration, "
    "MCP {'name', 'inputSchema'} or an object with these attributes, "
    "plain {'name', 'description', 'parameters', 'toolkit', ...}, a Tool, an annotated function"
)


def read_tools(items: Iterable[Any], toolkit: str = "") -> Definitions:
    """Reads tools of any known shape, in order; toolkits are those that the tools name.

    toolkit: used for tools that name none.

    Raises InvalidDefinition, with the position as ``tools[3]``, for the first invalid tool or duplicate name.
    """
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidDefinition(f"tools is {fields.shown(items)}, must be a list of tools")
    items = list(items)
    try:
        read = read_items(items)
    except FieldError as error:
        position = error.path[0]
        raise error.invalid(
            file=f"tools[{position}]", tool=fields.name_of(items, error.path)
        ) from error.__cause__
    if not toolkit:
        return read
    tools = tuple(tool if tool.toolkit else replace(tool, toolkit=toolkit) for tool in read.tools)
    return Definitions(tools, toolkits_of(tools))


def as_tool(item: Any, toolkit: str = "") -> Tool:
    """Reads one tool of any known shape. `toolkit`: used if the item names none."""
    try:
        tools = _read(item)
    except FieldError as error:
        raise error.invalid(tool=fields.name_of([item], (0, *error.path))) from error.__cause__
    if len(tools) != 1:
        raise InvalidDefinition(f"holds {len(tools)} declarations, must be one; read_tools takes all")
    tool = tools[0]
    return tool if tool.toolkit or not toolkit else replace(tool, toolkit=toolkit)


def read_items(items: list[Any]) -> Definitions:
    """`read_tools` for a source that adds the place itself: raises FieldError, with the position first."""
    tools: list[Tool] = []
    counts: list[int] = []
    for i, item in enumerate(items):
        try:
            read = _read(item)
        except FieldError as error:
            cause = error.__cause__
            raise error.under(i) from cause
        tools += read
        counts.append(len(read))
    if len({tool.name for tool in tools}) != len(tools):
        raise _duplicate(tools, counts)
    return Definitions(tuple(tools), toolkits_of(tools))


def _duplicate(tools: list[Tool], counts: list[int]) -> FieldError:
    positions = [i for i, count in enumerate(counts) for _ in range(count)]
    first: dict[str, int] = {}
    for position, tool in zip(positions, tools, strict=True):
        if tool.name in first:
            return FieldError(f"name is already taken by tools[{first[tool.name]}]", (position, "name"))
        first[tool.name] = position
    raise AssertionError("no name is given twice")


def _read(item: Any) -> list[Tool]:
    if isinstance(item, Tool):
        return [item]
    if isinstance(item, Mapping):
        if "functionDeclarations" in item or "function_declarations" in item:
            return _read_declarations(item)
        return [_read_mapping(item)]
    schema = getattr(item, "inputSchema", None) or getattr(item, "input_schema", None)
    if schema is not None and isinstance(getattr(item, "name", None), str):
        return [_read_mcp(item, schema)]
    if callable(item):
        return [read_callable(item)]
    raise FieldError(f"is {fields.shown(item)}, a {type(item).__name__}; known shapes: {SHAPES}")


def _read_mapping(item: Mapping[str, Any]) -> Tool:
    values = _shape(item)(item)
    if "name" not in values:
        raise FieldError("name is missing")
    return Tool(**values, original=item)


def _shape(item: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    if "inputSchema" in item:  # first: a server's tool must not be read as a plain definition
        return _read_mcp_mapping
    if "function" in item:
        return _read_openai_chat
    if "input_schema" in item:
        return _read_anthropic
    if "parametersJsonSchema" in item or "parameters_json_schema" in item:
        return _read_declaration
    kind = item.get("type")
    if kind == "function":
        return _read_openai_responses
    if "name" in item and kind is None:
        parameters = item.get("parameters")
        if isinstance(parameters, Mapping) and _is_gemini(parameters):
            return _read_declaration
        return _read_plain
    keys = ", ".join(sorted(map(str, item))[:12])
    raise FieldError(f"is of no known shape (its keys: {keys or 'none'}); known shapes: {SHAPES}")


def _read_plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return fields.read_fields(item, fields.PLAIN, is_ours=False)


def _read_openai_chat(item: Mapping[str, Any]) -> dict[str, Any]:
    function = item["function"]
    if not isinstance(function, Mapping):
        raise FieldError(f"function is {fields.shown(function)}, must be an object", ("function",))
    try:
        values = _known(function, _OPENAI)
    except FieldError as error:
        raise error.under("function") from None
    return {**values, **_known(item, _OURS)}


def _read_openai_responses(item: Mapping[str, Any]) -> dict[str, Any]:
    return _known(item, {**_OPENAI, **_OURS})


def _read_anthropic(item: Mapping[str, Any]) -> dict[str, Any]:
    return _known(item, {**_ANTHROPIC, **_OURS})


def _read_mcp_mapping(item: Mapping[str, Any]) -> dict[str, Any]:
    return _titled(_known(item, _MCP))


def _read_mcp(item: Any, schema: Any) -> Tool:
    """A tool of an MCP library; its attributes have MCP's names, or Python's."""
    values: dict[str, Any] = {
        "name": item.name,
        "description": getattr(item, "description", None),
        "inputSchema": schema,
        "title": getattr(item, "title", None),
        "outputSchema": getattr(item, "outputSchema", None) or getattr(item, "output_schema", None),
        "_meta": plain(getattr(item, "meta", None)),
    }
    values |= {key: plain(getattr(item, key, None)) for key in ("annotations", "icons", "execution")}
    return Tool(**_titled(fields.read_fields(values, _MCP)), original=item)


def _titled(values: dict[str, Any]) -> dict[str, Any]:
    """Uses a title as the summary in lists of tools, too."""
    if title := values.get("display_name"):
        values["summary"] = title
    return values


def _read_declarations(item: Mapping[str, Any]) -> list[Tool]:
    key = "functionDeclarations" if "functionDeclarations" in item else "function_declarations"
    declarations = item[key]
    if not isinstance(declarations, (list, tuple)):
        raise FieldError(f"{key} is {fields.shown(declarations)}, must be a list", (key,))
    tools = []
    for i, declaration in enumerate(declarations):
        try:
            if not isinstance(declaration, Mapping):
                raise FieldError(f"is {fields.shown(declaration)}, must be an object")
            values = _read_declaration(declaration)
            if "name" not in values:
                raise FieldError("name is missing")
        except FieldError as error:
            raise error.under(key, i) from None
        tools.append(Tool(**values, original=declaration))
    return tools


def _read_declaration(item: Mapping[str, Any]) -> dict[str, Any]:
    values = _known(item, {**_GEMINI, **_OURS})
    parameters = values.get("parameters")
    if "parameters" in item and parameters is not None:
        values["parameters"] = from_gemini(parameters)
    for key in ("responseJsonSchema", "response_json_schema", "response"):
        if values.get("returns") is None and (answers := fields.answers(item.get(key))) is not None:
            values["returns"] = from_gemini(answers) if key == "response" else answers
    return values


def _is_gemini(parameters: Mapping[str, Any]) -> bool:
    """Whether a schema is in Gemini's own dialect, whose types are in capitals."""
    kind = parameters.get("type")
    return isinstance(kind, str) and kind.isupper()


def _known(item: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Any]:
    return fields.read_fields({key: value for key, value in item.items() if key in table}, table)


_OURS: dict[str, Field] = {
    **fields.EXTRAS,
    "server": ("toolkit", fields.toolkit),
    "toolkit": ("toolkit", fields.toolkit),
}
_NAMED: dict[str, Field] = {
    "name": ("name", fields.name),
    "description": ("description", fields.text_or_null),
}
_OPENAI: dict[str, Field] = {
    **_NAMED,
    "parameters": ("parameters", fields.schema),
    "output_schema": ("returns", fields.answers),
}
_ANTHROPIC: dict[str, Field] = {**_NAMED, "input_schema": ("parameters", fields.schema)}
_MCP: dict[str, Field] = {
    **_NAMED,
    "inputSchema": ("parameters", fields.schema),
    **{key: read for key, read in fields.METADATA.items() if key != "output_schema"},
}
_GEMINI: dict[str, Field] = {
    **_OPENAI,
    "parametersJsonSchema": ("parameters", fields.schema),
    "parameters_json_schema": ("parameters", fields.schema),
}
