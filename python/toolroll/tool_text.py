"""What retrieval reads of a tool: the fields of the lexical index and the text behind its vector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolroll.tools import Tool

# Lexical fields in the order of `fields`, and how much a term counts in each.
FIELD_WEIGHTS = (2.0, 1.0, 0.5)

_LONGEST = 2_000  # characters of a field that are read: a page of text must not outweigh a name
_MOST_PARAMETERS = 64
_DEEPEST = 4

# lower|Upper, letter|digit-free: HTTPServer -> HTTP Server, listFiles -> list Files
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(name: str) -> str:
    """An identifier as words: "gmail_listEmails" → "gmail list Emails"."""
    return " ".join(_CAMEL.sub(" ", name).replace("_", " ").replace("-", " ").replace(".", " ").split())


def fields(tool: Tool) -> tuple[str, str, str]:
    """Name, prose and parameters of a tool, as the lexical index takes them."""
    prose = [tool.description, tool.summary, tool.when_to_use, *tool.tags, *tool.examples]
    return (
        f"{tool.name} {tool.toolkit}",
        " ".join(filter(None, prose))[:_LONGEST],
        " ".join(_parameter_words(tool.parameters, 0))[:_LONGEST] if tool.parameters else "",
    )


def description_text(tool: Tool) -> str:
    """The text whose embedding stands for a tool: its toolkit, its name in words, its prose."""
    prose = [tool.description, tool.summary, tool.when_to_use, " ".join(tool.tags)]
    head = f"{words(tool.toolkit)}: {words(tool.name)}" if tool.toolkit else words(tool.name)
    return f"{head}: {' '.join(filter(None, prose))}"[:_LONGEST]


def _parameter_words(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Names and descriptions of the parameters, breadth-limited: schemas are hostile input."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth >= _DEEPEST:
        return
    for name, parameter in list(properties.items())[:_MOST_PARAMETERS]:
        yield str(name)
        if isinstance(parameter, Mapping):
            description = parameter.get("description")
            if isinstance(description, str):
                yield description
            if "properties" in parameter:
                yield from _parameter_words(parameter, depth + 1)
