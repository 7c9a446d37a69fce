"""Reads tools from a list of provider dictionaries, MCP objects, functions and plain dictionaries.

Tools that the provider runs itself are no definitions: they are passed on unchanged (`hosted.py`). Objects
of agent frameworks are read by `objects.py`.

The keys determine the shape, and `Tool.original` keeps the caller's own object unchanged. Unknown keys of a
provider's shape are ignored; in the plain shape, which is ours, an unknown key that resembles a known one is
an error. From MCP only the protocol's own keys are read: a remote server must not pin its tools or make them
public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from toolroll.formats.providers import installed_providers
from toolroll.formats.providers.gemini import from_gemini, is_gemini
from toolroll.formats.providers.original import plain
from toolroll.formats.sources import fields
from toolroll.formats.sources.bad_tools import BadTools, OnBadTool, checked, report
from toolroll.formats.sources.callables import read_callable
from toolroll.formats.sources.fields import Field, FieldError
from toolroll.formats.sources.hosted import is_hosted
from toolroll.formats.sources.objects import described
from toolroll.formats.sources.registry_fields import keys_of, read_for_registry
from toolroll.model.errors import InvalidDefinition, InvalidInput, quoted
from toolroll.model.tools import Definitions, Tool, Toolkit

SHAPES = (
    "OpenAI chat {'type': 'function', 'function': {...}} or Responses {'type': 'function', 'name', ...}, "
    "Anthropic {'name', 'input_schema'}, Gemini {'function_declarations': [...]} or one declaration, "
    "MCP {'name', 'inputSchema'} or an object with these attributes, "
    "plain {'name', 'description', 'parameters', 'toolkit', ...}, a Tool, an annotated function, "
    "a tool object of LangChain, Pydantic-AI, OpenAI Agents, LlamaIndex, smolagents or FastMCP"
)


def read_tools(items: Iterable[Any], toolkit: str = "", on_bad_tool: OnBadTool | None = None) -> Definitions:
    """Reads tools of any known shape, in order, and the toolkits that they name.

    toolkit: for tools that name none.
    on_bad_tool: "refuse" raises for a tool with an error, "skip" repairs it or leaves it out, and logs that.
        None skips tools in MCP's form, which come from a server, and refuses all others.

    The result of MCP's `tools/list` is a list of tools, too. Hosted tools are in `Definitions.hosted`.

    Raises InvalidDefinition, with the position as ``tools[3]``, for the first invalid tool or duplicate name.
    """
    if not isinstance(toolkit, str):
        raise InvalidInput(f"toolkit: is {quoted(toolkit)}, must be a name, or '' for none")
    return _read_list(items, toolkit, BadTools(checked(on_bad_tool), _place))


def read_tools_for_registry(items: Iterable[Any], toolkit: str = "") -> Definitions:
    """`read_tools` for a registry: every key is understood, or in the errors of `Definitions.refused`."""
    return _read_list(items, toolkit, BadTools(None, _place, for_registry=True))


def _place(path: Sequence[str | int]) -> dict[str, Any]:
    return {"file": f"tools[{path[0]}]"}


def _read_list(items: Iterable[Any], toolkit: str, bad: BadTools) -> Definitions:
    items = list_of(items)
    try:
        read = read_items(items, bad)
    except FieldError as error:
        raise error.invalid(
            **bad.place(error.path), tool=fields.name_of(items, error.path)
        ) from error.__cause__
    report("the list", read.skipped, read.repaired)
    if not toolkit:
        return read
    tools = tuple(tool if tool.toolkit else _placed(tool, toolkit) for tool in read.tools)
    return replace(read, tools=tools, toolkits=toolkits_of(tools))


def _placed(tool: Tool, toolkit: str) -> Tool:
    keys = None if tool.keys is None else tool.keys | {"toolkit"}
    return replace(tool, toolkit=toolkit, keys=keys)


def list_of(items: Any) -> list[Any]:
    """The items of a list of tools, or of MCP's result ``{"tools": [...]}``.

    Raises:
        InvalidDefinition: it is neither.
    """
    try:
        group = group_of(items) if isinstance(items, Mapping) else None
    except FieldError as error:
        raise error.invalid() from error.__cause__
    if group is not None and group.key == "tools":
        return list(group.members)
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidDefinition(f"tools is {fields.shown(items)}, must be a list of tools")
    return list(items)


def as_tool(item: Any, toolkit: str = "") -> Tool:
    """Reads one tool of any known shape. toolkit: for an item that names none."""
    try:
        tools = read_tools_of(item, _refusing())
    except FieldError as error:
        raise error.invalid(tool=fields.name_of([item], (0, *error.path))) from error.__cause__
    if len(tools) != 1:
        raise InvalidDefinition(f"holds {len(tools)} declarations, must be one; read_tools takes all")
    tool = tools[0]
    return tool if tool.toolkit or not toolkit else replace(tool, toolkit=toolkit)


def read_item(item: Any) -> Tool:
    """`as_tool` for a caller that adds the place itself: raises FieldError."""
    tools = read_tools_of(item, _refusing())
    if len(tools) != 1:
        raise FieldError(f"holds {len(tools)} declarations, must be one")
    return tools[0]


def read_items(items: Sequence[Any], bad: BadTools, *path: str | int) -> Definitions:
    """`read_tools` for a source that adds the place itself: raises FieldError, with the position first.

    path: in front of the position.
    """
    tools: dict[str, Tool] = {}
    positions: dict[str, int] = {}
    hosted: list[object] = []
    for i, item in enumerate(items):
        if isinstance(item, Mapping) and is_hosted(item):
            hosted.append(item)
            continue
        for tool in read_tools_of(item, bad, *path, i):
            if tool.name not in tools:
                tools[tool.name], positions[tool.name] = tool, i
                continue
            error = FieldError(f"name is already taken by tools[{positions[tool.name]}]", (*path, i, "name"))
            if not bad.skips(tool.original):
                raise error
            if tool == tools[tool.name]:
                bad.repair(FieldError("is there twice", (*path, i)), tool.name)
            else:
                bad.skip(error, tool.name)
    return Definitions(
        tuple(tools.values()),
        toolkits_of(tools.values()),
        hosted=tuple(hosted),
        skipped=tuple(bad.skipped),
        repaired=tuple(bad.repaired),
        refused=tuple(bad.refused),
    )


def toolkits_of(tools: Iterable[Tool]) -> tuple[Toolkit, ...]:
    """One Toolkit for each name that the tools use, in the order of first use."""
    return tuple(Toolkit(name) for name in dict.fromkeys(tool.toolkit for tool in tools) if name)


def is_provider_form(item: Mapping[str, Any]) -> bool:
    """Whether this is in OpenAI's, Gemini's or MCP's form, and not a plain definition."""
    if "function" in item or item.get("type") == "function":
        return True
    if is_gemini(item.get("parameters")):
        return True
    return any(key in item for key in ("functionDeclarations", "function_declarations")) or (
        isinstance(item.get("tools"), list) and "name" not in item
    )


