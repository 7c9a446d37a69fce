"""Reads tools from a file with one JSON object a line: ``tools.jsonl``.

    {"name": "send", "description": "Sends a mail.", "parameters": {...}, "server": "mail", "examples":
    ["..."]}

`server` becomes the toolkit. A line may also be a tool in any form that `read_tools` reads: a provider's
dictionary or MCP's. Blank lines are skipped. An error names its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.formats import strict_json
from toolroll.formats.sources import dicts, fields
from toolroll.formats.sources.bad_tools import BadTools
from toolroll.formats.sources.fields import Field, FieldError
from toolroll.formats.sources.hosted import is_hosted
from toolroll.formats.sources.registry_fields import keys_of, read_own
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Tool


def read_lines(text: str, file: str, bad: BadTools) -> tuple[list[Tool], list[int], list[object]]:
    """The tools, the line of each, and the hosted tools. The caller checks for duplicate names."""
    tools: list[Tool] = []
    lines: list[int] = []
    hosted: list[object] = []
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines(): U+2028 may stand in a string
        if not line or line.isspace():
            continue
        try:
            value = strict_json.parse(line, file, number)
        except InvalidDefinition as error:
            if bad.on_bad_tool != "skip":
                raise
            bad.skipped.append(error)
            continue
        try:
            found = _read_line(value, line, bad, number)
        except FieldError as error:
            error.path = error.path[1:]
            raise error.invalid(
                file=file, line=number, tool=fields.name_of([value], (0, *error.path))
            ) from None
        if found is None:
            hosted.append(value)
            continue
        tools += found
        lines += [number] * len(found)
    return tools, lines, hosted


def _read_line(value: Any, line: str, bad: BadTools, number: int) -> list[Tool] | None:
    """The tools of a line; None for a hosted tool."""
    if type(value) is not dict:
        raise FieldError(f"is {fields.shown(value)}, must be an object with the fields of a tool", (number,))
    if dicts.is_provider_form(value):
        return dicts.read_tools_of(value, bad, number)
    if is_hosted(value) and value.keys().isdisjoint(("description", "parameters")):
        return None
    # A schema cannot be deeper than the line has brackets.
    is_small = line.count("{") + line.count("[") <= fields.MAX_SCHEMA_DEPTH
    known = fields.PLAIN_SMALL if is_small else fields.PLAIN
    read = read_own if bad.for_registry else lambda given: _read_plain(given, known)
    tool = bad.read(value, read, number)
    return [] if tool is None else [tool]


def _read_plain(value: Mapping[str, Any], known: Mapping[str, Field]) -> Tool:
    values = fields.read_fields(value, known, unknown="misspelt")
    if "name" not in values:
        raise FieldError("name is missing")
    if "inputSchema" in value and values.get("display_name"):  # MCP has no summary, so its title is used
        values.setdefault("summary", values["display_name"])
    return Tool(**values, keys=keys_of(tuple(values)))
