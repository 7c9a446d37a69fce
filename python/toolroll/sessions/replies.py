"""The texts that a model gets after it loads, unloads, searches or calls: short, with the next step.

A denied tool and a tool that does not exist get the same text: "No tool is named …", with the nearest names
that this caller may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from toolroll.formats.foreign_text import Encoded, fill, json_line, line_text, name_text, visible_json
from toolroll.formats.schemas.names import said_name
from toolroll.formats.visible_text import one_line
from toolroll.model.identity import canonical_json, object_schema
from toolroll.model.tools import Tool

_LONGEST_NAME = 80  # characters of a name that a reply repeats
_MOST_NAMES = 64  # names in one reply
_LONGEST_TEXT = 600  # characters of a description
_LONGEST_PARAMETERS = 8_000  # characters of a schema
_ESSAY = {"description": "Too long to be shown here: load the tool to see them.", "type": "object"}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model requests through `call_tool`, for the caller to run.

    Attributes:
        tool: a tool that this caller may have.
        arguments: as the model wrote them.
    """

    tool: Tool
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a meta-tool.

    Attributes:
        text: the result for the model; "" if there is a call to run.
        tools: the tools that were loaded, unloaded or found.
        unknown: names that match no tool of this caller.
        call: the call that the caller must run, and whose result the model gets.
        is_error: whether nothing was done.
    """

    text: str
    tools: tuple[Tool, ...] = ()
    unknown: tuple[str, ...] = ()
    call: ToolCall | None = None
    is_error: bool = False


def loaded(
    tools: Sequence[Tool],
    there: Sequence[Tool],
    unknown: Mapping[str, Sequence[str]],
    hidden: Sequence[Tool] = (),
) -> Answer:
    """The answer to a load.

    there: core tools, which need no load. unknown: name → the nearest existing names. hidden: loaded
    tools that do not fit into the list.
    """
    said = []
    if tools:
        said.append(f"Loaded: {_names(tools)}.")
    if hidden:
        said.append(f"The list has no room for {_names(hidden)}: use call_tool for {_it(hidden)}.")
    elif tools:
        said.append(f"Call {_it(tools)} now.")
    if there:
        said.append(f"Always there: {_names(there)}.")
    said += _unknown(unknown)
    return Answer(" ".join(said), tuple(tools), tuple(unknown), None, not (tools or there))


def unloaded(
    tools: Sequence[Tool],
    there: Sequence[Tool],
    unknown: Mapping[str, Sequence[str]],
    stays: Sequence[Tool] = (),
    absent: Sequence[Tool] = (),
) -> Answer:
    """The answer to an unload.

    there: core tools, which cannot be unloaded. stays: tools that this turn still selects. absent: tools that
    were not loaded.
    """
    said = []
    if tools:
        said.append(f"Unloaded: {_names(tools)}.")
    if stays:
        said.append(f"Not loaded any more, but selected for this message: {_names(stays)}.")
    if there:
        said.append(f"Cannot be unloaded, always there: {_names(there)}.")
    if absent:
        said.append(f"Not loaded: {_names(absent)}.")
    said += _unknown(unknown)
    return Answer(" ".join(said), (*tools, *stays), tuple(unknown), None, not (tools or stays))


def everything(count: int, of: int) -> Answer:
    """The answer to a fallback: `count` of `of` tools can be called in this turn."""
    if count < of:
        return Answer(
            f"{count} of {of} tools are loaded, for this turn only: the list has no room for more. Search "
            "for others, and use call_tool for them."
        )
    return Answer(f"All {count} tools are loaded, for this turn only.")


def everything_next(count: int) -> Answer:
    """The answer to a fallback between two turns: the next turn may have `count` tools."""
    return Answer(f"The next turn begins with all tools: {count}, as far as its list has room for them.")


def found(tools: Sequence[Tool], queries: Sequence[str], doubtful: Sequence[str]) -> Answer:
    """The answer to a search: name, description and parameters of each tool, as JSON, best first.

    doubtful: the queries that no tool seems to serve.
    """
    if not tools:
        return Answer(f"No tool fits {_quoted(queries)}. Say what it should do, in other words.")
    note = f"No tool seems to serve {_quoted(doubtful)}; the nearest are listed."
    said = fill('"note":%s,', json_line(note)) if doubtful else ""
    return Answer(f'{{{said}"tools":[{",".join(map(_listed, tools))}]}}', tuple(tools))


def _listed(tool: Tool) -> Encoded:
    return fill(
        '{"description":%s,"name":%s,"parameters":%s}',
        json_line(line_text(tool.description, _LONGEST_TEXT)),
        json_line(said_name(tool.name)),
        _parameters(tool),
    )


def unknown_tool(name: str, nearest: Sequence[str]) -> Answer:
    """The answer to a call of a tool that does not exist, or that this caller may not have."""
    return Answer(" ".join(_unknown({name: nearest})), (), (name,), None, True)


def refused(reason: str) -> Answer:
    """The answer to arguments that cannot be read."""
    return Answer(reason, is_error=True)


def near(name: str, names: Iterable[str]) -> list[str]:
    """The three names with the nearest spelling, the nearest first."""
    by_folded = {each.casefold(): each for each in names}
    close = get_close_matches(name.casefold()[:_LONGEST_NAME], by_folded, 3, 0.6)
    return [by_folded[each] for each in close]


def _it(tools: Sequence[Tool]) -> str:
    return "it" if len(tools) == 1 else "them"


def _parameters(tool: Tool) -> Encoded:
    """The parameters as JSON, unless they are too long."""
    parameters = visible_json(canonical_json(object_schema(tool.parameters)))
    return parameters if len(parameters) <= _LONGEST_PARAMETERS else json_line(_ESSAY)


def _quoted(queries: Sequence[str]) -> str:
    return ", ".join(line_text(repr(one_line(query, _LONGEST_NAME))) for query in queries)


def _names(tools: Sequence[Tool]) -> str:
    said = ", ".join(name_text(said_name(tool.name)) for tool in tools[:_MOST_NAMES])
    return said if len(tools) <= _MOST_NAMES else f"{said} and {len(tools) - _MOST_NAMES} more"


def _unknown(unknown: Mapping[str, Sequence[str]]) -> list[str]:
    said = []
    for wanted, nearest in list(unknown.items())[:_MOST_NAMES]:
        close = ", ".join(name_text(said_name(each)) for each in nearest)
        hint = f"Nearest: {close}." if close else "Search for what it should do."
        said.append(f"No tool is named {_quoted([wanted])}. {hint}")
    return said