def _refusing() -> BadTools:
    return BadTools("refuse", lambda path: {})


def read_tools_of(item: Any, bad: BadTools, *path: str | int) -> list[Tool]:
    """The tools of an item of any known form; empty if it is skipped. path: begins errors' paths."""
    try:
        return _tools_of(item, bad, *path)
    except FieldError as error:
        if bad.skips(item):
            bad.skip(error, None)
        elif bad.for_registry:
            bad.refuse(error, fields.name_of([item], (0,)))
        else:
            raise
        return []


def _tools_of(item: Any, bad: BadTools, *path: str | int) -> list[Tool]:
    if isinstance(item, (dict, Mapping)):
        try:
            group = group_of(item)
        except FieldError as error:
            raise error.under(*path) from None
        if group is not None:
            return _read_group(group, bad, *path)
        return _listed(bad.read(item, _read_for_registry if bad.for_registry else read_mapping, *path))
    if isinstance(item, Tool):
        return [item]
    return _listed(_read_object(item, bad, *path))


def _listed(tool: Tool | None) -> list[Tool]:
    return [] if tool is None else [tool]


def _read_object(item: Any, bad: BadTools, *path: str | int) -> Tool | None:
    try:
        if (found := described(item)) is not None:
            return Tool(**fields.read_fields(found._asdict(), _OPENAI), original=item)
        schema = getattr(item, "inputSchema", None) or getattr(item, "input_schema", None)
        if schema is None or not isinstance(getattr(item, "name", None), str):
            if callable(item):
                return read_callable(item)
            raise FieldError(f"is {fields.shown(item)}, a {type(item).__name__}; known shapes: {SHAPES}")
    except FieldError as error:
        raise error.under(*path) from error.__cause__
    values = _mcp_values(item, schema)
    return bad.read(values, lambda given: _read_mcp(given, item if given is values else None), *path)


def read_mapping(item: Mapping[str, Any]) -> Tool:
    """Reads one definition of a function, of any provider's shape.

    Raises:
        FieldError: it has none, or something in it is wrong.
    """
    values = _shape(item)(item)
    if "name" not in values:
        raise FieldError("name is missing")
    return Tool(**values, original=item, keys=keys_of(tuple(values)))


def _read_for_registry(item: Mapping[str, Any]) -> Tool:
    if not isinstance(item, Mapping):
        raise FieldError(f"is {fields.shown(item)}, must be an object")
    return read_for_registry(item, read_mapping)


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
        if is_gemini(item.get("parameters")):
            return _read_declaration
        if "parameters" in item or item.keys() <= fields.PLAIN.keys():
            return _read_plain
    for provider in installed_providers():
        if provider.read is not None and (plain_item := provider.read(item)) is not None:
            return lambda _: fields.read_fields(plain_item, fields.PLAIN)
    if "name" in item and kind is None:
        return _read_plain
    keys = ", ".join(sorted(map(str, item))[:12])
    raise FieldError(f"is of no known shape (its keys: {keys or 'none'}); known shapes: {SHAPES}")


