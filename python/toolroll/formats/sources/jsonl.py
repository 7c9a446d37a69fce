"""Reads tools from a file with one JSON object a line: ``tools.jsonl``.

    {"name": "send", "description": "Sends a mail.", "parameters": {...}, "server": "mail", "examples":
    ["..."]}

`server` becomes the toolkit. Blank lines are skipped. An error names its line.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolroll.formats import strict_json
from toolroll.formats.sources import fields
from toolroll.formats.sources.fields import FieldError
from toolroll.tools import Definitions, Tool, Toolkit


def read_lines(text: str, file: str) -> tuple[Definitions, list[int]]:
    """The definitions and the line of each tool. The caller checks for duplicate names."""
    tools: list[Tool] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines(): U+2028 may stand in a string
        if not line or line.isspace():
            continue
        value = strict_json.parse(line, file, number)
        try:
            if type(value) is not dict:
                raise FieldError(f"is {fields.shown(value)}, must be an object with the fields of a tool")
            brackets = line.count("{") + line.count(
                "["
            )  # a schema cannot be deeper than the line has brackets
            small = brackets <= fields.MAX_SCHEMA_DEPTH
            values = fields.read_fields(
                value, fields.PLAIN_SMALL if small else fields.PLAIN, unknown="misspelt"
            )
            if "name" not in values:
                raise FieldError("name is missing")
        except FieldError as error:
            raise error.invalid(file=file, line=number, tool=fields.name_of([value], (0,))) from None
        tools.append(Tool(**values))
        lines.append(number)
    return Definitions(tuple(tools), toolkits_of(tools)), lines


def toolkits_of(tools: Iterable[Tool]) -> tuple[Toolkit, ...]:
    """One Toolkit for each name that the tools use, in the order of first use."""
    return tuple(Toolkit(name) for name in dict.fromkeys(tool.toolkit for tool in tools) if name)