def _read_plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return fields.read_fields(item, fields.PLAIN, unknown="misspelt")


def _read_openai_chat(item: Mapping[str, Any]) -> dict[str, Any]:
    function = item["function"]
    if not isinstance(function, (dict, Mapping)):  # a dict is found at once, a Mapping by its registration
        raise FieldError(f"function is {fields.shown(function)}, must be an object", ("function",))
    try:
        values = fields.read_fields(function, _OPENAI, unknown="ignored")
    except FieldError as error:
        raise error.under("function") from None
    return values if item.keys() == _CHAT else {**values, **_known(item, _OURS)}


def _read_openai_responses(item: Mapping[str, Any]) -> dict[str, Any]:
    return _known(item, _OPENAI_AND_OURS)


def _read_anthropic(item: Mapping[str, Any]) -> dict[str, Any]:
    return _known(item, _ANTHROPIC_AND_OURS)


def _read_mcp_mapping(item: Mapping[str, Any]) -> dict[str, Any]:
    return _titled(_known(item, _MCP))


def _mcp_values(item: Any, schema: Any) -> dict[str, Any]:
    """A tool of an MCP library under MCP's keys; its attributes have MCP's names, or Python's."""
    values: dict[str, Any] = {
        "name": item.name,
        "description": getattr(item, "description", None),
        "inputSchema": schema,
        "title": getattr(item, "title", None),
        "outputSchema": getattr(item, "outputSchema", None) or getattr(item, "output_schema", None),
        "_meta": plain(getattr(item, "meta", None)),
    }
    return values | {key: plain(getattr(item, key, None)) for key in ("annotations", "icons", "execution")}


def _read_mcp(values: Mapping[str, Any], item: Any) -> Tool:
    return Tool(**_titled(fields.read_fields(values, _MCP)), original=item)


def _titled(values: dict[str, Any]) -> dict[str, Any]:
    """The values with the title as the summary in lists of tools, too."""
    if title := values.get("display_name"):
        values["summary"] = title
    return values


class ToolGroup(NamedTuple):
    """An item of a list that holds several tools.

    Attributes:
        key: the key of their list in the item.
        members: their list.
    """

    key: str
    members: Sequence[Any]


def group_of(item: Mapping[str, Any]) -> ToolGroup | None:
    """The list inside Gemini's function declarations or a result of MCP's `tools/list`; None for one tool.

    Raises:
        FieldError: the declarations are no list.
    """
    for key in ("functionDeclarations", "function_declarations", "tools"):
        if key in item:
            break
    else:
        return None
    members = item[key]
    if key == "tools" and ("name" in item or "type" in item):
        return None
    if not isinstance(members, (list, tuple)):
        raise FieldError(f"{key} is {fields.shown(members)}, must be a list", (key,))
    return ToolGroup(key, members)


def _read_group(group: ToolGroup, bad: BadTools, *path: str | int) -> list[Tool]:
    tools: list[Tool] = []
    for i, member in enumerate(group.members):
        if group.key == "tools":
            tools += read_tools_of(member, bad, *path, group.key, i)
        else:
            read = _read_for_registry if bad.for_registry else read_declaration
            tools += _listed(bad.read(member, read, *path, group.key, i))
    return tools


def read_declaration(item: Mapping[str, Any]) -> Tool:
    """Reads one of Gemini's function declarations, whatever dialect its parameters are in."""
    if not isinstance(item, Mapping):
        raise FieldError(f"is {fields.shown(item)}, must be an object")
    values = _read_declaration(item)
    if "name" not in values:
        raise FieldError("name is missing")
    return Tool(**values, original=item)


def _read_declaration(item: Mapping[str, Any]) -> dict[str, Any]:
    values = _known(item, _GEMINI_AND_OURS)
    parameters = values.get("parameters")
    if "parameters" in item and parameters is not None:
        values["parameters"] = from_gemini(parameters)
    for key in ("responseJsonSchema", "response_json_schema", "response"):
        if values.get("returns") is None and (answers := fields.answers(item.get(key))) is not None:
            values["returns"] = from_gemini(answers) if key == "response" else answers
    return values


def _known(item: Mapping[str, Any], table: Mapping[str, Field]) -> dict[str, Any]:
    return fields.read_fields(item, table, unknown="ignored")


_OURS: dict[str, Field] = {
    **fields.EXTRAS,
    "server": ("toolkit", fields.toolkit),
    "toolkit": ("toolkit", fields.toolkit),
}
_CHAT = {"type", "function"}
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
_OPENAI_AND_OURS = {**_OPENAI, **_OURS}
_ANTHROPIC_AND_OURS = {**_ANTHROPIC, **_OURS}
_GEMINI_AND_OURS = {**_GEMINI, **_OURS}
